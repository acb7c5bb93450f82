//! The files that a folder or a pattern may select: stored regular files. A link may lead to
//! anything: to a pipe, which would block, or to a file of the kernel that shows secrets, such as
//! the environment of this process.

use std::fs::Metadata;
use std::os::unix::fs::FileTypeExt;

use crate::SourceError;
use crate::file_system::FileSystem;

/// Checks that a folder or a pattern may select the file.
///
/// # Errors
/// It is not a regular file, or it is on a file system of the kernel.
pub(super) fn check_selected(
    name: &str,
    file: &Metadata,
    file_system: FileSystem,
) -> Result<(), SourceError> {
    let kind = file.file_type();
    let found = if file_system == FileSystem::OfTheKernel {
        "is, or leads to, what the kernel shows of itself and of processes"
    } else if kind.is_file() {
        return Ok(());
    } else if kind.is_fifo() {
        "is, or leads to, a FIFO"
    } else if kind.is_socket() {
        "is, or leads to, a socket"
    } else if kind.is_dir() {
        "is a folder"
    } else {
        "is, or leads to, a device"
    };
    let message = format!("{found}, but a folder or a pattern selects regular files only");
    let remedy = "take it out of the folder; if it is to be read, name it itself: `file`, `files`";
    Err(SourceError::new(name, message, remedy))
}
