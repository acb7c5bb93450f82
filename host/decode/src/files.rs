//! Files of the operator: plugins, and files that options name.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Reads a whole file. `kind` says what it is, for messages.
///
/// # Errors
/// It can't be read, is not a regular file, or has more than `most` bytes.
pub(crate) fn read_regular(path: &Path, most: u64, kind: &str) -> io::Result<Vec<u8>> {
    // Opening a FIFO would wait for its writer.
    let no_wait = nix::fcntl::OFlag::O_NONBLOCK.bits();
    let file = File::options().read(true).custom_flags(no_wait).open(path)?;
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(io::Error::other("it is a folder, pipe or device, not a regular file"));
    }
    let mut bytes = Vec::with_capacity(found.len().min(most) as usize);
    // The file may have grown since its size was read.
    let read = file.take(most + 1).read_to_end(&mut bytes)? as u64;
    if read > most {
        let size = found.len().max(read);
        let why = format!("it has {size} bytes; {kind} may have {most}");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
    }
    Ok(bytes)
}
