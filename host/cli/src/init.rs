//! `pipemill init`: writes a configuration and a training script for it, which run at once.

use std::ffi::{OsStr, OsString};
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use pipemill_decode::Builtins;
use pipemill_source::s3::Address;
use pipemill_types::{Field, Printable};

use super::output::say;
use super::propose::Proposal;
use super::s3::S3Args;
use super::sample::{DecoderArgs, Sample, sample};
use super::{engine, exit, schema};
use pipemill_config::quote;

/// Write a pipemill.toml for sources, and a train.py that reads them.
///
/// Each source becomes a channel, which is named after it. The start of each is decoded, so that
/// the files can say which fields there are. Existing files are refused, and nothing is written if
/// a source can't be decoded.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  pipemill init train.csv val.csv
  pipemill init -d tfrecord s3://bucket/train/ --to job")]
pub(super) struct Args {
    /// Files, folders, `s3://bucket/key`, `s3://bucket/prefix`
    #[arg(required = true, value_name = "SOURCE")]
    sources: Vec<OsString>,
    /// The folder for the files
    #[arg(long, value_name = "DIR", default_value = ".")]
    to: PathBuf,
    #[command(flatten)]
    decoding: DecoderArgs,
}

pub(super) fn main(args: &Args, builtins: Builtins) -> ExitCode {
    match write(args, builtins) {
        Ok(()) => ExitCode::SUCCESS,
        Err(code) => code,
    }
}

fn write(args: &Args, builtins: Builtins) -> Result<(), ExitCode> {
    let files = [args.to.join("pipemill.toml"), args.to.join("train.py")];
    // Checks this before reading, which may take long.
    if let Some(file) = files.iter().find(|file| file.exists()) {
        return Err(exists(file));
    }
    let engine = engine(builtins)?;
    let mut channels: Vec<Described<'_>> = Vec::new();
    for source in &args.sources {
        let text = check(source)?;
        let sample = sample(&engine, std::slice::from_ref(source), &args.decoding)?;
        let (source, name) = (text, channel_name(text, &channels));
        channels.push(Described { name, source, sample });
    }
    let texts = [configuration(&channels, &args.decoding.s3), script(&channels)];
    std::fs::create_dir_all(&args.to).map_err(|error| failed(&args.to, &error))?;
    for (file, text) in files.iter().zip(texts) {
        let mut opened = OpenOptions::new().write(true).create_new(true).open(file);
        opened
            .as_mut()
            .map_err(|error| io::Error::new(error.kind(), error.to_string()))
            .and_then(|opened| opened.write_all(text.as_bytes()))
            .map_err(|error| match error.kind() {
                io::ErrorKind::AlreadyExists => exists(file),
                _ => failed(file, &error),
            })?;
        say!("{}: written", file.display());
    }
    let place = if args.to == Path::new(".") { "" } else { "in that folder: " };
    say!("next: {place}pipemill run -- python train.py");
    Ok(())
}

fn exists(file: &Path) -> ExitCode {
    let why = format!(
        "{}: is there already, and is not overwritten; remove it, or give another folder by --to",
        file.display()
    );
    exit::because(exit::USAGE, why)
}

fn failed(file: &Path, error: &io::Error) -> ExitCode {
    exit::because(exit::SYSTEM, format!("{}: can't write it: {error}", file.display()))
}

/// The source as text. Refuses sources that a configuration can't name.
fn check(source: &OsStr) -> Result<&str, ExitCode> {
    let is_text = Address::is_s3_url(source)
        || std::path::absolute(source).is_ok_and(|path| path.to_str().is_some());
    let Some(text) = source.to_str().filter(|_| is_text) else {
        let why = format!(
            "{}: its path is not UTF-8, as a configuration is; rename it, or name a folder that it \
             lies in",
            source.display()
        );
        return Err(exit::because(exit::USAGE, why));
    };
    let is_pipe = || {
        use std::os::unix::fs::FileTypeExt;
        Path::new(source).metadata().is_ok_and(|metadata| metadata.file_type().is_fifo())
    };
    if text == "-" || is_pipe() {
        let why = format!(
            "{text}: can be read only once, so it can't be looked at first; see \
             `source = {{ fifo = … }}` and `{{ stdin = true }}` in docs/configuration.md"
        );
        return Err(exit::because(exit::USAGE, why));
    }
    Ok(text)
}

/// A source that becomes a channel.
struct Described<'a> {
    name: String,
    source: &'a str,
    sample: Sample,
}

