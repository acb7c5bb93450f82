//! A file that keeps the number of the next epoch, so that a process that was started again goes on with the right
//! pipe. As the platform's own reader has it: a number in ASCII, under a lock.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use nix::fcntl::{Flock, FlockArg};

/// The next epoch that the file names; 0 if it names none.
pub(super) fn next(path: &Path) -> io::Result<u32> {
    let mut text = String::new();
    locked(path)?.read_to_string(&mut text)?;
    let text = text.trim();
    if text.is_empty() {
        return Ok(0);
    }
    text.parse().map_err(|_| {
        let message = format!("expected the number of an epoch, found {text:?}");
        io::Error::new(io::ErrorKind::InvalidData, message)
    })
}

/// Keeps the next epoch's number.
pub(super) fn keep(path: &Path, epoch: u32) -> io::Result<()> {
    let mut file = locked(path)?;
    file.set_len(0)?;
    file.seek(SeekFrom::Start(0))?;
    file.write_all(epoch.to_string().as_bytes())
}

fn locked(path: &Path) -> io::Result<Flock<File>> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
    Flock::lock(file, FlockArg::LockExclusive).map_err(|(_, errno)| errno.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state/.train-pipe_mode-state");
        assert_eq!(next(&path).unwrap(), 0);
        keep(&path, 12).unwrap();
        assert_eq!(next(&path).unwrap(), 12);
        keep(&path, 3).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "3");
        std::fs::write(&path, "x\n").unwrap();
        assert!(next(&path).unwrap_err().to_string().contains("found \"x\""));
    }
}
