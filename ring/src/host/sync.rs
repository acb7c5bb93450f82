//! The lock of a ring, where all threads of the host meet: std's, or that of shuttle, which tries
//! many orders in which threads may run. `threads` has the tests with shuttle.

#[cfg(feature = "shuttle")]
pub(super) use shuttle::sync::{Condvar, Mutex, MutexGuard};
#[cfg(not(feature = "shuttle"))]
pub(super) use std::sync::{Condvar, Mutex, MutexGuard};
