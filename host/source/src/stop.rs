//! A request to stop. It wakes threads that wait for bytes, for a file or for a free slot.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use nix::sys::eventfd::{EfdFlags, EventFd};

/// A request to stop. It is cheap to clone, and all clones share one state.
#[derive(Clone)]
pub struct Stop {
    inner: Arc<Inner>,
}

struct Inner {
    requested: AtomicBool,
    wake: EventFd,
    parent: Weak<Inner>,
    children: Mutex<Vec<Stop>>,
}

impl Stop {
    /// A new stop that is not requested.
    ///
    /// # Errors
    /// The process has no file descriptor left.
    pub fn new() -> std::io::Result<Self> {
        Self::of(Weak::new())
    }

    fn of(parent: Weak<Inner>) -> std::io::Result<Self> {
        let wake = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
        let (requested, children) = Default::default();
        Ok(Self { inner: Arc::new(Inner { requested, wake, parent, children }) })
    }

    /// A new stop, which is requested together with this one or alone.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn child(&self) -> std::io::Result<Self> {
        let child = Self::of(Arc::downgrade(&self.inner))?;
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

    /// Withdraws a request that was made for this stop alone. No thread may wait for the stop
    /// meanwhile.
    pub fn take_back(&self) {
        self.inner.requested.store(false, Ordering::Release);
        // The read fails if there was no request: the descriptor does not block.
        let _ = self.inner.wake.read();
        // A request of the parent sets its flag first. So a request that comes now is seen here, or
        // it requests this stop again.
        if self.inner.parent.upgrade().is_some_and(|parent| Self { inner: parent }.is_requested()) {
            self.request();
        }
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

#[cfg(test)]
mod tests {
    use super::Stop;

    #[test]
    fn a_request_of_the_parent_is_not_taken_back() {
        let parent = Stop::new().expect("a descriptor is free");
        let child = parent.child().expect("a descriptor is free");
        child.request();
        child.take_back();
        assert!(!child.is_requested() && !parent.is_requested());
        parent.request();
        child.take_back();
        assert!(child.is_requested());
    }
}
