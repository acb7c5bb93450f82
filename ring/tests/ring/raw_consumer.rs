//! A consumer that sends any bytes, and reads messages one by one. It maps no memory.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::path::Path;

use nix::cmsg_space;
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType, UnixAddr,
    connect, recvmsg, sendmsg, socket,
};
use pipemill_ring::protocol::{self, Grant, Hello, ToConsumer, Welcome};

pub struct Raw(pub OwnedFd);

impl Raw {
    pub fn connect(path: &Path) -> Raw {
        let flags = SockFlag::SOCK_CLOEXEC;
        let fd = socket(AddressFamily::Unix, SockType::SeqPacket, flags, None).unwrap();
        connect(fd.as_raw_fd(), &UnixAddr::new(path).unwrap()).unwrap();
        Raw(fd)
    }

    /// Connects, sends HELLO and receives WELCOME with the ring's descriptor.
    pub fn welcomed(path: &Path, credits: u32) -> (Raw, Welcome, OwnedFd) {
        let raw = Raw::connect(path);
        raw.send(&hello("train", credits)).unwrap();
        match raw.receive() {
            Some((ToConsumer::Welcome(welcome), Some(fd))) => (raw, welcome, fd),
            other => panic!("expected WELCOME with a descriptor, got {other:?}"),
        }
    }

    pub fn send(&self, message: &[u8]) -> nix::Result<()> {
        self.send_with(message, &[])
    }

    pub fn send_with(&self, message: &[u8], fds: &[RawFd]) -> nix::Result<()> {
        let rights = [ControlMessage::ScmRights(fds)];
        let rights = if fds.is_empty() { &[][..] } else { &rights[..] };
        let flags = MsgFlags::MSG_NOSIGNAL;
        sendmsg::<()>(self.0.as_raw_fd(), &[IoSlice::new(message)], rights, flags, None).map(drop)
    }

    /// The next message; `None` when the host has hung up. ECONNRESET is a failure of the test,
    /// because a living host hangs up properly.
    pub fn receive(&self) -> Option<(ToConsumer, Option<OwnedFd>)> {
        let mut buffer = vec![0; 70_000];
        let mut space = cmsg_space!([RawFd; 2]);
        let (bytes, fd) = loop {
            let mut parts = [IoSliceMut::new(&mut buffer)];
            let flags = MsgFlags::MSG_CMSG_CLOEXEC;
            match recvmsg::<()>(self.0.as_raw_fd(), &mut parts, Some(&mut space), flags) {
                Err(Errno::EINTR) => continue,
                received => {
                    let received = received.unwrap();
                    break (received.bytes, received.cmsgs().unwrap().find_map(fd_of));
                }
            }
        };
        (bytes > 0).then(|| (ToConsumer::decode(&buffer[..bytes]).unwrap(), fd))
    }

    /// The next grant. A SCHEMA before it is skipped.
    pub fn grant(&self) -> (Grant, Option<OwnedFd>) {
        loop {
            match self.receive() {
                Some((ToConsumer::Schema(_), None)) => {}
                Some((ToConsumer::Grant(grant), fd)) => return (grant, fd),
                other => panic!("expected GRANT, got {other:?}"),
            }
        }
    }

    /// Skips all messages up to REFUSED; returns its reason. The host must have hung up after it.
    pub fn refusal(&self) -> String {
        loop {
            match self.receive() {
                Some((ToConsumer::Refused(message), None)) => {
                    assert!(self.receive().is_none(), "a hang-up follows");
                    return message;
                }
                Some(_) => {}
                None => panic!("hung up without a reason"),
            }
        }
    }
}

pub fn hello(channel: &str, credits: u32) -> Vec<u8> {
    protocol::hello(&Hello { credits: Some(credits), ..Hello::new(channel, "raw") })
}

fn fd_of(message: ControlMessageOwned) -> Option<OwnedFd> {
    let ControlMessageOwned::ScmRights(fds) = message else { return None };
    // SAFETY: the kernel has just made this descriptor; nobody else owns it.
    fds.first().map(|fd| unsafe { OwnedFd::from_raw_fd(*fd) })
}
