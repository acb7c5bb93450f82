//! A consumer can't write to the host's memory by any system call; the number of dedicated buffers
//! is limited.

use std::ffi::c_void;
use std::fs::OpenOptions;
use std::io::Write;
use std::num::NonZeroUsize;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;

use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, FcntlArg, SealFlag, fallocate, fcntl};
use nix::sys::mman::{MapFlags, ProtFlags, mmap, mprotect, munmap};
use nix::sys::stat::fstat;
use nix::sys::uio::pwrite;
use nix::unistd::ftruncate;

use crate::raw_consumer::Raw;
use crate::setup::{config, grant_dedicated, host};

/// Tries every way to write to, resize or unseal the memory.
fn attack(fd: &OwnedFd, bytes: usize) {
    let length = NonZeroUsize::new(bytes).unwrap();
    let (read, write) = (ProtFlags::PROT_READ, ProtFlags::PROT_READ | ProtFlags::PROT_WRITE);
    // SAFETY: no address is asked for, so no mapping is replaced; and nobody uses the new mapping.
    unsafe {
        let refused = mmap(None, length, write, MapFlags::MAP_SHARED, fd, 0);
        assert_eq!(refused.unwrap_err(), Errno::EPERM);
        let map = mmap(None, length, read, MapFlags::MAP_SHARED, fd, 0).unwrap();
        assert_eq!(mprotect(map, bytes, write), Err(Errno::EACCES));
        munmap(map, bytes).unwrap();
    }
    assert_eq!(pwrite(fd, b"x", 0), Err(Errno::EPERM));
    assert_eq!(ftruncate(fd, 0), Err(Errno::EPERM));
    assert_eq!(ftruncate(fd, 2 * bytes as i64), Err(Errno::EPERM));
    let hole = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
    assert_eq!(fallocate(fd, hole, 0, 4096), Err(Errno::EPERM));
    let unseal = FcntlArg::F_ADD_SEALS(SealFlag::F_SEAL_WRITE);
    assert_eq!(fcntl(fd, unseal), Err(Errno::EPERM));
    // Opening it again gives a descriptor for writing, of the same sealed memory.
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    let mut reopened = OpenOptions::new().write(true).open(path).unwrap();
    assert_eq!(reopened.write(b"x").unwrap_err().raw_os_error(), Some(Errno::EPERM as i32));
}

/// A consumer's mapping.
struct ReadOnly(NonNull<c_void>, usize);

impl ReadOnly {
    fn map(fd: &OwnedFd, bytes: usize) -> Self {
        let length = NonZeroUsize::new(bytes).unwrap();
        // SAFETY: no address is asked for, so no mapping is replaced.
        let map = unsafe { mmap(None, length, ProtFlags::PROT_READ, MapFlags::MAP_SHARED, fd, 0) };
        Self(map.unwrap(), bytes)
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: it is mapped as long as this lives. The tests read it while they hold the batch.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().cast(), self.1) }
    }
}

impl Drop for ReadOnly {
    fn drop(&mut self) {
        // SAFETY: nobody has a slice of it any more.
        unsafe { munmap(self.0, self.1) }.unwrap();
    }
}

#[test]
fn a_consumer_can_not_write_to_the_ring_or_a_dedicated_buffer() {
    let host = host(config());
    let (raw, welcome, ring) = Raw::welcomed(&host.socket, 2);
    attack(&ring, welcome.slots as usize * welcome.slot_bytes as usize);
    grant_dedicated(&host.ring, 0, 0).unwrap();
    let (grant, dedicated) = raw.grant();
    attack(&dedicated.unwrap(), grant.bytes as usize);
}

/// The host keeps its own mapping, so it need not make new memory for each large batch.
#[test]
fn a_dedicated_buffer_is_used_again_once_its_batch_is_released() {
    let host = host(config());
    let (raw, ..) = Raw::welcomed(&host.socket, 4);
    let next = |record| {
        grant_dedicated(&host.ring, 0, record).unwrap();
        let (grant, fd) = raw.grant();
        let fd = fd.unwrap();
        attack(&fd, grant.bytes as usize);
        let memory = ReadOnly::map(&fd, grant.bytes as usize);
        assert_eq!(memory.bytes()[8..16], grant.batch.to_le_bytes());
        (grant.grant, fstat(&fd).unwrap().st_ino, memory)
    };
    let (first, of_first, memory) = next(0);
    let before = memory.bytes().to_vec();
    let (second, of_second, _) = next(1);
    assert_ne!(of_first, of_second, "it was not released");
    raw.send(&pipemill_ring::protocol::ack(second)).unwrap();
    raw.send(&pipemill_ring::protocol::release(second)).unwrap();
    host.wait_until("with one that is released", |status| status.dedicated == 1);
    assert_eq!(next(2).1, of_second);
    assert_eq!(memory.bytes(), before, "it is held still");
    raw.send(&pipemill_ring::protocol::release(first)).unwrap();
    host.wait_until("with the other one released", |status| status.dedicated == 1);
    assert_eq!(next(3).1, of_first);
}

#[test]
fn at_most_two_dedicated_buffers_exist_and_a_release_makes_room() {
    let host = host(config());
    let (raw, ..) = Raw::welcomed(&host.socket, 4);
    for record in 0..2 {
        grant_dedicated(&host.ring, 0, record).unwrap();
    }
    let (held, _) = raw.grant();
    assert_eq!(host.ring.status().dedicated, 2);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| grant_dedicated(&host.ring, 0, 2));
        host.wait_until("full, with a writer that waits", |status| status.writer_waits);
        raw.send(&pipemill_ring::protocol::release(held.grant)).unwrap();
        assert_eq!(writer.join().unwrap().unwrap(), 2);
    });
    assert_eq!([raw.grant().0.batch, raw.grant().0.batch], [1, 2]);
}
