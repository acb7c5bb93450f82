//! The archive that is being read, and the check of the directory at its end.

use crate::zip::DirectoryEnd;

/// Number of names of arrays that messages show.
const MAX_NAMES: usize = 20;

/// The archive that is being read.
#[derive(Debug, Clone, Default)]
pub(crate) struct Archive {
    /// Its start in the input.
    start: u64,
    /// Number of members.
    pub(crate) members: u64,
    /// The start of its directory in the input, once it is known.
    pub(crate) directory: Option<u64>,
    /// Number of entries of the directory.
    entries: u64,
    /// Size of the entries in bytes.
    entry_bytes: u64,
    /// The directory, as the zip64 record describes it.
    zip64: Option<DirectoryEnd>,
    /// The first names of its arrays.
    names: Vec<String>,
    /// Number of its arrays.
    arrays: usize,
    /// The name of the array whose rows are read, once it was found.
    pub(crate) chosen: Option<String>,
    /// Whether its sample was read, or can't be read: no more arrays are wanted.
    pub(crate) is_done: bool,
}

impl Archive {
    /// An archive that starts at this place of the input.
    pub(crate) fn at(start: u64) -> Self {
        Self { start, ..Self::default() }
    }

    /// Records a member; `array` is its name if it is an array.
    pub(crate) fn add_member(&mut self, array: Option<&str>) {
        self.members += 1;
        let Some(name) = array else { return };
        self.arrays += 1;
        if self.names.len() < MAX_NAMES {
            self.names.push(name.to_owned());
        }
    }

    /// The names of the arrays so far, for messages.
    pub(crate) fn arrays(&self) -> String {
        let more = if self.arrays > self.names.len() { ", …" } else { "" };
        match self.names.is_empty() {
            true => "no array".to_owned(),
            false => self.names.join(", ") + more,
        }
    }

    /// Records an entry of the directory, of `size` bytes.
    pub(crate) fn add_entry(&mut self, size: usize) {
        self.entries += 1;
        self.entry_bytes += size as u64;
    }

    /// Records the zip64 record.
    pub(crate) fn set_zip64(&mut self, end: DirectoryEnd) {
        self.zip64 = Some(end);
    }

    /// Compares the directory with the members that were read. `at` is the position of the last
    /// record in the input. The error says what was expected and what was found.
    pub(crate) fn check(&self, at: u64, end: DirectoryEnd) -> Result<(), String> {
        let directory = self.directory.unwrap_or(at);
        let end = self.zip64.unwrap_or(end);
        let expected = [
            ("members", "entries in the directory", self.members, self.entries),
            ("members", "of them by its last record", self.members, end.entries),
            ("bytes of entries", "of them by its last record", self.entry_bytes, end.size),
            (
                "bytes before the directory",
                "of them by its last record",
                directory - self.start,
                end.offset,
            ),
        ];
        match expected.into_iter().find(|(.., counted, said)| counted != said) {
            None => Ok(()),
            Some((what, of, counted, said)) => Err(format!(
                "expected {counted} {what}, as were read, found {said} {of}; the archive is damaged, or was \
                 changed after it was written"
            )),
        }
    }
}
