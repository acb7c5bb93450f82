//! The path of the file that stores a key. It equals the key, except for parts of the key that
//! can't be names of files: parts that are empty, `.` or `..`, or begin with `%`, get a `%` before
//! them. `a//b` is stored in the file `a/%/b`, and `data/` in `data/%`.

use std::path::{Path, PathBuf};

/// The path of a key's file, relative to the bucket's folder.
pub fn file(key: &str) -> PathBuf {
    key.split('/').map(file_name).collect()
}

fn file_name(part: &str) -> String {
    let marked = matches!(part, "" | "." | "..") || part.starts_with('%');
    format!("{}{part}", if marked { "%" } else { "" })
}

/// The part of a key that is stored under a file name: the reverse of [`file()`] for one part.
pub fn part(file_name: &str) -> &str {
    file_name.strip_prefix('%').unwrap_or(file_name)
}

/// The folder that holds all keys with this prefix, relative to the bucket's folder.
pub fn folder(prefix: &str) -> PathBuf {
    prefix.rsplit_once('/').map_or_else(|| Path::new("").to_owned(), |(folder, _)| file(folder))
}
