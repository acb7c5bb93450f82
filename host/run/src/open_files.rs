//! The limit of open files (`ulimit -n`). Each connection and each file or object that is read
//! needs descriptors, so the host raises its limit to the maximum. The command gets the limit with
//! which the host was started: programs that use `select` fail if a descriptor has a number above
//! 1,023.

use std::io;

use nix::sys::resource::{Resource, getrlimit, rlim_t, setrlimit};

/// The limit with which this process was started: soft and hard.
#[derive(Clone, Copy)]
pub(super) struct OpenFiles(Option<(rlim_t, rlim_t)>);

impl OpenFiles {
    /// Raises the limit of this process to the maximum.
    pub(super) fn raise() -> Self {
        let before = getrlimit(Resource::RLIMIT_NOFILE).ok();
        if let Some((soft, hard)) = before
            && soft < hard
            && let Err(error) = setrlimit(Resource::RLIMIT_NOFILE, hard, hard)
        {
            log::info!("the limit of open files stays at {soft}: {error}");
        }
        Self(before)
    }

    /// Restores the limit with which the process was started. Safe between fork and exec.
    pub(super) fn restore(self) -> io::Result<()> {
        if let Self(Some((soft, hard))) = self {
            setrlimit(Resource::RLIMIT_NOFILE, soft, hard)?;
        }
        Ok(())
    }
}
