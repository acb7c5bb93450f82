//! A file with the number of the next epoch, so that a restarted process continues with the right
//! FIFO. It has the format of SageMaker's own reader: a number in ASCII, read and written under a
//! lock.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use nix::fcntl::{Flock, FlockArg};

/// Reads the number of the next epoch; 0 if the file is empty or new.
pub(super) fn read(path: &Path) -> io::Result<u32> {
    let mut text = String::new();
    open_locked(path)?.read_to_string(&mut text)?;
    let text = text.trim();
    if text.is_empty() {
        return Ok(0);
    }
    text.parse().map_err(|_| {
        let message = format!("expected the number of an epoch, found {text:?}");
        io::Error::new(io::ErrorKind::InvalidData, message)
    })
}

/// Writes the number of the next epoch. If the process is killed during the write, the file has the
/// old number or the new one: a single call writes it, and the remaining old bytes are cut off
/// afterwards. That is true for numbers that grow.
pub(super) fn write(path: &Path, epoch: u32) -> io::Result<()> {
    let mut file = open_locked(path)?;
    let text = epoch.to_string();
    file.seek(SeekFrom::Start(0))?;
    file.write_all(text.as_bytes())?;
    file.set_len(text.len() as u64)
}

/// Opens the file and locks it. A file that does not exist is created.
fn open_locked(path: &Path) -> io::Result<Flock<File>> {
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
    fn reads_the_number_that_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state/.train-pipe_mode-state");
        assert_eq!(read(&path).unwrap(), 0);
        write(&path, 12).unwrap();
        assert_eq!(read(&path).unwrap(), 12);
        write(&path, 3).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "3");
        std::fs::write(&path, "x\n").unwrap();
        assert!(read(&path).unwrap_err().to_string().contains("found \"x\""));
    }

    /// A killed process leaves the state between two system calls.
    #[test]
    fn at_no_moment_the_number_is_missing_or_cut() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("epoch");
        write(&path, 1000).unwrap();
        let writer = std::thread::spawn({
            let path = path.clone();
            // All numbers have four digits, so a read during a write sees four digits too.
            move || (1000..10_000).for_each(|epoch| write(&path, epoch).unwrap())
        });
        while !writer.is_finished() {
            let mut bytes = [0; 8];
            let count = File::open(&path).unwrap().read(&mut bytes).unwrap();
            assert_eq!(count, 4, "it holds {:?}", bytes[..count].escape_ascii().to_string());
        }
        writer.join().unwrap();
        assert_eq!(read(&path).unwrap(), 9999);
    }
}
