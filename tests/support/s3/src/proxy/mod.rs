//! A proxy that stands before an S3 server and makes it slow or lets it fail, as planned. It passes all
//! else on as it came, the `Host` too, so that signatures stay valid; it knows nothing of S3 but how its
//! errors look.

mod body;
mod connection;
mod fault;
mod judge;
mod record;

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
use judge::Judge;
use record::Record;

/// Longer than anything in a test should take.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a plan can see of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// `GET`, `HEAD` and so on.
    pub method: String,
    /// Path and query, as they were sent.
    pub target: String,
    /// The value of `Range`, such as `bytes=0-99`.
    pub range: Option<String>,
    /// The value of `If-Match`.
    pub if_match: Option<String>,
}

/// A proxy at work. Each connection of a client has a thread and a connection to the server of its own.
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
}

struct Shared {
    server: SocketAddr,
    judge: Judge,
    record: Record,
    stopping: AtomicBool,
    sockets: Mutex<Sockets>,
}

/// What must be shut so that every thread ends.
#[derive(Default)]
struct Sockets {
    open: Vec<Weak<TcpStream>>,
    threads: Vec<JoinHandle<()>>,
}

impl Proxy {
    /// Starts one on a free port of 127.0.0.1 before the server at `endpoint`, such as
    /// `http://127.0.0.1:80`.
    ///
    /// # Errors
    /// If the endpoint is none, or no port is to be had.
    pub fn start(endpoint: &str, plan: Plan) -> io::Result<Self> {
        Self::start_at(endpoint, plan, "127.0.0.1:0")
    }

    /// The same on an address of one's choice.
    ///
    /// # Errors
    /// If the endpoint is none, or the address is not to be had.
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
            judge: Judge::new(plan),
            record: Record::new(),
            stopping: AtomicBool::new(false),
            sockets: Mutex::default(),
        });
        let accepting = Some({
            let shared = Arc::clone(&shared);
            std::thread::spawn(move || shared.accept(&listener))
        });
        Ok(Self { address, shared, accepting })
    }

    /// Where clients find it, such as `http://127.0.0.1:80`.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// All requests so far, in the order in which they came.
    pub fn log(&self) -> Vec<Entry> {
        self.shared.record.entries()
    }

    /// How many requests there were.
    pub fn requests(&self) -> usize {
        self.shared.record.count()
    }

    /// How many connections there were.
    pub fn connections(&self) -> u64 {
        self.shared.record.connections()
    }

    /// How many faults of each kind there were.
    pub fn faults(&self) -> BTreeMap<Kind, usize> {
        self.shared.record.faults()
    }

    /// How many requests are not answered to their end.
    pub fn in_flight(&self) -> usize {
        self.shared.record.in_flight().0
    }

    /// How many there ever were at once.
    pub fn most_in_flight(&self) -> usize {
        self.shared.record.in_flight().1
    }

    /// Waits until nothing has been in flight for so long. False if that does not come to be within a
    /// minute.
    pub fn wait_idle(&self, quiet: Duration) -> bool {
        self.shared.record.wait_idle(quiet, PATIENCE)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        // Any connection lets it look whether it is to stop.
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
            // Where accepting fails, for want of descriptors, others may end meanwhile.
            let Ok(client) = client else {
                std::thread::sleep(Duration::from_millis(10));
                continue;
            };
            self.record.connected();
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

    /// Keeps a way to shut a socket, but does not keep it open.
    fn watch(&self, socket: TcpStream) -> Arc<TcpStream> {
        // A socket that refuses is only slower.
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
        // Else one that was made while all others were shut would stay.
        if self.stopping() { Err(io::ErrorKind::ConnectionAborted.into()) } else { Ok(socket) }
    }
}
