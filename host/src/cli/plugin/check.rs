//! `pipemill plugin check`: whether a plugin can be used at all.

use std::process::ExitCode;

use super::{Meant, exit};
use crate::kit::Look;

/// Check that a plugin fits: interface, imports, options, fields.
///
/// Exits with 65 if it can't be used.
#[derive(clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    meant: Meant,
}

pub(super) fn main(args: &Args) -> Result<ExitCode, ExitCode> {
    let subject = args.meant.load()?;
    let look = Look::at(&subject, &args.meant.bytes()?);
    let name = subject.plugin.name();
    for remark in &look.remarks {
        let weight = if remark.fatal { "wrong" } else { "note" };
        println!("{name}: {weight}: {}", remark.text);
    }
    if look.remarks.iter().any(|remark| remark.fatal) {
        return Ok(exit::DATA.into());
    }
    let (options, imports) = (look.options.len(), look.imports.len());
    println!(
        "{name}: a decoder for {}; {} KiB, {options} options, {imports} imports, all of them given",
        look.interface,
        look.bytes.div_ceil(1024),
    );
    Ok(ExitCode::SUCCESS)
}
