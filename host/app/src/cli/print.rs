//! Prints batches to standard output: as JSON lines, as counts, or as raw bytes.

use std::io::{self, BufWriter, ErrorKind, StdoutLock, Write};
use std::sync::Arc;

use clap::ValueEnum;

use pipemill_channel::{Batch, Sink, StopReason};
use pipemill_types::json::to_writer;
use pipemill_types::{ABSENT, Field};

use super::output;
use crate::json;

/// The output format.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Output {
    /// A JSON object for each record
    Jsonl,
    /// Only the number of records and the number of bytes in their fields
    Count,
    /// The bytes of the fields, without anything between them
    Raw,
}

/// Bytes of memory for a batch. A batch leaves as soon as it has 1 MiB; there is room for the rest of
/// the decoder's call, which would else be copied record by record.
const BATCH_MEMORY: usize = 2 << 20;

/// Prints batches to standard output.
pub(super) struct Printer {
    output: Output,
    out: BufWriter<StdoutLock<'static>>,
    /// The memory of the last batch: the next batch uses it again.
    spare: Option<Vec<u8>>,
    fields: Arc<[Field]>,
    records: u64,
    bytes: u64,
    /// The error at which printing ended, if somebody has to know it.
    failed: Option<io::Error>,
}

impl Printer {
    pub(super) fn new(output: Output) -> Self {
        Self {
            output,
            out: BufWriter::with_capacity(64 << 10, output::raw()),
            spare: None,
            fields: Arc::new([]),
            records: 0,
            bytes: 0,
            failed: None,
        }
    }

    /// Prints the counts and flushes the output.
    ///
    /// # Errors
    /// The output can't be written. A closed pipe during a batch is no error.
    pub(super) fn close(mut self) -> io::Result<()> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        if self.output == Output::Count {
            writeln!(self.out, "records={} bytes={}", self.records, self.bytes)?;
        }
        self.out.flush()
    }

    fn print(&mut self, memory: &[u8], batch: &Batch) -> io::Result<()> {
        self.records += batch.records as u64;
        if self.output == Output::Count {
            let lengths = batch.columns.iter().flat_map(|column| &column.lengths);
            self.bytes += lengths.map(|length| u64::from(*length)).sum::<u64>();
            return Ok(());
        }
        for record in 0..batch.records {
            if self.output == Output::Jsonl {
                self.print_json(memory, batch, record)?;
                continue;
            }
            for column in &batch.columns {
                if column.offsets[record] != ABSENT {
                    self.out.write_all(value(
                        memory,
                        column.offsets[record],
                        column.lengths[record],
                    ))?;
                }
            }
        }
        // A person or a program may wait for these records.
        self.out.flush()
    }

    fn print_json(&mut self, memory: &[u8], batch: &Batch, record: usize) -> io::Result<()> {
        let out = &mut self.out;
        out.write_all(b"{\"object\":")?;
        to_writer(&mut *out, &batch.object)?;
        write!(out, ",\"index\":{}", batch.first_record + record as u64)?;
        match batch.starts.get(record) {
            Some(start) => write!(out, ",\"offset\":{start}")?,
            None => out.write_all(b",\"offset\":null")?,
        }
        out.write_all(b",\"fields\":")?;
        json::print_object(out, &self.fields, |field| {
            let column = &batch.columns[field];
            let offset = column.offsets[record];
            (offset != ABSENT).then(|| value(memory, offset, column.lengths[record]))
        })?;
        out.write_all(b"}\n")
    }
}

fn value(memory: &[u8], offset: u32, length: u32) -> &[u8] {
    &memory[offset as usize..offset as usize + length as usize]
}

impl Sink for Printer {
    type Memory = Vec<u8>;

    fn memory(&mut self) -> Result<Vec<u8>, StopReason> {
        Ok(self.spare.take().unwrap_or_else(|| vec![0; BATCH_MEMORY]))
    }

    fn dedicated_memory(&mut self, payload: usize, _: usize) -> Result<Vec<u8>, StopReason> {
        Ok(vec![0; payload])
    }

    fn room(&self, memory: &Vec<u8>, _: usize, _: usize, _: usize) -> Option<usize> {
        Some(memory.len())
    }

    fn schema(&mut self, fields: &Arc<[Field]>) {
        self.fields = fields.clone();
    }

    fn grant(&mut self, memory: Vec<u8>, batch: &Batch) -> Result<(), StopReason> {
        let printed = self.print(&memory, batch);
        if memory.len() == BATCH_MEMORY {
            self.spare = Some(memory);
        }
        match printed {
            Ok(()) => Ok(()),
            Err(error) => {
                if error.kind() != ErrorKind::BrokenPipe {
                    self.failed = Some(error);
                }
                Err(StopReason::Stopped)
            }
        }
    }

    fn has_demand(&self) -> bool {
        true
    }

    fn wants_epoch_end(&self, _: u32) -> bool {
        false
    }

    fn end_epoch(&mut self, _: u32, _: bool) -> Result<(), StopReason> {
        Ok(())
    }
}
