//! A file that is written as a whole or not at all: it has no name until it is complete, so a
//! process that is killed leaves nothing behind.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use nix::fcntl::{AT_FDCWD, AtFlags, OFlag};
use nix::unistd::linkat;
use tempfile::{Builder, NamedTempFile, TempPath};

/// The mode of the file, less what the process's umask takes away.
const MODE: u32 = 0o666;

/// A file that is being written.
pub(crate) enum NewFile {
    /// Without a name.
    Unnamed(File),
    /// With a hidden name, in a file system that has no files without one.
    Hidden(NamedTempFile),
}

impl NewFile {
    /// A file that will be in this folder.
    pub(crate) fn in_folder(folder: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).mode(MODE).custom_flags(OFlag::O_TMPFILE.bits());
        if let Ok(file) = options.open(folder) {
            return Ok(Self::Unnamed(file));
        }
        let mode = PermissionsExt::from_mode(MODE);
        hidden_name(Builder::new().permissions(mode)).tempfile_in(folder).map(Self::Hidden)
    }

    /// The file, to be written.
    pub(crate) fn file(&mut self) -> &mut File {
        match self {
            Self::Unnamed(file) => file,
            Self::Hidden(file) => file.as_file_mut(),
        }
    }

    /// Gives the file its name. An older file of this name is replaced in one step.
    pub(crate) fn replace(self, folder: &Path, path: &Path) -> io::Result<()> {
        match self {
            Self::Unnamed(file) => {
                file.sync_all()?;
                // A link can't replace a file, so the file gets a hidden name for a moment.
                link(&file, folder)?.persist(path)?;
            }
            Self::Hidden(file) => {
                file.as_file().sync_all()?;
                file.persist(path)?;
            }
        }
        Ok(())
    }
}

/// Gives a file without a name a hidden one.
fn link(file: &File, folder: &Path) -> io::Result<TempPath> {
    let open = format!("/proc/self/fd/{}", file.as_raw_fd());
    let link = |path: &Path| {
        let follow = AtFlags::AT_SYMLINK_FOLLOW;
        linkat(AT_FDCWD, open.as_str(), AT_FDCWD, path, follow).map_err(io::Error::from)
    };
    Ok(hidden_name(&mut Builder::new()).make_in(folder, link)?.into_temp_path())
}

fn hidden_name<'a, 'b>(builder: &'a mut Builder<'b, 'static>) -> &'a mut Builder<'b, 'static> {
    builder.prefix(".pipemill-index-")
}
