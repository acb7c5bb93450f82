//! Who fetches which block. A claim is an entry in a set of this process, and for other processes a
//! lock of one byte of the file `claims`, whose place follows from the block. The kernel releases
//! the lock when its process ends in any way.

use std::collections::HashSet;
use std::fs::File;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use tokio::sync::Notify;
use tokio::time::timeout;

use super::identity::BlockId;

/// How often a claim of another process is looked at: it can't tell when it ends.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// The claims of this process.
pub(super) struct Claims {
    file: File,
    /// The places of the claimed blocks.
    claimed: Mutex<HashSet<i64>>,
    released: Notify,
}

/// A block that this process fetches, until the drop.
pub(crate) struct Claim {
    claims: Arc<Claims>,
    place: i64,
}

impl Claims {
    pub(super) fn new(file: File) -> Self {
        Self { file, claimed: Mutex::default(), released: Notify::new() }
    }

    /// Claims a block; `None` if it is claimed already.
    pub(super) fn claim(self: &Arc<Self>, id: BlockId) -> Option<Claim> {
        let place = id.lock_offset();
        let mut claimed = self.claimed();
        if claimed.contains(&place) || !self.lock(place, libc::F_WRLCK) {
            return None;
        }
        claimed.insert(place);
        Some(Claim { claims: self.clone(), place })
    }

    /// Waits until a claim may have ended.
    pub(super) async fn wait(&self) {
        // After this time, it is looked at anyway.
        let _ = timeout(POLL_INTERVAL, self.released.notified()).await;
    }

    fn claimed(&self) -> MutexGuard<'_, HashSet<i64>> {
        self.claimed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets or removes a lock of one byte, and returns whether that was possible. Where the file
    /// system has no such locks, nobody waits for other processes.
    fn lock(&self, place: i64, kind: i32) -> bool {
        let lock = libc::flock {
            l_type: kind as libc::c_short,
            l_whence: libc::SEEK_SET as libc::c_short,
            l_start: place,
            l_len: 1,
            l_pid: 0,
        };
        let result = fcntl(&self.file, FcntlArg::F_OFD_SETLK(&lock));
        !matches!(result, Err(nix::errno::Errno::EAGAIN | nix::errno::Errno::EACCES))
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        {
            // Nobody of this process may get the lock before it is removed.
            let mut claimed = self.claims.claimed();
            self.claims.lock(self.place, libc::F_UNLCK);
            claimed.remove(&self.place);
        }
        self.claims.released.notify_waiters();
    }
}
