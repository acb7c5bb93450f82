//! A request to stop. It wakes threads that wait for bytes, for a file or for a free slot.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nix::sys::eventfd::{EfdFlags, EventFd};

/// A request to stop. It is cheap to clone, and all clones share one state.
#[derive(Clone)]
pub struct Stop {
    inner: Arc<Inner>,
}

struct Inner {
    requested: AtomicBool,
    wake: EventFd,
    children: Mutex<Vec<Stop>>,
}

impl Stop {
    /// A new one, with no stop requested.
    ///
    /// # Errors
    /// The process has no file descriptor left.
    pub fn new() -> std::io::Result<Self> {
        let wake = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
        let (requested, children) = Default::default();
        Ok(Self { inner: Arc::new(Inner { requested, wake, children }) })
    }

    /// A new one, which is requested together with this one, or by itself alone.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn child(&self) -> std::io::Result<Self> {
        let child = Self::new()?;
        self.children().push(child.clone());
        if self.is_requested() {
            child.request();
        }
        Ok(child)
    }

    fn children(&self) -> MutexGuard<'_, Vec<Stop>> {
        // A panic can't leave it half changed.
        self.inner.children.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Requests the stop.
    pub fn request(&self) {
        // Release: a thread that sees the flag also sees what was written before the request.
        self.inner.requested.store(true, Ordering::Release);
        // A write fails only if the counter is full. The descriptor is readable in that case too.
        let _ = self.inner.wake.write(1);
        self.children().iter().for_each(Stop::request);
    }

    /// Whether a stop was requested.
    pub fn is_requested(&self) -> bool {
        self.inner.requested.load(Ordering::Acquire)
    }

    /// The flag itself, for waits that poll it.
    pub fn flag(&self) -> &AtomicBool {
        &self.inner.requested
    }

    /// A descriptor that becomes readable when a stop is requested, and stays readable.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.inner.wake.as_fd()
    }
}
