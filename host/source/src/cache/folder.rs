//! The cache's folder: `<path>/v1`, with the folders `00` to `ff` of blocks. It is believed as the
//! folder of a socket is: only this user may have written to it. Everything in it is opened below
//! the folder that was checked, whatever happens to its path.

use std::fs::{DirBuilder, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::Path;
use std::time::{Duration, SystemTime};

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags, OFlag, openat, renameat};
use nix::sys::stat::{Mode, SFlag, fstatat, mkdirat};
use nix::unistd::{UnlinkatFlags, geteuid, linkat, unlinkat};
use pipemill_types::trust::OpenFolder;

use super::identity::{BlockId, folder_name, is_block_name};
use super::usage::charge;

/// The folder of this format. Another format has another one.
const VERSION: &str = "v1";
/// Begins the names of files that are being written, in a file system that has no files without a
/// name.
const UNFINISHED: &str = ".new-";

/// Why a cache can't be used.
#[derive(Debug)]
pub(crate) enum OpenError {
    /// Others may write to its folder.
    Open(OpenFolder),
    /// The kernel refused.
    Io(io::Error),
}

impl<E: Into<io::Error>> From<E> for OpenError {
    fn from(error: E) -> Self {
        Self::Io(error.into())
    }
}

/// A folder of blocks.
pub(super) struct Folder(File);

/// A block's file in a folder.
pub(super) struct FoundBlock {
    pub(super) name: String,
    /// Bytes as they are counted.
    pub(super) bytes: u64,
    /// When it was stored or read last.
    pub(super) used: SystemTime,
}

/// A file that is being written.
pub(super) enum NewFile {
    /// Without a name: it vanishes with its process.
    Unnamed(File),
    /// With a hidden name. It is locked as long as it is being written.
    Hidden(File, String),
}

impl NewFile {
    pub(super) fn file(&self) -> &File {
        match self {
            Self::Unnamed(file) | Self::Hidden(file, _) => file,
        }
    }
}

impl Folder {
    /// Opens the folder at this path, which is made if it is missing.
    pub(super) fn open(path: &Path) -> Result<Self, OpenError> {
        DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        let euid = geteuid().as_raw();
        let found = path.symlink_metadata()?;
        OpenFolder::check(&found, euid, || path.metadata())?.map_err(OpenError::Open)?;
        let outer = File::open(path)?;
        OpenFolder::check_own(&outer.metadata()?, euid).map_err(OpenError::Open)?;
        make_folder(&outer, VERSION)?;
        let folder = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let inner = File::from(openat(&outer, VERSION, folder, Mode::empty())?);
        OpenFolder::check_own(&inner.metadata()?, euid).map_err(OpenError::Open)?;
        Ok(Self(inner))
    }

    /// Opens a file that is not a block, which is made if it is missing.
    pub(super) fn open_own(&self, name: &str) -> io::Result<File> {
        let flags = OFlag::O_RDWR | OFlag::O_CREAT | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        Ok(File::from(openat(&self.0, name, flags, own_mode())?))
    }

