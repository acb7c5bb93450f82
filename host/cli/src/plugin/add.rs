//! `pipemill plugin add`: fetches a plugin, checks that it can be used, and adds it to the lock
//! file.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use pipemill_decode::{Digest, Engine, Plugin};
use pipemill_lock::{Added, LOCK_FILE, LockError, LockedPlugin, Origin, PluginName, Store};
use pipemill_source::SourceError;

use super::{DEFAULT_MAX_RECORD, check, exit, say};
use crate::s3;
use pipemill_plugin_tools::{Inspection, Metadata, PluginUnderTest};

/// Add a plugin to the lock file, so that a configuration can name it: `decoder = "NAME@VERSION"`.
///
/// The plugin's file is copied into the folder pipemill.plugins next to the lock file. The lock
/// file has its name, version, SHA-256 and origin. `run` reads only these files, and fetches
/// nothing.
#[derive(clap::Args)]
pub(super) struct Args {
    /// A path, `s3://bucket/key`, `https://host/path`, or `oci://registry/repository:tag`
    #[arg(value_name = "SOURCE")]
    source: OsString,
    /// Its name [default: the one that the file has of itself, or the file's own name]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// The SHA-256 that the file must have
    #[arg(long, value_name = "HEX", value_parser = digest)]
    sha256: Option<Digest>,
    /// Take the place of a plugin with the same name and version and another SHA-256
    #[arg(long)]
    replace: bool,
    /// The lock file
    #[arg(long, value_name = "FILE", default_value = LOCK_FILE)]
    lock: PathBuf,
    #[command(flatten)]
    s3: s3::S3Args,
}

fn digest(text: &str) -> Result<Digest, String> {
    text.parse().map_err(|found| format!("expected 64 hexadecimal digits, found {found}"))
}

pub(super) fn main(args: &Args, engine: &Engine) -> Result<ExitCode, ExitCode> {
    let usage = |why: String| exit::because(exit::USAGE, s3::with_option_names(&why));
    let origin = Origin::of_name(&args.source).map_err(usage)?;
    if origin.is_unprotected() && args.sha256.is_none() {
        let why = format!(
            "{origin} is not encrypted, so others could put another file in its place: give \
             --sha256, or use https://"
        );
        return Err(exit::because(exit::USAGE, why));
    }
    let bytes = pipemill_lock::fetch(&origin, &args.s3.access()).map_err(not_fetched)?;
    let sha256 = Digest::of(&bytes);
    if let Some(wanted) = args.sha256.filter(|wanted| *wanted != sha256) {
        let why = format!(
            "{origin} has the SHA-256 {sha256}, but --sha256 asks for {wanted}: it is another file \
             than the one that is meant; nothing was added"
        );
        return Err(exit::because(exit::DATA, why));
    }
    let name = name(args, &origin, &bytes, engine).map_err(usage)?;
    check(engine, &name.to_string(), &bytes)?;
    let origin = origin.to_locked(&args.lock).map_err(usage)?;
    let plugin = LockedPlugin { name: name.clone(), sha256, origin };
    let added = Store::open(&args.lock)
        .and_then(|store| store.add(plugin, &bytes, args.replace))
        .map_err(not_changed)?;
    let file = args.lock.display();
    let what = match added {
        Added::New => format!("added to {file}"),
        Added::Known => format!("is in {file}"),
        Added::Replaced(older) => format!("in {file}, in place of the one with {older}"),
    };
    say!("{name}: {what}, with the SHA-256 {sha256}");
    say!("next: decoder = \"{name}\" in a configuration next to {file}");
    Ok(ExitCode::SUCCESS)
}

/// The name under which the plugin is added.
fn name(args: &Args, origin: &Origin, bytes: &[u8], engine: &Engine) -> Result<PluginName, String> {
    let metadata = Metadata::of(bytes);
    let own = || metadata.get("name").map_or_else(|| origin.file_stem(), str::to_owned);
    let name = args.name.clone().unwrap_or_else(own);
    let version = metadata.get("version").unwrap_or_default();
    PluginName::new(&name, "").map_err(|why| match &args.name {
        Some(_) => format!("--name: {why}"),
        None => format!("{origin}: {why}; --name gives it another name"),
    })?;
    let name = PluginName::new(&name, version).map_err(|why| {
        format!("{origin}: {why}; `wasm-tools metadata add --version` gives it another one")
    })?;
    if engine.builtins().iter().any(|builtin| builtin.name == name.name()) {
        let name = name.name();
        return Err(format!(
            "{origin}: `{name}` is the name of a built-in decoder; --name gives it another name"
        ));
    }
    Ok(name)
}

/// Checks that a plugin can be used, as `plugin check` does.
fn check(engine: &Engine, name: &str, bytes: &[u8]) -> Result<(), ExitCode> {
    let plugin =
        Plugin::compile(engine, name, bytes).map_err(|error| exit::because(exit::DATA, error))?;
    let subject = PluginUnderTest::without_options(plugin, DEFAULT_MAX_RECORD);
    match check::report(&subject, &Inspection::at(&subject, bytes)) {
        true => Ok(()),
        false => Err(exit::DATA.into()),
    }
}

/// Reports why a plugin can't be fetched.
pub(super) fn not_fetched(error: SourceError) -> ExitCode {
    let code = if error.missing { exit::MISSING } else { exit::DATA };
    exit::because(code, s3::with_option_names(&error.in_full()))
}

/// Reports why a lock file stays as it is.
pub(super) fn not_changed(error: LockError) -> ExitCode {
    exit::because(exit::USAGE, error)
}
