//! `pipemill plugin test`: runs the conformance tests, which the built-in decoders pass, on a
//! plugin.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::ValueEnum;

use pipemill_decode::Engine;

use super::{DEFAULT_MAX_RECORD, PluginArgs, exit, read, say};
use pipemill_config::parse_duration;
use pipemill_plugin_tools::{
    Case, ConformanceTest, Expectations, Expected, ExpectedErrors, Finding, PluginUnderTest,
    Property, Report,
};

/// Test a plugin with its input in pieces of any size, cut off at any place, and damaged.
///
/// Exits with 65 at the first test that fails, and prints a command that repeats this failure with
/// the smallest input that was found.
#[derive(clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    plugin: PluginArgs,
    /// A file in the plugin's format, not compressed; small files are tested more thoroughly. Its
    /// companions are read, too, if the plugin needs some
    #[arg(long, value_name = "FILE", required_unless_present = "hex")]
    data: Vec<PathBuf>,
    /// The records of the (first) file, as `pipemill cat` prints them; missing keys are not
    /// compared
    #[arg(long, value_name = "FILE", requires = "data")]
    expect: Option<PathBuf>,
    /// The errors of the (first) file, as JSON lines with `offset`, `length` and `message` (a part
    /// of it), or a quarantine file; missing keys are not compared
    #[arg(long, value_name = "FILE", requires = "data")]
    expect_errors: Option<PathBuf>,
    /// What to do with decode errors of the unchanged data
    #[arg(long, value_enum, default_value = "fail")]
    on_error: OnTestErrorArg,
    /// Largest number of cases of each kind; by default 500 of random ones
    #[arg(long, value_name = "N")]
    cases: Option<u32>,
    /// Seed of the random cases: the same seed gives the same cases
    #[arg(long, default_value_t = 0, value_name = "N")]
    seed: u64,
    /// Time for each kind of cases of a file, and for the search for a smaller input. By default
    /// the work is limited and not the time: some seconds for all, and the same cases on every
    /// machine
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    time: Option<Duration>,
    /// Also fail if the end of the input cuts a record, or what is before the first one, without an
    /// error
    #[arg(long)]
    strict_end: bool,
    /// Allow bytes between records that belong to none
    #[arg(long)]
    allow_gaps: bool,
    /// Test only one case: this input, as hexadecimal digits
    #[arg(long, value_name = "BYTES", conflicts_with = "expect")]
    hex: Option<String>,
    /// Test only one case: the sizes of the pieces of the input
    #[arg(long, value_name = "N,N,…", value_delimiter = ',', conflicts_with = "cut")]
    pieces: Option<Vec<usize>>,
    /// Test only one case: the input cut off after N bytes
    #[arg(long, value_name = "N")]
    cut: Option<usize>,
    /// Test only one case, as a report prints it
    #[arg(long, value_name = "CASE", value_parser = Property::parse)]
    #[arg(conflicts_with_all = ["cut", "pieces"])]
    case: Option<Property>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OnTestErrorArg {
    /// They are a fault, unless they are expected
    Fail,
    /// Skip them
    Skip,
}

/// A call that uses more CPU time than this counts as a hang.
const CALL_TIMEOUT: Duration = Duration::from_secs(2);

