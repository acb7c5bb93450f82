//! The file of a checkpoint. It is replaced atomically, only its owner can read it, and only one
//! host writes it.

use std::ffi::OsString;
use std::fs::{self, DirEntry, File, Metadata};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg, OFlag};
use nix::unistd::geteuid;

/// The ending of the file that is written before it replaces the checkpoint.
const NEW: &str = ".new";
/// The ending of the lock file of the process that writes the checkpoint.
const LOCK: &str = ".lock";

/// The file of a checkpoint, which this process writes.
pub(crate) struct CheckpointFile {
    path: PathBuf,
    folder: PathBuf,
    /// `.NAME`, the prefix of the names of the other files.
    prefix: OsString,
    lock: Option<Flock<File>>,
}

impl CheckpointFile {
    pub(crate) fn new(path: PathBuf) -> Self {
        let folder = match path.parent() {
            Some(folder) if folder != Path::new("") => folder.to_owned(),
            _ => PathBuf::from("."),
        };
        let mut prefix = OsString::from(".");
        prefix.push(path.file_name().unwrap_or_default());
        Self { path, folder, prefix, lock: None }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Makes this process the writer of the file, until the process ends. Returns false if another
    /// process is the writer.
    ///
    /// # Errors
    /// The folder can't be written, or the lock is another user's.
    pub(crate) fn lock(&mut self) -> io::Result<bool> {
        let path = self.other(LOCK);
        while self.lock.is_none() {
            let mut options = File::options();
            options.read(true).write(true).create(true).mode(0o600);
            // A link is not followed, and a FIFO does not block.
            let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
            let file = options.custom_flags(flags.bits()).open(&path)?;
            if !is_own_file(&file.metadata()?) {
                let why = format!("{} is no file of this user: remove it", path.display());
                return Err(io::Error::other(why));
            }
            match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
                // The previous owner of the lock may have removed the file meanwhile.
                Ok(lock) if is_at(&lock, &path) => self.lock = Some(lock),
                Ok(_) => {}
                Err((_, Errno::EWOULDBLOCK)) => return Ok(false),
                // Some file systems have no locks.
                Err(_) => return Ok(true),
            }
        }
        self.remove_left();
        Ok(true)
    }

    /// Replaces the file: a reader gets the old or the new one as a whole.
    ///
    /// # Errors
    /// Another process writes it, or it can't be written. Nothing is left of the new one then.
    pub(crate) fn replace(&mut self, text: &[u8]) -> io::Result<()> {
        if self.lock.is_none() && !self.lock()? {
            return Err(io::Error::other("another host writes it"));
        }
        if fs::metadata(&self.path).is_ok_and(|found| !found.is_file()) {
            return Err(io::Error::other("something that is no file has this name"));
        }
        let mut prefix = self.prefix.clone();
        prefix.push(".");
        let mut builder = tempfile::Builder::new();
        let mut new = builder.prefix(&prefix).suffix(NEW).tempfile_in(&self.folder)?;
        new.write_all(text)?;
        new.as_file().sync_all()?;
        new.persist(&self.path)?;
        Ok(())
    }

    fn other(&self, ending: &str) -> PathBuf {
        let mut name = self.prefix.clone();
        name.push(ending);
        self.folder.join(name)
    }

    /// Removes the files of hosts that were killed while they wrote.
    fn remove_left(&self) {
        let is_left = |entry: &DirEntry| {
            let name = entry.file_name();
            let middle = name.as_bytes().strip_prefix(self.prefix.as_bytes());
            let middle = middle.and_then(|name| name.strip_suffix(NEW.as_bytes()));
            middle.is_some_and(|middle| middle.starts_with(b"."))
                && entry.metadata().is_ok_and(|found| is_own_file(&found))
        };
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        for left in entries.filter(is_left) {
            // If this fails, the next host tries again.
            let _ = fs::remove_file(left.path());
        }
    }
}

impl Drop for CheckpointFile {
    fn drop(&mut self) {
        if self.lock.is_some() {
            // Removes the file before the lock is released. A lock file that stays does no harm.
            let _ = fs::remove_file(self.other(LOCK));
        }
    }
}

fn is_own_file(found: &Metadata) -> bool {
    found.is_file() && found.uid() == geteuid().as_raw()
}

/// Whether this is the file at this path.
fn is_at(file: &File, path: &Path) -> bool {
    let identity = |found: Metadata| (found.dev(), found.ino());
    let (ours, there) = (file.metadata(), fs::symlink_metadata(path));
    ours.ok().map(identity) == there.ok().map(identity)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn the_file_is_its_owners_and_nothing_else_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("train.json");
        // There are links at names that were used once, and the files of a killed host.
        let other = folder.path().join("other");
        fs::write(&other, "mine").unwrap();
        symlink(&other, folder.path().join("train.json.new")).unwrap();
        fs::write(folder.path().join(".train.json.abc.new"), "left").unwrap();
        let mut file = CheckpointFile::new(path.clone());
        assert!(file.lock().unwrap());
        for text in ["[1, 2, 3]", "[]"] {
            file.replace(text.as_bytes()).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        drop(file);
        assert_eq!(names(folder.path()), ["other", "train.json", "train.json.new"]);
        assert_eq!(fs::read_to_string(&other).unwrap(), "mine");
    }

    #[test]
    fn only_one_writes_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("train.json");
        let [mut first, mut second] = [(), ()].map(|()| CheckpointFile::new(path.clone()));
        assert!(first.lock().unwrap());
        assert!(first.lock().unwrap(), "it has it already");
        assert!(!second.lock().unwrap());
        let error = second.replace(b"[]").unwrap_err();
        assert_eq!(error.to_string(), "another host writes it");
        drop(first);
        second.replace(b"[]").unwrap();
        drop(second);
        assert_eq!(names(folder.path()), ["train.json"]);
    }

    #[test]
    fn what_cannot_be_written_leaves_nothing_and_waits_for_nobody() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("taken");
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let mut file = CheckpointFile::new(path);
        assert!(file.replace(b"[]").unwrap_err().to_string().contains("is no file"));
        assert_eq!(names(folder.path()), [".taken.lock", "taken"]);
        drop(file);
        let lock = folder.path().join(".train.json.lock");
        symlink(folder.path().join("elsewhere"), &lock).unwrap();
        let mut file = CheckpointFile::new(folder.path().join("train.json"));
        file.lock().unwrap_err();
        fs::remove_file(&lock).unwrap();
        nix::unistd::mkfifo(&lock, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(file.lock().unwrap_err().to_string().contains("is no file of this user"));
        drop(file);
        assert_eq!(names(folder.path()), [".train.json.lock", "taken"]);
    }
}
