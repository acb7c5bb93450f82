//! A list that the hosts of one job on a machine share: one of them lists, and the others read its
//! list from a file. There is no daemon.
//!
//! Two files make a place: the list, and one with the same name and `.alive`. Each host that uses
//! the place holds a shared lock of the latter until it ends. So a host that gets that lock for
//! itself alone is the first one of its job, and whatever list is there is one of an earlier job:
//! it is removed. The list is locked by the host that lists, and by each that reads it. The kernel
//! releases the locks of a process that ends in any way. A list that was not written to its end is
//! no list: its checksum is the last of it.
//!
//! The last host removes both files, unless it is killed. Then any later host that uses the folder
//! removes them.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crc_fast::{CrcAlgorithm, checksum};
use nix::libc;
use nix::unistd::geteuid;
use pipemill_types::trust::OpenFolder;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use super::kept_list::KeptList;

/// The environment variable with the path at which the lists of this job lie. Names of files are
/// this path, and what identifies a list. It must be another one for each job.
const PLACE: &str = "PIPEMILL_NODE_LISTS";
/// How often a lock is tried: another process can't tell when it releases it.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
const MAGIC: &[u8; 8] = b"PMLISTS1";
/// The end of the name of the file that living hosts lock.
const ALIVE: &str = ".alive";

/// The path at which this process shares its lists, if it does.
pub(super) fn shared_path() -> Option<PathBuf> {
    let path = PathBuf::from(std::env::var_os(PLACE)?);
    (path.is_absolute() && path.file_name().is_some()).then_some(path)
}

/// The place of a list.
pub(super) struct NodeList {
    path: PathBuf,
    /// The lock of this process, once it uses the place.
    alive: Mutex<Option<File>>,
}

/// What the place has.
pub(super) enum FoundList {
    /// The list of another host of this job.
    List(KeptList),
    /// It is too long to be shared.
    TooLong,
    /// Nothing: this host lists.
    None,
}

/// The list, which no other host reads or writes now.
pub(super) struct Turn(File);

impl NodeList {
    /// The place of the list with this digest, below a path that is the job's own.
    pub(super) fn new(job: &Path, digest: &str) -> Self {
        let mut path = job.as_os_str().to_owned();
        path.push("-");
        path.push(digest);
        Self { path: path.into(), alive: Mutex::default() }
    }

    /// Waits until no other host lists. `None` if the place can't be used: then each host lists.
    pub(super) async fn turn(&self) -> Option<Turn> {
        match self.wait().await {
            Ok(turn) => Some(turn),
            Err(error) => {
                log::warn!(
                    "{}: the hosts of this job can't share a list, so each lists: {error}",
                    self.path.display()
                );
                None
            }
        }
    }

    async fn wait(&self) -> io::Result<Turn> {
        while !self.enter()? {
            sleep(POLL_INTERVAL).await;
        }
        let list = open(&self.path)?;
        loop {
            match list.try_lock() {
                Ok(()) => return Ok(Turn(list)),
                Err(TryLockError::WouldBlock) => sleep(POLL_INTERVAL).await,
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
    }

    /// Notes that this process uses the place. Returns false if that has to be tried again.
    fn enter(&self) -> io::Result<bool> {
        let mut alive = self.alive.lock().unwrap_or_else(PoisonError::into_inner);
        if alive.is_some() {
            return Ok(true);
        }
        let folder = self.path.parent().unwrap_or(Path::new("/"));
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let (found, euid) = (folder.symlink_metadata()?, geteuid().as_raw());
        OpenFolder::check(&found, euid, || folder.metadata())?.map_err(|folder| {
            io::Error::other(format!("others may write to its folder: {folder}"))
        })?;
        remove_left(folder, &self.path);
        let file = open(&alive_path(&self.path))?;
        match file.try_lock() {
            // Nobody else is there: a list is one of an earlier job.
            Ok(()) => {
                remove(&self.path)?;
                file.unlock()?;
            }
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) => return Err(error),
        }
        let is_there = match file.try_lock_shared() {
            // The last host may have removed it meanwhile.
            Ok(()) => file.metadata()?.nlink() > 0,
            Err(TryLockError::WouldBlock) => false,
            Err(TryLockError::Error(error)) => return Err(error),
        };
        *alive = is_there.then_some(file);
        Ok(is_there)
    }
}

impl Drop for NodeList {
    /// Removes the files, if no other host uses them.
    fn drop(&mut self) {
        let alive = self.alive.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(alive) = alive
            && alive.unlock().is_ok()
        {
            remove_unused(&alive, &self.path);
        }
    }
}

impl Turn {
    /// Reads what the place has.
    pub(super) async fn read(&mut self) -> FoundList {
        let Ok(mut file) = self.0.try_clone() else { return FoundList::None };
        let read = spawn_blocking(move || {
            let mut bytes = Vec::new();
            file.rewind()?;
            file.read_to_end(&mut bytes)?;
            io::Result::Ok(decode(&bytes))
        });
        match read.await {
            Ok(Ok(found)) => found,
            // It is listed, and written again.
            Ok(Err(_)) | Err(_) => FoundList::None,
        }
    }

