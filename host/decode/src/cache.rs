//! Plugins that an earlier process compiled: a folder of machine code, written by pipemill alone.
//!
//! Loading such a file is running it. So a file counts only if it and its folder belong to root or to
//! this user and nobody else can write them; what is asked for is named by the digest of the plugin and
//! by all that the compiler was told; and a file that was cut short or damaged is compiled anew. A
//! cache that can't be used is never an error: it only costs the time to compile.

use std::fs::{self, File};
use std::hash::{Hash, Hasher};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use sha2::{Digest as _, Sha256};
use wasmtime::component::Component;

use super::digest::Digest;
use super::engine::Engine;

/// Environment variable with the folder's path, or `off`.
pub const CACHE: &str = "PIPEMILL_CACHE";
/// What root fills while an image is built, and any user may read.
const SYSTEM: &str = "/var/cache/pipemill";
/// What stands behind the code in a file: this, and the CRC-32C of all before.
const MARK: &[u8; 12] = b"pipemillcode";
const TRAILER: u64 = MARK.len() as u64 + 4;

/// What was not used for so long is removed.
const UNUSED: Duration = Duration::from_secs(60 * 24 * 3600);

/// The folders of compiled plugins.
#[derive(Debug, Clone)]
pub struct Cache {
    /// Where new ones go. Looked at first.
    write: PathBuf,
    /// Others that may have some.
    read: Vec<PathBuf>,
}

impl Cache {
    /// The folder that `PIPEMILL_CACHE` names; without it, the user's cache folder, and the system's
    /// to read from. `None` if the variable is `off` or there is no such folder.
    pub fn of_environment() -> Option<Self> {
        let var = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        match var(CACHE) {
            Some(off) if off == "off" => None,
            Some(dir) => Some(Self::at(dir)),
            None if nix::unistd::geteuid().is_root() => Some(Self::at(SYSTEM)),
            None => {
                let home = var("XDG_CACHE_HOME").map(PathBuf::from);
                let home = home.or_else(|| Some(PathBuf::from(var("HOME")?).join(".cache")))?;
                Some(Self { write: home.join("pipemill"), read: vec![SYSTEM.into()] })
            }
        }
    }

    /// This folder alone.
    pub fn at(dir: impl Into<PathBuf>) -> Self {
        Self { write: dir.into(), read: Vec::new() }
    }

    /// Where new plugins go.
    pub fn folder(&self) -> &Path {
        &self.write
    }

    /// Whether a plugin of this digest is kept for an engine like this one.
    pub fn has(&self, engine: &Engine, digest: &Digest) -> bool {
        let name = file_name(&engine.engine, digest);
        std::iter::once(&self.write).chain(&self.read).any(|folder| folder.join(&name).exists())
    }

    /// The plugin of this digest, if an earlier process compiled it for an engine like this one.
    pub(super) fn get(&self, engine: &wasmtime::Engine, digest: &Digest) -> Option<Component> {
        let name = file_name(engine, digest);
        let mut folders = std::iter::once(&self.write).chain(&self.read);
        folders.find_map(|folder| match load(engine, &folder.join(&name)) {
            Ok(component) => Some(component),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => {
                let file = folder.join(&name);
                log::warn!("compiled plugin {} is not used: {error}", file.display());
                None
            }
        })
    }

    /// Keeps what was compiled.
    ///
    /// # Errors
    /// The folder can't be made or written.
    pub(super) fn put(
        &self,
        engine: &wasmtime::Engine,
        digest: &Digest,
        component: &Component,
    ) -> io::Result<()> {
        let code = component.serialize().map_err(|error| io::Error::other(format!("{error:#}")))?;
        fs::DirBuilder::new().recursive(true).mode(0o755).create(&self.write)?;
        let name = file_name(engine, digest);
        let draft = self.write.join(format!(".{name}.{}", std::process::id()));
        let written =
            write(&draft, &code).and_then(|()| fs::rename(&draft, self.write.join(&name)));
        if written.is_err() {
            // If it is there at all; the error to tell is the first one.
            let _ = fs::remove_file(&draft);
        }
        self.sweep();
        written
    }

