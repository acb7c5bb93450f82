//! `pipemill plugin inspect`: prints what a plugin contains.

use std::io::{self, Write};
use std::process::ExitCode;

use pipemill_decode::{Engine, printable};
use pipemill_types::Field;

use super::{PluginArgs, list};
use crate::plugin_tools::Inspection;

/// Print what a plugin contains: interface, digest, imports, tools that made it, fields, options.
#[derive(clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    plugin: PluginArgs,
}

pub(super) fn main(args: &Args, engine: &Engine) -> Result<ExitCode, ExitCode> {
    let plugin = args.plugin.load(engine)?;
    let inspection = Inspection::at(&plugin, &args.plugin.bytes(engine)?);
    // If nobody reads the output there is nothing to do.
    let _ = print(plugin.plugin.name(), &inspection);
    Ok(ExitCode::SUCCESS)
}

fn print(name: &str, inspection: &Inspection) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "plugin     {name}")?;
    writeln!(out, "sha256     {}", inspection.digest)?;
    let kind =
        if inspection.is_component { "component" } else { "core module, wrapped when loaded" };
    writeln!(out, "file       {} bytes, {kind}", inspection.bytes)?;
    writeln!(out, "interface  {}", inspection.interface)?;
    for (index, import) in inspection.imports.iter().enumerate() {
        writeln!(out, "{}  {import}", if index == 0 { "imports  " } else { "         " })?;
    }
    let producers: Vec<_> =
        inspection.producers.iter().map(|(name, at)| format!("{name} {at}")).collect();
    if !producers.is_empty() {
        writeln!(out, "made by    {}", producers.join(", "))?;
    }
    match &inspection.schema {
        Ok(Some(fields)) => {
            let fields: Vec<_> = fields.iter().map(field).collect();
            writeln!(out, "fields     {}", fields.join(", "))?;
        }
        Ok(None) => writeln!(out, "fields     known from the input")?,
        Err(why) => writeln!(out, "fields     not known with these options: {why}")?,
    }
    if inspection.options.is_empty() {
        return writeln!(out, "options    none");
    }
    writeln!(out, "options")?;
    inspection.options.iter().try_for_each(|spec| list::print_option(&mut out, spec))
}

fn field(field: &Field) -> String {
    // A name may come from the input and may have any characters.
    let (name, word) = (printable(&field.name), field.scalar.word());
    let dims: Vec<_> = field
        .shape
        .iter()
        .map(|dim| if *dim == 0 { "?".to_owned() } else { dim.to_string() })
        .collect();
    if dims.is_empty() {
        format!("{name} ({word})")
    } else {
        format!("{name} ({word}[{}])", dims.join(","))
    }
}
