//! The decoder that comes with data: a file `decoder.toml` beside them names a plugin by its
//! SHA-256, and says where it lies.
//!
//! Who can write the data can write this file. So it chooses nothing: its plugin runs only if the
//! operator trusts its SHA-256, by `trust` or because the lock file has it, and only a file with
//! this SHA-256 is compiled. Then it is a plugin as any other. A file that nobody trusts is
//! reported, and the data are read as if it were not there.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pipemill_decode::{Digest, Engine, MAX_PLUGIN_BYTES, Plugin, read_plugin_file};
use pipemill_source::s3::{LazyS3Runtime, Settings, read_object_within};
use pipemill_source::{DecoderPlaces, Location, SourceError};
use pipemill_types::printable;

use crate::decoder_file::{MAX_BYTES, NamedByData};
use crate::lock_file::{LockFile, read_text};
use crate::lookup::locked_path;
use crate::origin::Origin;

/// A server that does not answer for this time delays data no longer, if no SHA-256 is trusted by
/// name: the list of the objects will report it.
const S3_TIMEOUT: Duration = Duration::from_secs(5);

/// What of the decoders that come with data may be used.
#[derive(Debug, Clone, Copy, Default)]
pub struct Trust<'a> {
    /// Plugins with these SHA-256.
    pub digests: &'a [Digest],
    /// The configuration beside which a lock file may lie: its plugins are trusted, too.
    pub config: Option<&'a Path>,
}

/// A decoder that came with data.
pub struct DataDecoder {
    /// The plugin, whose file has the SHA-256 that is trusted.
    pub plugin: Plugin,
    /// The path or address of the file that names it.
    pub file: String,
    /// Where the plugin lies, as the file says.
    pub address: String,
    options: Vec<(String, String)>,
}

impl DataDecoder {
    /// The options of the decoder: the `given` ones, and those of the file that are not given.
    pub fn options(&self, given: &[(String, String)]) -> Vec<(String, String)> {
        let is_given = |name: &String| given.iter().any(|(other, _)| other == name);
        let own = self.options.iter().filter(|(name, _)| !is_given(name));
        given.iter().chain(own).cloned().collect()
    }
}

/// Finds the decoder that comes with data whose file may lie at these places: one list for each
/// folder or prefix. `s3` says how S3 is reached. `None` if there is no such file, or none that is
/// trusted: that is logged. In S3, no file is looked for if nothing is trusted at all.
///
/// # Errors
/// The folders and prefixes have different decoders; the plugin can't be read, or is another one
/// than its file names, or can't be used. If SHA-256 are trusted by name, also: a file can't be
/// read. The error is a text for people.
pub fn decoder_of_data(
    engine: &Engine,
    trust: Trust,
    s3: &Settings,
    places: &[DecoderPlaces],
) -> Result<Option<DataDecoder>, String> {
    let is_strict = !trust.digests.is_empty();
    let lock = locked_path(trust.config).map(|path| LockFile::read(&path));
    let has_locked = matches!(&lock, Some(Ok(lock)) if !lock.plugins.is_empty());
    let mut reader = Reader::new(s3, is_strict, has_locked);
    let mut found = Vec::new();
    for places in places {
        let one = match reader.named(places) {
            Ok(one) => one,
            Err(why) if is_strict => return Err(why),
            Err(why) => {
                log::warn!("{why}; it is left out");
                None
            }
        };
        found.push((places, one));
    }
    if found.iter().all(|(_, one)| one.is_none()) {
        return Ok(None);
    }
    let lock = lock.transpose().map_err(|why| why.to_string())?;
    let trusted = Trusted { digests: trust.digests, lock: lock.as_ref() };
    let named = found
        .iter()
        .find_map(|(_, one)| one.as_ref().filter(|(_, named)| trusted.has(&named.sha256)));
    let Some((place, named)) = named else {
        for (place, named) in found.iter().filter_map(|(_, one)| one.as_ref()).take(1) {
            log::warn!("{}", trusted.refusal(place, named));
        }
        return Ok(None);
    };
    for (places, other) in &found {
        check_same((place, named), places, other.as_ref())?;
    }
    let failed = |why: String| format!("{place}: {why}");
    let bytes = reader.plugin(&trusted, place, named).map_err(failed)?;
    compile(engine, place, named, &bytes).map(Some).map_err(failed)
}

