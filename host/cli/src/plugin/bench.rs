//! `pipemill plugin bench`: measures how fast a plugin decodes.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use pipemill_decode::Engine;

use super::{PluginArgs, exit, read, say};
use pipemill_config::parse_duration;
use pipemill_plugin_tools::{self as plugin_tools, Timing};

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

fn print(name: &str, timing: &Timing) {
    let seconds = timing.pass.as_secs_f64().max(MIN_SECONDS);
    let copy = timing.memcpy.as_secs_f64().max(MIN_SECONDS);
    let rate = timing.bytes as f64 / seconds;
    let memcpy = timing.bytes as f64 / copy;
    let per_record = seconds * 1e9 / timing.records.max(1) as f64;
    say!("{name}: {} bytes, {} records", timing.bytes, timing.records);
    say!(
        "  {}, {per_record:.0} ns a record (median of {} passes, in CPU time)",
        rate_text(rate),
        timing.passes
    );
    say!(
        "  {:.0} % in the plugin, {:.0} % in the host's functions that it calls, \
         {:.0} % at the boundary between them",
        timing.guest * 100.0,
        timing.host * 100.0,
        timing.boundary * 100.0
    );
    say!(
        "  memcpy of the same chunks: {}; decoding is {} of that",
        rate_text(memcpy),
        significant(rate / memcpy)
    );
    if timing.bytes < 1 << 20 {
        say!("  the file is small: most of this is the start of a stream");
    }
}

/// The clock can't measure less.
const MIN_SECONDS: f64 = 1e-9;

/// Bytes per second in the largest unit of which there is at least one.
fn rate_text(rate: f64) -> String {
    let units = [("GiB/s", 30), ("MiB/s", 20), ("KiB/s", 10)];
    let of = |(_, shift): &(&str, i32)| rate / f64::from(1u32 << shift);
    let unit = units.iter().find(|unit| of(unit) >= 1.0);
    unit.map_or_else(
        || format!("{rate:.0} bytes/s"),
        |unit| format!("{} {}", significant(of(unit)), unit.0),
    )
}

/// A number with three significant digits, which is never shown as 0 unless it is 0.
fn significant(number: f64) -> String {
    let digits = 2 - number.abs().max(1e-12).log10().floor() as i32;
    format!("{number:.*}", digits.clamp(0, 12) as usize)
}

#[cfg(test)]
mod tests {
    use super::{rate_text, significant};

    #[test]
    fn a_slow_rate_is_not_0() {
        for (rate, shown) in [
            (3.5 * 1024.0 * 1024.0 * 1024.0, "3.50 GiB/s"),
            (4.7 * 1024.0 * 1024.0, "4.70 MiB/s"),
            (512.0 * 1024.0, "512 KiB/s"),
            (90.0, "90 bytes/s"),
            (1023.0 * 1024.0 * 1024.0, "1023 MiB/s"),
        ] {
            assert_eq!(rate_text(rate), shown);
        }
        assert_eq!(significant(0.000_234_1), "0.000234");
        assert_eq!(significant(0.98), "0.980");
    }
}
