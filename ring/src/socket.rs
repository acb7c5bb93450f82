//! Sends and receives whole messages, each with at most one file descriptor, on a SEQPACKET socket.
//! Both ends of the ring must distinguish "would block", "hung up" and "failed"; this file does it.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::path::Path;

use nix::cmsg_space;
use nix::errno::Errno;
use nix::libc;
use nix::sys::socket::sockopt::PeerCredentials;
use nix::sys::socket::{
    AddressFamily, ControlMessage, ControlMessageOwned, MsgFlags, Shutdown, SockFlag, SockType,
    UnixAddr, accept4, connect, getsockopt, recv, recvmsg, sendmsg, shutdown, socket,
};

use crate::protocol::MAX_MESSAGE;

/// The result of a receive.
pub(crate) enum Received {
    /// A whole message: its length in bytes, from the start of the buffer, and its descriptor.
    Message(usize, Option<OwnedFd>),
    /// The other end has hung up, and all of its messages were received before.
    HungUp,
    /// A message that can't be accepted: longer than [`MAX_MESSAGE`], empty, without its descriptor
    /// or with several.
    Invalid(&'static str),
    /// No message is there. This happens only on a non-blocking socket.
    WouldBlock,
}

/// A buffer for any message.
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

/// Connects to the socket of a host. Waits if the host's queue of connections is full.
pub(crate) fn connect_to(path: &Path) -> nix::Result<OwnedFd> {
    let address = UnixAddr::new(path)?;
    let socket = seqpacket(SockFlag::empty())?;
    loop {
        match connect(socket.as_raw_fd(), &address) {
            // A signal interrupts a Unix socket's connect only before it has begun.
            Err(Errno::EINTR) => continue,
            result => return result.map(|()| socket),
        }
    }
}

/// Accepts the next connection. Its socket does not block.
pub(crate) fn accept(listener: impl AsFd) -> nix::Result<OwnedFd> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let fd = accept4(listener.as_fd().as_raw_fd(), flags)?;
    // SAFETY: the kernel has just made this descriptor for us; nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The process at the other end, according to the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Peer {
    /// 0 if it is in a process namespace that this process can't see.
    pub(crate) pid: i32,
    pub(crate) uid: u32,
}

/// The peer's credentials: those of the process that connected, or that called `listen`.
pub(crate) fn peer_of(socket: impl AsFd) -> nix::Result<Peer> {
    let peer = getsockopt(&socket, PeerCredentials)?;
    Ok(Peer { pid: peer.pid(), uid: peer.uid() })
}

/// Whether the other end has not received all messages that were sent to it.
pub(crate) fn has_unread(socket: impl AsFd) -> bool {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the request writes a c_int to this address.
    let failed = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    // It can't fail for a socket.
    failed == 0 && bytes > 0
}

/// Sends one message. `wait`: whether to wait for room if the socket is full. A signal is not an
/// error.
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

/// Receives one message. The kernel closes any descriptor that is attached to it.
pub(crate) fn receive(from: impl AsFd, buffer: &mut [u8]) -> nix::Result<Received> {
    let mut hang_up = HangUpCheck::default();
    loop {
        // With MSG_TRUNC the kernel returns the length of the whole message, even if it is longer
        // than the buffer.
        let flags = MsgFlags::MSG_TRUNC | hang_up.flags();
        return match recv(from.as_fd().as_raw_fd(), buffer, flags) {
            Ok(0) if hang_up.is_first() => continue,
            Ok(0) => Ok(Received::HungUp),
            Ok(bytes) if bytes > buffer.len() => Ok(Received::Invalid(TOO_LONG)),
            Ok(bytes) => Ok(Received::Message(bytes, None)),
            Err(errno) if is_passing(errno) => continue,
            Err(Errno::EAGAIN) => Ok(hang_up.without_message()),
            Err(errno) => Err(errno),
        };
    }
}

/// Receives one message and the descriptor that may be attached to it.
pub(crate) fn receive_with_fd(from: impl AsFd, buffer: &mut [u8]) -> nix::Result<Received> {
    let mut space = cmsg_space!([std::os::fd::RawFd; 4]);
    let mut hang_up = HangUpCheck::default();
    loop {
        let mut parts = [IoSliceMut::new(buffer)];
        let flags = MsgFlags::MSG_CMSG_CLOEXEC | hang_up.flags();
        let fd = from.as_fd().as_raw_fd();
        let received = match recvmsg::<()>(fd, &mut parts, Some(&mut space), flags) {
            Ok(received) => received,
            Err(errno) if is_passing(errno) => continue,
            Err(Errno::EAGAIN) => return Ok(hang_up.without_message()),
            Err(errno) => return Err(errno),
        };
        if received.flags.contains(MsgFlags::MSG_CTRUNC) {
            return Ok(Received::Invalid(
                "a file descriptor that did not arrive: is this process at its limit (ulimit -n)?",
            ));
        }
        // Takes ownership of all descriptors first, so that none leaks at the returns below.
        let mut fds = Vec::new();
        for message in received.cmsgs()? {
            if let ControlMessageOwned::ScmRights(raw) = message {
                // SAFETY: the kernel has just made these descriptors for us.
                fds.extend(raw.into_iter().map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }));
            }
        }
        return Ok(match received.bytes {
            _ if received.flags.contains(MsgFlags::MSG_TRUNC) => Received::Invalid(TOO_LONG),
            0 if hang_up.is_first() => continue,
            0 => Received::HungUp,
            _ if fds.len() > 1 => Received::Invalid(SEVERAL_DESCRIPTORS),
            bytes => Received::Message(bytes, fds.pop()),
        });
    }
}

const TOO_LONG: &str = "a message longer than 196,608 bytes";
const SEVERAL_DESCRIPTORS: &str = "a message with several file descriptors: expected at most one";

/// Checks twice whether the other end has hung up.
///
/// The kernel checks for messages first and for a hang-up after that. The other end may send its
/// last message and hang up between these two steps. Then the kernel reports the hang-up while that
/// message is unread. After the hang-up no message can come any more, so the second answer is
/// right. An empty message looks like a hang-up too; the protocol has none.
#[derive(Default)]
struct HangUpCheck {
    reported_once: bool,
}

impl HangUpCheck {
    /// Whether this is the first report of a hang-up.
    fn is_first(&mut self) -> bool {
        !std::mem::replace(&mut self.reported_once, true)
    }

    /// The second receive must not wait: after an empty message there may be nothing.
    fn flags(&self) -> MsgFlags {
        if self.reported_once { MsgFlags::MSG_DONTWAIT } else { MsgFlags::empty() }
    }

    /// The result if no message is there.
    fn without_message(&self) -> Received {
        if self.reported_once {
            Received::Invalid("an empty message")
        } else {
            Received::WouldBlock
        }
    }
}

/// Whether to receive again after this error: after a signal, and after ECONNRESET, which the
/// kernel reports once if the other end hung up before it had read our messages. The messages that
/// it had sent come after that.
fn is_passing(errno: Errno) -> bool {
    matches!(errno, Errno::EINTR | Errno::ECONNRESET)
}

/// Hangs up so that the other end receives all messages that were sent to it, followed by the
/// hang-up. Closing a socket with unread messages would give it ECONNRESET first, so they are read
/// here.
pub(crate) fn hang_up(socket: impl AsFd, buffer: &mut [u8]) {
    // An error means that the other end has hung up already.
    let _ = shutdown(socket.as_fd().as_raw_fd(), Shutdown::Both);
    while let Ok(Received::Message(..) | Received::Invalid(_)) = receive(&socket, buffer) {}
}
