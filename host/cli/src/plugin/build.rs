//! `pipemill plugin build`: compiles a project's folder to a plugin, which is one file.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use pipemill_decode::{Engine, Plugin};

use super::{DEFAULT_MAX_RECORD, check, exit, say, test};
use pipemill_plugin_tools::{Inspection, PluginUnderTest, project};

/// Compile a decoder's project to a plugin, and check that it can be used.
///
/// The language is Rust, C or C++, Zig, Go, or Python, if the folder has Cargo.toml, src/*.c or
/// src/*.cpp, src/decoder.zig, go.mod, or decoder.py.
#[derive(clap::Args)]
pub(super) struct Args {
    /// The project's folder
    #[arg(value_name = "DIR", default_value = ".")]
    folder: PathBuf,
    /// The plugin's file [default: DIR/<name of DIR>.wasm]
    #[arg(long, value_name = "FILE.wasm")]
    out: Option<PathBuf>,
}

pub(super) fn main(args: &Args, engine: &Engine) -> Result<ExitCode, ExitCode> {
    let folder = args.folder.canonicalize().map_err(|error| {
        let why = format!("{} can't be opened: {error}", args.folder.display());
        exit::because(exit::MISSING, why)
    })?;
    let out = args.out.clone().unwrap_or_else(|| default_out(&args.folder, &folder));
    let shown = out.display().to_string();
    let component = project::build(&folder).map_err(|error| {
        let code = if error.is_missing { exit::SYSTEM } else { exit::DATA };
        exit::because(code, error)
    })?;
    let plugin = Plugin::compile(engine, &shown, &component)
        .map_err(|error| exit::because(exit::DATA, error))?;
    let subject = PluginUnderTest::without_options(plugin, DEFAULT_MAX_RECORD);
    if !check::report(&subject, &Inspection::at(&subject, &component)) {
        return Err(exit::DATA.into());
    }
    write_atomically(&out, &component).map_err(|error| {
        exit::because(exit::SYSTEM, format!("{shown} can't be written: {error}"))
    })?;
    // A name without a `/` would work, too, but in a configuration it would look like the name of a
    // built-in decoder.
    say!("next: pipemill plugin test {} --data FILE", test::quote(&shown));
    Ok(ExitCode::SUCCESS)
}

/// The default path of the plugin: in the project's folder, with the folder's name.
fn default_out(given: &Path, folder: &Path) -> PathBuf {
    let name = folder.file_name().unwrap_or("decoder".as_ref()).to_string_lossy();
    let file = format!("{name}.wasm");
    if given == Path::new(".") { file.into() } else { given.join(file) }
}

/// Writes the file as a whole or not at all, because the old file may be in use.
fn write_atomically(out: &Path, component: &[u8]) -> std::io::Result<()> {
    let folder = out.parent().filter(|folder| !folder.as_os_str().is_empty());
    let mut file = tempfile::NamedTempFile::new_in(folder.unwrap_or(Path::new(".")))?;
    std::io::Write::write_all(&mut file, component)?;
    use std::os::unix::fs::PermissionsExt;
    file.as_file().set_permissions(std::fs::Permissions::from_mode(0o644))?;
    file.persist(out)?;
    Ok(())
}
