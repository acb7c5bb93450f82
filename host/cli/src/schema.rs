//! `pipemill schema`: describes the records of a source, and counts them.

use std::ffi::OsString;
use std::process::ExitCode;

use indicatif::{HumanBytes, HumanCount};
use pipemill_decode::Builtins;

use super::engine;
use super::output::say;
use super::plugin::quote;
use super::print::table;
use super::propose::Proposal;
use super::sample::{DecoderArgs, Sample, sample};

/// Say what the records of a source look like: fields, types, shapes, a few values, records a
/// second, and how many records there are.
///
/// Decodes the first 8 MiB of records, or what comes in two seconds.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  pipemill schema train.csv
  pipemill schema -d tfrecord s3://bucket/train/")]
pub(super) struct Args {
    /// Files, folders, FIFOs, `s3://bucket/key`, `s3://bucket/prefix`; `-` is standard input
    #[arg(required = true, value_name = "SOURCE")]
    sources: Vec<OsString>,
    #[command(flatten)]
    decoding: DecoderArgs,
}

pub(super) fn main(args: &Args, builtins: Builtins) -> ExitCode {
    let sampled =
        engine(builtins).and_then(|engine| sample(&engine, &args.sources, &args.decoding));
    match sampled {
        Ok(sample) => {
            print(&sample);
            ExitCode::SUCCESS
        }
        Err(code) => code,
    }
}

fn print(sample: &Sample) {
    say!("decoder  {}", sample.decoder);
    say!("records  {}", records(sample));
    if let Some(rate) = sample.rate() {
        let bytes = sample.read as f64 / sample.time.as_secs_f64();
        let (rate, bytes) = (HumanCount(rate as u64), HumanBytes(bytes as u64));
        say!("rate     {rate} records/s, {bytes}/s");
    }
    lines(sample).iter().for_each(|line| say!("{line}"));
    if let Some(Proposal { fields, is_used }) = &sample.proposal {
        let option = quote(&format!("fields={fields}"));
        match is_used {
            true => say!("options  proposed from the first samples: -o {option}"),
            false => say!("options  to take these values out of the lines: -o {option}"),
        }
    }
}

/// The number of records, in words.
fn records(sample: &Sample) -> String {
    let bytes = HumanBytes(sample.read);
    match sample.total_records() {
        Some(all) if sample.complete => format!("{}, in {bytes}", HumanCount(all)),
        Some(all) => {
            let total = HumanBytes(sample.total_bytes.unwrap_or(0));
            format!("about {}, in {total}: estimated from the first {bytes}", HumanCount(all))
        }
        None => {
            format!("more than {}, which were in the first {bytes}", HumanCount(sample.records))
        }
    }
}

/// A line for each field: its name, its type, how often it is absent, a few values.
pub(super) fn lines(sample: &Sample) -> Vec<String> {
    let types: Vec<_> = sample.fields.iter().map(table::type_name).collect();
    let longest = |texts: &mut dyn Iterator<Item = usize>| texts.max().unwrap_or(0);
    let names = longest(&mut sample.fields.iter().map(|field| field.name.chars().count()));
    let widest = longest(&mut types.iter().map(|name| name.chars().count()));
    let line = |index: usize| {
        let (field, values) = (&sample.fields[index], sample.values[index].join(", "));
        let absent = match (sample.absent[index], field.nullable) {
            (0, false) => String::new(),
            (0, true) => "  nullable".to_owned(),
            (count, _) => format!("  null in {}", HumanCount(count)),
        };
        format!("field    {:names$}  {:widest$}{absent}  {values}", field.name, types[index])
    };
    (0..sample.fields.len()).map(line).collect()
}
