//! `pipemill plugin new`: makes a folder with a new decoder's project.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::{exit, say, test};
use pipemill_plugin_tools::project::{Language, Sdk, refusal_of_name, template, wrapping};

/// Make a folder with a decoder that works, its test data and a Makefile.
#[derive(clap::Args)]
pub(super) struct Args {
    /// The decoder's name, or a path that ends with it: the folder to make
    #[arg(value_name = "NAME")]
    folder: PathBuf,
    /// The language to write it in
    #[arg(long, value_name = "LANGUAGE")]
    lang: Language,
    /// With Rust: use the crate `pipemill-plugin` from this folder, or this version from the
    /// registry, instead of a copy in the new folder
    #[arg(long, value_name = "PATH|VERSION")]
    sdk: Option<String>,
    /// With Rust: the new decoder changes the records of this built-in one
    #[arg(long, value_name = "DECODER")]
    wrap: Option<String>,
}

pub(super) fn main(args: &Args) -> Result<ExitCode, ExitCode> {
    let usage = |why: String| exit::because(exit::USAGE, why);
    let folder = args.folder.as_path();
    // `.` and `..` contain no name; `path/to/mine` does.
    let name = folder.file_name().unwrap_or(folder.as_os_str()).to_string_lossy();
    if let Some(why) = refusal_of_name(&name, args.lang) {
        return Err(usage(why));
    }
    let sdk = sdk(args).map_err(usage)?;
    check_free(folder).map_err(usage)?;
    let files = match &args.wrap {
        None => template(args.lang, &name, &sdk),
        Some(_) if args.lang != Language::Rust => {
            return Err(usage("--wrap is for Rust: built-in decoders are crates".to_owned()));
        }
        Some(wrapped) => wrapping(&name, wrapped, &sdk).map_err(usage)?,
    };
    for (path, bytes) in files {
        write(&folder.join(path), &bytes)?;
    }
    print(folder, &name, args);
    Ok(ExitCode::SUCCESS)
}

fn sdk(args: &Args) -> Result<Sdk, String> {
    let Some(given) = &args.sdk else { return Ok(Sdk::Copy) };
    if args.lang != Language::Rust {
        return Err("--sdk is for Rust; a project in another language has all it needs".to_owned());
    }
    if given.starts_with(|c: char| c.is_ascii_digit())
        && given.chars().all(|c| c.is_ascii_digit() || c == '.')
    {
        return Ok(Sdk::Version(given.clone()));
    }
    match Path::new(given).canonicalize() {
        Ok(path) if path.join("Cargo.toml").is_file() => Ok(Sdk::Path(path)),
        _ => Err(format!(
            "--sdk: there is no crate in {given}: expected the folder `plugins/sdk` of pipemill's \
             sources, or a version as 0.1"
        )),
    }
}

/// Checks that the folder does not exist or is empty.
fn check_free(folder: &Path) -> Result<(), String> {
    let shown = folder.display();
    match std::fs::read_dir(folder) {
        Ok(mut entries) => match entries.next() {
            None => Ok(()),
            Some(_) => {
                Err(format!("{shown} is there, and not empty; take another name, or remove it"))
            }
        },
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(format!("{shown} is there, but no folder: {error}; take another name")),
    }
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), ExitCode> {
    let folder = path.parent().unwrap_or(path);
    std::fs::create_dir_all(folder).and_then(|()| std::fs::write(path, bytes)).map_err(|error| {
        exit::because(exit::SYSTEM, format!("{} can't be written: {error}", path.display()))
    })
}

fn print(folder: &Path, name: &str, args: &Args) {
    let language = args.lang;
    let quoted = |path: &str| test::quote(&folder.join(path).to_string_lossy());
    let plugin = quoted(&format!("{name}.wasm"));
    let test_options = if args.wrap.is_some() {
        "--data FILE".to_owned()
    } else {
        let (data, expected) = (quoted("data/greetings.pstr"), quoted("data/greetings.jsonl"));
        format!("-o text=true --data {data} --expect {expected}")
    };
    say!("{}: a decoder in {} that works, to be changed", folder.display(), language.name());
    if language == Language::Python {
        let (venv, pip) = (quoted(".venv"), quoted(".venv/bin/pip"));
        say!("once:");
        say!("    python3 -m venv {venv} && {pip} install componentize-py~=0.25");
    }
    say!("next:");
    say!("    pipemill plugin build {}", test::quote(&folder.to_string_lossy()));
    say!("    pipemill plugin test {plugin} {test_options}");
    say!(
        "then change {}; the guide: {}/blob/main/docs/write-a-decoder.md",
        quoted(language.main_file()),
        env!("CARGO_PKG_REPOSITORY")
    );
}