pub(super) fn main(args: &Args, engine: &Engine) -> Result<ExitCode, ExitCode> {
    // The plugin's log messages for a thousand inputs would hide the result.
    log::set_max_level(log::LevelFilter::Off);
    let mut subject = args.plugin.load(engine)?;
    subject.limits.call_timeout = CALL_TIMEOUT;
    // A single case of a decoder that needs companions is of the bytes of a plan.
    let has_companions = !subject.plugin.companions().is_empty();
    let of_case = if has_companions { subject.planned() } else { subject.clone() };
    if let Some(digits) = &args.hex {
        let why = "--hex: expected an even number of hexadecimal digits";
        let input = hex::decode(digits).map_err(|_| exit::because(exit::USAGE, why))?;
        return test_one_case(args, &of_case, &input);
    }
    let records = args.expect.as_deref().map(|path| expected(path, Expected::parse)).transpose()?;
    let errors = args.expect_errors.as_deref();
    let errors = errors.map(|path| expected(path, ExpectedErrors::parse)).transpose()?;
    // The expectations are for the first file only.
    let mut expectations = Expectations { records: records.as_ref(), errors: errors.as_ref() };
    for path in &args.data {
        let input = read(path)?;
        if args.pieces.is_some() || args.cut.is_some() || args.case.is_some() {
            return test_one_case(args, &of_case, &input);
        }
        subject = subject.with_companions(companions_of(&subject, path)?);
        say!("{}: {}, {} bytes", args.plugin.name, path.display(), input.len());
        let expected = std::mem::take(&mut expectations);
        if let Err(finding) = test(args).run(&subject, &input, expected, &mut print) {
            return Ok(report(args, path, &input, &finding));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Reads the companions of a file, which lie beside it.
fn companions_of(subject: &PluginUnderTest, path: &Path) -> Result<Vec<Arc<[u8]>>, ExitCode> {
    let names = subject.plugin.companions().of(path.as_os_str().as_bytes());
    let names = names.map_err(|rule| {
        let why = format!("{} has no companion: {rule} at the end of its name", path.display());
        exit::because(exit::USAGE, why)
    })?;
    let read = |name: &Vec<u8>| read(Path::new(OsStr::from_bytes(name))).map(Arc::from);
    names.iter().map(read).collect()
}

fn test(args: &Args) -> ConformanceTest {
    ConformanceTest {
        seed: args.seed,
        cases: args.cases,
        time_limit: args.time,
        strict_end: args.strict_end,
        allow_gaps: args.allow_gaps,
        skip_errors: args.on_error == OnTestErrorArg::Skip,
    }
}

/// Prints a line of the report.
fn print(line: Report<'_>) {
    match line {
        Report::Passed(check, details) => say!("  ok  {check}: {details}"),
        Report::Note(text) => say!("note  {text}"),
    }
}

/// Tests one case: the command in a failure's report runs this.
fn test_one_case(
    args: &Args,
    subject: &PluginUnderTest,
    input: &[u8],
) -> Result<ExitCode, ExitCode> {
    let property = match (&args.case, args.cut) {
        (Some(property), _) => property.clone(),
        (None, Some(at)) => Property::Cut(at),
        (None, None) => Property::Pieces(args.pieces.clone().unwrap_or_default()),
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

/// Prints a failure of the test with the file `data`, which has the bytes `unchanged`.
fn report(args: &Args, data: &Path, unchanged: &[u8], finding: &Finding) -> ExitCode {
    say!("FAIL  {}: {}", finding.tried, finding.broken);
    let mut command = format!("pipemill plugin test {}", quote(&args.plugin.name));
    for (name, value) in &args.plugin.options {
        command.push_str(&format!(" -o {}", quote(&format!("{name}={value}"))));
    }
    if args.plugin.max_record != DEFAULT_MAX_RECORD {
        command.push_str(&format!(" --max-record {}B", args.plugin.max_record));
    }
    let Some(case) = &finding.case else {
        say!("      in {}; `pipemill cat` shows the records before it", data.display());
        return exit::DATA.into();
    };
    let input = &case.input;
    if input.len() <= MAX_HEX_INPUT {
        command.push_str(&format!(" --hex '{}'", hex::encode(input)));
    } else if input[..] == *unchanged {
        command.push_str(&format!(" --data {}", quote(&data.display().to_string())));
    } else {
        let file = "pipemill-plugin-test.bin";
        match std::fs::write(file, input) {
            Ok(()) => command.push_str(&format!(" --data {file}")),
            Err(error) => {
                say!("      the input that shows it can't be kept in {file}: {error}")
            }
        }
    }
    let property = case.property.to_string();
    if !property.is_empty() {
        command.push_str(&format!(" {property}"));
    }
    if args.strict_end {
        command.push_str(" --strict-end");
    }
    match input[..] == *unchanged {
        true => say!("      it shows again by"),
        false => {
            say!("      the smallest input found has {} bytes; it shows again by", input.len());
        }
    }
    say!("      {command}");
    exit::DATA.into()
}

/// Reads a file of JSON lines.
fn expected<T>(path: &Path, parse: fn(&str) -> Result<T, String>) -> Result<T, ExitCode> {
    let text = String::from_utf8_lossy(&read(path)?).into_owned();
    parse(&text).map_err(|why| exit::because(exit::USAGE, format!("{}: {why}", path.display())))
}

/// Quotes a text for a shell, if it needs quotes.
pub(crate) fn quote(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-/=,:+".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}
