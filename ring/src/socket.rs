//! Sending and receiving whole messages, with a file descriptor beside them, on a SEQPACKET socket.
//! Tells apart what the two ends must tell apart: would block, hung up, failed.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::path::Path;

use nix::cmsg_space;
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, ControlMessage, ControlMessageOwned, MsgFlags, Shutdown, SockFlag, SockType,
    UnixAddr, accept4, connect, recv, recvmsg, sendmsg, shutdown, socket,
};

use crate::protocol::MAX_MESSAGE;

/// What came out of a receive.
pub(crate) enum Received {
    /// A whole message of so many bytes, at the start of the buffer.
    Message(usize, Option<OwnedFd>),
    /// The other end is gone, and all it had sent was received.
    HungUp,
    /// A message longer than [`MAX_MESSAGE`]; or a descriptor that did not arrive.
    Broken(&'static str),
    /// Nothing there, on a socket that does not wait.
    Nothing,
}

/// Big enough for every message. One byte more would show a message that is too long.
pub(crate) fn buffer() -> Vec<u8> {
    vec![0; MAX_MESSAGE]
}

/// A new SEQPACKET socket, closed on exec.
pub(crate) fn seqpacket(flags: SockFlag) -> nix::Result<OwnedFd> {
    unix(SockType::SeqPacket, flags)
}

/// A new Unix socket, closed on exec.
pub(crate) fn unix(kind: SockType, flags: SockFlag) -> nix::Result<OwnedFd> {
    socket(AddressFamily::Unix, kind, flags | SockFlag::SOCK_CLOEXEC, None)
}

/// Connects to the socket of a host, and waits until it is accepted.
pub(crate) fn connect_to(path: &Path) -> nix::Result<OwnedFd> {
    let address = UnixAddr::new(path)?;
    let socket = seqpacket(SockFlag::empty())?;
    loop {
        match connect(socket.as_raw_fd(), &address) {
            // A Unix socket's connect that a signal disturbed was not begun.
            Err(Errno::EINTR) => continue,
            result => return result.map(|()| socket),
        }
    }
}

/// The next connection, which does not wait.
pub(crate) fn accept(listener: impl AsFd) -> nix::Result<OwnedFd> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let fd = accept4(listener.as_fd().as_raw_fd(), flags)?;
    // SAFETY: the kernel has just made this descriptor for us; nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Sends one message. `wait` says whether to wait for room; a signal does not disturb it.
pub(crate) fn send(
    to: impl AsFd,
    message: &[u8],
    fd: Option<BorrowedFd<'_>>,
    wait: bool,
) -> nix::Result<()> {
    let fds = fd.map(|fd| [fd.as_raw_fd()]);
    let rights = fds.as_ref().map(|fds| ControlMessage::ScmRights(fds));
    let mut flags = MsgFlags::MSG_NOSIGNAL;
    flags.set(MsgFlags::MSG_DONTWAIT, !wait);
    let (to, parts) = (to.as_fd().as_raw_fd(), [IoSlice::new(message)]);
    loop {
        match sendmsg::<()>(to, &parts, rights.as_slice(), flags, None) {
            Err(Errno::EINTR) => continue,
            result => return result.map(drop),
        }
    }
}

/// Receives one message, without descriptors: any that come with it are closed by the kernel.
pub(crate) fn receive(from: impl AsFd, buffer: &mut [u8]) -> nix::Result<Received> {
    let mut end = End::default();
    loop {
        // With MSG_TRUNC the true length is returned, so that a message too long shows.
        let flags = MsgFlags::MSG_TRUNC | end.flags();
        return match recv(from.as_fd().as_raw_fd(), buffer, flags) {
            Ok(0) if end.is_first() => continue,
            Ok(0) => Ok(Received::HungUp),
            Ok(bytes) if bytes > buffer.len() => Ok(Received::Broken(TOO_LONG)),
            Ok(bytes) => Ok(Received::Message(bytes, None)),
            Err(errno) if passes(errno) => continue,
            Err(Errno::EAGAIN) => Ok(end.nothing()),
            Err(errno) => Err(errno),
        };
    }
}

/// Receives one message and the descriptor that may come with it.
pub(crate) fn receive_with_fd(from: impl AsFd, buffer: &mut [u8]) -> nix::Result<Received> {
    let mut space = cmsg_space!([std::os::fd::RawFd; 4]);
    let mut end = End::default();
    loop {
        let mut parts = [IoSliceMut::new(buffer)];
        let flags = MsgFlags::MSG_CMSG_CLOEXEC | end.flags();
        let fd = from.as_fd().as_raw_fd();
        let received = match recvmsg::<()>(fd, &mut parts, Some(&mut space), flags) {
            Ok(received) => received,
            Err(errno) if passes(errno) => continue,
            Err(Errno::EAGAIN) => return Ok(end.nothing()),
            Err(errno) => return Err(errno),
        };
        if received.flags.contains(MsgFlags::MSG_CTRUNC) {
            return Ok(Received::Broken(
                "a file descriptor that did not arrive: is this process at its limit (ulimit -n)?",
            ));
        }
        // First take what came, so that nothing leaks on the ways out below.
        let mut fds = Vec::new();
        for message in received.cmsgs()? {
            if let ControlMessageOwned::ScmRights(raw) = message {
                // SAFETY: the kernel has just made these descriptors for us.
                fds.extend(raw.into_iter().map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }));
            }
        }
        return Ok(match received.bytes {
            _ if received.flags.contains(MsgFlags::MSG_TRUNC) => Received::Broken(TOO_LONG),
            0 if end.is_first() => continue,
            0 => Received::HungUp,
            bytes => Received::Message(bytes, fds.pop()),
        });
    }
}

const TOO_LONG: &str = "a message longer than 65,536 bytes";

/// Whether the other end is gone has to be asked twice. The kernel looks for messages first and
/// for the hang-up then, so an end that sent its last message and hung up between the two shows
/// as gone with that message unread. Once it is gone nothing can come any more, so the second
/// answer is right. (An empty message looks like a hang-up too; no such message exists.)
#[derive(Default)]
struct End(bool);

impl End {
    fn is_first(&mut self) -> bool {
        !std::mem::replace(&mut self.0, true)
    }

    fn flags(&self) -> MsgFlags {
        if self.0 { MsgFlags::MSG_DONTWAIT } else { MsgFlags::empty() }
    }

    fn nothing(&self) -> Received {
        if self.0 { Received::Broken("an empty message") } else { Received::Nothing }
    }
}

/// What does not end a receive: a signal; and ECONNRESET, which shows once where the other end
/// hung up with messages of ours unread, before what it sent last.
fn passes(errno: Errno) -> bool {
    matches!(errno, Errno::EINTR | Errno::ECONNRESET)
}

/// Hangs up such that the other end gets all that was sent to it and then the end, not ECONNRESET:
/// that is what closing with unread messages would give it first.
pub(crate) fn hang_up(end: impl AsFd, buffer: &mut [u8]) {
    // Failures mean that the other end is gone already.
    let _ = shutdown(end.as_fd().as_raw_fd(), Shutdown::Both);
    while let Ok(Received::Message(..) | Received::Broken(_)) = receive(&end, buffer) {}
}