/// Data of one channel have one decoder.
fn check_same(
    (place, named): (&Location, &NamedByData),
    places: &DecoderPlaces,
    other: Option<&(Location, NamedByData)>,
) -> Result<(), String> {
    let remedy = "read them in several channels, or name the decoder: `-d NAME`, in a file \
                  `decoder = \"NAME\"`";
    match other {
        Some((_, other)) if other.agrees_with(named) => Ok(()),
        Some((elsewhere, other)) => Err(format!(
            "{place} names the decoder {} (sha256:{}), and {elsewhere} names {} (sha256:{}), or \
             other options for it: one channel has one decoder; {remedy}",
            named.name, named.sha256, other.name, other.sha256
        )),
        None => {
            let missing: Vec<_> = places.iter().take(1).map(Location::to_string).collect();
            Err(format!(
                "{place} names the decoder {} (sha256:{}), and there is no {}: one channel has \
                 one decoder; {remedy}",
                named.name,
                named.sha256,
                missing.join("")
            ))
        }
    }
}

/// Compiles the plugin, whose bytes have the right SHA-256.
fn compile(
    engine: &Engine,
    place: &Location,
    named: &NamedByData,
    bytes: &[u8],
) -> Result<DataDecoder, String> {
    let name = named.name.name();
    if engine.builtins().iter().any(|builtin| builtin.name == name) {
        return Err(format!(
            "names its decoder `{name}`, as a built-in one is named: no other decoder takes the \
             place of a built-in one; give it another name there"
        ));
    }
    let plugin = Plugin::compile(engine, &named.name.to_string(), bytes)
        .map_err(|error| error.to_string())?;
    for (option, _) in &named.options {
        let spec = plugin.options().iter().find(|spec| spec.name == *option);
        if spec.is_some_and(|spec| spec.kind == "file") {
            return Err(format!(
                "sets the option `{option}`, which is the path of a file: data name no files of \
                 this machine; set it yourself"
            ));
        }
    }
    log::info!(
        "decoder {} (sha256:{}): it comes with the data, in {place}",
        named.name,
        named.sha256
    );
    Ok(DataDecoder {
        plugin,
        file: place.to_string(),
        address: named.address.clone(),
        options: named.options.clone(),
    })
}

/// The plugins that the operator trusts.
struct Trusted<'a> {
    digests: &'a [Digest],
    lock: Option<&'a LockFile>,
}

impl Trusted<'_> {
    fn has(&self, sha256: &Digest) -> bool {
        self.digests.contains(sha256) || self.locked(sha256).is_some()
    }

    /// The file of the lock file's plugin with this SHA-256.
    fn locked(&self, sha256: &Digest) -> Option<PathBuf> {
        let lock = self.lock?;
        let plugin = lock.plugins.iter().find(|plugin| plugin.sha256 == *sha256)?;
        Some(lock.file_of(plugin))
    }

    /// The bytes of that file, if it is there as it should be.
    fn read_locked(&self, sha256: &Digest) -> Option<Vec<u8>> {
        let bytes = read_plugin_file(&self.locked(sha256)?).ok()?;
        (Digest::of(&bytes) == *sha256).then_some(bytes)
    }

    /// The message about a file that nobody trusts.
    fn refusal(&self, place: &Location, named: &NamedByData) -> String {
        let NamedByData { name, sha256, address, replaces, .. } = named;
        let older = replaces.iter().find(|older| self.has(older));
        let older = older.map_or(String::new(), |older| {
            format!("; it says that it replaces sha256:{older}, which is trusted")
        });
        format!(
            "{place} names the decoder {name} at {}, and nobody here trusts it, so it is not \
             used{older}; to use it, trust \"sha256:{sha256}\" (`--trust`, in a file `trust`), or \
             add it with `pipemill plugin add`",
            printable(address)
        )
    }
}

