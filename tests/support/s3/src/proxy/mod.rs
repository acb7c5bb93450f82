//! A proxy for an S3 server that delays answers and injects faults, as a [`Plan`] says. It passes
//! everything else on unchanged, including `Host`, so that signatures stay valid. Of S3, it knows
//! only the form of errors.

mod body;
mod connection;
mod fault;
mod record;
mod selector;

use std::collections::BTreeMap;
use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

pub use fault::{Fault, Kind, Plan, Rule};
pub use record::Entry;

use connection::Connection;
use record::RequestLog;
use selector::FaultSelector;

/// A guard against a hang: the longest wait until the proxy is idle.
const MAX_IDLE_WAIT: Duration = Duration::from_secs(60);

/// The parts of a request that a plan can depend on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// `GET`, `HEAD` and so on.
    pub method: String,
    /// Path and query, unchanged.
    pub target: String,
    /// The value of `Range`, such as `bytes=0-99`.
    pub range: Option<String>,
    /// The value of `If-Match`.
    pub if_match: Option<String>,
}

/// A running proxy. Each connection of a client has its own thread and its own connection to the
/// server.
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
}

struct Shared {
    server: SocketAddr,
    selector: FaultSelector,
    log: RequestLog,
    stopping: AtomicBool,
    sockets: Mutex<Sockets>,
}

/// The sockets to shut down and the threads to join when the proxy ends.
#[derive(Default)]
struct Sockets {
    open: Vec<Weak<TcpStream>>,
    threads: Vec<JoinHandle<()>>,
}

impl Proxy {
    /// Starts a proxy on a free port of 127.0.0.1, for the server at `endpoint`, such as
    /// `http://127.0.0.1:80`.
    ///
    /// # Errors
    /// If the endpoint is invalid, or it can't bind a port.
    pub fn start(endpoint: &str, plan: Plan) -> io::Result<Self> {
        Self::start_at(endpoint, plan, "127.0.0.1:0")
    }

    /// Like [`start`](Self::start), but listens on the address `listen`.
    ///
    /// # Errors
    /// If the endpoint is invalid, or it can't bind the address.
    pub fn start_at(endpoint: &str, plan: Plan, listen: &str) -> io::Result<Self> {
        let server = endpoint.strip_prefix("http://").unwrap_or(endpoint).trim_end_matches('/');
        let server = server.parse().map_err(|_| {
            let text = format!("{endpoint:?} is no endpoint such as http://127.0.0.1:80");
            io::Error::new(io::ErrorKind::InvalidInput, text)
        })?;
        let listener = TcpListener::bind(listen)?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            server,
            selector: FaultSelector::new(plan),
            log: RequestLog::new(),
            stopping: AtomicBool::new(false),
            sockets: Mutex::default(),
        });
        let accepting = Some({
            let shared = Arc::clone(&shared);
            std::thread::spawn(move || shared.accept(&listener))
        });
        Ok(Self { address, shared, accepting })
    }

    /// The proxy's own URL for clients, such as `http://127.0.0.1:80`.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// All requests so far, in the order in which they arrived.
    pub fn log(&self) -> Vec<Entry> {
        self.shared.log.entries()
    }

    /// The number of requests so far.
    pub fn requests(&self) -> usize {
        self.shared.log.count()
    }

    /// The number of clients' connections so far.
    pub fn connections(&self) -> u64 {
        self.shared.log.connections()
    }

    /// The number of injected faults of each kind.
    pub fn faults(&self) -> BTreeMap<Kind, usize> {
        self.shared.log.faults()
    }

    /// The number of requests whose answers are not complete.
    pub fn in_flight(&self) -> usize {
        self.shared.log.in_flight().0
    }

    /// The largest number of requests that were in flight at once.
    pub fn most_in_flight(&self) -> usize {
        self.shared.log.in_flight().1
    }

    /// Waits until no request has been in flight for `quiet`. False if that takes more than a
    /// minute.
    pub fn wait_idle(&self, quiet: Duration) -> bool {
        self.shared.log.wait_idle(quiet, MAX_IDLE_WAIT)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        // The thread checks `stopping` after each connection, so this one wakes it.
        let _ = TcpStream::connect(self.address);
        if let Some(thread) = self.accepting.take() {
            let _ = thread.join();
        }
        let sockets = std::mem::take(&mut *self.shared.sockets());
        for socket in sockets.open.iter().filter_map(Weak::upgrade) {
            let _ = socket.shutdown(Shutdown::Both);
        }
        for thread in sockets.threads {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn accept(self: &Arc<Self>, listener: &TcpListener) {
        for client in listener.incoming() {
            if self.stopping() {
                return;
            }
            // Accepting fails if there are no descriptors left. Other connections may end soon.
            let Ok(client) = client else {
                std::thread::sleep(Duration::from_millis(10));
                continue;
            };
            self.log.connected();
            let client = self.watch(client);
            let shared = Arc::clone(self);
            let thread = std::thread::spawn(move || Connection::new(shared, client).run());
            let mut sockets = self.sockets();
            sockets.threads.retain(|thread| !thread.is_finished());
            sockets.threads.push(thread);
        }
    }

    fn stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }

    fn sockets(&self) -> std::sync::MutexGuard<'_, Sockets> {
        self.sockets.lock().expect("nothing panics while it is locked")
    }

    /// Registers a socket, so that it can be shut down, but does not keep it open.
    fn watch(&self, socket: TcpStream) -> Arc<TcpStream> {
        // Without this option, a socket is only slower.
        let _ = socket.set_nodelay(true);
        let socket = Arc::new(socket);
        let mut sockets = self.sockets();
        sockets.open.retain(|other| other.strong_count() > 0);
        sockets.open.push(Arc::downgrade(&socket));
        drop(sockets);
        socket
    }

    fn connect(&self) -> io::Result<Arc<TcpStream>> {
        let socket = self.watch(TcpStream::connect(self.server)?);
        // A socket that was made while the others were shut down must not stay open.
        if self.stopping() { Err(io::ErrorKind::ConnectionAborted.into()) } else { Ok(socket) }
    }
}
