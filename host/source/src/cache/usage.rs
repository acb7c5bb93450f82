//! The bytes that the blocks take, and the lock of the cache: the file `usage`. It has the sum of
//! the file sizes of each folder of blocks. A file that is missing or damaged is made again from
//! the sizes of all blocks.
//!
//! A process that is killed can leave a sum that is too large, never one that is too small: bytes
//! are added before a block gets its name, and subtracted after it is removed. Eviction counts a
//! folder again when it looks through it.

use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crc_fast::CrcAlgorithm;

/// Number of folders of blocks.
pub(super) const FOLDERS: usize = 256;
const MAGIC: &[u8; 8] = b"PMUSAGE1";
const LENGTH: usize = 8 + 8 * FOLDERS + 8;
/// Another process holds the lock only to remove and to link files. After this time, it is
/// considered to hang.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);
const LOCK_POLL_INTERVAL: Duration = Duration::from_millis(1);

/// Bytes of a file as they are counted: whole blocks of a file system.
pub(super) fn charge(length: u64) -> u64 {
    length.next_multiple_of(4096)
}

/// The file.
pub(super) struct Usage(Mutex<File>);

/// The sums, while this thread has the lock.
pub(super) struct LockedUsage<'a> {
    file: MutexGuard<'a, File>,
    folders: [u64; FOLDERS],
}

impl Usage {
    pub(super) fn new(file: File) -> Self {
        Self(Mutex::new(file))
    }

    /// Locks the cache, for all threads and processes. `count` returns the bytes of a folder's
    /// blocks, if they have to be counted again.
    pub(super) fn lock(
        &self,
        count: impl Fn(u8) -> io::Result<u64>,
    ) -> io::Result<LockedUsage<'_>> {
        let file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let deadline = Instant::now() + LOCK_TIMEOUT;
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) if Instant::now() < deadline => {
                    sleep(LOCK_POLL_INTERVAL);
                }
                Err(TryLockError::WouldBlock) => {
                    let message = format!("another process has locked it for {LOCK_TIMEOUT:?}");
                    return Err(io::Error::new(io::ErrorKind::TimedOut, message));
                }
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
        let mut locked = LockedUsage { file, folders: [0; FOLDERS] };
        if !locked.read()? {
            for folder in 0..FOLDERS {
                locked.folders[folder] = count(folder as u8)?;
            }
            locked.save()?;
        }
        Ok(locked)
    }
}

impl LockedUsage<'_> {
    /// Reads the sums, and returns whether they are there.
    fn read(&mut self) -> io::Result<bool> {
        let mut bytes = [0; LENGTH];
        match self.file.read_exact_at(&mut bytes, 0) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
            Err(error) => return Err(error),
        }
        let (content, sum) = bytes.split_at(LENGTH - 8);
        if content[..8] != *MAGIC || sum != crc(content) {
            return Ok(false);
        }
        for (folder, bytes) in self.folders.iter_mut().zip(content[8..].chunks_exact(8)) {
            *folder = bytes.try_into().map_or(0, u64::from_le_bytes);
        }
        Ok(true)
    }

    /// Writes the sums.
    pub(super) fn save(&self) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(LENGTH);
        bytes.extend_from_slice(MAGIC);
        bytes.extend(self.folders.iter().flat_map(|bytes| bytes.to_le_bytes()));
        bytes.extend_from_slice(&crc(&bytes));
        self.file.write_all_at(&bytes, 0)
    }

    /// Bytes of all blocks.
    pub(super) fn total(&self) -> u64 {
        self.folders.iter().fold(0, |sum, bytes| sum.saturating_add(*bytes))
    }

    /// Counts a block that will be in this folder.
    pub(super) fn add(&mut self, folder: u8, bytes: u64) {
        let sum = &mut self.folders[usize::from(folder)];
        *sum = sum.saturating_add(bytes);
    }

    /// Counts a block that was removed from this folder.
    pub(super) fn subtract(&mut self, folder: u8, bytes: u64) {
        let sum = &mut self.folders[usize::from(folder)];
        *sum = sum.saturating_sub(bytes);
    }

    /// The blocks of this folder have this many bytes: they were counted.
    pub(super) fn set(&mut self, folder: u8, bytes: u64) {
        self.folders[usize::from(folder)] = bytes;
    }
}

impl Drop for LockedUsage<'_> {
    fn drop(&mut self) {
        // The end of the process releases it, too.
        let _ = self.file.unlock();
    }
}

fn crc(bytes: &[u8]) -> [u8; 8] {
    crc_fast::checksum(CrcAlgorithm::Crc64Nvme, bytes).to_le_bytes()
}
