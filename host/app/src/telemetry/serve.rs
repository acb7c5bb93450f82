//! Metrics, health and status over HTTP, on a TCP port or a Unix socket. Only what is asked for is computed, in a
//! thread of its own: the channels notice nothing.

use std::convert::Infallible;
use std::io;
use std::net::TcpListener;
use std::os::fd::AsFd;
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use nix::sys::socket::SockType;
use pipemill_ring::endpoint::{Endpoint, EndpointError};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Semaphore, oneshot};
use tokio::time::timeout;

use super::status::Status;
use super::{HostState, metrics};
use crate::config::Listen;

/// Connections at a time; further ones wait.
const CONNECTIONS: usize = 16;
/// A connection on which nothing is asked for so long is closed.
const PATIENCE: Duration = Duration::from_secs(10);
/// A connection is closed after so long, whatever it does.
const LONGEST: Duration = Duration::from_secs(60);

const TEXT: &str = "text/plain; charset=utf-8";

/// Why metrics can't be served.
#[derive(Debug, thiserror::Error)]
pub enum MetricsError {
    /// The port.
    #[error("`metrics`: can't listen on {address}: {error}; {}", remedy(error))]
    Port {
        /// As configured.
        address: std::net::SocketAddr,
        /// The kernel's answer.
        error: io::Error,
    },
    /// The socket.
    #[error("`metrics`: {0}")]
    Socket(#[from] EndpointError),
    /// The machine.
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

/// Where it is listened already, but nobody is answered yet.
pub enum Bound {
    /// A port.
    Tcp(TcpListener),
    /// A socket, which is removed when dropped.
    Unix(Endpoint),
}

impl Bound {
    /// Listens there.
    ///
    /// # Errors
    /// It can't.
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

    /// Where, for people.
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

/// The server; it ends when dropped.
pub struct MetricsServer {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl MetricsServer {
    /// Answers from now on.
    ///
    /// # Errors
    /// No thread or descriptor is to be had.
    pub fn start(bound: Bound, host_state: Arc<HostState>) -> Result<Self, MetricsError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = oneshot::channel();
        log::info!("metrics on {}", bound.address());
        let thread = std::thread::Builder::new().name("metrics".to_owned());
        let thread = thread.spawn(move || {
            runtime.block_on(async {
                tokio::spawn(async move {
                    if let Err(error) = serve(&bound, host_state).await {
                        log::error!("metrics are no longer served: {error}");
                    }
                });
                // Also when the sender is gone. What is still being answered is broken off with the runtime.
                let _ = stopped.await;
            });
        })?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for MetricsServer {
    fn drop(&mut self) {
        // It has ended already if nobody listens.
        let _ = self.stop.take().map(|stop| stop.send(()));
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            log::error!("the metrics' thread had panicked");
        }
    }
}

async fn serve(bound: &Bound, host_state: Arc<HostState>) -> io::Result<()> {
    let free = Arc::new(Semaphore::new(CONNECTIONS));
    match bound {
        Bound::Tcp(listener) => {
            let listener = tokio::net::TcpListener::from_std(listener.try_clone()?)?;
            loop {
                let place = free.clone().acquire_owned().await;
                let accepted = listener.accept().await.map(|(socket, _)| socket);
                attend(accepted, place, host_state.clone()).await;
            }
        }
        Bound::Unix(endpoint) => {
            let listener = UnixListener::from(endpoint.as_fd().try_clone_to_owned()?);
            let listener = tokio::net::UnixListener::from_std(listener)?;
            loop {
                let place = free.clone().acquire_owned().await;
                let accepted = listener.accept().await.map(|(socket, _)| socket);
                attend(accepted, place, host_state.clone()).await;
            }
        }
    }
}

/// Serves a connection beside others; `place` is given back when it is over.
async fn attend<S>(accepted: io::Result<S>, place: impl Send + 'static, host_state: Arc<HostState>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let socket = match accepted {
        Ok(socket) => socket,
        Err(error) => {
            log::warn!("metrics: accepting failed, again in a second: {error}");
            return tokio::time::sleep(Duration::from_secs(1)).await;
        }
    };
    tokio::spawn(async move {
        let service = service_fn(move |request| {
            let answer = answer(&request, &host_state);
            async move { Ok::<_, Infallible>(answer) }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(PATIENCE)
            .serve_connection(TokioIo::new(socket), service);
        // However it ended, whoever asked has gone or has had time.
        if let Ok(Err(error)) = timeout(LONGEST, connection).await {
            log::debug!("metrics: a connection ended: {error}");
        }
        drop(place);
    });
}

fn answer(request: &Request<Incoming>, host_state: &Arc<HostState>) -> Response<Full<Bytes>> {
    if ![Method::GET, Method::HEAD].contains(request.method()) {
        let mut answer = respond(StatusCode::METHOD_NOT_ALLOWED, TEXT, "only GET and HEAD\n");
        answer.headers_mut().insert(ALLOW, hyper::header::HeaderValue::from_static("GET, HEAD"));
        return answer;
    }
    match request.uri().path() {
        "/metrics" => respond(StatusCode::OK, metrics::TYPE, metrics::text(host_state)),
        "/healthz" => respond(StatusCode::OK, TEXT, "ok\n"),
        "/readyz" => match host_state.not_ready() {
            reasons if reasons.is_empty() => respond(StatusCode::OK, TEXT, "ready\n"),
            reasons => respond(StatusCode::SERVICE_UNAVAILABLE, TEXT, reasons.join("\n") + "\n"),
        },
        "/status" => respond(StatusCode::OK, "application/json", Status::of(host_state).json()),
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
    let mut answer = Response::new(Full::new(body.into()));
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static(media_type));
    headers.insert(CACHE_CONTROL, hyper::header::HeaderValue::from_static("no-store"));
    answer
}
