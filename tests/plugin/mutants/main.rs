//! Tests `pipemill plugin test` itself: mistakes that an author could make are put into the built-in
//! decoders, one at a time, and the test must find them. `make mutants` runs this; it takes minutes.
//!
//! Each TOML file in this folder has the mistakes of one decoder: which text of which file becomes
//! which other. It also has the inputs with which the decoder is tested. What is expected of them
//! comes from the decoder without mistakes, which must pass.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output};
use std::{env, fs};

use serde_json::Value;
use serde_json::value::RawValue;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
/// Cases of each kind. A number and not a time: what is found must not depend on the machine.
const CASES: &str = "300";
/// The share of the mistakes that must be found, in percent.
const MIN_FOUND: usize = 90;

/// The mistakes of one decoder, and its inputs.
struct Subject {
    decoder: String,
    inputs: Vec<Value>,
    mutants: Vec<Mutant>,
}

/// The arguments of `plugin test` for one input, besides the plugin.
type TestArgs = Vec<String>;

/// A mistake.
struct Mutant {
    what: String,
    class: String,
    file: String,
    old: String,
    new: String,
}

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("mutants: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Returns whether enough mistakes were found.
fn run() -> Result<bool> {
    // Names of decoders; without any, all are tried.
    let wanted: Vec<String> = env::args().skip(1).collect();
    let work = target().join("mutants");
    copy_workspace(&work)?;
    let (mut found, mut all) = (0, 0);
    println!("{:<20} {:<11} {:<62} found by", "decoder", "class", "mistake");
    for path in tables()? {
        let subject = Subject::read(&path)?;
        if !wanted.is_empty() && !wanted.contains(&subject.decoder) {
            continue;
        }
        let inputs = subject.prepare(&work)?;
        if let Some(failure) = test(&subject.build(&work)?, &inputs, &work)? {
            return Err(format!("{} fails without a mistake: {failure}", subject.decoder).into());
        }
        for mutant in &subject.mutants {
            let finding = subject.try_mutant(mutant, &inputs, &work)?;
            let shown = finding.as_deref().unwrap_or("-- not found --");
            println!("{:<20} {:<11} {:<62} {shown}", subject.decoder, mutant.class, mutant.what);
            all += 1;
            found += usize::from(finding.is_some());
        }
    }
    if all == 0 {
        return Err(format!("there are no mistakes for {}", wanted.join(" ")).into());
    }
    println!("{found} of {all} mistakes are found");
    Ok(100 * found >= MIN_FOUND * all)
}

fn target() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| Path::new(ROOT).join("target"), PathBuf::from)
}

/// The TOML files of this folder.
fn tables() -> Result<Vec<PathBuf>> {
    let folder = Path::new(ROOT).join("tests/plugin/mutants");
    let entries = fs::read_dir(folder)?.collect::<std::io::Result<Vec<_>>>()?;
    let mut tables: Vec<_> = entries.into_iter().map(|entry| entry.path()).collect();
    tables.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    tables.sort();
    Ok(tables)
}

/// The folders that plugins are built of. The last three are those of what only tests of plugins depend
/// on: cargo reads their manifests.
const PARTS: [&str; 6] = ["plugins", "wit", "host/codecs", "features", "ring", "host/types"];

/// Copies what plugins are built of. The other members of the workspace are left out.
fn copy_workspace(work: &Path) -> Result<()> {
    let copy = work.join("workspace");
    fs::create_dir_all(&copy)?;
    for part in PARTS {
        copy_folder(&Path::new(ROOT).join(part), &copy.join(part))?;
    }
    fs::copy(Path::new(ROOT).join("Cargo.lock"), copy.join("Cargo.lock"))?;
    let manifest = fs::read_to_string(Path::new(ROOT).join("Cargo.toml"))?;
    let is_kept = |line: &&str| {
        let member = line.trim().strip_prefix('"').filter(|_| line.ends_with("\","));
        member.is_none_or(|member| PARTS.iter().any(|part| member.starts_with(part)))
    };
    let manifest: Vec<_> = manifest.lines().filter(is_kept).collect();
    Ok(fs::write(copy.join("Cargo.toml"), manifest.join("\n"))?)
}

fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        // A plugin that was built in its own folder has one.
        if entry.file_name() == "target" {
            continue;
        }
        let path = to.join(entry.file_name());
        match entry.file_type()?.is_dir() {
            true => copy_folder(&entry.path(), &path)?,
            // An unchanged file keeps its time, so that it is not compiled again.
            false => write_if_changed(&path, &fs::read(entry.path())?)?,
        }
    }
    Ok(())
}

