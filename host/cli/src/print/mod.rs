//! Prints batches to standard output: as a table, JSON lines, CSV, Arrow, raw bytes or a count.
//!
//! - `csv`: records as CSV: a header, then a row for each record.
//! - `records`: the printed part of a batch: some of its records, and their chosen fields.
//! - `table`: records as a table for people: aligned columns that fit the terminal, and the number
//!   of records at the end.

mod csv;
mod records;
pub(super) mod table;

use std::io::{self, BufWriter, ErrorKind, Stdout, Write};
use std::sync::Arc;

use clap::ValueEnum;

use pipemill_arrow_writer::{StreamWriter, WriteError};
use pipemill_channel::{Batch, StopReason};
use pipemill_types::json::to_writer;
use pipemill_types::{Field, nearest};

use super::{exit, output};
use pipemill_channel::memory_sink::LookAtRecords;
use pipemill_types::record_json as json;
use records::Records;
use table::Table;

/// The output format.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Output {
    /// A table of the first records that fits the terminal
    Table,
    /// A JSON object for each record
    Jsonl,
    /// A header, and a row for each record
    Csv,
    /// A stream of Arrow IPC, for pyarrow, polars, DuckDB
    Arrow,
    /// The bytes of the fields, without anything between them
    Raw,
    /// Only the number of records and the number of bytes in their fields
    Count,
}

/// The records to print.
#[derive(Default)]
pub(super) struct Choice {
    /// Largest number of records.
    pub(super) limit: Option<u64>,
    /// Number of records that are skipped before these.
    pub(super) skip: u64,
    /// Names of the fields, in this order; all if there are none.
    pub(super) fields: Vec<String>,
}

/// The reason why printing ended.
pub(super) enum PrintError {
    /// The output can't be written.
    Io(io::Error),
    /// The records don't have a requested field.
    NoField(String),
    /// A value that the output format can't represent.
    Unfit(String),
}

impl PrintError {
    /// The exit code and the message; `None` if the reader has closed the pipe, as `head` does.
    pub(super) fn report(&self) -> Option<(u8, String)> {
        match self {
            Self::Io(error) if error.kind() == ErrorKind::BrokenPipe => None,
            Self::Io(error) => Some((exit::SYSTEM, format!("can't write the output: {error}"))),
            Self::NoField(why) => Some((exit::USAGE, why.clone())),
            Self::Unfit(why) => Some((exit::DATA, why.clone())),
        }
    }
}

impl From<io::Error> for PrintError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Bytes of memory for a batch. A batch leaves as soon as it has 1 MiB; the rest of the memory is
/// for the records of the decoder's last call, which would otherwise be copied one by one.
pub(super) const BATCH_MEMORY: usize = 2 << 20;

/// An output format and its state.
enum Format {
    Table(Table),
    Jsonl,
    Csv,
    /// The writer, once the fields are known.
    Arrow(Option<StreamWriter>),
    Raw,
    /// Bytes of all fields so far.
    Count(u64),
}

/// Prints batches to standard output.
pub(super) struct Printer {
    format: Format,
    choice: Choice,
    out: BufWriter<Stdout>,
    /// The fields that are printed.
    fields: Vec<Field>,
    /// Index of each of these fields in the batch.
    chosen: Vec<usize>,
    /// Number of records that came, including skipped ones.
    seen: u64,
    printed: u64,
    /// The reason why printing ended early, if not because of `limit`.
    failed: Option<PrintError>,
}

impl Printer {
    pub(super) fn new(output: Output, choice: Choice) -> Self {
        let format = match output {
            Output::Table => Format::Table(Table::new(output::width())),
            Output::Jsonl => Format::Jsonl,
            Output::Csv => Format::Csv,
            Output::Arrow => Format::Arrow(None),
            Output::Raw => Format::Raw,
            Output::Count => Format::Count(0),
        };
        Self {
            format,
            choice,
            out: BufWriter::with_capacity(64 << 10, output::raw()),
            fields: Vec::new(),
            chosen: Vec::new(),
            seen: 0,
            printed: 0,
            failed: None,
        }
    }

