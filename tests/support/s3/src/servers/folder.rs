//! Writes and removes the objects of servers that keep them as files.

use std::fs;
use std::path::Path;

/// Writes a file atomically, and creates its folders.
pub(super) fn put(folder: &Path, bucket: &str, file: &Path, bytes: &[u8]) {
    let path = folder.join(bucket).join(file);
    fs::create_dir_all(path.parent().expect("it is in a bucket")).expect("its folder can be made");
    // The name has the thread's id, because two threads may write at once.
    let draft = folder.join(format!(".draft-{:?}", std::thread::current().id()));
    fs::write(&draft, bytes).expect("a file can be written");
    fs::rename(draft, path).expect("a file can be put in its place");
}

/// Removes a file.
pub(super) fn delete(folder: &Path, bucket: &str, file: &Path) {
    fs::remove_file(folder.join(bucket).join(file)).expect("there is such an object");
}
