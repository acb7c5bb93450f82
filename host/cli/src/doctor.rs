//! `pipemill doctor`: says what is wrong with this machine, and what to do.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use pipemill_source::s3::{Selection, Settings};

use super::output::say;
use super::{config, exit, run, s3};
use pipemill_config::Config;
use pipemill_doctor::{self as doctor, Configuration, Level, Subjects};

/// Look at this machine: what pipemill depends on, what is wrong, and what to do.
///
/// Prints a line for each thing: `ok`, `note`, or `wrong` with a remedy. The values of credentials
/// are never shown. S3 is asked only for the addresses that are given, or else for the sources of
/// the configuration, and for at most 20 seconds each. Exits with 71 if something is wrong.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  pipemill doctor
  pipemill doctor s3://bucket/train/")]
pub(super) struct Args {
    /// Addresses to ask S3 for: `s3://bucket/key`, `s3://bucket/prefix`
    #[arg(value_name = "ADDRESS")]
    addresses: Vec<String>,
    /// The configuration: its rings have to fit into memory, and S3 is asked for its sources
    /// [default: the environment variable PIPEMILL_CONFIG, else ./pipemill.toml, if it is there]
    #[arg(long, short, value_name = "FILE", conflicts_with = "addresses")]
    config: Option<PathBuf>,
    #[command(flatten)]
    s3: s3::S3Args,
}

pub(super) fn main(args: &Args) -> ExitCode {
    match subjects(args) {
        Ok(subjects) => report(&doctor::findings(&doctor::collect(subjects)), args),
        Err(code) => code,
    }
}

/// The additional checks. With addresses, the configuration is not checked.
fn subjects(args: &Args) -> Result<Subjects, ExitCode> {
    if args.addresses.is_empty() {
        args.s3.refuse_with_config()?;
        let file = args.config.clone().or_else(run::default_configuration);
        let configuration = file.as_deref().map(read);
        return Ok(Subjects { configuration, addresses: Vec::new() });
    }
    let settings = |address: &String| -> Result<_, ExitCode> {
        let address_in_s3 = s3::address(address.as_ref())?;
        let mut settings = Settings::new(Selection::Named(vec![address_in_s3]));
        settings.access = args.s3.access();
        Ok((address.clone(), settings))
    };
    let addresses = args.addresses.iter().map(settings).collect::<Result<_, _>>()?;
    Ok(Subjects { configuration: None, addresses })
}

fn read(file: &Path) -> Result<Config, Configuration> {
    config::read(file)
        .map_err(|refusal| Configuration { file: file.display().to_string(), faults: refusal.why })
}

fn report(findings: &[doctor::Finding], args: &Args) -> ExitCode {
    for finding in findings {
        let line = finding.to_string();
        // For addresses that the user typed, the remedy names options.
        let typed = !args.addresses.is_empty();
        let line = if typed { s3::with_option_names(&line) } else { line };
        say!("{line}");
    }
    let wrong = findings.iter().filter(|finding| finding.level == Level::Wrong).count();
    match wrong {
        0 => {
            say!("nothing is wrong");
            ExitCode::SUCCESS
        }
        1 => exit::because(exit::SYSTEM, "1 thing is wrong"),
        wrong => exit::because(exit::SYSTEM, format!("{wrong} things are wrong")),
    }
}
