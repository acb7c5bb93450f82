//! From a decoder's name to a plugin. A name is that of a plugin of the lock file, of a built-in
//! decoder, or of a file on the plugin path. Nothing is fetched.
//!
//! The lock file is the one next to the configuration; if there is none, the one in the current
//! folder. A name that both the lock file and the built-in decoders have is refused: a built-in
//! decoder never takes the place of a plugin that somebody added, and no plugin takes the place of
//! a built-in decoder.

use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};

use pipemill_decode::{DetectionRule, Digest, Engine, Plugin, PluginError, read_plugin_file};
use pipemill_types::printable;

use crate::lock_file::{LOCK_FILE, LockFile, LockedPlugin};
use crate::name::WantedPlugin;
use crate::store::names;

/// Loads the decoder `name`: one of the lock file, or, if the lock file has none of this name, as
/// [`Plugin::load`] does. `config` is the path of the configuration that names it, if one does. If
/// `pinned` is given, the file must have that digest.
///
/// # Errors
/// As [`Plugin::load`]. Or the lock file can't be read, has several plugins of this name, or has
/// the name of a built-in decoder; or the plugin's file is missing, or another one than that which
/// was added.
pub fn load(
    engine: &Engine,
    config: Option<&Path>,
    name: &str,
    pinned: Option<&Digest>,
) -> Result<Plugin, PluginError> {
    let (lock, found) = find(engine, config, name)?;
    match found {
        Some(found) => {
            if let Some(pinned) = pinned {
                found.check_pinned(pinned).map_err(|why| error(name, why))?;
            }
            let bytes = found.read().map_err(|why| error(name, why))?;
            let (digest, file) = (&found.plugin.sha256, found.lock.path.display());
            log::debug!("decoder `{name}`: {digest}, as {file} says");
            Plugin::compile(engine, name, &bytes)
        }
        None => {
            Plugin::load(engine, name, pinned).map_err(|why| with_names(engine, why, name, &lock))
        }
    }
}

/// Reads the file that [`load`] would load.
///
/// # Errors
/// As [`load`], but for those that are found when the file is compiled.
pub fn read(
    engine: &Engine,
    config: Option<&Path>,
    name: &str,
) -> Result<Cow<'static, [u8]>, PluginError> {
    let (lock, found) = find(engine, config, name)?;
    match found {
        Some(found) => found.read().map(Cow::Owned).map_err(|why| error(name, why)),
        None => Plugin::file(engine, name).map_err(|why| with_names(engine, why, name, &lock)),
    }
}

/// The plugins that claim objects, for channels that name no decoder: those of the lock file, and
/// those on the plugin path that no plugin of the lock file hides. A plugin that can't be used is
/// left out, with a warning.
pub fn detection_rules(engine: &Engine, config: Option<&Path>) -> Vec<(String, DetectionRule)> {
    let lock = locked_path(config).map(|path| LockFile::read(&path));
    let lock = lock.transpose().unwrap_or_else(|error| {
        log::warn!("{error}; none of its plugins is asked which objects it reads");
        None
    });
    let locked = lock.map_or_else(Vec::new, |lock| lock.plugins);
    let is_free = |name: &String| locked.iter().all(|plugin| plugin.name.name() != name);
    let names = locked.iter().map(|plugin| plugin.name.to_string());
    let on_path = engine.plugins_on_path().into_iter().filter(is_free);
    let mut rules = Vec::new();
    for name in names.chain(on_path) {
        match load(engine, config, &name, None) {
            Ok(plugin) if *plugin.detection() == DetectionRule::default() => {}
            Ok(plugin) => rules.push((name, plugin.detection().clone())),
            Err(error) => log::warn!("{error}; it is not asked which objects it reads"),
        }
    }
    rules
}

/// The path of the lock file for this configuration, if there is one.
pub fn locked_path(config: Option<&Path>) -> Option<PathBuf> {
    let of_config = in_folder(config).map(|config| config.with_file_name(LOCK_FILE));
    // A link to a file that does not exist counts: reading it fails, and a message says so.
    let exists = |path: &PathBuf| path.symlink_metadata().is_ok();
    of_config.into_iter().chain([PathBuf::from(LOCK_FILE)]).find(exists)
}

/// The configuration, if it lies in a folder. That of a program is a descriptor.
fn in_folder(config: Option<&Path>) -> Option<&Path> {
    config.filter(|config| !config.starts_with("/proc"))
}

/// A plugin of a lock file.
struct Found {
    lock: LockFile,
    plugin: LockedPlugin,
}

