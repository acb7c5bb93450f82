//! `pipemill plugin inspect`: prints what a plugin contains.

use std::process::ExitCode;

use pipemill_decode::Engine;
use pipemill_types::{Field, printable};

use super::{PluginArgs, list, say};
use pipemill_plugin_tools::Inspection;

/// Print what a plugin contains: interface, digest, imports, tools that made it, fields, options.
#[derive(clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    plugin: PluginArgs,
}

pub(super) fn main(args: &Args, engine: &Engine) -> Result<ExitCode, ExitCode> {
    let plugin = args.plugin.load(engine)?;
    let inspection = Inspection::at(&plugin, &args.plugin.bytes(engine)?);
    print(plugin.plugin.name(), &inspection);
    Ok(ExitCode::SUCCESS)
}

fn print(name: &str, inspection: &Inspection) {
    say!("plugin     {name}");
    say!("sha256     {}", inspection.digest);
    let kind =
        if inspection.is_component { "component" } else { "core module, wrapped when loaded" };
    say!("file       {} bytes, {kind}", inspection.bytes);
    for (key, value) in &inspection.metadata.package {
        say!("{key:<10} {value}");
    }
    say!("interface  {}", inspection.interface);
    for (index, import) in inspection.imports.iter().enumerate() {
        say!("{}  {import}", if index == 0 { "imports  " } else { "         " });
    }
    let producers: Vec<_> =
        inspection.metadata.producers.iter().map(|(name, at)| format!("{name} {at}")).collect();
    if !producers.is_empty() {
        say!("made by    {}", producers.join(", "));
    }
    match &inspection.schema {
        Ok(Some(fields)) => {
            let fields: Vec<_> = fields.iter().map(field).collect();
            say!("fields     {}", fields.join(", "));
        }
        Ok(None) => say!("fields     known from the input"),
        Err(why) => say!("fields     not known with these options: {why}"),
    }
    if inspection.options.is_empty() {
        return say!("options    none");
    }
    say!("options");
    inspection.options.iter().for_each(list::print_option);
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
