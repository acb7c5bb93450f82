//! `pipemill plugin check`: whether a plugin can be used at all.

use std::process::ExitCode;

use pipemill_decode::Engine;

use super::{Meant, exit};
use crate::plugin_tools::{Inspection, PluginUnderTest};

/// Check that a plugin fits: interface, imports, options, fields.
///
/// Exits with 65 if it can't be used.
#[derive(clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    meant: Meant,
}

pub(super) fn main(args: &Args, engine: &Engine) -> Result<ExitCode, ExitCode> {
    let subject = args.meant.load(engine)?;
    let look = Inspection::at(&subject, &args.meant.bytes(engine)?);
    Ok(if report(&subject, &look) { ExitCode::SUCCESS } else { exit::DATA.into() })
}

/// Prints what is to be said of a plugin; whether it can be used.
pub(super) fn report(subject: &PluginUnderTest, look: &Inspection) -> bool {
    let name = subject.plugin.name();
    for remark in &look.remarks {
        let weight = if remark.fatal { "wrong" } else { "note" };
        println!("{name}: {weight}: {}", remark.text);
    }
    if look.remarks.iter().any(|remark| remark.fatal) {
        return false;
    }
    let (options, imports) = (look.options.len(), look.imports.len());
    println!(
        "{name}: a decoder for {}; {} KiB, {options} options, {imports} imports, all of them given",
        look.interface,
        look.bytes.div_ceil(1024),
    );
    true
}