/// Reads files and plugins, of limited sizes.
struct Reader {
    settings: Settings,
    runtime: LazyS3Runtime,
    /// SHA-256 are trusted by name: a file that can't be read is an error.
    is_strict: bool,
    /// Something may be trusted. Otherwise, no request is sent to find what would not be used.
    asks_s3: bool,
}

impl Reader {
    fn new(settings: &Settings, is_strict: bool, has_locked: bool) -> Self {
        let mut settings = settings.clone();
        if !is_strict {
            settings.retry_timeout = settings.retry_timeout.min(S3_TIMEOUT);
        }
        let (runtime, asks_s3) = (LazyS3Runtime::new(None), is_strict || has_locked);
        Self { settings, runtime, is_strict, asks_s3 }
    }

    /// The decoder that the first file at these places names.
    fn named(&mut self, places: &DecoderPlaces) -> Result<Option<(Location, NamedByData)>, String> {
        for place in places {
            let Some(text) = self.text(place)? else { continue };
            let named = NamedByData::parse(&text)
                .map_err(|why| format!("{place}: names no decoder that can be used: {why}"))?;
            return Ok(Some((place.clone(), named)));
        }
        Ok(None)
    }

    /// The text at this place; `None` if there is no file.
    fn text(&mut self, place: &Location) -> Result<Option<String>, String> {
        let address = match place {
            Location::File(path) => {
                return match read_text(path, MAX_BYTES) {
                    Ok(text) => Ok(Some(text)),
                    Err(why) if is_missing(&why) => Ok(None),
                    Err(why) => Err(format!("{place}: can't be read: {why}")),
                };
            }
            Location::S3(_) if !self.asks_s3 => return Ok(None),
            Location::S3(address) => address,
        };
        let s3 = self.runtime.get().map_err(|why| format!("{place}: can't start: {why}"))?;
        match read_object_within(&s3, &self.settings, address, MAX_BYTES) {
            Ok(object) => match String::from_utf8(object.bytes) {
                Ok(text) => Ok(Some(text)),
                Err(_) => Err(format!("{place}: can't be read: it is not UTF-8")),
            },
            Err(error) if error.missing => Ok(None),
            Err(error) if self.is_strict => Err(error.in_full()),
            Err(error) => {
                // Whoever may not list a bucket gets no other answer for a key that is not there.
                log::debug!("{}; no decoder that comes with the data is looked for", error.message);
                Ok(None)
            }
        }
    }

    /// The bytes of the plugin, which have its SHA-256: from the folder of the lock file, or from
    /// its address.
    fn plugin(
        &mut self,
        trusted: &Trusted,
        place: &Location,
        named: &NamedByData,
    ) -> Result<Vec<u8>, String> {
        if let Some(bytes) = trusted.read_locked(&named.sha256) {
            return Ok(bytes);
        }
        let address = printable(&named.address);
        let origin = named.origin(place).map_err(|why| format!("the address {address}: {why}"))?;
        let bytes = self.fetch(&origin).map_err(|error| error.in_full())?;
        let (found, expected) = (Digest::of(&bytes), named.sha256);
        if found == expected {
            return Ok(bytes);
        }
        Err(format!(
            "{origin} has the SHA-256 {found}, and not {expected}, which is trusted: it is another \
             file; bring the right one to this place"
        ))
    }

    fn fetch(&mut self, origin: &Origin) -> Result<Vec<u8>, SourceError> {
        let address = match origin {
            Origin::S3(address) => address,
            other => return crate::fetch(other, &self.settings.access),
        };
        let s3 = self.runtime.get().map_err(|why| {
            SourceError::new(address.to_string(), format!("can't start: {why}"), "")
        })?;
        let read = read_object_within(&s3, &self.settings, address, MAX_PLUGIN_BYTES)?;
        Ok(read.bytes)
    }
}

/// Whether there is no file at a path.
fn is_missing(why: &io::Error) -> bool {
    matches!(why.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}
