//! `pipemill plugin check`: checks whether a plugin can be used.

use std::process::ExitCode;

use pipemill_decode::Engine;

use super::{PluginArgs, exit, say};
use pipemill_plugin_tools::{Inspection, PluginUnderTest};

/// Check whether a plugin can be used: interface, imports, options, fields.
///
/// Exits with 65 if it can't be used.
#[derive(clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    plugin: PluginArgs,
}

pub(super) fn main(args: &Args, engine: &Engine) -> Result<ExitCode, ExitCode> {
    let subject = args.plugin.load(engine)?;
    let inspection = Inspection::at(&subject, &args.plugin.bytes(engine)?);
    Ok(if report(&subject, &inspection) { ExitCode::SUCCESS } else { exit::DATA.into() })
}

/// Prints remarks about a plugin. Returns whether it can be used.
pub(super) fn report(subject: &PluginUnderTest, inspection: &Inspection) -> bool {
    let name = subject.plugin.name();
    for remark in &inspection.remarks {
        let weight = if remark.fatal { "wrong" } else { "note" };
        say!("{name}: {weight}: {}", remark.text);
    }
    if inspection.remarks.iter().any(|remark| remark.fatal) {
        return false;
    }
    let (options, imports) = (inspection.options.len(), inspection.imports.len());
    say!(
        "{name}: a decoder for {}; {} KiB, {options} options, {imports} imports, all of them given",
        inspection.interface,
        inspection.bytes.div_ceil(1024),
    );
    true
}
