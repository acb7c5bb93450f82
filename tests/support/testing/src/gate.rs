//! A gate at which threads wait until the test opens it.

use std::sync::{Arc, Condvar, Mutex};

use crate::PATIENCE;

/// A gate, shut at first. Clones are the same gate.
#[derive(Clone, Default)]
pub struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    /// Lets everybody pass, now and later.
    pub fn open(&self) {
        let (is_open, changed) = &*self.0;
        *is_open.lock().expect("nothing panics while it is locked") = true;
        changed.notify_all();
    }

    /// Waits until it is open. A test that has failed meanwhile does not hold its threads for ever.
    pub fn pass(&self) {
        let (is_open, changed) = &*self.0;
        let is_open = is_open.lock().expect("nothing panics while it is locked");
        let waited = changed.wait_timeout_while(is_open, PATIENCE, |is_open| !*is_open);
        drop(waited.expect("nothing panics while it is locked"));
    }
}
