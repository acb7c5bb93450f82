//! One connection of a client: reads requests, passes them to the server, and passes the answers
//! back with their faults.

use std::io::{self, Write};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::libc::linger;
use nix::sys::socket::{MsgFlags, recv, setsockopt, sockopt::Linger};

use crate::http::{AnswerHead, Reader, RequestHead};
use crate::proxy::body::{Body, Pace, Pipe};
use crate::proxy::fault::EditHead;
use crate::proxy::selector::SelectedFault;
use crate::proxy::{Kind, Request, Shared};

/// The size of the read buffer for the client, in bytes.
const CLIENT_BUFFER: usize = 16 << 10;
/// The size of the read buffer for the server, in bytes.
const SERVER_BUFFER: usize = 256 << 10;
/// How often a pause checks whether the proxy stops or the client has disconnected.
const PAUSE_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// What happens to the client's connection after an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NextAction {
    /// It stays open for the next request.
    Keep,
    /// It is closed in good order (FIN).
    Close,
    /// It is reset (RST).
    Reset,
}

pub(super) struct Connection {
    shared: Arc<Shared>,
    client: Reader,
    server: Option<Reader>,
    pace: Option<Pace>,
    pipe: Option<Pipe>,
}

impl Connection {
    pub fn new(shared: Arc<Shared>, client: Arc<TcpStream>) -> Self {
        let client = Reader::new(client, CLIENT_BUFFER);
        let pace = shared.selector.plan().throttle.map(Pace::new);
        Self { shared, client, server: None, pace, pipe: Pipe::new() }
    }

    pub fn run(mut self) {
        // If the client or the server breaks off, the connection ends. Nobody needs the error.
        while let Ok(Some(mut head)) = self.client.request() {
            let request = Request {
                method: head.method.clone(),
                target: head.target.clone(),
                range: head.header("range").map(str::to_owned),
                if_match: head.header("if-match").map(str::to_owned),
            };
            let id = self.shared.log.begin(request.clone());
            let selected = self.shared.selector.select(&request);
            let mut sent = 0;
            edit(&mut head.raw, &request, self.shared.selector.plan().edit_request.as_ref());
            let next = self.answer(id, &request, &head, selected, &mut sent);
            let next = next.unwrap_or(NextAction::Close);
            self.shared.log.end(id, sent);
            match next {
                NextAction::Keep => {}
                NextAction::Close => return,
                NextAction::Reset => return self.reset(),
            }
        }
    }

    fn answer(
        &mut self,
        id: usize,
        request: &Request,
        head: &RequestHead,
        selected: Option<SelectedFault>,
        sent: &mut u64,
    ) -> io::Result<NextAction> {
        let mut begins = Instant::now() + self.shared.selector.plan().latency;
        let body = self.request_body(head)?;
        if let Some(selected) = &selected {
            if selected.fault.is_error() {
                self.pause_until(begins)?;
                return self.error(id, head, selected);
            }
            if selected.fault.kind == Kind::ResetBefore {
                self.pause_until(begins)?;
                self.shared.log.fault(id, selected.fault.kind);
                return Ok(NextAction::Reset);
            }
            if selected.fault.kind == Kind::SlowStart {
                self.shared.log.fault(id, selected.fault.kind);
                begins += selected.hold;
            }
        }
        let mut answer = self.send_to_server(head, &body)?;
        self.pause_until(begins)?;
        self.shared.log.status(id, answer.status);
        let length = answer.length(&head.method)?;
        edit(&mut answer.raw, request, self.shared.selector.plan().edit_answer.as_ref());
        let mut server = self.server.take().expect("it has just answered");
        let next = Body {
            connection: self,
            server: &mut server,
            id,
            selected: selected.filter(|selected| selected.fault.is_within()),
            fault_at: None,
            sent,
        }
        .pass(&answer.raw, length)?;
        if next != NextAction::Keep || !answer.stays || !head.stays() {
            return Ok(if next == NextAction::Keep { NextAction::Close } else { next });
        }
        self.server = Some(server);
        Ok(NextAction::Keep)
    }

    fn request_body(&mut self, head: &RequestHead) -> io::Result<Vec<u8>> {
        let mut left = head.length()?;
        if head.header("expect").is_some() {
            self.client().write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
        }
        let mut body = Vec::new();
        while left > 0 {
            let bytes = self.client.bytes(left)?.ok_or(io::ErrorKind::UnexpectedEof)?;
            body.extend_from_slice(bytes);
            left -= bytes.len() as u64;
        }
        Ok(body)
    }

