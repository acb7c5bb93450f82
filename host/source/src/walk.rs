//! Walks through a folder and its subfolders.

use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::SourceError;

/// Largest number of folders, counting one again for each way that leads to it: links can make
/// many ways of few folders.
const MAX_FOLDERS: usize = 1 << 20;

/// Calls `visit` with each file in a folder and its subfolders, in no order. Names that begin with a
/// dot are passed over unless `hidden`. Links to folders are
/// followed, unless they lead back to a folder that they lie in.
///
/// # Errors
/// A folder can't be listed, or there are too many.
pub(super) fn walk(
    folder: &Path,
    hidden: bool,
    visit: &mut impl FnMut(PathBuf),
) -> Result<(), SourceError> {
    Walk { hidden, count: 0, parents: Vec::new() }.folder(folder, visit)
}

struct Walk {
    /// Whether names that begin with a dot are visited.
    hidden: bool,
    /// Folders so far.
    count: usize,
    /// Device and inode of the folder that is listed, and of those that it lies in.
    parents: Vec<(u64, u64)>,
}

impl Walk {
    fn folder(
        &mut self,
        folder: &Path,
        visit: &mut impl FnMut(PathBuf),
    ) -> Result<(), SourceError> {
        let name = folder.to_string_lossy();
        let failed = |error| SourceError::io(&*name, "can't list it", &error);
        let metadata = folder.metadata().map_err(failed)?;
        let identity = (metadata.dev(), metadata.ino());
        if self.parents.contains(&identity) {
            return Ok(());
        }
        self.count += 1;
        if self.count > MAX_FOLDERS {
            let message = format!("there are more than {MAX_FOLDERS} folders up to this one");
            let remedy = "check the links to folders, or use `glob` or a smaller folder";
            return Err(SourceError::new(name, message, remedy));
        }
        self.parents.push(identity);
        // A path has at most 4,096 bytes, so this does not nest deeply.
        for entry in std::fs::read_dir(folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            if !self.hidden && entry.file_name().as_bytes().starts_with(b".") {
                continue;
            }
            let path = entry.path();
            if path.is_dir() { self.folder(&path, visit)? } else { visit(path) }
        }
        self.parents.pop();
        Ok(())
    }
}
