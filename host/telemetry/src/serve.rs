//! Serves metrics, health and status over HTTP, on a TCP port or a Unix socket. A separate thread
//! computes them for each request, so requests do not slow the channels down. Slow clients do not
//! delay other ones.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::net::TcpListener;
use std::os::fd::AsFd;
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use nix::sys::resource::{Resource, getrlimit};
use nix::sys::socket::SockType;
use pipemill_ring::endpoint::{Endpoint, EndpointError};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::status::Status;
use super::{HostState, metrics};
use pipemill_config::Listen;

/// Largest number of connections at a time.
const MAX_CONNECTIONS: usize = 64;
/// At most one in this many of the files that this process may open can be a connection. The others
/// are for channels and their consumers.
const FILES_PER_CONNECTION: u64 = 8;
/// This number of connections is always allowed.
const MIN_CONNECTIONS: usize = 4;
/// How long the headers of a request may take; then the connection is closed.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// Largest size of a request's headers in bytes.
const MAX_HEADER_BYTES: usize = 16 << 10;
/// Bytes of a response, for a host of many channels and consumers.
const RESPONSE_BYTES: usize = 64 << 10;
/// Bytes that all connections take, with the headers of their requests and the responses.
pub const REQUEST_BYTES: u64 = (MAX_CONNECTIONS * (MAX_HEADER_BYTES + RESPONSE_BYTES)) as u64;
/// How long a connection may last; then it is closed, also in the middle of a response.
const MAX_CONNECTION_TIME: Duration = Duration::from_secs(30);

const TEXT: &str = "text/plain; charset=utf-8";

/// Why metrics can't be served.
#[derive(Debug, thiserror::Error)]
pub enum MetricsError {
    /// The host can't listen on the TCP port.
    #[error("`metrics`: can't listen on {address}: {error}; {}", remedy(error))]
    Port {
        /// The address, as configured.
        address: std::net::SocketAddr,
        /// The error of the kernel.
        error: io::Error,
    },
    /// The host can't create the Unix socket.
    #[error("`metrics`: {0}")]
    Socket(#[from] EndpointError),
    /// The machine gives no thread or descriptor.
    #[error("`metrics`: can't be served: {0}")]
    System(#[from] io::Error),
}

fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => "another process does; give another port",
        io::ErrorKind::PermissionDenied => "ports below 1024 are root's; give another",
        io::ErrorKind::AddrNotAvailable => {
            "this machine has no such address; 0.0.0.0 is all it has"
        }
        _ => "give another address",
    }
}

/// A socket that listens. No request is answered before [`MetricsServer::start`].
pub enum MetricsListener {
    /// A TCP port.
    Tcp(TcpListener),
    /// A Unix socket. Its file is removed when this is dropped.
    Unix(Endpoint),
}

impl MetricsListener {
    /// Listens on this address.
    ///
    /// # Errors
    /// The address is in use, is not allowed, or does not exist.
    pub fn bind(listen: &Listen, allow_other_users: bool) -> Result<Self, MetricsError> {
        match listen {
            Listen::Tcp(address) => {
                let failed = |error| MetricsError::Port { address: *address, error };
                let listener = TcpListener::bind(address).map_err(failed)?;
                listener.set_nonblocking(true)?;
                Ok(Self::Tcp(listener))
            }
            Listen::Unix(path) => {
                Ok(Self::Unix(Endpoint::bind(path, SockType::Stream, allow_other_users)?))
            }
        }
    }

    /// The address, for the log.
    fn address(&self) -> String {
        match self {
            Self::Tcp(listener) => listener.local_addr().map_or_else(
                |error| format!("an unknown address: {error}"),
                |address| format!("http://{address}/metrics"),
            ),
            Self::Unix(endpoint) => endpoint.path().display().to_string(),
        }
    }
}