    /// Sends the request to the server, and reads the head of the answer. If the server has closed
    /// the idle connection, sends the request again on a new one.
    fn send_to_server(&mut self, head: &RequestHead, body: &[u8]) -> io::Result<AnswerHead> {
        loop {
            let (mut server, fresh) = match self.server.take() {
                Some(server) => (server, false),
                None => (Reader::new(self.shared.connect()?, SERVER_BUFFER), true),
            };
            match exchange(&mut server, head, body) {
                Ok(answer) => {
                    self.server = Some(server);
                    return Ok(answer);
                }
                Err(error) if fresh || self.shared.stopping() => return Err(error),
                Err(_) => {}
            }
        }
    }

    /// Answers with an error in the form of S3's errors.
    fn error(
        &mut self,
        id: usize,
        head: &RequestHead,
        selected: &SelectedFault,
    ) -> io::Result<NextAction> {
        let (status, code) = &selected.fault.error;
        self.shared.log.fault(id, selected.fault.kind);
        self.shared.log.status(id, *status);
        let message = match code.as_str() {
            "SlowDown" => "Please reduce your request rate.",
            "InternalError" => "We encountered an internal error. Please try again.",
            _ => "The plan of the fault proxy has this answer.",
        };
        let body = format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>{code}</Code>\
             <Message>{message}</Message><RequestId>FAULT{id:011}</RequestId>\
             <HostId>fault-proxy</HostId></Error>"
        );
        let shown = if head.method == "HEAD" { "" } else { &body };
        let answer = format!(
            "HTTP/1.1 {status} {code}\r\nx-amz-request-id: FAULT{id:011}\r\nx-amz-id-2: fault-proxy\r\n\
             content-type: application/xml\r\nserver: AmazonS3\r\ncontent-length: {}\r\n\r\n{shown}",
            body.len()
        );
        self.client().write_all(answer.as_bytes())?;
        Ok(if head.stays() { NextAction::Keep } else { NextAction::Close })
    }

    pub(super) fn client(&self) -> &TcpStream {
        self.client.stream()
    }

    pub(super) fn shared(&self) -> &Shared {
        &self.shared
    }

    pub(super) fn is_paced(&self) -> bool {
        self.pace.is_some()
    }

    pub(super) fn parts(&mut self) -> (&TcpStream, Option<&mut Pace>, Option<&mut Pipe>) {
        (self.client.stream(), self.pace.as_mut(), self.pipe.as_mut())
    }

    /// Waits until `until`. Fails if the client disconnects or the proxy stops.
    pub(super) fn pause_until(&self, until: Instant) -> io::Result<()> {
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            if self.shared.stopping() || is_disconnected(self.client()) {
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
            std::thread::sleep(left.min(PAUSE_POLL_INTERVAL));
        }
    }

    /// Closes the socket by RST. This is the socket's only owner.
    fn reset(self) {
        let at_once = linger { l_onoff: 1, l_linger: 0 };
        setsockopt(self.client(), Linger, &at_once).expect("every TCP socket can");
    }
}

/// Makes another head, if the plan says how.
fn edit(head: &mut Vec<u8>, request: &Request, edit: Option<&EditHead>) {
    if let Some(edit) = edit {
        let text = String::from_utf8_lossy(head).into_owned();
        *head = edit(request, text).into_bytes();
    }
}

/// Sends the request, and reads the head of the answer. Skips informational answers (1xx).
fn exchange(server: &mut Reader, head: &RequestHead, body: &[u8]) -> io::Result<AnswerHead> {
    server.stream().write_all(&head.raw)?;
    server.stream().write_all(body)?;
    loop {
        let answer = server.answer()?.ok_or(io::ErrorKind::UnexpectedEof)?;
        if answer.status >= 200 {
            return Ok(answer);
        }
    }
}

/// Whether the other side has closed the connection.
fn is_disconnected(socket: &TcpStream) -> bool {
    let flags = MsgFlags::MSG_PEEK | MsgFlags::MSG_DONTWAIT;
    !matches!(recv(socket.as_raw_fd(), &mut [0], flags), Ok(1) | Err(Errno::EAGAIN | Errno::EINTR))
}
