//! This crate's own server (`bin/s3-server`). It starts quickly, checks signatures and `If-Match`,
//! and lists ETags.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::child::Server;
use super::{ACCESS_KEY, S3Server, SECRET_KEY, folder};
use crate::names;

/// This crate's own server over a folder.
pub struct S3s {
    server: Server,
    folder: PathBuf,
}

impl S3s {
    /// Starts a server over a folder, whose subfolders are the buckets. Requests must be signed.
    ///
    /// # Panics
    /// If it does not start.
    pub fn start(folder: &Path) -> Self {
        let mut command = Command::new(program());
        command.args(["--access-key", ACCESS_KEY, "--secret-key", SECRET_KEY]);
        Self::run(command, folder)
    }

    /// Like [`start`](Self::start), but requests need no signature.
    ///
    /// # Panics
    /// If it does not start.
    pub fn start_open(folder: &Path) -> Self {
        Self::run(Command::new(program()), folder)
    }

    fn run(mut command: Command, folder: &Path) -> Self {
        command.arg(folder);
        Self { server: Server::start(command), folder: folder.to_owned() }
    }

    /// The path of an object's file, for a test that reads or writes it directly.
    pub fn file(&self, bucket: &str, key: &str) -> PathBuf {
        self.folder.join(bucket).join(names::file(key))
    }
}

impl S3Server for S3s {
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
        folder::put(&self.folder, bucket, &names::file(key), bytes);
    }

    fn delete(&self, bucket: &str, key: &str) {
        folder::delete(&self.folder, bucket, &names::file(key));
    }
}

/// The path of the server's program. Cargo puts it into the folder of a test's program, or one
/// folder above it.
///
/// # Panics
/// If it was not built.
pub fn program() -> OsString {
    if let Some(program) = std::env::var_os("PIPEMILL_S3_SERVER") {
        return program;
    }
    let here = std::env::current_exe().expect("every program has a path");
    let found = here.ancestors().skip(1).take(2).map(|folder| folder.join("s3-server"));
    let found = found.into_iter().find(|program| program.is_file());
    let found = found.expect("build it first: cargo build --workspace --bin s3-server");
    found.into_os_string()
}
