//! Requests and answers on a socket, one after the other. docs/ring.md does not promise them: host
//! and client are of one version.
//!
//! All numbers are little-endian. A request is the number of records (u32), the number of answers
//! that the client does not read any more (u32), the number of each of these answers, counted from
//! 0 (u64), and the number of each record (u64). An answer is its kind (u32), the number of records
//! in it (u32), and a number of bytes (u64). Kind 1 is a batch with that number of bytes, in memory
//! whose descriptor comes with the answer; it may have fewer records than were asked for, but has
//! at least one. Kind 2 is an error: that number of bytes of JSON follows, as in the ring's ERROR
//! message.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd};

use nix::errno::Errno;
use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use nix::unistd::read;
use pipemill_delivery::error_report;
use pipemill_ring::protocol::{self, ErrorReport};
use pipemill_types::ErrorKind;

use crate::access::{Access, AccessError, Answer};

/// Most records of a request.
pub const MAX_RECORDS: u32 = 1 << 16;
/// Most answers that a request gives back.
const MAX_GIVEN_BACK: u32 = 1 << 10;

const BATCH: u32 = 1;
const ERROR: u32 = 2;

/// Answers requests until the client hangs up.
///
/// # Errors
/// The client sends what is no request, or the socket fails.
pub fn serve(access: &mut Access, socket: impl AsFd) -> io::Result<()> {
    while let Some((given_back, numbers)) = request(&socket)? {
        given_back.into_iter().for_each(|answer| access.give_back(answer));
        match access.answer(&numbers) {
            Ok(answer) => send_batch(&socket, &answer)?,
            Err(error) => send_error(&socket, &report(error))?,
        }
    }
    Ok(())
}

/// The next request: the answers that it gives back, and the record numbers. `None` if the client
/// has hung up.
fn request(socket: impl AsFd) -> io::Result<Option<(Vec<u64>, Vec<u64>)>> {
    let mut head = [0; 8];
    if !receive(&socket, &mut head)? {
        return Ok(None);
    }
    let [a, b, c, d, e, f, g, h] = head;
    let (count, given_back) = (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]));
    if given_back > MAX_GIVEN_BACK || !(1..=MAX_RECORDS).contains(&count) {
        let message = format!("a request for {count} records: expected 1 to {MAX_RECORDS}");
        return Err(io::Error::new(io::ErrorKind::InvalidData, message));
    }
    let given_back = receive_numbers(&socket, given_back)?;
    let numbers = receive_numbers(&socket, count)?;
    Ok(given_back.zip(numbers))
}

/// This many numbers. `None` if the client has hung up.
fn receive_numbers(socket: impl AsFd, count: u32) -> io::Result<Option<Vec<u64>>> {
    let mut bytes = vec![0; 8 * count as usize];
    if !receive(&socket, &mut bytes)? {
        return Ok(None);
    }
    let (numbers, _) = bytes.as_chunks::<8>();
    Ok(Some(numbers.iter().map(|number| u64::from_le_bytes(*number)).collect()))
}

/// Fills the buffer. Returns whether the client sent all of it before it hung up.
fn receive(socket: impl AsFd, mut buffer: &mut [u8]) -> io::Result<bool> {
    while !buffer.is_empty() {
        match read(&socket, buffer) {
            Ok(0) | Err(Errno::ECONNRESET) => return Ok(false),
            Ok(bytes) => buffer = &mut buffer[bytes..],
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(true)
}

fn send_batch(socket: impl AsFd, answer: &Answer) -> io::Result<()> {
    let head = head(BATCH, answer.records, answer.bytes);
    let fds = [answer.memory.as_raw_fd()];
    let sent = send(&socket, &head, &[ControlMessage::ScmRights(&fds)])?;
    send_all(socket, &head[sent..])
}

fn send_error(socket: impl AsFd, report: &ErrorReport) -> io::Result<()> {
    // After the type of the message.
    let text = &protocol::error(report)[4..];
    send_all(&socket, &head(ERROR, 0, text.len() as u64))?;
    send_all(socket, text)
}

fn head(kind: u32, records: u32, bytes: u64) -> Vec<u8> {
    [&kind.to_le_bytes()[..], &records.to_le_bytes(), &bytes.to_le_bytes()].concat()
}

fn send_all(socket: impl AsFd, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        bytes = &bytes[send(&socket, bytes, &[])?..];
    }
    Ok(())
}

/// Sends some of these bytes. A signal is not an error.
fn send(socket: impl AsFd, bytes: &[u8], with: &[ControlMessage<'_>]) -> io::Result<usize> {
    let fd = socket.as_fd().as_raw_fd();
    loop {
        match sendmsg::<()>(fd, &[IoSlice::new(bytes)], with, MsgFlags::MSG_NOSIGNAL, None) {
            Err(Errno::EINTR) => {}
            sent => return Ok(sent?),
        }
    }
}

/// The error as the ring reports that of a channel.
fn report(error: AccessError) -> ErrorReport {
    let of_host = |kind, message| ErrorReport {
        kind,
        message,
        channel: String::new(),
        epoch: None,
        object: None,
        offset: None,
        record: None,
        decoder: None,
    };
    match error {
        AccessError::Failed(failure) => error_report(&failure),
        AccessError::NoRecord { .. } => of_host(ErrorKind::Refused, error.to_string()),
        AccessError::Memory(error) => of_host(ErrorKind::Host, error.to_string()),
    }
}
