//! Allocates the pages of memory, huge ones if the kernel has them, and makes them present before
//! they are written.
//!
//! The kernel writes the bytes of a pipe or a file through the host's mapping of a slot, a decoder
//! reads them through its own, and a consumer through a third one. With pages of 4 KiB, each
//! mapping of a slot of 4 MiB has 1,024 translations, and 64 page faults when it is new. A
//! decoder's mapping is new for each object. With huge pages, it has two of both. To allocate,
//! clear and free them takes a tenth of the processor's time, too.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, fallocate};
use nix::libc;
use nix::sys::mman::{MmapAdvise, madvise};
use nix::time::{ClockId, clock_gettime};
use pipemill_types::HUGE_PAGE;

use super::{Mapping, MemoryError, PAGE, failed};

/// Number of bytes whose pages are made present by one system call. While it runs, other threads
/// can't map or unmap memory, so it is short.
const POPULATE_STEP: usize = 128 << 10;
/// From `linux/mman.h`, since Linux 6.1. The C library musl does not have it.
const MADV_COLLAPSE: i32 = 25;
/// Usual upper limit of the processor's time for a huge page. The kernel clears it in a quarter of
/// a millisecond. It takes many times that if the kernel must first make room in one piece, or if a
/// hypervisor must find the memory: pages of the usual size are faster then.
const USUAL_TIME: Duration = Duration::from_micros(500);
/// Extra time of the processor that the huge pages of one request may take.
const MAX_DELAY: Duration = Duration::from_millis(1);
/// A request is late, too, if it takes this many times as long by the clock. It may wait for the
/// kernel, or other threads may have the processor.
const MAX_WAITING: u32 = 16;

/// The time that a request for huge pages takes.
struct Stopwatch {
    begun: Instant,
    cpu: Duration,
}

/// The time that the processor has spent for this thread.
fn cpu_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map(Duration::from).unwrap_or_default()
}

impl Stopwatch {
    fn start() -> Self {
        Self { begun: Instant::now(), cpu: cpu_time() }
    }

    fn is_past(&self, limit: Duration) -> bool {
        cpu_time().saturating_sub(self.cpu) > limit || self.begun.elapsed() > limit * MAX_WAITING
    }
}

/// The part of a mapping whose pages are huge.
pub(super) struct HugePart {
    /// The end of that part.
    pub(super) end: usize,
    /// Whether huge pages were given up because they took too long.
    pub(super) was_late: bool,
}

/// Decides whether to try huge pages again after they have taken too long: after one time without
/// them, then two, then four, and so on.
pub(super) struct Backoff {
    skipped: AtomicU32,
    late: AtomicU32,
}

impl Backoff {
    /// The exponent of the largest such power of two.
    const MAX_POWER: u32 = 8;

    pub(super) const fn new() -> Self {
        Self { skipped: AtomicU32::new(0), late: AtomicU32::new(0) }
    }

    /// Whether to try now.
    pub(super) fn is_due(&self) -> bool {
        let skip = |left: u32| left.checked_sub(1);
        self.skipped.fetch_update(Ordering::Relaxed, Ordering::Relaxed, skip).is_err()
    }

    /// Records an attempt.
    pub(super) fn tried(&self, was_late: bool) {
        if was_late {
            let power = self.late.fetch_add(1, Ordering::Relaxed).min(Self::MAX_POWER);
            self.skipped.store(1 << power, Ordering::Relaxed);
        } else {
            self.late.store(0, Ordering::Relaxed);
        }
    }
}

/// Allocates pages now: a lack of memory is an error here, and would be SIGBUS at a later write.
fn allocate(fd: impl AsFd, from: usize, to: usize) -> Result<(), Errno> {
    loop {
        match fallocate(&fd, FallocateFlags::empty(), from as i64, (to - from) as i64) {
            Err(Errno::EINTR) => continue,
            result => return result,
        }
    }
}

impl Mapping {
    /// Allocates the memory from `from` to `to`, in huge pages if `backoff` says so and the kernel
    /// provides them in time. Returns the end of the huge pages. `fd` is the descriptor of the
    /// mapping's file, which is as long as the mapping, and has no memory there.
    pub(super) fn reserve(
        &self,
        fd: impl AsFd,
        from: usize,
        to: usize,
        backoff: &Backoff,
    ) -> Result<usize, MemoryError> {
        let mut huge = HugePart { end: from, was_late: false };
        if backoff.is_due() {
            huge = self.reserve_huge(&fd, from, to, MAX_DELAY);
            if huge.end > from || huge.was_late {
                backoff.tried(huge.was_late);
            }
        }
        if huge.end < to {
            allocate(&fd, huge.end, to).map_err(failed("reserving it", self.bytes))?;
        }
        Ok(huge.end)
    }

