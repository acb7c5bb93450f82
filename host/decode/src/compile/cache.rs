//! The cache of compiled plugins: a folder of machine code that only pipemill writes.
//!
//! Loading such a file means running it. So three rules apply. A file is used only if it and its
//! folder belong to root or to this user, and nobody else can write them. Its name contains the
//! digest of the plugin and a hash of the compiler's settings. Its checksum must be right;
//! otherwise the plugin is compiled again. An unusable cache is never an error: it only costs the
//! time to compile.

use std::fs::{self, File};
use std::hash::{Hash, Hasher};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use nix::dir::Dir;
use nix::fcntl::{OFlag, openat, renameat};
use nix::sys::stat::{FileStat, Mode, fstat};
use nix::unistd::{UnlinkatFlags, unlinkat};
use sha2::{Digest as _, Sha256};
use wasmtime::component::Component;

use crate::compile::digest::Digest;

/// Environment variable with the path of the cache's folder, or `off`.
pub const CACHE: &str = "PIPEMILL_CACHE";
/// The folder that root fills, for example while an image is built, and that any user may read.
const SYSTEM_FOLDER: &str = "/var/cache/pipemill";
/// After the code, a file has a trailer: this mark, and the CRC-32C of the code.
const TRAILER_MARK: &[u8; 12] = b"pipemillcode";
/// Size of the trailer in bytes.
const TRAILER_BYTES: u64 = TRAILER_MARK.len() as u64 + 4;

/// A file that nobody has used for this long is removed.
const MAX_UNUSED: Duration = Duration::from_secs(60 * 24 * 3600);

/// The folders that hold compiled plugins.
#[derive(Debug, Clone)]
pub struct Cache {
    /// New plugins are written here. It is searched first.
    write: PathBuf,
    /// Further folders to search.
    read: Vec<PathBuf>,
}

impl Cache {
    /// The folder that the environment variable [`CACHE`] names. Without the variable: for root the
    /// system's folder; for other users their own cache folder, with the system's folder to read
    /// from. `None` if the variable is `off`, or if neither `XDG_CACHE_HOME` nor `HOME` is set.
    pub fn of_environment() -> Option<Self> {
        let var = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        match var(CACHE) {
            Some(off) if off == "off" => None,
            Some(dir) => Some(Self::at(dir)),
            None if nix::unistd::geteuid().is_root() => Some(Self::at(SYSTEM_FOLDER)),
            None => {
                let home = var("XDG_CACHE_HOME").map(PathBuf::from);
                let home = home.or_else(|| Some(PathBuf::from(var("HOME")?).join(".cache")))?;
                Some(Self { write: home.join("pipemill"), read: vec![SYSTEM_FOLDER.into()] })
            }
        }
    }

    /// A cache that reads and writes this folder only.
    pub fn at(dir: impl Into<PathBuf>) -> Self {
        Self { write: dir.into(), read: Vec::new() }
    }

    /// The folder to which new plugins are written.
    pub fn folder(&self) -> &Path {
        &self.write
    }

    /// The folder from which the plugin of this digest is loaded by an engine of these settings. A
    /// plugin that none of the folders has is written.
    ///
    /// # Errors
    /// None of the folders has it, and the folder can't be created or written, or the written file
    /// can't be trusted.
    pub(crate) fn keep(
        &self,
        engine: &wasmtime::Engine,
        digest: &Digest,
        component: &Component,
    ) -> io::Result<&Path> {
        let name = file_name(engine, digest);
        let loads = |folder: &Path| Folder::open(folder)?.load(engine, &name);
        let mut folders = std::iter::once(&self.write).chain(&self.read);
        if let Some(folder) = folders.find(|folder| loads(folder).is_ok()) {
            return Ok(folder);
        }
        self.put(engine, digest, component)?;
        loads(&self.write).map(|_| self.folder())
    }