/// A name for a source's channel: the last part of its path without endings, unique among the
/// channels.
fn channel_name(source: &str, others: &[Described<'_>]) -> String {
    let last = source.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    let stem = last.split('.').find(|part| !part.is_empty()).unwrap_or_default();
    let known = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let plain: String = stem.chars().filter(known).take(56).collect();
    let plain = if plain.is_empty() { "train".to_owned() } else { plain };
    let is_free = |name: &String| others.iter().all(|other| other.name != *name);
    let numbered = (2..).map(|number| format!("{plain}-{number}"));
    std::iter::once(plain.clone()).chain(numbered).find(is_free).unwrap_or(plain)
}

fn configuration(channels: &[Described<'_>], s3: &S3Args) -> String {
    let mut text = "# Run it: pipemill run -- python train.py\n\
                    # Check it: pipemill config check --try pipemill.toml\n\
                    # All keys: docs/configuration.md\n"
        .to_owned();
    for channel in channels {
        text.push('\n');
        for line in schema::lines(&channel.sample) {
            // A line of a comment.
            text.push_str(&format!("# {}\n", Printable::line(line)));
        }
        text.push_str(&format!("[[channel]]\nname = {}\n", quote(&channel.name)));
        match &channel.sample.trusted {
            Some(sha256) => {
                let decoder = &channel.sample.decoder;
                text.push_str(&format!(
                    "# The decoder {decoder} comes with the data.\ntrust = [\"sha256:{sha256}\"]\n"
                ));
            }
            None => {
                text.push_str(&format!("decoder = {}\n", quote(&channel.sample.decoder)));
            }
        }
        text.push_str(&options(&channel.sample));
        text.push_str(&format!("source = {{ {} }}\n", source(channel.source, s3)));
        text.push_str(
            "# What bytes that can't be decoded do: \"fail\" ends the channel, \"skip\" passes \
             over them.\non_error = \"fail\"\n",
        );
    }
    text
}

/// The key `options` of a channel.
fn options(sample: &Sample) -> String {
    let decoder = &sample.decoder;
    let mut options = sample.options.clone();
    let mut comment = format!("# See `pipemill plugin list {decoder}`.");
    let is_auto = |value: &str| value.split(',').any(|word| word.trim() == "auto");
    let types = options.iter_mut().find(|(key, value)| key == "types" && is_auto(value));
    if let Some((_, types)) = types.filter(|_| decoder == "csv") {
        comment.push_str(match learnt_types(&sample.fields) {
            Some(learnt) => {
                *types = learnt;
                " The types are those of the first rows; later rows must have them."
            }
            None => " Each start learns the types again, from the first rows.",
        });
    }
    match &sample.proposal {
        Some(Proposal { is_used: true, .. }) => comment.push_str(
            " `fields` is proposed from the first samples: take out what you don't need.",
        ),
        Some(Proposal { fields, .. }) => {
            let fields = Printable::line(fields);
            comment
                .push_str(&format!("\n# To take values out of the lines: fields = \"{fields}\""));
        }
        None => {}
    }
    let pair = |(key, value): &(String, String)| format!("{} = {}", quote(key), quote(value));
    let pairs: Vec<_> = options.iter().map(pair).collect();
    let pairs =
        if pairs.is_empty() { "{}".to_owned() } else { format!("{{ {} }}", pairs.join(", ")) };
    format!("{comment}\noptions = {pairs}\n")
}

/// The value of csv's option `types` that fixes the types of these fields, so that they don't
/// depend on the first rows at each start. `None` if a name can't be written in the list.
fn learnt_types(fields: &[Field]) -> Option<String> {
    let fits = |name: &str| !name.is_empty() && !name.contains(',') && name.trim() == name;
    let word = |field: &Field| {
        fits(&field.name).then(|| format!("{}:{}", field.name, field.scalar.word()))
    };
    Some(fields.iter().map(word).collect::<Option<Vec<_>>>()?.join(","))
}

/// The keys of the table `source`.
fn source(source: &str, s3: &S3Args) -> String {
    let kind = match Path::new(source) {
        _ if Address::is_s3_url(source) => "s3",
        path if path.is_dir() => "folder",
        _ => "file",
    };
    let mut keys = format!("{kind} = {}", quote(&located(source, kind)));
    if kind == "s3" {
        let access = s3.access();
        let texts =
            [("region", access.region), ("endpoint", access.endpoint), ("profile", access.profile)];
        for (key, value) in texts {
            keys.extend(value.map(|value| format!(", {key} = {}", quote(&value))));
        }
        let flags = [("anonymous", access.anonymous), ("requester_pays", access.requester_pays)];
        for (key, _) in flags.iter().filter(|(_, is_set)| *is_set) {
            keys.push_str(&format!(", {key} = true"));
        }
    }
    keys.push_str(", epochs = 1");
    keys
}

/// The absolute path, which is valid from everywhere.
fn located(source: &str, kind: &str) -> String {
    match kind {
        "s3" => source.to_owned(),
        _ => std::path::absolute(source)
            .map_or_else(|_| source.to_owned(), |path| path.to_string_lossy().into_owned()),
    }
}

fn script(channels: &[Described<'_>]) -> String {
    let names: Vec<_> = channels.iter().map(|channel| format!("\"{}\"", channel.name)).collect();
    format!(
        "\"\"\"Reads the channels of pipemill.toml. Run it: pipemill run -- python train.py\"\"\"

import pipemill

for channel in [{}]:
    with pipemill.connect(channel) as stream:
        for epoch in stream.epochs():
            records = 0
            for batch in epoch:
                # batch[\"name\"] is a field: numpy arrays of numbers, or sequences of bytes and \
                text.
                records += len(batch)
            print(f\"{{channel}}, epoch {{epoch.number}}: {{records}} records\")
",
        names.join(", ")
    )
}
