//! A folder of a test's own, which goes with the test.

use std::fs;
use std::path::{Path, PathBuf};

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use tempfile::TempDir;

/// A folder of a test's own.
pub struct TestDir(TempDir);

impl TestDir {
    /// An empty one. Its path is short, because sockets are made in it.
    #[expect(clippy::new_without_default, reason = "each is another folder")]
    pub fn new() -> Self {
        Self(
            tempfile::Builder::new().prefix("pipemill-test-").tempdir_in("/tmp").expect("a folder"),
        )
    }

    /// The path of what may be there.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The same as text, for configurations.
    pub fn text(&self, name: &str) -> String {
        self.path(name).to_str().expect("UTF-8").to_owned()
    }

    /// The folder itself.
    pub fn folder(&self) -> &Path {
        self.0.path()
    }

    /// Makes a folder.
    pub fn make_folder(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(&path).expect("a folder can be made");
        path
    }

    /// Writes a file, and the folders to it.
    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("a file in the folder")).expect("its folder");
        fs::write(&path, bytes).expect("the file can be written");
        path
    }

    /// Makes a FIFO.
    pub fn fifo(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        mkfifo(&path, Mode::S_IRUSR | Mode::S_IWUSR).expect("a FIFO can be made");
        path
    }

    /// Names of what is in a folder, sorted.
    pub fn names(&self, folder: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(folder)).expect("the folder can be listed");
        let name = |entry: std::io::Result<fs::DirEntry>| {
            entry.expect("an entry").file_name().to_string_lossy().into_owned()
        };
        let mut names: Vec<_> = entries.map(name).collect();
        names.sort();
        names
    }
}
