//! Hides rings from forked children.
//!
//! A child has its parent's mappings, but not its grants: when the parent sends RELEASE, the host
//! writes the next batch to the slot, and a slice in the child would change under its reader. So
//! immediately after a fork, a child replaces these mappings by memory that can't be read. An
//! attempt to read it ends the child with SIGSEGV. The addresses stay reserved, so that no other
//! mapping can be placed there, such as the ring of the child's own connection.

use std::ptr::null_mut;
use std::sync::Once;
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicUsize, Ordering};

use nix::errno::Errno;
use nix::libc;

use super::{Mapping, MemoryError};

/// The mappings to hide, as a list whose entries are never freed, but reused. A child must not wait
/// for a lock that another thread of the parent holds, so there is none.
static RANGES: AtomicPtr<Range> = AtomicPtr::new(null_mut());

#[derive(Debug)]
struct Range {
    state: AtomicU8,
    start: AtomicUsize,
    bytes: AtomicUsize,
    next: Option<&'static Range>,
}

const FREE: u8 = 0;
/// A thread is writing `start` and `bytes`.
const TAKEN: u8 = 1;
const IN_USE: u8 = 2;

fn first() -> Option<&'static Range> {
    // SAFETY: the list has only entries that `push` has leaked.
    unsafe { RANGES.load(Ordering::Acquire).as_ref() }
}

fn ranges() -> impl Iterator<Item = &'static Range> {
    std::iter::successors(first(), |range| range.next)
}

/// A mapping that children can't read. When this is dropped, the mapping must end.
#[derive(Debug)]
pub(super) struct HiddenAfterFork(&'static Range);

impl HiddenAfterFork {
    /// Hides this mapping from children that are forked from now on.
    pub(super) fn new(map: &Mapping) -> Result<HiddenAfterFork, MemoryError> {
        watch_forks(map.bytes)?;
        Ok(HiddenAfterFork::add(map.start.as_ptr().addr(), map.bytes))
    }

    fn add(start: usize, bytes: usize) -> HiddenAfterFork {
        let take = |range: &&'static Range| {
            range.state.compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed).is_ok()
        };
        let range = ranges().find(take).unwrap_or_else(push);
        range.start.store(start, Ordering::Relaxed);
        range.bytes.store(bytes, Ordering::Relaxed);
        range.state.store(IN_USE, Ordering::Release);
        HiddenAfterFork(range)
    }
}

impl Drop for HiddenAfterFork {
    fn drop(&mut self) {
        self.0.state.store(FREE, Ordering::Release);
    }
}

/// Adds an entry that is `TAKEN`.
fn push() -> &'static Range {
    let range = Box::leak(Box::new(Range {
        state: AtomicU8::new(TAKEN),
        start: AtomicUsize::new(0),
        bytes: AtomicUsize::new(0),
        next: None,
    }));
    let at = &raw mut *range;
    loop {
        let head = RANGES.load(Ordering::Acquire);
        // SAFETY: nobody else knows this entry yet. `head` is null or was leaked here.
        unsafe { (*at).next = head.as_ref() };
        if RANGES.compare_exchange(head, at, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            // SAFETY: it was leaked, and from now on it only changes through its atomics.
            return unsafe { &*at };
        }
    }
}

/// Makes the C library call `hide` in each child. `bytes` is for the error.
fn watch_forks(bytes: usize) -> Result<(), MemoryError> {
    static ONCE: Once = Once::new();
    static FAILED: AtomicUsize = AtomicUsize::new(0);
    ONCE.call_once(|| {
        // SAFETY: `hide` is a function of this program, which is never unloaded, and does only what
        // a child of a process with several threads may do.
        let failed = unsafe { libc::pthread_atfork(None, None, Some(hide)) };
        FAILED.store(failed as usize, Ordering::Relaxed);
    });
    match FAILED.load(Ordering::Relaxed) {
        0 => Ok(()),
        failed => {
            let (what, errno) = ("watching for forks", Errno::from_raw(failed as i32));
            Err(MemoryError::System { what, bytes, errno })
        }
    }
}

/// This runs in a child, before `fork` returns. It makes only system calls: it neither allocates
/// nor locks.
extern "C" fn hide() {
    for range in ranges().filter(|range| range.state.load(Ordering::Acquire) == IN_USE) {
        let start = range.start.load(Ordering::Relaxed);
        let bytes = range.bytes.load(Ordering::Relaxed);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
        // SAFETY: the range is a mapping of this crate as long as it is `IN_USE`. No thread of the
        // child reads it: the only one is in this call.
        let hidden = unsafe {
            let start = std::ptr::without_provenance_mut(start);
            libc::mmap(start, bytes, libc::PROT_NONE, flags, -1, 0)
        };
        if hidden == libc::MAP_FAILED {
            // SAFETY: ends the process. The child must not continue with slices that change.
            unsafe { libc::abort() }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Under Miri, this also shows that threads do not race for the list.
    #[test]
    fn an_entry_has_one_user_at_a_time_and_is_used_again() {
        const THREADS: usize = 3;
        let use_some = |thread: usize| {
            for round in 1..=20 {
                let (first, second) =
                    (HiddenAfterFork::add(thread, round), HiddenAfterFork::add(thread, 100));
                assert!(!std::ptr::eq(first.0, second.0));
                std::thread::yield_now();
                let of = |hidden: &HiddenAfterFork| {
                    let Range { state, start, bytes, .. } = hidden.0;
                    let numbers = [start, bytes].map(|number| number.load(Ordering::Relaxed));
                    (state.load(Ordering::Acquire), numbers)
                };
                assert_eq!(of(&first), (IN_USE, [thread, round]));
                assert_eq!(of(&second), (IN_USE, [thread, 100]));
            }
        };
        std::thread::scope(|scope| {
            (1..=THREADS).for_each(|thread| drop(scope.spawn(move || use_some(thread))));
        });
        assert!(ranges().all(|range| range.state.load(Ordering::Relaxed) == FREE));
        let entries = ranges().count();
        drop(HiddenAfterFork::add(1, 1));
        assert_eq!(ranges().count(), entries);
    }
}
