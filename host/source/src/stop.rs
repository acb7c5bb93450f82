//! A request to stop that wakes whoever waits: for bytes, for a file, for a free slot.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::eventfd::{EfdFlags, EventFd};

/// A request to stop. Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct Stop {
    inner: Arc<Inner>,
}

struct Inner {
    asked: AtomicBool,
    wake: EventFd,
}

impl Stop {
    /// Nobody has asked yet.
    ///
    /// # Errors
    /// Where the process has no file descriptor left.
    pub fn new() -> std::io::Result<Self> {
        let wake = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
        Ok(Self { inner: Arc::new(Inner { asked: AtomicBool::new(false), wake }) })
    }

    /// Asks all to stop.
    pub fn ask(&self) {
        // Release: whoever sees the flag sees what was done before it was set.
        self.inner.asked.store(true, Ordering::Release);
        // Fails only if the counter is full, and then it is readable already.
        let _ = self.inner.wake.write(1);
    }

    /// Whether somebody has asked.
    pub fn is_asked(&self) -> bool {
        self.inner.asked.load(Ordering::Acquire)
    }

    /// The flag itself, for waits that look at it.
    pub fn flag(&self) -> &AtomicBool {
        &self.inner.asked
    }

    /// Becomes readable, and stays so, when somebody asks.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.inner.wake.as_fd()
    }
}
