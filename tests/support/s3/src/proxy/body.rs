//! The body of an answer on its way to the client: as fast as can be, or at the pace that the plan sets,
//! and broken where a fault breaks it.

use std::io::{self, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, SpliceFFlags, fcntl, splice};
use nix::unistd::pipe;

use crate::client::chunk_size;
use crate::http::{Length, Reader};
use crate::proxy::Kind;
use crate::proxy::connection::{Connection, Then};
use crate::proxy::judge::Verdict;

/// The largest piece in which a body is passed on.
const PIECE: u64 = 256 << 10;
const PIPE: i32 = 1 << 20;
/// Where, at most, a body is broken whose length is not known beforehand.
const UNKNOWN: f64 = 4096.0;

/// A body to be passed on.
pub(super) struct Body<'a> {
    pub connection: &'a mut Connection,
    pub server: &'a mut Reader,
    pub id: usize,
    /// A fault within the body that is still to come.
    pub verdict: Option<Verdict>,
    /// Where it comes.
    pub place: Option<u64>,
    /// Bytes passed on.
    pub sent: &'a mut u64,
}

impl Body<'_> {
    /// Passes on the head and the body.
    pub fn pass(mut self, head: &[u8], length: Length) -> io::Result<Then> {
        if let Some(verdict) = &self.verdict {
            let most = if let Length::Bytes(most) = length { most as f64 } else { UNKNOWN };
            self.place = Some(verdict.fault.at.unwrap_or((verdict.place * most) as u64));
        }
        if self.small(head, length)? {
            return Ok(Then::Stays);
        }
        self.connection.client().write_all(head)?;
        match length {
            Length::Bytes(count) => {
                let then = self.run(count)?;
                self.whole(then, count)
            }
            Length::Chunked => self.chunks(),
            Length::Open => {
                let then = self.run(u64::MAX)?;
                Ok(if then == Then::Stays { Then::Ends } else { then })
            }
        }
    }

    /// Passes on a body that came with its head, in one piece. Says whether it was one.
    fn small(&mut self, head: &[u8], length: Length) -> io::Result<bool> {
        let Length::Bytes(count) = length else { return Ok(false) };
        if self.place.is_some() || self.connection.is_paced() || count != self.server.buffered() {
            return Ok(false);
        }
        let mut whole = head.to_vec();
        whole.extend_from_slice(self.server.bytes(count)?.unwrap_or_default());
        self.connection.client().write_all(&whole)?;
        *self.sent = count;
        Ok(true)
    }

    /// A server that breaks off is passed on, too.
    fn whole(&self, then: Then, count: u64) -> io::Result<Then> {
        Ok(if then == Then::Stays && *self.sent < count { Then::Ends } else { then })
    }

    fn chunks(&mut self) -> io::Result<Then> {
        loop {
            let line = self.server.line()?;
            self.connection.client().write_all(&line)?;
            let size = chunk_size(&line)?;
            if size == 0 {
                break;
            }
            let end = *self.sent + size;
            let then = self.run(size)?;
            let then = self.whole(then, end)?;
            if then != Then::Stays {
                return Ok(then);
            }
            let line = self.server.line()?;
            self.connection.client().write_all(&line)?;
        }
        // Trailers, to the empty line.
        loop {
            let line = self.server.line()?;
            self.connection.client().write_all(&line)?;
            if line == b"\r\n" {
                return Ok(Then::Stays);
            }
        }
    }

    /// Passes on so many bytes, with the fault if its place is among them.
    fn run(&mut self, count: u64) -> io::Result<Then> {
        let mut left = count;
        if let Some(place) = self.place.filter(|place| place - *self.sent < count) {
            let before = place - *self.sent;
            self.copy(before)?;
            if *self.sent < place {
                return Ok(Then::Stays);
            }
            left -= before;
            let then = self.fall()?;
            if then != Then::Stays {
                return Ok(then);
            }
        }
        self.copy(left)?;
        Ok(Then::Stays)
    }

    /// Here it happens.
    fn fall(&mut self) -> io::Result<Then> {
        self.place = None;
        let Some(verdict) = self.verdict.take() else { return Ok(Then::Stays) };
        self.connection.shared().record.fault(self.id, verdict.fault.kind);
        let stalls = matches!(verdict.fault.kind, Kind::Stall | Kind::StallAndEnd);
        if stalls {
            self.connection.pause_until(Instant::now() + verdict.hold)?;
        }
        Ok(match verdict.fault.kind {
            Kind::Stall => Then::Stays,
            Kind::ResetWithin => Then::Resets,
            _ => Then::Ends,
        })
    }

    /// Passes on so many bytes, or fewer where the server ends.
    fn copy(&mut self, count: u64) -> io::Result<()> {
        let mut left = count;
        while left > 0 {
            let (client, mut pace, pipe) = self.connection.means();
            let most = pace.as_mut().map_or(PIECE, |pace| pace.next()).min(left);
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

/// Holds a connection to a number of bytes a second.
pub(super) struct Pace {
    rate: u64,
    next: Instant,
}

impl Pace {
    /// How much time may be made up for after being late.
    const CREDIT: Duration = Duration::from_millis(20);

    pub fn new(rate: u64) -> Self {
        Self { rate: rate.max(1), next: Instant::now() }
    }

    /// Waits until bytes may be sent, and says how many at most: a fiftieth of a second's.
    fn next(&self) -> u64 {
        std::thread::sleep(self.next.saturating_duration_since(Instant::now()));
        (self.rate / 50).clamp(1, PIECE)
    }

    fn sent(&mut self, bytes: u64) {
        let earliest = Instant::now().checked_sub(Self::CREDIT);
        let from = earliest.map_or(self.next, |earliest| self.next.max(earliest));
        self.next = from + Duration::from_secs_f64(bytes as f64 / self.rate as f64);
    }
}

/// Moves bytes from socket to socket within the kernel.
pub(super) struct Pipe {
    out: OwnedFd,
    into: OwnedFd,
}

impl Pipe {
    /// None where no pipe is to be had: bytes are then copied.
    pub fn new() -> Option<Self> {
        let (out, into) = pipe().ok()?;
        // A smaller one will do.
        let _ = fcntl(&into, FcntlArg::F_SETPIPE_SZ(PIPE));
        Some(Self { out, into })
    }

    /// Passes on at most so many bytes, none only at the end.
    fn pass(&mut self, from: &TcpStream, to: &TcpStream, most: u64) -> io::Result<u64> {
        let most = usize::try_from(most.min(PIECE)).expect("a small number");
        let moves = SpliceFFlags::SPLICE_F_MOVE;
        let got = splice(from, None, &self.into, None, most, moves)?;
        let mut left = got;
        while left > 0 {
            left -= splice(&self.out, None, to, None, left, moves)?;
        }
        Ok(got as u64)
    }
}
