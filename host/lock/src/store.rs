//! Changes the lock file and the folder of its plugins. One process at a time does: it holds a lock
//! on a file in the folder. Files are replaced as a whole, so a process that is killed leaves the
//! old file or the new one. A plugin's file is there before the lock file names it.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};
use pipemill_decode::{Digest, read_plugin_file};

use crate::lock_file::{LOCK_FILE, LockError, LockFile, LockedPlugin, file_name, folder_of};
use crate::name::WantedPlugin;

/// The file in the folder that is locked while something is changed.
const LOCK_OF_WRITERS: &str = ".lock";

/// A lock file and its folder, while this process alone may change them.
pub struct Store {
    path: PathBuf,
    folder: PathBuf,
    _writer: Flock<File>,
}

/// What [`Store::add`] has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Added {
    /// The lock file has a new entry.
    New,
    /// It had this plugin already. Its origin is the new one.
    Known,
    /// It had a plugin with another SHA-256, whose place this one has taken.
    Replaced(Digest),
}

impl Store {
    /// Waits until no other process changes the lock file at this path. The folder is made if it
    /// does not exist.
    ///
    /// # Errors
    /// The folder can't be written, or the path is not one of a lock file.
    pub fn open(path: &Path) -> Result<Self, LockError> {
        if path.file_name() != Some(LOCK_FILE.as_ref()) {
            let message = format!("a lock file has the name {LOCK_FILE}, and no other is read");
            return Err(LockError::new(path, message));
        }
        let folder = folder_of(path);
        let failed = |why: io::Error| LockError::new(&folder, format!("can't be written: {why}"));
        fs::create_dir_all(&folder).map_err(failed)?;
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false);
        let file = options.open(folder.join(LOCK_OF_WRITERS)).map_err(failed)?;
        let writer = Flock::lock(file, FlockArg::LockExclusive)
            .map_err(|(_, errno)| failed(errno.into()))?;
        Ok(Self { path: path.to_owned(), folder, _writer: writer })
    }

    /// The lock file as it is. An empty one if there is none.
    ///
    /// # Errors
    /// As [`LockFile::read`].
    pub fn read(&self) -> Result<LockFile, LockError> {
        match fs::symlink_metadata(&self.path) {
            Err(why) if why.kind() == io::ErrorKind::NotFound => {
                Ok(LockFile { path: self.path.clone(), plugins: Vec::new() })
            }
            _ => LockFile::read(&self.path),
        }
    }

    /// Adds a plugin with these bytes, which have its digest. With `replaces`, it takes the place
    /// of one with the same name and version and another digest.
    ///
    /// # Errors
    /// The lock file has another file for this name and version, and it is not to be replaced; or a
    /// file can't be written.
    pub fn add(
        &self,
        plugin: LockedPlugin,
        bytes: &[u8],
        replaces: bool,
    ) -> Result<Added, LockError> {
        let mut lock = self.read()?;
        let at = lock.plugins.iter().position(|known| known.name == plugin.name);
        let older = at.map(|at| lock.plugins[at].clone());
        let older = older.filter(|older| older.sha256 != plugin.sha256);
        if let Some(known) = older.as_ref().filter(|_| !replaces) {
            let (name, then, now) = (&plugin.name, known.sha256, plugin.sha256);
            let message = format!(
                "has `{name}` already, with the SHA-256 {then}, from {}; this one has {now}: add \
                 it with another version or another --name, or give --replace",
                pipemill_types::printable(&known.origin)
            );
            return Err(LockError::new(&self.path, message));
        }
        self.put(&plugin.sha256, bytes)?;
        let added = match at {
            Some(at) => {
                lock.plugins[at] = plugin;
                older.as_ref().map_or(Added::Known, |older| Added::Replaced(older.sha256))
            }
            None => {
                lock.plugins.push(plugin);
                lock.plugins.sort_by(|one, other| one.name.cmp(&other.name));
                Added::New
            }
        };
        self.write(&lock)?;
        if let Some(older) = older {
            self.remove_file(&lock, &older)?;
        }
        Ok(added)
    }

    /// Removes a plugin, and its file if no other plugin of the lock file has it.
    ///
    /// # Errors
    /// The lock file has none or several of this name, or can't be written.
    pub fn remove(&self, wanted: &str) -> Result<LockedPlugin, LockError> {
        let mut lock = self.read()?;
        let error = |message: String| LockError::new(&self.path, message);
        let parsed = WantedPlugin::of(wanted);
        let fits = |plugin: &LockedPlugin| parsed.is_some_and(|it| it.fits(&plugin.name));
        let found: Vec<_> = lock.plugins.iter().filter(|plugin| fits(plugin)).cloned().collect();
        let plugin = match found.as_slice() {
            [plugin] => plugin.clone(),
            [] => {
                let has = names(&lock.plugins);
                let wanted = pipemill_types::printable(wanted);
                return Err(error(format!("has no plugin `{wanted}`; it has {has}")));
            }
            several => {
                let names = names(several);
                return Err(error(format!("has {names}: name one of them with its version")));
            }
        };
        lock.plugins.retain(|other| other.name != plugin.name);
        self.write(&lock)?;
        self.remove_file(&lock, &plugin)?;
        Ok(plugin)
    }

    /// Removes the file of a plugin that the lock file has no longer, if no other plugin of it has
    /// the same file.
    fn remove_file(&self, lock: &LockFile, plugin: &LockedPlugin) -> Result<(), LockError> {
        if lock.plugins.iter().any(|other| other.sha256 == plugin.sha256) {
            return Ok(());
        }
        let file = lock.file_of(plugin);
        match fs::remove_file(&file) {
            Err(why) if why.kind() != io::ErrorKind::NotFound => {
                Err(LockError::new(&file, format!("can't be removed: {why}")))
            }
            _ => Ok(()),
        }
    }

    /// Writes the file of a plugin, unless it is there as it should be.
    ///
    /// # Errors
    /// It can't be written.
    pub fn put(&self, sha256: &Digest, bytes: &[u8]) -> Result<(), LockError> {
        let path = self.folder.join(file_name(sha256));
        if read_plugin_file(&path).is_ok_and(|found| Digest::of(&found) == *sha256) {
            return Ok(());
        }
        replace_file(&path, bytes)
            .map_err(|why| LockError::new(&path, format!("can't be written: {why}")))
    }

    fn write(&self, lock: &LockFile) -> Result<(), LockError> {
        replace_file(&self.path, lock.text().as_bytes())
            .map_err(|why| LockError::new(&self.path, format!("can't be written: {why}")))
    }
}

