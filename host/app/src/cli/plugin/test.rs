//! `pipemill plugin test`: the tests that the built-in decoders pass, for any plugin.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use super::{Meant, exit, read};
use crate::plugin_tools::{
    Case, ConformanceTest, Expected, Finding, PluginUnderTest, Property, try_out,
};
use pipemill_decode::{Engine, Limits};

/// Test a plugin: whatever the pieces its input comes in, wherever it is cut off, however it is damaged.
///
/// Exits with 65 at the first thing that does not hold, and prints a command that shows it again on the
/// smallest input that was found.
#[derive(clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    meant: Meant,
    /// A file of its format, not compressed; a small one is tried more thoroughly
    #[arg(long, value_name = "FILE", required_unless_present = "hex")]
    data: Vec<PathBuf>,
    /// What the (first) file gives, as `pipemill cat` prints it; keys that are left out are not compared
    #[arg(long, value_name = "FILE", requires = "data")]
    expect: Option<PathBuf>,
    /// Random cases of each kind
    #[arg(long, default_value_t = 500, value_name = "N")]
    cases: u32,
    /// Where random cases start from: the same number, the same cases
    #[arg(long, default_value_t = 0, value_name = "N")]
    seed: u64,
    /// The longest that each kind of cases may take for a file, and making a found one smaller
    #[arg(long, default_value = "10s", value_name = "TIME", value_parser = crate::config::parse_duration)]
    time: Duration,
    /// Refuse it, too, if the end of the input silently cuts the last record short
    #[arg(long)]
    strict_end: bool,
    /// Test one case alone: this input, as hexadecimal digits
    #[arg(long, value_name = "BYTES", conflicts_with = "expect")]
    hex: Option<String>,
    /// Test one case alone: the sizes of the pieces that the input comes in
    #[arg(long, value_name = "N,N,…", value_delimiter = ',', conflicts_with = "cut")]
    pieces: Option<Vec<usize>>,
    /// Test one case alone: the input cut off behind so many bytes
    #[arg(long, value_name = "N")]
    cut: Option<usize>,
}

/// A call that uses more CPU time than this hangs.
const HANGS: Duration = Duration::from_secs(2);

pub(super) fn main(args: &Args, engine: &Engine) -> Result<ExitCode, ExitCode> {
    // What the plugin logs about each of a thousand inputs would hide what is found.
    log::set_max_level(log::LevelFilter::Off);
    let subject = args.meant.load(engine)?;
    let subject = PluginUnderTest {
        limits: Limits { call_timeout: HANGS, ..subject.limits.clone() },
        ..subject
    };
    if let Some(digits) = &args.hex {
        let why = "--hex: expected an even number of hexadecimal digits";
        let input = hex::decode(digits).map_err(|_| exit::because(exit::USAGE, why))?;
        return one(args, &subject, &input);
    }
    let expected = args.expect.as_deref().map(expected).transpose()?;
    let mut expected = expected.as_ref();
    for path in &args.data {
        let input = read(path)?;
        if args.pieces.is_some() || args.cut.is_some() {
            return one(args, &subject, &input);
        }
        println!("{}: {}, {} bytes", args.meant.plugin, path.display(), input.len());
        let trial = ConformanceTest {
            seed: args.seed,
            cases: args.cases,
            patience: args.time,
            strict_end: args.strict_end,
        };
        let mut tell = |what: &str, how: String| {
            println!("  ok  {what}: {how}");
            // Seen while it goes on; nothing to do if nobody reads it.
            let _ = std::io::stdout().flush();
        };
        // The file that comes first is the one that is expected to give something.
        if let Err(finding) = try_out(&subject, &input, expected.take(), &trial, &mut tell) {
            return Ok(report(args, path, &finding));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// One case, as a report of a fault prints it.
fn one(args: &Args, subject: &PluginUnderTest, input: &[u8]) -> Result<ExitCode, ExitCode> {
    let property = match args.cut {
        Some(at) => Property::Cut(at),
        None => Property::Pieces(args.pieces.clone().unwrap_or_default()),
    };
    match (Case { input: input.into(), property }).holds(subject, args.strict_end) {
        Ok(()) => {
            println!("  ok  {} bytes", input.len());
            Ok(ExitCode::SUCCESS)
        }
        Err(broken) => {
            println!("FAIL  {broken}");
            Ok(exit::DATA.into())
        }
    }
}

/// Inputs up to this size are repeated on the command line; others get a file.
const ON_COMMAND_LINE: usize = 256;

fn report(args: &Args, data: &Path, finding: &Finding) -> ExitCode {
    println!("FAIL  {}: {}", finding.tried, finding.broken);
    let mut command = format!("pipemill plugin test {}", quote(&args.meant.plugin));
    for (name, value) in &args.meant.options {
        command.push_str(&format!(" -o {}", quote(&format!("{name}={value}"))));
    }
    let Some(case) = &finding.case else {
        println!("      in {}; `pipemill cat` shows the records before it", data.display());
        return exit::DATA.into();
    };
    let input = &case.input;
    if input.len() <= ON_COMMAND_LINE {
        command.push_str(&format!(" --hex '{}'", hex::encode(input)));
    } else {
        let file = "pipemill-plugin-test.bin";
        match std::fs::write(file, input) {
            Ok(()) => command.push_str(&format!(" --data {file}")),
            Err(error) => {
                println!("      the input that shows it can't be kept in {file}: {error}")
            }
        }
    }
    match &case.property {
        Property::Pieces(sizes) if sizes.is_empty() => {}
        Property::Pieces(sizes) => {
            let sizes: Vec<_> = sizes.iter().map(usize::to_string).collect();
            command.push_str(&format!(" --pieces '{}'", sizes.join(",")));
        }
        Property::Cut(at) => command.push_str(&format!(" --cut {at}")),
    }
    if args.strict_end {
        command.push_str(" --strict-end");
    }
    println!("      the smallest input found has {} bytes; it shows again by", input.len());
    println!("      {command}");
    exit::DATA.into()
}

fn expected(path: &Path) -> Result<Expected, ExitCode> {
    let text = String::from_utf8_lossy(&read(path)?).into_owned();
    Expected::parse(&text)
        .map_err(|why| exit::because(exit::USAGE, format!("{}: {why}", path.display())))
}

/// As a shell takes it.
pub(super) fn quote(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-/=,:+".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}
