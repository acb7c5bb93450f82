//! `pipemill plugin bench`: measures how fast a plugin decodes.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use pipemill_decode::Engine;

use super::{PluginArgs, exit, read, say};
use crate::config::parse_duration;
use crate::plugin_tools::{self, Timing};

/// Measure how fast a plugin decodes, and where the time goes.
#[derive(clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    plugin: PluginArgs,
    /// A file in the plugin's format, not compressed, of at least some megabytes
    #[arg(long, value_name = "FILE")]
    data: PathBuf,
    /// How long to measure
    #[arg(long, default_value = "3s", value_name = "TIME", value_parser = parse_duration)]
    time: Duration,
}

pub(super) fn main(args: &Args, engine: &Engine) -> Result<ExitCode, ExitCode> {
    let plugin = args.plugin.load(engine)?;
    let input = Arc::new(read(&args.data)?);
    let timing = plugin_tools::time(&plugin, &input, args.time)
        .map_err(|fault| exit::because(exit::DATA, format!("{}: {fault}", args.data.display())))?;
    print(&args.plugin.name, &timing);
    Ok(ExitCode::SUCCESS)
}

/// Bytes in a GiB.
const GIB: f64 = 1024.0 * 1024.0 * 1024.0;

fn print(name: &str, timing: &Timing) {
    let seconds = timing.pass.as_secs_f64().max(f64::MIN_POSITIVE);
    let rate = timing.bytes as f64 / GIB / seconds;
    let memcpy = timing.bytes as f64 / GIB / timing.memcpy.as_secs_f64().max(f64::MIN_POSITIVE);
    let per_record = seconds * 1e9 / timing.records.max(1) as f64;
    say!("{name}: {} bytes, {} records", timing.bytes, timing.records);
    say!("  {rate:.2} GiB/s, {per_record:.0} ns a record (median of {} passes)", timing.passes);
    say!(
        "  {:.0} % in the plugin, {:.0} % in the host's checks, \
         {:.0} % at the boundary between them",
        timing.guest * 100.0,
        timing.host * 100.0,
        timing.boundary * 100.0
    );
    say!(
        "  memcpy of the same chunks: {memcpy:.2} GiB/s; decoding is {:.2} of that",
        rate / memcpy
    );
    if timing.bytes < 1 << 20 {
        say!("  the file is small: most of this is the start of a stream");
    }
}