    /// Loads the plugin of this digest, if a process compiled it for an engine of these settings.
    pub(crate) fn get(&self, engine: &wasmtime::Engine, digest: &Digest) -> Option<Component> {
        let name = file_name(engine, digest);
        let mut folders = std::iter::once(&self.write).chain(&self.read);
        folders.find_map(|folder| {
            match Folder::open(folder).and_then(|it| it.load(engine, &name)) {
                Ok(component) => Some(component),
                Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                Err(error) => {
                    let file = folder.join(&name);
                    log::warn!("compiled plugin {} is not used: {error}", file.display());
                    None
                }
            }
        })
    }

    /// Writes a compiled plugin to the cache.
    ///
    /// # Errors
    /// The folder can't be created or written.
    pub(crate) fn put(
        &self,
        engine: &wasmtime::Engine,
        digest: &Digest,
        component: &Component,
    ) -> io::Result<()> {
        let code = component.serialize().map_err(|error| io::Error::other(format!("{error:#}")))?;
        let made = fs::DirBuilder::new().recursive(true).mode(0o755).create(&self.write);
        match made {
            // A file exists at its path: opening it gives the clearer error.
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let folder = Folder::open(&self.write)?;
        let name = file_name(engine, digest);
        let draft = format!(".{name}.{}", std::process::id());
        let written = folder.write(&draft, &code).and_then(|()| folder.rename(&draft, &name));
        if written.is_err() {
            // The draft may not exist. Only the first error is reported.
            let _ = folder.remove(&draft);
        }
        folder.sweep();
        written
    }
}

/// An open folder of compiled plugins. Everything is done relative to its descriptor, so the
/// checked folder is the one that is used, even if its path leads elsewhere by then.
struct Folder(OwnedFd);

impl Folder {
    fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        Ok(Self(nix::fcntl::open(path, flags | OFlag::O_RDONLY, Mode::empty())?))
    }

    /// Opens a file in the folder. It must not be a link, and opening it does not block.
    fn file(&self, name: &str, flags: OFlag) -> io::Result<File> {
        let flags = flags | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        let mode = Mode::from_bits_truncate(0o644);
        Ok(openat(&self.0, name, flags, mode)?.into())
    }

    /// Writes a new file: the code and its trailer.
    fn write(&self, name: &str, code: &[u8]) -> io::Result<()> {
        let mut file = self.file(name, OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL)?;
        file.write_all(code)?;
        file.write_all(TRAILER_MARK)?;
        file.write_all(&crc_fast::crc32_iscsi(code).to_le_bytes())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(renameat(&self.0, from, &self.0, to)?)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        Ok(unlinkat(&self.0, name, UnlinkatFlags::NoRemoveDir)?)
    }

    /// Checks owner, mode and checksum of a file, and owner and mode of its folder, and loads it.
    fn load(&self, engine: &wasmtime::Engine, name: &str) -> io::Result<Component> {
        let mut file = self.file(name, OFlag::O_RDONLY)?;
        check_owner("its folder", &fstat(&self.0)?)?;
        check_owner("it", &fstat(&file)?)?;
        if !file.metadata()?.is_file() {
            return Err(refusal("it is no regular file".into()));
        }
        if !is_whole(&mut file)? {
            return Err(refusal("it is damaged; it is compiled again".into()));
        }
        // The open file was checked above; the path may lead to another file by now.
        let opened = format!("/proc/self/fd/{}", file.as_raw_fd());
        // SAFETY: only root and this user can write the file, and both may control this process
        // anyway. The file is whole: `put` wrote it from the output of this version's compiler.
        let component = unsafe { Component::deserialize_file(engine, opened) };
        component.map_err(|error| refusal(format!("{error:#}")))
    }

    /// Removes files that nobody has used for [`MAX_UNUSED`]: plugins of former versions, and
    /// drafts of processes that were killed. The folder may hold files of others: they stay.
    fn sweep(&self) {
        let Ok(mut files) = Dir::openat(&self.0, ".", OFlag::O_RDONLY, Mode::empty()) else {
            return;
        };
        let names = files.iter().flatten().map(|file| file.file_name().to_owned());
        let names: Vec<_> = names.filter_map(|name| name.into_string().ok()).collect();
        for name in names.iter().filter(|name| is_own_name(name)) {
            let file = self.file(name, OFlag::O_RDONLY).and_then(|file| file.metadata());
            let used = file.ok().filter(fs::Metadata::is_file).and_then(|it| it.modified().ok());
            if used.and_then(|used| used.elapsed().ok()).is_some_and(|age| age > MAX_UNUSED) {
                // Another process may have removed it already.
                let _ = self.remove(name);
            }
        }
    }
}

