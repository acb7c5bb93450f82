//! The state of a regular file, according to its file system. A file that is read must stay in the
//! state in which it was opened: otherwise its bytes would be those of two files.

use std::fmt;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::thread;
use std::time::{Duration, SystemTime};

use crate::SourceError;
use crate::file_system::FileSystem;

/// The kernel's clock for the times of files goes in steps of at most 10 ms. A change that comes
/// this long after another one gets another time.
const CLOCK_STEP: Duration = Duration::from_millis(20);
/// Largest number of waits for a file that keeps changing. After that, reading the file reports the
/// change.
const MAX_STEPS: usize = 10;

/// A time of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileTime {
    seconds: i64,
    nanoseconds: i64,
}

impl fmt::Display for FileTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09}", self.seconds, self.nanoseconds)
    }
}

/// The part of a file's state that a list knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SizeAndTime {
    /// Bytes of the file.
    pub(super) size: u64,
    /// Time of the last change of its bytes.
    pub(super) modified: FileTime,
}

impl SizeAndTime {
    pub(super) fn of(file: &Metadata) -> Self {
        let modified = FileTime { seconds: file.mtime(), nanoseconds: file.mtime_nsec() };
        Self { size: file.len(), modified }
    }

    /// Says how the file differs `now`; `None` if it does not.
    fn difference(&self, now: &Self) -> Option<String> {
        if self.size != now.size {
            return Some(format!("it had {} bytes and has {} now", self.size, now.size));
        }
        (self.modified != now.modified).then(|| {
            format!("its modification time was {} and is {} now", self.modified, now.modified)
        })
    }
}

/// The state of a regular file. Two states of a file that was written in between differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileVersion {
    device: u64,
    inode: u64,
    pub(super) content: SizeAndTime,
    /// Time of the last change of anything of the file. Unlike the modification time, nobody can
    /// set it back.
    changed: FileTime,
}

impl FileVersion {
    pub(super) fn of(file: &Metadata) -> Self {
        let changed = FileTime { seconds: file.ctime(), nanoseconds: file.ctime_nsec() };
        let (device, inode) = (file.dev(), file.ino());
        Self { device, inode, content: SizeAndTime::of(file), changed }
    }

    /// Checks that the file is still in the state of a list.
    ///
    /// # Errors
    /// The file has changed.
    pub(super) fn check_listed(&self, listed: &SizeAndTime, name: &str) -> Result<(), SourceError> {
        let difference = listed.difference(&self.content);
        difference.map_or(Ok(()), |what| {
            let error = changed(name, "listed", &what);
            let remedy = format!("{}; `list = \"epoch\"` lists again for each epoch", error.remedy);
            Err(SourceError { remedy, ..error })
        })
    }

    /// Checks the current metadata of a file that was opened in this state: the metadata of its
    /// path, or of the open file.
    ///
    /// # Errors
    /// The state differs, or the file does not exist; the error says how it differs.
    pub(super) fn check(
        &self,
        now: io::Result<Metadata>,
        file: &File,
        name: &str,
    ) -> Result<(), SourceError> {
        let now = now.map(|now| Self::of(&now));
        if now.as_ref().is_ok_and(|now| now == self) {
            return Ok(());
        }
        let file_system = FileSystem::of(file);
        let what = match now {
            _ if file_system == FileSystem::OfTheKernel => return Ok(()),
            Ok(now) if file_system == FileSystem::OfOthers && now.content == self.content => {
                return Ok(());
            }
            Ok(now) => self.difference(&now),
            Err(error) => format!("its metadata can't be read any more: {error}"),
        };
        Err(changed(name, "opened", &what))
    }

    /// Describes how the state `now` differs.
    fn difference(&self, now: &Self) -> String {
        let file = |of: &Self| (of.device, of.inode);
        if file(self) != file(now) {
            return format!(
                "another file has its name now, of {} bytes: it was inode {} of device {}, and is \
                 inode {} of device {}",
                now.content.size, self.inode, self.device, now.inode, now.device
            );
        }
        self.content.difference(&now.content).unwrap_or_else(|| {
            format!(
                "it was last changed at {}, and at {} now: its bytes, whose modification time was \
                 set back, or its permissions, owner or links",
                self.changed, now.changed
            )
        })
    }
}

/// The metadata of an open file. If the file changed a moment ago, this waits until each further
/// change gets another time.
pub(super) fn stable_metadata(file: &File) -> io::Result<Metadata> {
    let mut metadata = file.metadata()?;
    for _ in 0..MAX_STEPS {
        let Some(left) = age(&metadata).and_then(|age| CLOCK_STEP.checked_sub(age)) else { break };
        if !metadata.is_file() || left.is_zero() {
            break;
        }
        thread::sleep(left);
        metadata = file.metadata()?;
    }
    Ok(metadata)
}

/// Time since the last change; `None` if the change is in the future, because another machine's
/// clock set its time.
fn age(file: &Metadata) -> Option<Duration> {
    let since = Duration::new(file.ctime().try_into().ok()?, file.ctime_nsec().try_into().ok()?);
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH + since).ok()
}

/// The error for a file that is not what it was when it was `listed` or `opened`.
fn changed(name: &str, when: &str, what: &str) -> SourceError {
    let message = format!("changed since it was {when}: {what}");
    let remedy = "don't change files while they are read, and don't let them grow: write new data \
                  under new names, and begin again";
    SourceError::new(name, message, remedy)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, FileTimes};
    use std::os::unix::fs::FileExt;
    use std::path::Path;

    use super::*;

    fn check_after(change: impl FnOnce(&Path, &File)) -> Result<(), String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        fs::write(&path, "one").unwrap();
        let file = File::options().read(true).write(true).open(&path).unwrap();
        let version = FileVersion::of(&stable_metadata(&file).unwrap());
        change(&path, &file);
        version.check(fs::metadata(&path), &file, "x").map_err(|error| error.message)
    }

    #[test]
    fn a_file_that_nobody_changes_is_the_same() {
        assert_eq!(check_after(|path, _| drop(fs::read(path).unwrap())), Ok(()));
    }

    #[test]
    fn each_change_shows() {
        let says = |change: &dyn Fn(&Path, &File), what: &str| {
            let message = check_after(|path, file| change(path, file)).unwrap_err();
            assert!(message.contains(what), "{what:?} in {message}");
        };
        says(&|_, file| file.set_len(2).unwrap(), "it had 3 bytes and has 2 now");
        says(&|_, file| file.write_all_at(b"more", 3).unwrap(), "it had 3 bytes and has 7 now");
        says(&|_, file| file.write_all_at(b"two", 0).unwrap(), "its modification time was");
        says(&|path, _| fs::remove_file(path).unwrap(), "can't be read any more: No such file");
        let replace = |path: &Path, _: &File| {
            fs::write(path.with_extension("new"), "two").unwrap();
            fs::rename(path.with_extension("new"), path).unwrap();
        };
        says(&replace, "another file has its name now, of 3 bytes");
        // A writer can set back the modification time, but not the change time.
        let set_back = |path: &Path, file: &File| {
            let time = fs::metadata(path).unwrap().modified().unwrap();
            file.write_all_at(b"two", 0).unwrap();
            file.set_times(FileTimes::new().set_modified(time)).unwrap();
        };
        says(&set_back, "whose modification time was set back");
    }

    /// Without the wait, most of these changes would have the time of the change before.
    #[test]
    fn changes_at_once_after_the_file_was_opened_show() {
        for _ in 0..20 {
            let changed = check_after(|_, file| file.write_all_at(b"two", 0).unwrap());
            assert!(changed.is_err());
        }
    }
}
