//! Passes the body of an answer on to the client: as fast as possible or at the plan's rate, with
//! the fault that was selected for it.

use std::io::{self, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, SpliceFFlags, fcntl, splice};
use nix::unistd::pipe;

use crate::client::chunk_size;
use crate::http::{Length, Reader};
use crate::proxy::Kind;
use crate::proxy::connection::{Connection, NextAction};
use crate::proxy::selector::SelectedFault;

/// The largest piece of a body that is passed on at once, in bytes.
const MAX_PIECE_BYTES: u64 = 256 << 10;
/// The capacity of the pipe for `splice`, in bytes.
const PIPE_BYTES: i32 = 1 << 20;
/// The largest offset of a random fault in a body whose length is not known beforehand, in bytes.
const MAX_OFFSET_WITHOUT_LENGTH: f64 = 4096.0;

/// A body to pass on.
pub(super) struct Body<'a> {
    pub connection: &'a mut Connection,
    pub server: &'a mut Reader,
    /// The request's index in the log.
    pub id: usize,
    /// A fault within the body that has not happened yet.
    pub selected: Option<SelectedFault>,
    /// The offset in the body at which the fault happens, in bytes.
    pub fault_at: Option<u64>,
    /// The bytes of the body that were passed on.
    pub sent: &'a mut u64,
}

impl Body<'_> {
    /// Passes on the head and the body.
    pub fn pass(mut self, head: &[u8], length: Length) -> io::Result<NextAction> {
        if let Some(selected) = &self.selected {
            let end = match length {
                Length::Bytes(count) => count as f64,
                Length::Chunked | Length::Open => MAX_OFFSET_WITHOUT_LENGTH,
            };
            self.fault_at = Some(selected.fault.at.unwrap_or((selected.place * end) as u64));
        }
        if self.pass_at_once(head, length)? {
            return Ok(NextAction::Keep);
        }
        self.connection.client().write_all(head)?;
        match length {
            Length::Bytes(count) => {
                let next = self.pass_bytes(count)?;
                self.close_if_short(next, count)
            }
            Length::Chunked => self.pass_chunks(),
            Length::Open => {
                let next = self.pass_bytes(u64::MAX)?;
                Ok(if next == NextAction::Keep { NextAction::Close } else { next })
            }
        }
    }

    /// Passes on the head and the body in one write, if the whole body has arrived with the head.
    /// Gives whether it did.
    fn pass_at_once(&mut self, head: &[u8], length: Length) -> io::Result<bool> {
        let Length::Bytes(count) = length else { return Ok(false) };
        if self.fault_at.is_some() || self.connection.is_paced() || count != self.server.buffered()
        {
            return Ok(false);
        }
        let mut whole = head.to_vec();
        whole.extend_from_slice(self.server.bytes(count)?.unwrap_or_default());
        self.connection.client().write_all(&whole)?;
        *self.sent = count;
        Ok(true)
    }

    /// Closes the client's connection if the server has sent fewer than `count` bytes.
    fn close_if_short(&self, next: NextAction, count: u64) -> io::Result<NextAction> {
        let short = next == NextAction::Keep && *self.sent < count;
        Ok(if short { NextAction::Close } else { next })
    }

    fn pass_chunks(&mut self) -> io::Result<NextAction> {
        loop {
            let line = self.server.line()?;
            self.connection.client().write_all(&line)?;
            let size = chunk_size(&line)?;
            if size == 0 {
                break;
            }
            let end = *self.sent + size;
            let next = self.pass_bytes(size)?;
            let next = self.close_if_short(next, end)?;
            if next != NextAction::Keep {
                return Ok(next);
            }
            let line = self.server.line()?;
            self.connection.client().write_all(&line)?;
        }
        // Trailers, up to the empty line.
        loop {
            let line = self.server.line()?;
            self.connection.client().write_all(&line)?;
            if line == b"\r\n" {
                return Ok(NextAction::Keep);
            }
        }
    }

    /// Passes on `count` bytes, and injects the fault if its offset is among them.
    fn pass_bytes(&mut self, count: u64) -> io::Result<NextAction> {
        let mut left = count;
        if let Some(fault_at) = self.fault_at.filter(|at| at - *self.sent < count) {
            let before = fault_at - *self.sent;
            self.copy(before)?;
            if *self.sent < fault_at {
                return Ok(NextAction::Keep);
            }
            left -= before;
            let next = self.inject_fault()?;
            if next != NextAction::Keep {
                return Ok(next);
            }
        }
        self.copy(left)?;
        Ok(NextAction::Keep)
    }

    /// Injects the fault, and gives what happens to the connection.
    fn inject_fault(&mut self) -> io::Result<NextAction> {
        self.fault_at = None;
        let Some(selected) = self.selected.take() else { return Ok(NextAction::Keep) };
        self.connection.shared().log.fault(self.id, selected.fault.kind);
        let stalls = matches!(selected.fault.kind, Kind::Stall | Kind::StallAndEnd);
        if stalls {
            self.connection.pause_until(Instant::now() + selected.hold)?;
        }
        Ok(match selected.fault.kind {
            Kind::Stall => NextAction::Keep,
            Kind::ResetWithin => NextAction::Reset,
            _ => NextAction::Close,
        })
    }

    /// Passes on `count` bytes, or fewer if the server ends.
    fn copy(&mut self, count: u64) -> io::Result<()> {
        let mut left = count;
        while left > 0 {
            let (client, mut pace, pipe) = self.connection.parts();
            let most = pace.as_mut().map_or(MAX_PIECE_BYTES, |pace| pace.next()).min(left);
            let passed = match pipe {
                Some(pipe) if self.server.buffered() == 0 => {
                    pipe.pass(self.server.stream(), client, most)?
                }
                _ => {
                    let Some(bytes) = self.server.bytes(most)? else { return Ok(()) };
                    let mut client = client;
                    client.write_all(bytes)?;
                    bytes.len() as u64
                }
            };
            if passed == 0 {
                return Ok(());
            }
            if let Some(pace) = pace {
                pace.sent(passed);
            }
            left -= passed;
            *self.sent += passed;
        }
        Ok(())
    }
}

