//! The file in which the bytes of decode errors are kept: a line of JSON for each.
//!
//! The channel itself writes it, so that a record is delivered only if the bytes skipped before it
//! are kept. The channel therefore waits for a slow disk. It must be a regular file, because a pipe
//! can make its writer wait for ever.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use nix::fcntl::OFlag;
use pipemill_types::json;

use crate::Failure;

/// A file of decode errors, opened at the first of them.
pub(crate) struct Quarantine {
    path: PathBuf,
    file: Option<OpenFile>,
}

struct OpenFile {
    file: File,
    /// Whether the file ends inside of a line.
    is_torn: bool,
}

impl Quarantine {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, file: None }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Appends a decode error: `length` bytes were skipped, of which `bytes` are kept.
    ///
    /// # Errors
    /// It is not a regular file, or it can't be written.
    pub(crate) fn write(&mut self, failure: &Failure, length: u64, bytes: &[u8]) -> io::Result<()> {
        let OpenFile { mut file, is_torn } = match self.file.take() {
            Some(open) => open,
            None => open(&self.path)?,
        };
        let line = line(failure, length, bytes, is_torn);
        // After an error nobody knows how much was written: the file is opened again.
        file.write_all(line.as_bytes())?;
        self.file = Some(OpenFile { file, is_torn: false });
        Ok(())
    }
}

/// Opens the file, or creates it. Never waits for something that is not a regular file.
fn open(path: &Path) -> io::Result<OpenFile> {
    // Only for the owner: it has raw data of the input.
    let mut options = File::options();
    options.read(true).append(true).create(true).mode(0o600);
    let file = options.custom_flags(OFlag::O_NONBLOCK.bits()).open(path)?;
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    let mut last = [b'\n'];
    if found.len() > 0 {
        file.read_at(&mut last, found.len() - 1)?;
    }
    Ok(OpenFile { file, is_torn: last != [b'\n'] })
}

/// A line of the file: one JSON object. After a torn line, it begins with the end of that line.
fn line(failure: &Failure, length: u64, bytes: &[u8], after_torn: bool) -> String {
    let mut line = serde_json::json!({
        "channel": failure.channel,
        "epoch": failure.position.epoch,
        "object": failure.position.object,
        "offset": failure.position.offset,
        "length": length,
        "reason": failure.fault.message,
        "bytes": STANDARD.encode(bytes),
    });
    if (bytes.len() as u64) < length {
        line["truncated"] = true.into();
    }
    // This can't fail: the keys are names.
    let line = json::to_string(&line).unwrap_or_default();
    format!("{}{line}\n", if after_torn { "\n" } else { "" })
}

#[cfg(test)]
mod tests {
    use pipemill_types::{ErrorKind, Fault, Position};
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    fn failure(object: &str, reason: &str) -> Failure {
        let (object, offset) = (Some(object.to_owned()), Some(7));
        Failure {
            fault: Fault::new(ErrorKind::Decode, reason, "remedy"),
            channel: "train".to_owned(),
            position: Position { epoch: 3, object, offset, record: None },
            decoder: "lines".to_owned(),
            bytes: Vec::new(),
            missing: false,
        }
    }

    fn lines(path: &Path) -> Vec<String> {
        let text = std::fs::read_to_string(path).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    proptest! {
        #[test]
        fn a_line_gives_back_its_names_and_bytes(
            object: String, reason: String, bytes: Vec<u8>, more in 0..9u64
        ) {
            let length = bytes.len() as u64 + more;
            let line = line(&failure(&object, &reason), length, &bytes, false);
            prop_assert_eq!(line.find('\n'), Some(line.len() - 1), "one line");
            let read: Value = serde_json::from_str(&line).unwrap();
            prop_assert_eq!(&read["object"], &object);
            prop_assert_eq!(&read["reason"], &reason);
            prop_assert_eq!(&read["length"], &length);
            prop_assert_eq!(read["truncated"] == true, more > 0);
            let kept = STANDARD.decode(read["bytes"].as_str().unwrap()).unwrap();
            prop_assert_eq!(kept, bytes);
        }
    }

    #[test]
    fn the_line_after_a_torn_one_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("bad.jsonl");
        for before in ["", "{\"channel\": \"tr"] {
            std::fs::write(&path, before).unwrap();
            let mut quarantine = Quarantine::new(path.clone());
            for _ in 0..2 {
                quarantine.write(&failure("a", "b"), 1, b"x").unwrap();
            }
            let lines = lines(&path);
            assert_eq!(lines.len(), 2 + usize::from(!before.is_empty()), "{lines:?}");
            for line in &lines[lines.len() - 2..] {
                serde_json::from_str::<Value>(line).unwrap();
            }
        }
    }

    /// A device that is full is no regular file, either.
    #[test]
    fn what_is_no_file_is_an_error_and_no_wait() {
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("fifo");
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
        for path in [fifo.as_path(), Path::new("/dev/full")] {
            let written = Quarantine::new(path.to_owned()).write(&failure("a", "b"), 1, b"x");
            assert_eq!(written.unwrap_err().to_string(), "it is no regular file");
        }
        Quarantine::new(folder.path().to_owned()).write(&failure("a", "b"), 1, b"x").unwrap_err();
    }
}