fn write_if_changed(path: &Path, bytes: &[u8]) -> Result<()> {
    match fs::read(path).is_ok_and(|old| old == bytes) {
        true => Ok(()),
        false => Ok(fs::write(path, bytes)?),
    }
}

impl Subject {
    fn read(path: &Path) -> Result<Self> {
        let in_table = |error: String| format!("{}: {error}", path.display());
        let table: Value = toml::from_str(&fs::read_to_string(path)?)?;
        let text = |value: &Value, key: &str| -> Result<String> {
            let text = value[key].as_str().ok_or(in_table(format!("`{key}` is missing")))?;
            Ok(text.to_owned())
        };
        let decoder = text(&table, "decoder")?;
        let empty = Vec::new();
        let list = |key: &str| table[key].as_array().unwrap_or(&empty);
        let mut mutants = Vec::new();
        for mutant in list("mutant") {
            mutants.push(Mutant {
                what: text(mutant, "what")?,
                class: text(mutant, "class")?,
                file: text(mutant, "file")?,
                old: text(mutant, "old")?,
                new: text(mutant, "new")?,
            });
        }
        let inputs = list("input").clone();
        Ok(Self { decoder, inputs, mutants })
    }

    /// Builds the decoder as it stands in the copy. Returns the path of the plugin.
    fn build(&self, work: &Path) -> Result<PathBuf> {
        let package = format!("pipemill-{}", self.decoder);
        let target = work.join("target");
        let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.current_dir(work.join("workspace")).args(["build", "--quiet", "--offline"]);
        // Optimizing takes longer than it saves.
        cargo.args(["--profile", "plugin", "--config", "profile.plugin.lto = \"off\""]);
        cargo.args(["--config", "profile.plugin.opt-level = 1"]);
        cargo.args(["--target", "wasm32-unknown-unknown", "--target-dir"]).arg(&target);
        cargo.args(["-p", &package, "--features", &format!("{package}/export")]);
        cargo.env("RUSTFLAGS", pipemill_plugin_build::RUSTFLAGS).env_remove("CARGO_TARGET_DIR");
        let output = cargo.output()?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(format!("{package} does not compile:\n{text}").into());
        }
        let file = format!("{}.wasm", package.replace('-', "_"));
        Ok(target.join("wasm32-unknown-unknown/plugin").join(file))
    }

    /// Writes the inputs. Returns how each is tested.
    fn prepare(&self, work: &Path) -> Result<Vec<TestArgs>> {
        let inputs = self.inputs.iter().enumerate();
        inputs.map(|(number, input)| prepare(&self.decoder, number, input, work)).collect()
    }

    /// Builds and tests the decoder with a mistake. Returns by which check it is found, and the
    /// message.
    fn try_mutant(
        &self,
        mutant: &Mutant,
        inputs: &[TestArgs],
        work: &Path,
    ) -> Result<Option<String>> {
        let root = work.join("workspace");
        let path = root.join(&mutant.file);
        let original = fs::read_to_string(&path)?;
        fs::write(&path, mutant.applied(&root)?)?;
        let tested = self.build(work).and_then(|plugin| test(&plugin, inputs, work));
        fs::write(&path, original)?;
        let failure = tested.map_err(|error| format!("{}: {error}", mutant.what))?;
        Ok(failure.map(|failure| {
            let failure = failure.trim_start_matches("FAIL").trim();
            let (check, message) = failure.split_once(": ").unwrap_or((failure, ""));
            format!("{check}: {message:.60}")
        }))
    }
}

impl Mutant {
    /// The text of the file with the mistake.
    fn applied(&self, root: &Path) -> Result<String> {
        let Self { what, file, old, new, .. } = self;
        let original = fs::read_to_string(root.join(file));
        let original = original.map_err(|error| format!("{what}: {file}: {error}"))?;
        match original.matches(old.as_str()).count() {
            1 => Ok(original.replace(old, new)),
            count => Err(format!("{what}: {file} has the text {count} times").into()),
        }
    }
}

/// Tests the plugin with all inputs. Returns what fails.
fn test(plugin: &Path, inputs: &[TestArgs], work: &Path) -> Result<Option<String>> {
    let plugin = plugin.display().to_string();
    for input in inputs {
        let args = [&["plugin", "test", &plugin, "--cases", CASES].map(str::to_owned), &input[..]];
        let output = pipemill(&args.concat(), work)?;
        let report = text(&output);
        if output.status.code() == Some(0) {
            continue;
        }
        let failure = report.lines().find(|line| line.starts_with("FAIL"));
        return Ok(Some(failure.unwrap_or(report.trim()).to_owned()));
    }
    Ok(None)
}

