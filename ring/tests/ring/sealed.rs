//! A consumer can't write to the host's memory, by any system call; and how many dedicated buffers
//! there may be.

use std::fs::OpenOptions;
use std::io::Write;
use std::num::NonZeroUsize;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, FcntlArg, SealFlag, fallocate, fcntl};
use nix::sys::mman::{MapFlags, ProtFlags, mmap, mprotect, munmap};
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

#[test]
fn a_consumer_can_not_write_to_the_ring_or_a_dedicated_buffer() {
    let host = host(config());
    let (raw, welcome, ring) = Raw::welcomed(&host.socket, 2);
    attack(&ring, welcome.slots as usize * welcome.slot_bytes as usize);
    grant_dedicated(&host.ring, 0, 0).unwrap();
    let (grant, dedicated) = raw.grant();
    attack(&dedicated.unwrap(), grant.bytes as usize);
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
