//! Batches printed: as JSON lines, counted, or raw.

use std::io::{self, BufWriter, ErrorKind, StdoutLock, Write};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::ValueEnum;

use crate::channel::{Batch, Halt, Sink};
use crate::decode::{ABSENT, Field, Scalar};

/// What is printed of each record.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Output {
    /// A JSON object a record
    Jsonl,
    /// Only how many records and bytes of fields there are
    Count,
    /// The bytes of the fields, as they are
    Raw,
}

/// Memory of a batch that is printed.
const MEMORY: usize = 1 << 20;

/// Prints batches to standard output.
pub(super) struct Printer {
    output: Output,
    out: BufWriter<StdoutLock<'static>>,
    /// Memory of the last batch, for the next.
    spare: Option<Vec<u8>>,
    fields: Arc<[Field]>,
    records: u64,
    bytes: u64,
    failed: Option<io::Error>,
}

impl Printer {
    pub(super) fn new(output: Output) -> Self {
        Self {
            output,
            out: BufWriter::with_capacity(64 << 10, io::stdout().lock()),
            spare: None,
            fields: Arc::new([]),
            records: 0,
            bytes: 0,
            failed: None,
        }
    }

    /// Prints what comes last.
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
        // A person, or a program, may be waiting for what came so far.
        self.out.flush()
    }

    fn print_json(&mut self, memory: &[u8], batch: &Batch, record: usize) -> io::Result<()> {
        let out = &mut self.out;
        out.write_all(b"{\"object\":")?;
        serde_json::to_writer(&mut *out, &batch.object)?;
        write!(out, ",\"index\":{}", batch.first_record + record as u64)?;
        match batch.starts.get(record) {
            Some(start) => write!(out, ",\"offset\":{start}")?,
            None => out.write_all(b",\"offset\":null")?,
        }
        out.write_all(b",\"fields\":{")?;
        for (index, (field, column)) in self.fields.iter().zip(&batch.columns).enumerate() {
            if index > 0 {
                out.write_all(b",")?;
            }
            serde_json::to_writer(&mut *out, &field.name)?;
            out.write_all(b":")?;
            match column.offsets[record] {
                ABSENT => out.write_all(b"null")?,
                offset => print_value(out, field, value(memory, offset, column.lengths[record]))?,
            }
        }
        out.write_all(b"}}\n")
    }
}

fn value(memory: &[u8], offset: u32, length: u32) -> &[u8] {
    &memory[offset as usize..offset as usize + length as usize]
}

fn print_value(out: &mut impl Write, field: &Field, bytes: &[u8]) -> io::Result<()> {
    let size = field.scalar.size();
    match field.scalar {
        Scalar::Utf8 => match std::str::from_utf8(bytes) {
            Ok(text) => Ok(serde_json::to_writer(out, text)?),
            Err(_) => print_base64(out, bytes),
        },
        Scalar::Bytes => print_base64(out, bytes),
        _ if !bytes.len().is_multiple_of(size) => print_base64(out, bytes),
        _ if field.shape.is_empty() && bytes.len() == size => {
            print_number(out, field.scalar, bytes)
        }
        _ => print_array(out, field.scalar, field.shape.get(1..).unwrap_or(&[]), bytes),
    }
}

fn print_base64(out: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    write!(out, "{{\"base64\":\"{}\"}}", STANDARD.encode(bytes))
}

/// An array whose elements have the shape `inner`.
fn print_array(
    out: &mut impl Write,
    scalar: Scalar,
    inner: &[u32],
    bytes: &[u8],
) -> io::Result<()> {
    let step: usize = inner.iter().map(|dim| *dim as usize).product::<usize>() * scalar.size();
    out.write_all(b"[")?;
    for (index, element) in bytes.chunks(step.max(1)).enumerate() {
        if index > 0 {
            out.write_all(b",")?;
        }
        if inner.is_empty() {
            print_number(out, scalar, element)?;
        } else {
            print_array(out, scalar, &inner[1..], element)?;
        }
    }
    out.write_all(b"]")
}

/// JSON has no word for what is not a finite number: a string says it.
fn print_number(out: &mut impl Write, scalar: Scalar, bytes: &[u8]) -> io::Result<()> {
    fn of<const N: usize>(bytes: &[u8]) -> [u8; N] {
        let mut array = [0; N];
        let size = bytes.len().min(N);
        array[..size].copy_from_slice(&bytes[..size]);
        array
    }
    match scalar {
        Scalar::Boolean => write!(out, "{}", of::<1>(bytes)[0] != 0),
        Scalar::Int32 => write!(out, "{}", i32::from_le_bytes(of(bytes))),
        Scalar::Int64 => write!(out, "{}", i64::from_le_bytes(of(bytes))),
        Scalar::Float32 => match f32::from_le_bytes(of(bytes)) {
            number if number.is_finite() => Ok(serde_json::to_writer(out, &number)?),
            number => print_unusual(out, f64::from(number)),
        },
        Scalar::Float64 => match f64::from_le_bytes(of(bytes)) {
            number if number.is_finite() => Ok(serde_json::to_writer(out, &number)?),
            number => print_unusual(out, number),
        },
        Scalar::Bytes | Scalar::Utf8 => print_base64(out, bytes),
    }
}

fn print_unusual(out: &mut impl Write, number: f64) -> io::Result<()> {
    let word = match number {
        number if number.is_nan() => "NaN",
        number if number > 0.0 => "Infinity",
        _ => "-Infinity",
    };
    write!(out, "\"{word}\"")
}

impl Sink for Printer {
    type Memory = Vec<u8>;

    fn memory(&mut self) -> Result<Vec<u8>, Halt> {
        Ok(self.spare.take().unwrap_or_else(|| vec![0; MEMORY]))
    }

    fn large_memory(&mut self, payload: usize, _: usize) -> Result<Vec<u8>, Halt> {
        Ok(vec![0; payload])
    }

    fn room(&self, memory: &Vec<u8>, _: usize, _: usize) -> usize {
        memory.len()
    }

    fn schema(&mut self, fields: &Arc<[Field]>) {
        self.fields = fields.clone();
    }

    fn grant(&mut self, memory: Vec<u8>, batch: &Batch) -> Result<(), Halt> {
        let printed = self.print(&memory, batch);
        if memory.len() == MEMORY {
            self.spare = Some(memory);
        }
        match printed {
            Ok(()) => Ok(()),
            Err(error) => {
                if error.kind() != ErrorKind::BrokenPipe {
                    self.failed = Some(error);
                }
                Err(Halt::Stopped)
            }
        }
    }

    fn is_hungry(&self) -> bool {
        true
    }

    fn wants_epoch_end(&self, _: u32) -> bool {
        false
    }

    fn end_epoch(&mut self, _: u32, _: bool) -> Result<(), Halt> {
        Ok(())
    }
}
