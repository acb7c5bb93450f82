//! One connection of a client: requests in, answers out, and what befalls them.

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
use crate::proxy::judge::Verdict;
use crate::proxy::{Kind, Request, Shared};

const FROM_CLIENT: usize = 16 << 10;
const FROM_SERVER: usize = 256 << 10;
/// How often a pause looks whether it still has a purpose.
const LOOK: Duration = Duration::from_millis(20);

/// How a connection goes on after an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    Stays,
    Ends,
    Resets,
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
        let client = Reader::new(client, FROM_CLIENT);
        let pace = shared.judge.plan().throttle.map(Pace::new);
        Self { shared, client, server: None, pace, pipe: Pipe::new() }
    }

    pub fn run(mut self) {
        // A client or a server that breaks off ends the connection; there is nobody to tell.
        while let Ok(Some(head)) = self.client.request() {
            let request = Request {
                method: head.method.clone(),
                target: head.target.clone(),
                range: head.header("range").map(str::to_owned),
                if_match: head.header("if-match").map(str::to_owned),
            };
            let id = self.shared.record.begin(request.clone());
            let verdict = self.shared.judge.judge(&request);
            let mut sent = 0;
            let then = self.serve(id, &head, verdict, &mut sent).unwrap_or(Then::Ends);
            self.shared.record.end(id, sent);
            match then {
                Then::Stays => {}
                Then::Ends => return,
                Then::Resets => return self.reset(),
            }
        }
    }

    fn serve(
        &mut self,
        id: usize,
        head: &RequestHead,
        verdict: Option<Verdict>,
        sent: &mut u64,
    ) -> io::Result<Then> {
        let mut begins = Instant::now() + self.shared.judge.plan().latency;
        let asked = self.request_body(head)?;
        if let Some(verdict) = &verdict {
            if verdict.fault.is_error() {
                self.pause_until(begins)?;
                return self.error(id, head, verdict);
            }
            if verdict.fault.kind == Kind::ResetBefore {
                self.pause_until(begins)?;
                self.shared.record.fault(id, verdict.fault.kind);
                return Ok(Then::Resets);
            }
            if verdict.fault.kind == Kind::SlowStart {
                self.shared.record.fault(id, verdict.fault.kind);
                begins += verdict.hold;
            }
        }
        let answer = self.ask(head, &asked)?;
        self.pause_until(begins)?;
        self.shared.record.status(id, answer.status);
        let length = answer.length(&head.method)?;
        let mut server = self.server.take().expect("it has just answered");
        let then = Body {
            connection: self,
            server: &mut server,
            id,
            verdict: verdict.filter(|verdict| verdict.fault.is_within()),
            place: None,
            sent,
        }
        .pass(&answer.raw, length)?;
        if then != Then::Stays || !answer.stays || !head.stays() {
            return Ok(if then == Then::Stays { Then::Ends } else { then });
        }
        self.server = Some(server);
        Ok(Then::Stays)
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

    /// Asks the server. One that has closed a connection that was idle is asked again on a new one.
    fn ask(&mut self, head: &RequestHead, body: &[u8]) -> io::Result<AnswerHead> {
        loop {
            let (mut server, fresh) = match self.server.take() {
                Some(server) => (server, false),
                None => (Reader::new(self.shared.connect()?, FROM_SERVER), true),
            };
            match ask(&mut server, head, body) {
                Ok(answer) => {
                    self.server = Some(server);
                    return Ok(answer);
                }
                Err(error) if fresh || self.shared.stopping() => return Err(error),
                Err(_) => {}
            }
        }
    }

    /// What S3 answers where it fails.
    fn error(&mut self, id: usize, head: &RequestHead, verdict: &Verdict) -> io::Result<Then> {
        let (status, code) = &verdict.fault.error;
        self.shared.record.fault(id, verdict.fault.kind);
        self.shared.record.status(id, *status);
        let message = match code.as_str() {
            "SlowDown" => "Please reduce your request rate.",
            "InternalError" => "We encountered an internal error. Please try again.",
            _ => "The fault proxy was told to answer this.",
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
        Ok(if head.stays() { Then::Stays } else { Then::Ends })
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

    pub(super) fn means(&mut self) -> (&TcpStream, Option<&mut Pace>, Option<&mut Pipe>) {
        (self.client.stream(), self.pace.as_mut(), self.pipe.as_mut())
    }

    /// Waits, but no longer than the client does.
    pub(super) fn pause_until(&self, until: Instant) -> io::Result<()> {
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            if self.shared.stopping() || gone(self.client()) {
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
            std::thread::sleep(left.min(LOOK));
        }
    }

    /// Lets the socket, of which this is the only owner, end by RST.
    fn reset(self) {
        let at_once = linger { l_onoff: 1, l_linger: 0 };
        setsockopt(self.client(), Linger, &at_once).expect("every TCP socket can");
    }
}

fn ask(server: &mut Reader, head: &RequestHead, body: &[u8]) -> io::Result<AnswerHead> {
    server.stream().write_all(&head.raw)?;
    server.stream().write_all(body)?;
    loop {
        let answer = server.answer()?.ok_or(io::ErrorKind::UnexpectedEof)?;
        if answer.status >= 200 {
            return Ok(answer);
        }
    }
}

fn gone(socket: &TcpStream) -> bool {
    let look = MsgFlags::MSG_PEEK | MsgFlags::MSG_DONTWAIT;
    !matches!(recv(socket.as_raw_fd(), &mut [0], look), Ok(1) | Err(Errno::EAGAIN | Errno::EINTR))
}
