//! `pipemill index show`: shows what an index knows.

use std::ffi::OsStr;
use std::io::Write;
use std::process::ExitCode;

use indicatif::{HumanBytes, HumanCount};
use pipemill_index::{Header, Index};
use pipemill_types::Printable;

use super::{read, storage};
use crate::output::{self, say};
use crate::print::table;
use crate::s3;

pub(super) fn main(name: &OsStr, with_objects: bool, s3: &s3::S3Args) -> Result<(), ExitCode> {
    let (index, _) = read(&mut storage(s3), &s3::location(name)?)?;
    if with_objects {
        objects(&index)
    } else {
        summary(&index)
    }
    Ok(())
}

/// A line for each object.
fn objects(index: &Index) {
    let mut out = std::io::BufWriter::new(output::raw());
    for object in index.objects.iter() {
        let (name, places) = (Printable::name(object.name), object.places.len());
        let line = writeln!(out, "{}\t{}\t{places}\t{name}", object.records, object.size);
        if line.is_err() {
            // Nobody reads the output any more.
            return;
        }
    }
    let _ = out.flush();
}

fn summary(index: &Index) {
    let Header { decoder, decoder_identity, options, fields, lengths, root, .. } = &index.header;
    let header = &index.header;
    let skipped: u64 = index.objects.iter().map(|object| object.errors).sum();
    say!("objects  {}, {}", HumanCount(header.objects), HumanBytes(header.bytes));
    if header.objects_only {
        say!("records  not known: it has objects only");
        if !root.is_empty() {
            say!("root     {}", Printable::name(root));
        }
        added(header);
        say!("digest   {}", header.digest);
        return;
    }
    say!("records  {}", HumanCount(header.records));
    say!("places   {}", HumanCount(index.objects.places() as u64));
    if header.skips_errors {
        say!("errors   {} skipped", HumanCount(skipped));
    }
    if !root.is_empty() {
        say!("root     {}", Printable::name(root));
    }
    say!("decoder  {} ({decoder_identity})", Printable::name(decoder));
    for (name, value) in options {
        say!("option   {name} = {}", Printable::line(value));
    }
    for rule in header.companions.rules() {
        say!("beside   {rule}");
    }
    if header.by_plan {
        say!("counted  by the plans of objects, whose records were not read");
    }
    for (number, field) in fields.iter().enumerate() {
        let name = Printable::name(&field.name);
        let Some(lengths) = lengths.get(number) else {
            say!("field    {name}  {}", table::type_name(field));
            continue;
        };
        let sizes = match (lengths.min, lengths.max) {
            (min, max) if min == max => format!("{max} bytes"),
            (min, max) => format!("{min} to {max} bytes"),
        };
        let absent = match lengths.absent {
            0 => String::new(),
            count => format!(", null in {}", HumanCount(count)),
        };
        say!("field    {name}  {}  {sizes}{absent}", table::type_name(field));
    }
    added(header);
    say!("digest   {}", header.digest);
}

/// The fields that are added to the records.
fn added(header: &Header) {
    for word in &header.add_fields {
        let (name, scalar) = word.rsplit_once('=').unwrap_or((word, "utf8"));
        say!("added    {}  {scalar}", Printable::name(name));
    }
}