    /// Writes a list; `None` for one that is too long. If that fails, the next host lists, too.
    pub(super) async fn write(self, list: Option<&KeptList>) {
        let bytes = encode(list);
        let mut file = self.0;
        let written = spawn_blocking(move || {
            file.set_len(0)?;
            file.rewind()?;
            file.write_all(&bytes)
        });
        if let Ok(Err(error)) = written.await {
            log::warn!("the list can't be shared with the other hosts of this job: {error}");
        }
    }
}

fn encode(list: Option<&KeptList>) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    if let Some(list) = list {
        list.encode(&mut bytes);
    }
    let sum = checksum(CrcAlgorithm::Crc64Nvme, &bytes);
    bytes.extend(sum.to_le_bytes());
    bytes
}

fn decode(bytes: &[u8]) -> FoundList {
    let Some((bytes, sum)) = bytes.split_last_chunk() else { return FoundList::None };
    let is_whole = u64::from_le_bytes(*sum) == checksum(CrcAlgorithm::Crc64Nvme, bytes);
    match bytes.strip_prefix(MAGIC).filter(|_| is_whole) {
        None => FoundList::None,
        Some([]) => FoundList::TooLong,
        Some(list) => KeptList::decode(list).map_or(FoundList::None, FoundList::List),
    }
}

fn alive_path(path: &Path) -> PathBuf {
    let mut path = path.as_os_str().to_owned();
    path.push(ALIVE);
    path.into()
}

fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)
}

fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Removes the files of a place that nobody uses. Who opened the file before sees that it is gone
/// once it has the lock.
fn remove_unused(alive: &File, path: &Path) {
    if alive.try_lock().is_ok() && alive.metadata().is_ok_and(|found| found.nlink() > 0) {
        // If they can't be removed, they only take room.
        let _ = remove(path).and_then(|()| remove(&alive_path(path)));
    }
}

/// Removes what hosts of other jobs have left in the folder that were killed.
fn remove_left(folder: &Path, own: &Path) {
    let Ok(entries) = folder.read_dir() else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        let Some(list) = path.to_str().and_then(|path| path.strip_suffix(ALIVE)) else { continue };
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
        if Path::new(list) != own
            && let Ok(alive) = options.open(&path)
        {
            remove_unused(&alive, Path::new(list));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file_names(folder: &Path) -> usize {
        folder.read_dir().expect("a folder").count()
    }

    async fn turn(place: &NodeList) -> Turn {
        place.turn().await.expect("only this user may write to the folder")
    }

    fn run(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        runtime.expect("a runtime").block_on(test);
    }

    /// A list is there as long as one of the hosts that have used it is.
    #[test]
    fn a_list_is_that_of_the_hosts_that_live() {
        run(async {
            let folder = tempfile::tempdir().unwrap();
            let place = || NodeList::new(&folder.path().join("lists-job"), "abc");
            let first = place();
            let mut own = turn(&first).await;
            assert!(matches!(own.read().await, FoundList::None));
            own.write(Some(&KeptList::default())).await;
            let second = place();
            assert!(matches!(turn(&second).await.read().await, FoundList::List(_)));
            drop(first);
            let third = place();
            assert!(matches!(turn(&third).await.read().await, FoundList::List(_)));
            drop((second, third));
            assert_eq!(file_names(folder.path()), 0);
            assert!(matches!(turn(&place()).await.read().await, FoundList::None));
        });
    }

    /// A list of a host that was killed, while it wrote the list or later, is no list.
    #[test]
    fn what_a_killed_host_has_left_is_no_list() {
        run(async {
            let folder = tempfile::tempdir().unwrap();
            let place = || NodeList::new(&folder.path().join("lists-job"), "abc");
            let whole = encode(Some(&KeptList::default()));
            let path = folder.path().join("lists-job-abc");
            for of_other in ["lists-other-abc", "lists-other-abc.alive"] {
                std::fs::write(folder.path().join(of_other), &whole).unwrap();
            }
            std::fs::write(&path, &whole).unwrap();
            let first = place();
            let mut own = turn(&first).await;
            assert!(matches!(own.read().await, FoundList::None), "it is of a host that has ended");
            assert_eq!(file_names(folder.path()), 2, "the files of the other job are gone");
            for length in 0..=whole.len() {
                std::fs::write(&path, &whole[..length]).unwrap();
                let is_list = matches!(own.read().await, FoundList::List(_));
                assert_eq!(is_list, length == whole.len(), "{length} bytes");
            }
            own.write(None).await;
            assert!(matches!(turn(&place()).await.read().await, FoundList::TooLong));
        });
    }

    #[test]
    fn a_folder_of_others_is_not_used() {
        run(async {
            let folder = tempfile::tempdir().unwrap();
            let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
            std::fs::set_permissions(folder.path(), open).unwrap();
            assert!(NodeList::new(&folder.path().join("lists-job"), "abc").turn().await.is_none());
        });
    }
}