/// Checks that only root and this user can write a file or folder.
fn check_owner(what: &str, found: &FileStat) -> io::Result<()> {
    let user = nix::unistd::geteuid().as_raw();
    if found.st_uid != 0 && found.st_uid != user {
        let owner = found.st_uid;
        return Err(refusal(format!("{what} belongs to user {owner}, neither root nor {user}")));
    }
    if found.st_mode & 0o022 != 0 {
        let mode = found.st_mode & 0o7777;
        return Err(refusal(format!("{what} can be written by others (mode {mode:04o})")));
    }
    Ok(())
}

/// Whether this is a name that [`Cache::put`] gives to a file or a draft.
fn is_own_name(name: &str) -> bool {
    let is_hex = |text: &str| text.bytes().all(|c| c.is_ascii_digit() || matches!(c, b'a'..=b'f'));
    let is_code = |name: &str| {
        let parts = name.strip_suffix(".code").and_then(|name| name.split_once('-'));
        parts.is_some_and(|(digest, settings)| {
            digest.len() == 64 && settings.len() == 16 && is_hex(digest) && is_hex(settings)
        })
    };
    let draft = name.strip_prefix('.').and_then(|name| name.rsplit_once('.'));
    is_code(name)
        || draft.is_some_and(|(name, process)| {
            is_code(name) && !process.is_empty() && process.bytes().all(|c| c.is_ascii_digit())
        })
}

/// The file name for this plugin and an engine of these settings.
fn file_name(engine: &wasmtime::Engine, digest: &Digest) -> String {
    format!("{digest}-{}.code", compatibility(engine))
}

/// A name for everything that decides whether code fits an engine: 16 hexadecimal digits.
pub(crate) fn compatibility(engine: &wasmtime::Engine) -> String {
    let mut settings = SettingsHasher(Sha256::new());
    engine.precompile_compatibility_hash().hash(&mut settings);
    hex::encode(&settings.0.finalize()[..8])
}

/// Hashes with SHA-256, so that the same settings have the same hash in every process.
struct SettingsHasher(Sha256);

impl Hasher for SettingsHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }
    fn finish(&self) -> u64 {
        0
    }
}

fn refusal(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// Whether the file's trailer has the checksum of its code. Marks the file as used.
fn is_whole(file: &mut File) -> io::Result<bool> {
    let size = file.metadata()?.len();
    let Some(mut left) = size.checked_sub(TRAILER_BYTES) else { return Ok(false) };
    let mut checksum = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
    let mut block = vec![0; 1 << 20];
    while left > 0 {
        let part = &mut block[..left.min(1 << 20) as usize];
        file.read_exact(part)?;
        checksum.update(part);
        left -= part.len() as u64;
    }
    let mut trailer = [0; TRAILER_BYTES as usize];
    file.read_exact(&mut trailer)?;
    // It shows `sweep` that the file is in use. A user who may not do this can't remove files
    // either.
    let _ = file.set_modified(SystemTime::now());
    Ok(trailer.strip_prefix(TRAILER_MARK) == Some(&(checksum.finalize() as u32).to_le_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_caches_own_names_are_swept() {
        let name = format!("{}-{}.code", "0123456789abcdef".repeat(4), "0".repeat(16));
        assert!(is_own_name(&name) && is_own_name(&format!(".{name}.17")));
        let foreign =
            ["notes.code", "a.code.txt", &name[1..], &format!("{name}.bak"), &format!(".{name}.x")];
        for name in foreign {
            assert!(!is_own_name(name), "{name}");
        }
    }
}
