//! `pipemill plugin test`: runs the conformance tests, which the built-in decoders pass, on a
//! plugin.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use pipemill_decode::{Engine, Limits};

use super::{PluginArgs, exit, read, say};
use crate::config::parse_duration;
use crate::plugin_tools::{Case, ConformanceTest, Expected, Finding, PluginUnderTest, Property};

/// Test a plugin with its input in pieces of any size, cut off at any place, and damaged.
///
/// Exits with 65 at the first test that fails, and prints a command that repeats this failure with
/// the smallest input that was found.
#[derive(clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    plugin: PluginArgs,
    /// A file in the plugin's format, not compressed; small files are tested more thoroughly
    #[arg(long, value_name = "FILE", required_unless_present = "hex")]
    data: Vec<PathBuf>,
    /// The records of the (first) file, as `pipemill cat` prints them; missing keys are not
    /// compared
    #[arg(long, value_name = "FILE", requires = "data")]
    expect: Option<PathBuf>,
    /// Number of random cases of each kind
    #[arg(long, default_value_t = 500, value_name = "N")]
    cases: u32,
    /// Seed of the random cases: the same seed gives the same cases
    #[arg(long, default_value_t = 0, value_name = "N")]
    seed: u64,
    /// Time limit for each kind of cases of a file, and for the search for a smaller input
    #[arg(long, default_value = "10s", value_name = "TIME", value_parser = parse_duration)]
    time: Duration,
    /// Also fail if the end of the input cuts the last record short without an error
    #[arg(long)]
    strict_end: bool,
    /// Test only one case: this input, as hexadecimal digits
    #[arg(long, value_name = "BYTES", conflicts_with = "expect")]
    hex: Option<String>,
    /// Test only one case: the sizes of the pieces of the input
    #[arg(long, value_name = "N,N,…", value_delimiter = ',', conflicts_with = "cut")]
    pieces: Option<Vec<usize>>,
    /// Test only one case: the input cut off after N bytes
    #[arg(long, value_name = "N")]
    cut: Option<usize>,
}

/// A call that uses more CPU time than this counts as a hang.
const CALL_TIMEOUT: Duration = Duration::from_secs(2);

pub(super) fn main(args: &Args, engine: &Engine) -> Result<ExitCode, ExitCode> {
    // The plugin's log messages for a thousand inputs would hide the result.
    log::set_max_level(log::LevelFilter::Off);
    let subject = args.plugin.load(engine)?;
    let subject = PluginUnderTest {
        limits: Limits { call_timeout: CALL_TIMEOUT, ..subject.limits.clone() },
        ..subject
    };
    if let Some(digits) = &args.hex {
        let why = "--hex: expected an even number of hexadecimal digits";
        let input = hex::decode(digits).map_err(|_| exit::because(exit::USAGE, why))?;
        return test_one_case(args, &subject, &input);
    }
    let expected = args.expect.as_deref().map(expected).transpose()?;
    let mut expected = expected.as_ref();
    for path in &args.data {
        let input = read(path)?;
        if args.pieces.is_some() || args.cut.is_some() {
            return test_one_case(args, &subject, &input);
        }
        say!("{}: {}, {} bytes", args.plugin.name, path.display(), input.len());
        let conformance_test = ConformanceTest {
            seed: args.seed,
            cases: args.cases,
            time_limit: args.time,
            strict_end: args.strict_end,
        };
        let mut report_passed = |test: &str, details: String| {
            say!("  ok  {test}: {details}");
        };
        // `--expect` is for the first file only.
        if let Err(finding) =
            conformance_test.run(&subject, &input, expected.take(), &mut report_passed)
        {
            return Ok(report(args, path, &finding));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Tests one case: the command that repeats a failure comes here.
fn test_one_case(
    args: &Args,
    subject: &PluginUnderTest,
    input: &[u8],
) -> Result<ExitCode, ExitCode> {
    let property = match args.cut {
        Some(at) => Property::Cut(at),
        None => Property::Pieces(args.pieces.clone().unwrap_or_default()),
    };
    match (Case { input: input.into(), property }).holds(subject, args.strict_end) {
        Ok(()) => {
            say!("  ok  {} bytes", input.len());
            Ok(ExitCode::SUCCESS)
        }
        Err(broken) => {
            say!("FAIL  {broken}");
            Ok(exit::DATA.into())
        }
    }
}

/// Larger inputs, in bytes, are written to a file and not to the command line.
const MAX_HEX_INPUT: usize = 256;

fn report(args: &Args, data: &Path, finding: &Finding) -> ExitCode {
    say!("FAIL  {}: {}", finding.tried, finding.broken);
    let mut command = format!("pipemill plugin test {}", quote(&args.plugin.name));
    for (name, value) in &args.plugin.options {
        command.push_str(&format!(" -o {}", quote(&format!("{name}={value}"))));
    }
    let Some(case) = &finding.case else {
        say!("      in {}; `pipemill cat` shows the records before it", data.display());
        return exit::DATA.into();
    };
    let input = &case.input;
    if input.len() <= MAX_HEX_INPUT {
        command.push_str(&format!(" --hex '{}'", hex::encode(input)));
    } else {
        let file = "pipemill-plugin-test.bin";
        match std::fs::write(file, input) {
            Ok(()) => command.push_str(&format!(" --data {file}")),
            Err(error) => {
                say!("      the input that shows it can't be kept in {file}: {error}")
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
    say!("      the smallest input found has {} bytes; it shows again by", input.len());
    say!("      {command}");
    exit::DATA.into()
}

fn expected(path: &Path) -> Result<Expected, ExitCode> {
    let text = String::from_utf8_lossy(&read(path)?).into_owned();
    Expected::parse(&text)
        .map_err(|why| exit::because(exit::USAGE, format!("{}: {why}", path.display())))
}

/// Quotes a text for a shell, if it needs quotes.
pub(super) fn quote(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-/=,:+".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}