    /// Prints the end, such as the counts, and flushes the output. If the channel failed, the
    /// output is not `complete`: an Arrow stream then gets no end, which its reader can detect.
    ///
    /// # Errors
    /// Printing ended early, or the end can't be written.
    pub(super) fn close(mut self, complete: bool) -> Result<(), PrintError> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        let limited = self.is_at_limit();
        let (records, out) = (self.printed, &mut self.out);
        match &mut self.format {
            Format::Table(table) => table.finish(out, records, limited)?,
            Format::Arrow(_) if !complete => {}
            Format::Arrow(writer) => {
                if writer.is_none() {
                    StreamWriter::new(Vec::new()).start(out).map_err(unfit)?;
                }
                StreamWriter::finish(out)?;
            }
            Format::Count(bytes) => writeln!(out, "records={records} bytes={bytes}")?,
            Format::Jsonl | Format::Csv | Format::Raw => {}
        }
        Ok(self.out.flush()?)
    }

    /// Whether the requested number of records was printed.
    fn is_at_limit(&self) -> bool {
        self.choice.limit.is_some_and(|limit| self.printed >= limit)
    }

    /// Receives the fields, and prints the header.
    fn begin(&mut self, fields: &[Field]) -> Result<(), PrintError> {
        self.chosen = match self.choice.fields.as_slice() {
            [] => (0..fields.len()).collect(),
            names => names.iter().map(|name| index_of(fields, name)).collect::<Result<_, _>>()?,
        };
        self.fields = self.chosen.iter().map(|index| fields[*index].clone()).collect();
        let out = &mut self.out;
        match &mut self.format {
            Format::Table(table) => table.set_fields(&self.fields),
            Format::Csv => csv::print_header(out, &self.fields)?,
            Format::Arrow(writer) => {
                let writer = writer.insert(StreamWriter::new(self.fields.clone()));
                writer.start(out).map_err(unfit)?;
            }
            Format::Jsonl | Format::Raw | Format::Count(_) => {}
        }
        Ok(())
    }

    fn print(&mut self, memory: &[u8], batch: &Batch) -> Result<(), PrintError> {
        let left = self.choice.skip.saturating_sub(self.seen);
        let start = usize::try_from(left).unwrap_or(usize::MAX).min(batch.records);
        self.seen += batch.records as u64;
        let rest = self.choice.limit.map_or(u64::MAX, |limit| limit - self.printed);
        let count = usize::try_from(rest).unwrap_or(usize::MAX).min(batch.records - start);
        self.printed += count as u64;
        let range = start..start + count;
        let records = Records { memory, batch, chosen: &self.chosen, range: range.clone() };
        let (out, fields) = (&mut self.out, self.fields.as_slice());
        match &mut self.format {
            Format::Table(table) => table.print(out, &records)?,
            Format::Jsonl => print_json(out, fields, &records)?,
            Format::Csv => csv::print(out, fields, &records)?,
            Format::Raw => print_raw(out, &records)?,
            Format::Arrow(Some(writer)) if count > 0 => {
                let columns: Vec<_> = records.columns().collect();
                writer.write(out, memory, &columns, range).map_err(|error| match error {
                    WriteError::Unfit { field, record, why } => {
                        let record = batch.start.position.first_record + record as u64;
                        let object = &batch.start.position.object;
                        PrintError::Unfit(format!(
                            "object {object}, record {record}: field `{field}` {why}; Arrow has \
                             no form for it: leave the field out by `--fields`, or use \
                             `--output jsonl`"
                        ))
                    }
                    WriteError::Io(error) => PrintError::Io(error),
                })?;
            }
            Format::Arrow(_) => {}
            Format::Count(bytes) => {
                *bytes += records.columns().map(|of| of.bytes(range.clone())).sum::<u64>();
            }
        }
        // A person or a program may be waiting for these records.
        Ok(self.out.flush()?)
    }
}

/// The index of the field with this name.
fn index_of(fields: &[Field], name: &str) -> Result<usize, PrintError> {
    fields.iter().position(|field| field.name == name).ok_or_else(|| {
        let names: Vec<_> = fields.iter().map(|field| field.name.as_str()).collect();
        let remedy = match nearest(name, &names) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("there are: {}", names.join(", ")),
        };
        PrintError::NoField(format!("--fields: the records have no field `{name}`; {remedy}"))
    })
}

/// An error before the first record.
fn unfit(error: WriteError) -> PrintError {
    match error {
        WriteError::Io(error) => PrintError::Io(error),
        unfit @ WriteError::Unfit { .. } => PrintError::Unfit(unfit.to_string()),
    }
}

fn print_json(out: &mut impl Write, fields: &[Field], records: &Records<'_>) -> io::Result<()> {
    let batch = records.batch;
    for record in records.range.clone() {
        out.write_all(b"{\"object\":")?;
        to_writer(&mut *out, &batch.start.position.object)?;
        write!(out, ",\"index\":{}", batch.start.position.first_record + record as u64)?;
        match batch.starts.get(record) {
            Some(start) => write!(out, ",\"offset\":{start}")?,
            None => out.write_all(b",\"offset\":null")?,
        }
        out.write_all(b",\"fields\":")?;
        json::print_object(out, fields, |field| records.value(field, record))?;
        out.write_all(b"}\n")?;
    }
    Ok(())
}

fn print_raw(out: &mut impl Write, records: &Records<'_>) -> io::Result<()> {
    for record in records.range.clone() {
        for field in 0..records.chosen.len() {
            out.write_all(records.value(field, record).unwrap_or_default())?;
        }
    }
    Ok(())
}

impl LookAtRecords for Printer {
    fn schema(&mut self, fields: &Arc<[Field]>) {
        // The next batch returns the error.
        self.failed = self.begin(fields).err();
    }

    fn batch(&mut self, memory: &[u8], batch: &Batch) -> Result<(), StopReason> {
        if self.failed.is_none() {
            self.failed = self.print(memory, batch).err();
        }
        if self.failed.is_some() || self.is_at_limit() {
            return Err(StopReason::Stopped);
        }
        Ok(())
    }
}
