//! The limit of open files (`ulimit -n`). Each connection and each file or object that is read
//! takes some, so the host takes all that it may have. The command gets the limit that the host was
//! started with: programs that use `select` fail where a descriptor has a number above 1,023.

use std::io;

use nix::sys::resource::{Resource, getrlimit, rlim_t, setrlimit};

/// The limit that this process was started with: soft and hard.
#[derive(Clone, Copy)]
pub(super) struct OpenFiles(Option<(rlim_t, rlim_t)>);

impl OpenFiles {
    /// Raises the limit of this process as far as it may.
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

    /// Sets the limit again that the process was started with. Safe between fork and exec.
    pub(super) fn restore(self) -> io::Result<()> {
        if let Self(Some((soft, hard))) = self {
            setrlimit(Resource::RLIMIT_NOFILE, soft, hard)?;
        }
        Ok(())
    }
}