    /// Removes what nobody has used for long: plugins of former versions, and drafts left over.
    fn sweep(&self) {
        let Ok(files) = fs::read_dir(&self.write) else { return };
        for file in files.flatten() {
            let name = file.file_name();
            let ours = name.to_str().is_some_and(|name| name.contains(".code"));
            let used = file.metadata().and_then(|found| found.modified());
            if ours && used.is_ok_and(|used| used.elapsed().is_ok_and(|age| age > UNUSED)) {
                // Another process may have been faster.
                let _ = fs::remove_file(file.path());
            }
        }
    }
}

/// All that decides whether code fits is in the name.
fn file_name(engine: &wasmtime::Engine, digest: &Digest) -> String {
    let mut settings = Settings(Sha256::new());
    engine.precompile_compatibility_hash().hash(&mut settings);
    format!("{digest}-{}.code", &hex::encode(&settings.0.finalize())[..16])
}

/// Hashes as SHA-256, so that the same settings have the same name in every process.
struct Settings(Sha256);

impl Hasher for Settings {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }
    fn finish(&self) -> u64 {
        0
    }
}

fn write(path: &Path, code: &[u8]) -> io::Result<()> {
    let mut file = File::options().write(true).create_new(true).mode(0o644).open(path)?;
    file.write_all(code)?;
    file.write_all(MARK)?;
    file.write_all(&crc32c::crc32c(code).to_le_bytes())
}

fn load(engine: &wasmtime::Engine, path: &Path) -> io::Result<Component> {
    let no_follow = nix::fcntl::OFlag::O_NOFOLLOW.bits();
    let mut file = File::options().read(true).custom_flags(no_follow).open(path)?;
    let folder = fs::metadata(path.parent().unwrap_or(Path::new(".")))?;
    for (what, found) in [("its folder", &folder), ("it", &file.metadata()?)] {
        let user = nix::unistd::geteuid().as_raw();
        if found.uid() != 0 && found.uid() != user {
            let owner = found.uid();
            return Err(refusal(format!(
                "{what} belongs to user {owner}, neither root nor {user}"
            )));
        }
        if found.mode() & 0o022 != 0 {
            let mode = found.mode() & 0o7777;
            return Err(refusal(format!("{what} can be written by others (mode {mode:04o})")));
        }
    }
    if !is_whole(&mut file)? {
        return Err(refusal("it is damaged; it is compiled again".into()));
    }
    // By the open file, which was looked at above, whatever the path leads to now.
    let opened = format!("/proc/self/fd/{}", file.as_raw_fd());
    // SAFETY: only `put` writes such files, from what the compiler of this version gave; nobody whom
    // this process does not obey anyway could have written another one here, and it is unchanged.
    let component = unsafe { Component::deserialize_file(engine, opened) };
    component.map_err(|error| refusal(format!("{error:#}")))
}

fn refusal(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// Whether the file holds what was written to it.
fn is_whole(file: &mut File) -> io::Result<bool> {
    let size = file.metadata()?.len();
    let Some(mut left) = size.checked_sub(TRAILER) else { return Ok(false) };
    let (mut sum, mut block) = (0, vec![0; 1 << 20]);
    while left > 0 {
        let part = &mut block[..left.min(1 << 20) as usize];
        file.read_exact(part)?;
        sum = crc32c::crc32c_append(sum, part);
        left -= part.len() as u64;
    }
    let mut trailer = [0; TRAILER as usize];
    file.read_exact(&mut trailer)?;
    // So that `sweep` sees that it is in use. Where that is not allowed, nothing is swept either.
    let _ = file.set_modified(SystemTime::now());
    Ok(trailer.strip_prefix(MARK) == Some(&sum.to_le_bytes()))
}