    /// Opens a block's file. `None` if there is none.
    ///
    /// # Errors
    /// Something else is in its place, or it can't be opened.
    pub(super) fn open_block(&self, id: BlockId) -> io::Result<Option<File>> {
        // A FIFO would block the opening.
        let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        match openat(&self.0, &*path_of(id), flags, Mode::empty()) {
            Ok(file) => Ok(Some(File::from(file))),
            Err(Errno::ENOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// A new file for a block.
    pub(super) fn new_file(&self, id: BlockId) -> io::Result<NewFile> {
        let folder = folder_name(id.folder());
        let unnamed = OFlag::O_TMPFILE | OFlag::O_RDWR | OFlag::O_CLOEXEC;
        let open = || openat(&self.0, &*folder, unnamed, own_mode());
        let opened = match open() {
            Err(Errno::ENOENT) => {
                make_folder(&self.0, &folder)?;
                open()
            }
            opened => opened,
        };
        match opened {
            Ok(file) => Ok(NewFile::Unnamed(File::from(file))),
            Err(Errno::EOPNOTSUPP | Errno::EISDIR | Errno::EINVAL) => self.hidden_file(id),
            Err(error) => Err(error.into()),
        }
    }

    fn hidden_file(&self, id: BlockId) -> io::Result<NewFile> {
        let folder = folder_name(id.folder());
        let unique = fastrand::u64(..);
        let name = format!("{folder}/{UNFINISHED}{}-{unique:016x}", std::process::id());
        let flags = OFlag::O_RDWR | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_CLOEXEC;
        let file = File::from(openat(&self.0, &*name, flags, own_mode())?);
        // Nobody else knows it, so the lock is free.
        file.try_lock().map_err(io::Error::from)?;
        Ok(NewFile::Hidden(file, name))
    }

    /// Gives a new file the name of its block, in place of an older file. The cache must be locked.
    pub(super) fn publish(&self, new: &NewFile, id: BlockId) -> io::Result<()> {
        let path = path_of(id);
        match new {
            NewFile::Hidden(_, name) => Ok(renameat(&self.0, &**name, &self.0, &*path)?),
            NewFile::Unnamed(file) => {
                // A link can't replace a file. Who looks for the block meanwhile misses it.
                self.unlink(&path)?;
                let open = format!("/proc/self/fd/{}", file.as_raw_fd());
                let follow = AtFlags::AT_SYMLINK_FOLLOW;
                Ok(linkat(AT_FDCWD, &*open, &self.0, &*path, follow)?)
            }
        }
    }

    /// Removes a file that was not published.
    pub(super) fn discard(&self, new: &NewFile) {
        if let NewFile::Hidden(_, name) = new {
            // If it stays, the next look through its folder removes it.
            let _ = self.unlink(name);
        }
    }

    /// Removes a block, and returns the bytes that it was counted with. The cache must be locked.
    pub(super) fn remove(&self, id: BlockId) -> io::Result<u64> {
        self.remove_at(&path_of(id))
    }

    /// Removes a block that was found in this folder.
    pub(super) fn remove_found(&self, folder: u8, block: &FoundBlock) -> io::Result<()> {
        self.unlink(&format!("{}/{}", folder_name(folder), block.name))
    }

    fn remove_at(&self, path: &str) -> io::Result<u64> {
        let bytes = match fstatat(&self.0, path, AtFlags::AT_SYMLINK_NOFOLLOW) {
            Ok(found) => charge(found.st_size.unsigned_abs()),
            Err(Errno::ENOENT) => return Ok(0),
            Err(error) => return Err(error.into()),
        };
        self.unlink(path)?;
        Ok(bytes)
    }

    /// The bytes that a block is counted with; 0 if there is none.
    pub(super) fn counted(&self, id: BlockId) -> io::Result<u64> {
        match fstatat(&self.0, &*path_of(id), AtFlags::AT_SYMLINK_NOFOLLOW) {
            Ok(found) => Ok(charge(found.st_size.unsigned_abs())),
            Err(Errno::ENOENT) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }

    fn unlink(&self, path: &str) -> io::Result<()> {
        let unlink = |flag| unlinkat(&self.0, path, flag);
        match unlink(UnlinkatFlags::NoRemoveDir) {
            Err(Errno::EISDIR | Errno::EPERM) => Ok(unlink(UnlinkatFlags::RemoveDir)?),
            Ok(()) | Err(Errno::ENOENT) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// The blocks in a folder. What processes that were killed have left in it is removed; anything
    /// else is left alone. The cache must be locked.
    pub(super) fn blocks(&self, folder: u8) -> io::Result<Vec<FoundBlock>> {
        let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let mut entries = match Dir::openat(&self.0, &*folder_name(folder), flags, Mode::empty()) {
            Ok(entries) => entries,
            Err(Errno::ENOENT) => return Ok(Vec::new()),
            Err(error) => return Err(error.into()),
        };
        let mut names = Vec::new();
        for entry in entries.iter() {
            names.extend(entry?.file_name().to_str().ok().map(str::to_owned));
        }
        let mut blocks = Vec::new();
        for name in names {
            if name.starts_with(UNFINISHED) {
                self.remove_if_left(&entries, &name);
            } else if is_block_name(&name) {
                blocks.extend(found_block(&entries, name)?);
            }
        }
        Ok(blocks)
    }

    /// Removes an unfinished file if the process that wrote it has ended.
    fn remove_if_left(&self, folder: &Dir, name: &str) {
        let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        if let Ok(file) = openat(folder, name, flags, Mode::empty())
            && File::from(file).try_lock().is_ok()
        {
            // If it can't be removed, it only takes room.
            let _ = unlinkat(folder, name, UnlinkatFlags::NoRemoveDir);
        }
    }
}

fn found_block(folder: impl AsFd, name: String) -> io::Result<Option<FoundBlock>> {
    let found = match fstatat(folder, &*name, AtFlags::AT_SYMLINK_NOFOLLOW) {
        Ok(found) => found,
        Err(Errno::ENOENT) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    if found.st_mode & SFlag::S_IFMT.bits() == SFlag::S_IFDIR.bits() {
        return Ok(None);
    }
    let (seconds, nanos) = (found.st_mtime.max(0) as u64, found.st_mtime_nsec.max(0) as u64);
    let age = Duration::from_secs(seconds) + Duration::from_nanos(nanos);
    let used = SystemTime::UNIX_EPOCH.checked_add(age).unwrap_or(SystemTime::UNIX_EPOCH);
    Ok(Some(FoundBlock { name, bytes: charge(found.st_size.unsigned_abs()), used }))
}

fn path_of(id: BlockId) -> String {
    format!("{}/{}", folder_name(id.folder()), id.file_name())
}

fn own_mode() -> Mode {
    Mode::S_IRUSR | Mode::S_IWUSR
}

fn make_folder(below: &File, name: &str) -> io::Result<()> {
    match mkdirat(below, name, Mode::S_IRWXU) {
        Ok(()) | Err(Errno::EEXIST) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Whether a file is a regular one.
pub(super) fn is_regular(file: &File) -> bool {
    file.metadata().is_ok_and(|found| found.is_file() && found.nlink() > 0)
}
