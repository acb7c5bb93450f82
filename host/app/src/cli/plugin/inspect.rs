//! `pipemill plugin inspect`: what a plugin is.

use std::io::{self, Write};
use std::process::ExitCode;

use super::Meant;
use super::list;
use crate::plugin_tools::Inspection;
use pipemill_decode::{Engine, printable};
use pipemill_types::Field;

/// Say what a plugin is: interface, digest, imports, origin, fields, options.
#[derive(clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    meant: Meant,
}

pub(super) fn main(args: &Args, engine: &Engine) -> Result<ExitCode, ExitCode> {
    let subject = args.meant.load(engine)?;
    let look = Inspection::at(&subject, &args.meant.bytes(engine)?);
    // Nothing to do if nobody reads it.
    let _ = print(subject.plugin.name(), &look);
    Ok(ExitCode::SUCCESS)
}

fn print(name: &str, look: &Inspection) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "plugin     {name}")?;
    writeln!(out, "sha256     {}", look.digest)?;
    let kind = if look.is_component { "component" } else { "core module, wrapped when loaded" };
    writeln!(out, "file       {} bytes, {kind}", look.bytes)?;
    writeln!(out, "interface  {}", look.interface)?;
    for (index, import) in look.imports.iter().enumerate() {
        writeln!(out, "{}  {import}", if index == 0 { "imports  " } else { "         " })?;
    }
    let producers: Vec<_> =
        look.producers.iter().map(|(name, at)| format!("{name} {at}")).collect();
    if !producers.is_empty() {
        writeln!(out, "made by    {}", producers.join(", "))?;
    }
    match &look.schema {
        Ok(Some(fields)) => {
            let fields: Vec<_> = fields.iter().map(field).collect();
            writeln!(out, "fields     {}", fields.join(", "))?;
        }
        Ok(None) => writeln!(out, "fields     known from the input")?,
        Err(why) => writeln!(out, "fields     not known with these options: {why}")?,
    }
    if look.options.is_empty() {
        return writeln!(out, "options    none");
    }
    writeln!(out, "options")?;
    look.options.iter().try_for_each(|spec| list::print_option(&mut out, spec))
}

fn field(field: &Field) -> String {
    // A name may come from the input, with anything in it.
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