/// The names of plugins, for a message.
pub(crate) fn names(plugins: &[LockedPlugin]) -> String {
    let names: Vec<_> = plugins.iter().map(|plugin| format!("`{}`", plugin.name)).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// Writes a file as a whole or not at all: its content is on the disk before it gets its name. The
/// new file has the same hidden name each time, so what a process that was killed has left is
/// replaced: this is for one writer at a time.
///
/// # Errors
/// The folder can't be written. Then the older file is as it was.
fn replace_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".new");
    let new = path.with_file_name(name);
    let write = || {
        match fs::remove_file(&new) {
            Err(why) if why.kind() != io::ErrorKind::NotFound => return Err(why),
            _ => {}
        }
        let mut file = File::create_new(&new)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&new, path)
    };
    write().inspect_err(|_| {
        // The first error is reported, not that of the attempt to clean up.
        let _ = fs::remove_file(&new);
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::PluginName;

    fn plugin(name: &str, version: &str, bytes: &[u8]) -> LockedPlugin {
        let name = PluginName::new(name, version).expect("a name");
        LockedPlugin { name, sha256: Digest::of(bytes), origin: "x".to_owned() }
    }

    #[test]
    fn the_order_of_adds_does_not_show_and_removing_undoes_them() {
        let texts = [["a", "b", "c"], ["c", "a", "b"]].map(|order| {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join(LOCK_FILE);
            let store = Store::open(&path).unwrap();
            for name in order {
                let bytes = name.as_bytes();
                assert_eq!(store.add(plugin(name, "1", bytes), bytes, false).unwrap(), Added::New);
                assert_eq!(
                    store.add(plugin(name, "1", bytes), bytes, false).unwrap(),
                    Added::Known
                );
            }
            let text = fs::read_to_string(&path).unwrap();
            for name in order {
                store.remove(name).unwrap();
            }
            assert!(store.read().unwrap().plugins.is_empty());
            // Nothing but the lock of the writers is left.
            assert_eq!(fs::read_dir(folder_of(&path)).unwrap().count(), 1);
            text
        });
        assert_eq!(texts[0], texts[1]);
    }

    #[test]
    fn a_file_of_two_plugins_stays_until_both_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join(LOCK_FILE)).unwrap();
        for name in ["one", "two"] {
            store.add(plugin(name, "", b"same"), b"same", false).unwrap();
        }
        let file = store.folder.join(file_name(&Digest::of(b"same")));
        store.remove("one").unwrap();
        assert!(file.exists());
        store.remove("two").unwrap();
        assert!(!file.exists());
        let why = store.remove("two").unwrap_err().to_string();
        assert!(why.contains("has no plugin `two`; it has none"), "{why}");
    }

    #[test]
    fn another_file_under_the_same_version_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join(LOCK_FILE)).unwrap();
        store.add(plugin("a", "1", b"one"), b"one", false).unwrap();
        let before = fs::read(&store.path).unwrap();
        let why = store.add(plugin("a", "1", b"two"), b"two", false).unwrap_err().to_string();
        assert!(why.contains("has `a@1` already") && why.contains("--replace"), "{why}");
        assert_eq!(fs::read(&store.path).unwrap(), before);
        store.add(plugin("a", "2", b"two"), b"two", false).unwrap();
        // What is to be replaced is, and its file goes unless another name has it.
        let file = |bytes: &[u8]| store.folder.join(file_name(&Digest::of(bytes)));
        let added = store.add(plugin("a", "1", b"two"), b"two", true).unwrap();
        assert_eq!(added, Added::Replaced(Digest::of(b"one")));
        assert!(!file(b"one").exists() && file(b"two").exists());
        assert_eq!(store.add(plugin("a", "1", b"two"), b"two", true).unwrap(), Added::Known);
        store.add(plugin("a", "1", b"one"), b"one", true).unwrap();
        assert!(file(b"one").exists() && file(b"two").exists());
        let why = store.remove("a").unwrap_err().to_string();
        assert!(why.contains("has `a@1`, `a@2`: name one"), "{why}");
        assert_eq!(store.remove("a@1").unwrap().name.version(), "1");
    }

    #[test]
    fn what_a_killed_process_has_left_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(LOCK_FILE);
        let left = folder.path().join(".pipemill.lock.new");
        fs::write(&left, "version =").unwrap();
        let store = Store::open(&path).unwrap();
        store.add(plugin("a", "1", b"one"), b"one", false).unwrap();
        assert!(!left.exists());
        assert_eq!(store.read().unwrap().plugins.len(), 1);
    }

    #[test]
    fn a_lock_file_has_one_name() {
        let folder = tempfile::tempdir().unwrap();
        let why = Store::open(&folder.path().join("other.lock")).err().unwrap().to_string();
        assert!(why.contains("no other is read"), "{why}");
    }
}
