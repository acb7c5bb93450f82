//! Walks through a folder and its subfolders.

use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::SourceError;
use crate::file_system::{FileSystem, FileSystems};
use crate::hidden::{LeftOut, describes_data, is_hidden};
use crate::selected::check_selected;

/// Largest number of folders, counted once for each path that leads to them: links can make many
/// paths to few folders.
const MAX_FOLDERS: usize = 1 << 20;

/// Calls `visit` with each file in a folder and its subfolders, in no order. Hidden names and
/// markers are added to `left_out`; without it they are visited, too. Links to folders are
/// followed, unless they lead back to a folder that they lie in.
///
/// # Errors
/// A folder can't be listed, or there are too many.
pub(super) fn walk(
    folder: &Path,
    left_out: Option<&mut LeftOut>,
    visit: &mut impl FnMut(PathBuf),
) -> Result<(), SourceError> {
    let file_systems = FileSystems::default();
    Walk { left_out, count: 0, parents: Vec::new(), file_systems }.folder(folder, visit)
}

struct Walk<'a> {
    /// Receives the hidden names; `None` if they are visited.
    left_out: Option<&'a mut LeftOut>,
    /// Number of folders visited.
    count: usize,
    /// Device and inode of the folder that is listed, and of its parents.
    parents: Vec<(u64, u64)>,
    file_systems: FileSystems,
}

impl Walk<'_> {
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
        let file_system = self.file_systems.of(folder, &metadata);
        if file_system == FileSystem::OfTheKernel {
            check_selected(&name, &metadata, file_system)?;
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
            let path = entry.path();
            if describes_data(entry.file_name().as_bytes()) {
                continue;
            }
            if let Some(left_out) = &mut self.left_out
                && is_hidden(entry.file_name().as_bytes())
            {
                left_out.add(|| path.to_string_lossy().into_owned());
                continue;
            }
            if path.is_dir() { self.folder(&path, visit)? } else { visit(path) }
        }
        self.parents.pop();
        Ok(())
    }
}
