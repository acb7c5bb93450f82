//! Keys and the paths of their files: the same, but for parts of a key that no file can have as a name.
//! Those that are empty, `.` or `..` get a `%` before them, and so do those that begin with `%`:
//! `a//b` is the file `a/%/b`, and `data/` is `data/%`.

use std::path::{Path, PathBuf};

/// The file of a key, within its bucket.
pub fn file(key: &str) -> PathBuf {
    key.split('/').map(file_name).collect()
}

fn file_name(part: &str) -> String {
    let marked = matches!(part, "" | "." | "..") || part.starts_with('%');
    format!("{}{part}", if marked { "%" } else { "" })
}

/// The part of a key that a file's name stands for.
pub fn part(file_name: &str) -> &str {
    file_name.strip_prefix('%').unwrap_or(file_name)
}

/// The folder in which all keys with this prefix are, within its bucket.
pub fn folder(prefix: &str) -> PathBuf {
    prefix.rsplit_once('/').map_or_else(|| Path::new("").to_owned(), |(folder, _)| file(folder))
}