/// Limits a connection to a number of bytes per second.
pub(super) struct Pace {
    rate: u64,
    next: Instant,
}

impl Pace {
    /// How much delay may be caught up by sending faster.
    const CREDIT: Duration = Duration::from_millis(20);

    pub fn new(rate: u64) -> Self {
        Self { rate: rate.max(1), next: Instant::now() }
    }

    /// Waits until bytes may be sent, and gives how many at most: those of a fiftieth of a second.
    fn next(&self) -> u64 {
        std::thread::sleep(self.next.saturating_duration_since(Instant::now()));
        (self.rate / 50).clamp(1, MAX_PIECE_BYTES)
    }

    fn sent(&mut self, bytes: u64) {
        let earliest = Instant::now().checked_sub(Self::CREDIT);
        let from = earliest.map_or(self.next, |earliest| self.next.max(earliest));
        self.next = from + Duration::from_secs_f64(bytes as f64 / self.rate as f64);
    }
}

/// A pipe to move bytes from socket to socket within the kernel (`splice`).
pub(super) struct Pipe {
    out: OwnedFd,
    into: OwnedFd,
}

impl Pipe {
    /// `None` if there can be no pipe: then bytes are copied.
    pub fn new() -> Option<Self> {
        let (out, into) = pipe().ok()?;
        // A smaller pipe is enough, too.
        let _ = fcntl(&into, FcntlArg::F_SETPIPE_SZ(PIPE_BYTES));
        Some(Self { out, into })
    }

    /// Passes on at most `most` bytes. Gives their number, which is 0 only at the end.
    fn pass(&mut self, from: &TcpStream, to: &TcpStream, most: u64) -> io::Result<u64> {
        let most = usize::try_from(most.min(MAX_PIECE_BYTES)).expect("a small number");
        let moves = SpliceFFlags::SPLICE_F_MOVE;
        let got = splice(from, None, &self.into, None, most, moves)?;
        let mut left = got;
        while left > 0 {
            left -= splice(&self.out, None, to, None, left, moves)?;
        }
        Ok(got as u64)
    }
}