/// Writes an input, and what is expected of it, which comes from the built-in decoder.
fn prepare(decoder: &str, number: usize, input: &Value, work: &Path) -> Result<TestArgs> {
    let strings = |key: &str| -> Vec<String> {
        let list = input[key].as_array().into_iter().flatten();
        list.filter_map(|value| value.as_str().map(str::to_owned)).collect()
    };
    let mut bytes = input["text"].as_str().unwrap_or_default().as_bytes().to_vec();
    if let Some(file) = input["file"].as_str() {
        let path = Path::new(ROOT).join(file);
        bytes = fs::read(path).map_err(|error| format!("{file}: {error}"))?;
    }
    let bytes_once = bytes.clone();
    for _ in 1..input["times"].as_u64().unwrap_or(1) {
        bytes.extend_from_slice(&bytes_once);
    }
    let damages: BTreeMap<String, Value> =
        serde_json::from_value(input["damage"].clone()).unwrap_or_default();
    for (at, byte) in &damages {
        let at: usize = at.parse()?;
        bytes[at] ^= byte.as_u64().unwrap_or(1) as u8;
    }
    let path = |name: &str| work.join(format!("{decoder}-{number}.{name}")).display().to_string();
    fs::write(path("data"), bytes)?;
    let options: Vec<_> =
        strings("options").into_iter().flat_map(|option| ["-o".to_owned(), option]).collect();
    let mut test = [&options[..], &strings("args")].concat();
    test.extend(["--data".to_owned(), path("data"), "--expect".to_owned(), path("expect")]);
    let mut cat = ["cat".to_owned(), "-d".to_owned(), decoder.to_owned(), path("data")].to_vec();
    cat.extend(options);
    if !damages.is_empty() {
        let _ = fs::remove_file(path("errors"));
        let quarantine = ["--on-error", "quarantine", "--quarantine"].map(str::to_owned);
        cat.extend([&quarantine[..], &[path("errors")]].concat());
        test.extend(["--on-error", "skip", "--expect-errors"].map(str::to_owned));
        test.push(path("errors"));
    }
    let output = pipemill(&cat, work)?;
    if !output.status.success() {
        return Err(format!("{decoder}: {}", text(&output)).into());
    }
    fs::write(path("expect"), without_offsets(&output.stdout)?)?;
    Ok(test)
}

/// Records as `pipemill cat` prints them. Only the fields are compared: the test must find out for
/// itself whether records begin where they are said to.
fn without_offsets(printed: &[u8]) -> Result<String> {
    let mut lines = String::new();
    for line in std::str::from_utf8(printed)?.lines() {
        let record: BTreeMap<String, Box<RawValue>> = serde_json::from_str(line)?;
        let fields = record.get("fields").ok_or("a record has no fields")?;
        lines.push_str(&format!("{{\"fields\":{fields}}}\n"));
    }
    Ok(lines)
}

fn pipemill(args: &[String], work: &Path) -> Result<Output> {
    let pipemill = env::var_os("PIPEMILL").ok_or("PIPEMILL names no binary; use `make mutants`")?;
    let mut command = Command::new(pipemill);
    command.current_dir(work).args(args).env("PIPEMILL_CACHE", "off").env("PIPEMILL_LOG", "off");
    Ok(command.output()?)
}

fn text(output: &Output) -> String {
    let (out, err) = (&output.stdout, &output.stderr);
    format!("{}{}", String::from_utf8_lossy(out), String::from_utf8_lossy(err))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{ROOT, Subject, tables};

    #[test]
    fn each_mistake_can_be_made_and_each_input_is_there() {
        let mut mistakes = 0;
        for path in tables().expect("a folder") {
            let subject = Subject::read(&path).expect("a table");
            for mutant in &subject.mutants {
                mutant.applied(Path::new(ROOT)).expect("a text that the file has");
                mistakes += 1;
            }
            for input in &subject.inputs {
                let file = input["file"].as_str().unwrap_or("Cargo.toml");
                assert!(Path::new(ROOT).join(file).exists(), "{}: {file}", path.display());
            }
            assert!(!subject.inputs.is_empty(), "{}", path.display());
        }
        assert!(mistakes >= 40, "{mistakes}");
    }
}