    /// Allocates as many huge pages as the kernel provides without more than `max_delay`.
    fn reserve_huge(&self, fd: impl AsFd, from: usize, to: usize, max_delay: Duration) -> HugePart {
        let watch = Stopwatch::start();
        let mut end = from;
        let mut in_time = max_delay;
        // Only a whole huge page of the file can be one.
        while end.is_multiple_of(HUGE_PAGE) && to - end >= HUGE_PAGE && !watch.is_past(in_time) {
            // The kernel makes no huge page from memory that has no page at all.
            let first_page = allocate(&fd, end, end + PAGE);
            if first_page.and_then(|()| self.collapse(end)).is_err() {
                break;
            }
            end += HUGE_PAGE;
            in_time += USUAL_TIME;
        }
        HugePart { end, was_late: watch.is_past(in_time) }
    }

    /// Converts the memory at `from` to one huge page.
    fn collapse(&self, from: usize) -> Result<(), Errno> {
        assert!(from <= self.bytes && HUGE_PAGE <= self.bytes - from);
        // SAFETY: the range lies within the mapping, and its contents do not change.
        let done = unsafe {
            let start = self.start.as_ptr().byte_add(from);
            libc::madvise(start, HUGE_PAGE, MADV_COLLAPSE)
        };
        Errno::result(done).map(drop)
    }

    /// Makes the pages from `from` to `to` present, so that writing to them causes no page faults.
    /// Linux before 5.14 can't do this: each page becomes present when it is first written.
    pub(super) fn populate(&self, from: usize, to: usize) {
        assert!(from <= to && to <= self.bytes);
        for from in (from..to).step_by(POPULATE_STEP) {
            let bytes = POPULATE_STEP.min(to - from);
            // SAFETY: the range lies within the mapping, and its contents do not change.
            let done = unsafe {
                madvise(self.start.byte_add(from), bytes, MmapAdvise::MADV_POPULATE_WRITE)
            };
            if done.is_err() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use nix::sys::memfd::{MFdFlags, memfd_create};
    use nix::sys::mman::ProtFlags;
    use nix::sys::stat::fstat;
    use nix::unistd::ftruncate;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        /// The test runs with and without huge pages, depending on the kernel.
        #[test]
        fn all_memory_is_allocated_and_keeps_its_place_in_the_file(
            pages in 1..3 * HUGE_PAGE / PAGE,
            had in 0..2 * HUGE_PAGE / PAGE,
            tries in any::<bool>(),
        ) {
            let backoff = Backoff::new();
            backoff.tried(!tries);
            let (bytes, had) = (pages * PAGE, had.min(pages - 1) * PAGE);
            let fd = memfd_create("test", MFdFlags::MFD_CLOEXEC).unwrap();
            allocate(&fd, 0, had.max(1)).unwrap();
            ftruncate(&fd, bytes as i64).unwrap();
            let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
            let map = Mapping::new(&fd, bytes, access).unwrap();
            prop_assert!(bytes < HUGE_PAGE || map.start.addr().get().is_multiple_of(HUGE_PAGE));
            let huge_end = map.reserve(&fd, had, bytes, &backoff).unwrap();
            prop_assert!((had..=bytes).contains(&huge_end));
            prop_assert!(tries || huge_end == had);
            map.populate(huge_end, bytes);
            let allocated = fstat(&fd).unwrap().st_blocks as usize * 512;
            prop_assert!(allocated >= bytes, "{} of {} bytes", allocated, bytes);
            let other = Mapping::new(&fd, bytes, ProtFlags::PROT_READ).unwrap();
            for page in 0..pages {
                let at = page * PAGE + page % PAGE;
                let (here, there) = (map.part(at, 1).unwrap(), other.part(at, 1).unwrap());
                // SAFETY: both are within mappings that nobody else has.
                let seen = unsafe {
                    here.write(page as u8 | 1);
                    there.read_volatile()
                };
                prop_assert_eq!(seen, page as u8 | 1);
            }
        }
    }

    #[test]
    fn after_late_ones_huge_pages_are_tried_ever_less_often() {
        let backoff = Backoff::new();
        let skipped = || (0..).find(|_| backoff.is_due()).unwrap();
        let mut between = Vec::new();
        for _ in 0..12 {
            backoff.tried(true);
            between.push(skipped());
        }
        assert_eq!(between, [1, 2, 4, 8, 16, 32, 64, 128, 256, 256, 256, 256]);
        backoff.tried(false);
        assert_eq!(skipped(), 0);
        backoff.tried(true);
        assert_eq!(skipped(), 1);
    }
}