/// The server of metrics, health and status. Dropping it stops it.
pub struct MetricsServer {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl MetricsServer {
    /// Starts to answer requests, in a thread of its own.
    ///
    /// # Errors
    /// [`MetricsError::System`]: the machine gives no thread or descriptor.
    pub fn start(bound: MetricsListener, host: Arc<HostState>) -> Result<Self, MetricsError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = oneshot::channel();
        log::info!("metrics on {}", bound.address());
        let thread = std::thread::Builder::new().name("metrics".to_owned());
        let thread = thread.spawn(move || {
            runtime.block_on(async {
                tokio::spawn(async move {
                    if let Err(error) = serve(&bound, host).await {
                        log::error!("metrics are no longer served: {error}");
                    }
                });
                // Also returns if the sender is dropped. The end of the runtime ends open
                // connections.
                let _ = stopped.await;
            });
        })?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for MetricsServer {
    fn drop(&mut self) {
        // Fails only if the thread has ended already.
        let _ = self.stop.take().map(|stop| stop.send(()));
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            log::error!("the metrics' thread had panicked");
        }
    }
}

async fn serve(bound: &MetricsListener, host: Arc<HostState>) -> io::Result<()> {
    let mut connections = Connections { host, limit: connection_limit(), open: VecDeque::new() };
    match bound {
        MetricsListener::Tcp(listener) => {
            let listener = tokio::net::TcpListener::from_std(listener.try_clone()?)?;
            loop {
                connections.add(listener.accept().await.map(|(socket, _)| socket)).await;
            }
        }
        MetricsListener::Unix(endpoint) => {
            let listener = UnixListener::from(endpoint.as_fd().try_clone_to_owned()?);
            let listener = tokio::net::UnixListener::from_std(listener)?;
            loop {
                connections.add(listener.accept().await.map(|(socket, _)| socket)).await;
            }
        }
    }
}

/// How many connections may be open at a time. Fewer if this process may open only few files:
/// clients must not take the descriptors that a channel needs.
fn connection_limit() -> usize {
    // This can't fail: the resource is a constant of the kernel.
    let files = getrlimit(Resource::RLIMIT_NOFILE).map_or(u64::MAX, |(soft, _)| soft);
    let fit = usize::try_from(files / FILES_PER_CONNECTION).unwrap_or(usize::MAX);
    let limit = fit.clamp(MIN_CONNECTIONS, MAX_CONNECTIONS);
    if limit < MAX_CONNECTIONS {
        log::info!(
            "metrics: at most {limit} connections at once, not {MAX_CONNECTIONS}: this process \
             may open {files} files (ulimit -n)"
        );
    }
    limit
}

/// The open connections. A new connection is always served. The oldest one is closed for it,
/// because it most likely belongs to a slow client: other clients have their answers by then.
struct Connections {
    host: Arc<HostState>,
    /// The largest number of them.
    limit: usize,
    /// Their tasks, from the oldest to the newest.
    open: VecDeque<JoinHandle<()>>,
}

impl Connections {
    /// Serves an accepted connection in a task of its own.
    async fn add<S>(&mut self, accepted: io::Result<S>)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        self.open.retain(|task| !task.is_finished());
        match accepted {
            Ok(socket) => {
                if self.open.len() >= self.limit {
                    self.close_oldest().await;
                }
                self.open.push_back(tokio::spawn(serve_connection(socket, self.host.clone())));
            }
            // Most likely this process has no more descriptors. Closing a connection gives one
            // back. The newest connection is kept, because its request may be on its way.
            Err(_) if self.open.len() > 1 => self.close_oldest().await,
            Err(error) => {
                log::warn!("metrics: accepting failed, again in a second: {error}");
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
    }

    async fn close_oldest(&mut self) {
        if let Some(task) = self.open.pop_front() {
            task.abort();
            // Returns when the socket is closed. An error says that the task was aborted.
            let _ = task.await;
        }
    }
}

/// Answers the one request of a connection.
async fn serve_connection<S>(socket: S, host: Arc<HostState>)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let service = service_fn(move |request| {
        let response = answer(&request, &host);
        async move { Ok::<_, Infallible>(response) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(MAX_HEADER_BYTES)
        .keep_alive(false)
        .serve_connection(TokioIo::new(socket), service);
    // An error needs no handling: the client disconnected, or its time is over.
    if let Ok(Err(error)) = timeout(MAX_CONNECTION_TIME, connection).await {
        log::debug!("metrics: a connection ended: {error}");
    }
}

fn answer(request: &Request<Incoming>, host: &Arc<HostState>) -> Response<Full<Bytes>> {
    if ![Method::GET, Method::HEAD].contains(request.method()) {
        let mut response = respond(StatusCode::METHOD_NOT_ALLOWED, TEXT, "only GET and HEAD\n");
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return response;
    }
    match request.uri().path() {
        "/metrics" => respond(StatusCode::OK, metrics::TYPE, metrics::text(host)),
        "/healthz" => respond(StatusCode::OK, TEXT, "ok\n"),
        "/readyz" => match host.not_ready() {
            reasons if reasons.is_empty() => respond(StatusCode::OK, TEXT, "ready\n"),
            reasons => respond(StatusCode::SERVICE_UNAVAILABLE, TEXT, reasons.join("\n") + "\n"),
        },
        "/status" => {
            respond(StatusCode::OK, "application/json", Status::of(&host.snapshot()).json())
        }
        "/" => respond(StatusCode::OK, TEXT, "pipemill: /metrics, /healthz, /readyz, /status\n"),
        _ => {
            respond(StatusCode::NOT_FOUND, TEXT, "there are /metrics, /healthz, /readyz, /status\n")
        }
    }
}

fn respond(
    status: StatusCode,
    media_type: &'static str,
    body: impl Into<Bytes>,
) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