/// Looks a name up in the lock file. Returns the lock file, if there is one and the name is not a
/// path, and the plugin, if it has it.
fn find(
    engine: &Engine,
    config: Option<&Path>,
    name: &str,
) -> Result<(Option<LockFile>, Option<Found>), PluginError> {
    let Some(wanted) = WantedPlugin::of(name) else { return Ok((None, None)) };
    let is_on_path = || engine.plugins_on_path().iter().any(|found| found == name);
    let Some(path) = locked_path(config) else {
        if wanted.has_version() && !is_on_path() {
            return Err(error(name, no_lock_file(config)));
        }
        return Ok((None, None));
    };
    let lock = LockFile::read(&path).map_err(|why| error(name, why.to_string()))?;
    let of_name = |plugin: &&LockedPlugin| wanted.fits(&plugin.name);
    let found: Vec<_> = lock.plugins.iter().filter(of_name).cloned().collect();
    let file = path.display();
    let plugin = match found.as_slice() {
        [] if wanted.has_version() && !is_on_path() => {
            let has = names(&lock.plugins);
            return Err(error(
                name,
                format!("{file} has no such plugin; it has {has}; `pipemill plugin add` adds one"),
            ));
        }
        [] => return Ok((Some(lock), None)),
        [plugin] => plugin.clone(),
        several => {
            let names = names(several);
            return Err(error(name, format!("{file} has {names}: name one with its version")));
        }
    };
    if !wanted.has_version() {
        if engine.builtins().iter().any(|builtin| builtin.name == name) {
            return Err(error(name, ambiguous(&lock, &plugin)));
        }
        if is_on_path() {
            log::warn!(
                "decoder `{name}`: that of {file} is used, and not {name}.wasm of the \
                        plugin path; name that one by its path"
            );
        }
    }
    let found = Found { lock: lock.clone(), plugin };
    Ok((Some(lock), Some(found)))
}

/// The message for a name that a built-in decoder and a plugin of the lock file have.
fn ambiguous(lock: &LockFile, plugin: &LockedPlugin) -> String {
    let (file, name) = (lock.path.display(), &plugin.name);
    let by_version = match plugin.name.version() {
        "" => String::new(),
        _ => format!("name the plugin `{name}`, or "),
    };
    format!(
        "is the name of a built-in decoder and of a plugin in {file}: {by_version}give the plugin \
         another name: `pipemill plugin remove {name}`, then `pipemill plugin add … --name NAME`"
    )
}

fn no_lock_file(config: Option<&Path>) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    let here = here.display();
    let beside = match in_folder(config) {
        Some(config) => format!("next to {} or ", config.display()),
        None => String::new(),
    };
    format!(
        "a name with a version is one of a lock file, and there is no {LOCK_FILE} {beside}in \
         {here}; `pipemill plugin add` makes one"
    )
}

/// Completes the error about a name that nothing has by the names of the lock file.
fn with_names(
    engine: &Engine,
    mut error: PluginError,
    name: &str,
    lock: &Option<LockFile>,
) -> PluginError {
    let is_known = engine.builtins().iter().any(|builtin| builtin.name == name);
    if let (Some(lock), false) = (lock, is_known) {
        let (file, names) = (lock.path.display(), names(&lock.plugins));
        error.message.push_str(&format!("; the plugins of {file}: {names}"));
    }
    error
}

impl Found {
    /// Compares the digest that a configuration asks for with that of the lock file.
    fn check_pinned(&self, pinned: &Digest) -> Result<(), String> {
        let (locked, file) = (&self.plugin.sha256, self.lock.path.display());
        if pinned == locked {
            return Ok(());
        }
        Err(format!(
            "{file} has the SHA-256 {locked} for it, but `sha256` asks for {pinned}: leave \
             `sha256` out, or add the plugin that it means"
        ))
    }

    /// The bytes of the plugin's file, which have the digest of the lock file.
    fn read(&self) -> Result<Vec<u8>, String> {
        let (path, lock) = (self.lock.file_of(&self.plugin), self.lock.path.display());
        let (file, expected) = (path.display(), &self.plugin.sha256);
        let bytes = read_plugin_file(&path).map_err(|why| match why.kind() {
            io::ErrorKind::NotFound => {
                let origin = printable(&self.plugin.origin);
                format!(
                    "its file {file}, which {lock} names, does not exist: `pipemill plugin fetch` \
                     gets it from {origin}"
                )
            }
            _ => format!("its file {file} can't be read: {why}"),
        })?;
        let found = Digest::of(&bytes);
        if found == *expected {
            return Ok(bytes);
        }
        Err(format!(
            "its file {file} has the SHA-256 {found}, but {lock} asks for {expected}: it was \
             changed or damaged; `pipemill plugin fetch` gets the right one"
        ))
    }
}

fn error(name: &str, message: String) -> PluginError {
    PluginError { decoder: name.to_owned(), message }
}
