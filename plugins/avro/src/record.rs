//! Reads one record along the steps of its layout, and emits its fields.

use std::ops::Range;

use pipemill_plugin::{Block, Records};

use crate::layout::{Layout, Step, Union, Value};
use crate::reader::{Problem, Reader, Stop};
use crate::skip::skip;

/// The bytes that contain the records.
#[derive(Clone, Copy)]
pub(crate) enum Source<'a> {
    /// The chunk.
    Chunk(&'a [u8]),
    /// A decompressed part of a block.
    Part(&'a Block),
}

impl<'a> Source<'a> {
    /// The bytes.
    fn bytes(self) -> &'a [u8] {
        match self {
            Self::Chunk(bytes) => bytes,
            Self::Part(part) => &part.bytes,
        }
    }
    /// Adds the next field of a record: a part of these bytes, without a copy.
    #[inline(always)]
    fn field(self, out: &mut Records, range: Range<usize>) {
        match self {
            Self::Chunk(_) => out.field(range),
            Self::Part(part) => out.field_in(part, range),
        }
    }
}

/// The reason why a record was not read.
#[derive(Debug)]
pub(crate) enum RecordStop {
    /// It extends beyond the available bytes. It has at least this many bytes.
    Cut(usize),
    /// It is invalid.
    Bad {
        /// The step whose value is invalid.
        step: usize,
        /// Its position, counted from the start of the record.
        at: usize,
        problem: Problem,
    },
}

/// Reads records.
#[derive(Debug, Default)]
pub(crate) struct RecordReader {
    /// Number of bytes of output that the arrays of the last record took.
    pub(crate) array_bytes: usize,
}

impl RecordReader {
    /// Reads the record at `start`, and emits its fields, but does not end it. It must end at
    /// `limit` or before; the source may have fewer bytes. Returns the end of the record. After a
    /// stop, some fields may have been emitted.
    #[inline(never)] // It is large, and called for blocks of both kinds.
    pub(crate) fn read(
        &mut self,
        layout: &Layout,
        source: Source,
        start: usize,
        limit: usize,
        out: &mut Records,
    ) -> Result<usize, RecordStop> {
        let mut reader = Reader::new(source.bytes(), start, limit);
        self.array_bytes = 0;
        for (index, step) in layout.steps.iter().enumerate() {
            if let Err(stop) = self.step(layout, source, *step, &mut reader, out) {
                return Err(match stop {
                    Stop::Cut(end) => RecordStop::Cut(end - start),
                    Stop::Bad { at, problem } => {
                        RecordStop::Bad { step: index, at: at - start, problem }
                    }
                });
            }
        }
        Ok(reader.at())
    }

    #[inline(always)]
    fn step(
        &mut self,
        layout: &Layout,
        source: Source,
        step: Step,
        reader: &mut Reader,
        out: &mut Records,
    ) -> Result<(), Stop> {
        match step.union {
            Union::No => {}
            Union::Single => {
                branch(reader, 1)?;
            }
            Union::Null(null) => {
                if branch(reader, 2)? == null {
                    if !step.is_skipped() {
                        out.absent();
                    }
                    return Ok(());
                }
            }
        }
        match step.value {
            Value::Text => source.field(out, reader.text()?),
            Value::Long => out.i64(reader.long()?),
            Value::Int => out.i32(reader.int()?),
            Value::Fixed(size) => source.field(out, reader.take(size.into())?),
            Value::Bytes => source.field(out, reader.string()?),
            Value::Boolean => source.field(out, reader.boolean()?),
            Value::Enum { symbols, width } => {
                let number = symbol(reader, symbols)?;
                match width {
                    1 => out.u8(number as u8),
                    2 => out.u16(number as u16),
                    _ => out.u32(number),
                }
            }
            Value::IntAsLong => out.i64(reader.int()?.into()),
            Value::Null => out.absent(),
            Value::SkipBytes(size) => {
                reader.take(size)?;
            }
            Value::SkipInt => {
                reader.int()?;
            }
            Value::SkipLong => {
                reader.long()?;
            }
            Value::SkipString => {
                reader.string()?;
            }
            Value::Skip(id) => skip(&layout.schema, id, reader)?,
            array if step.items == Union::No => self.array(source, array, reader, out)?,
            array => self.array_of_unions(source, array, step.items, reader, out)?,
        }
        Ok(())
    }

    #[inline(never)]
    fn array(
        &mut self,
        source: Source,
        array: Value,
        reader: &mut Reader,
        out: &mut Records,
    ) -> Result<(), Stop> {
        match array {
            Value::Booleans => self.fixeds(source, 1, true, reader, out),
            Value::Fixeds(size) => self.fixeds(source, size, false, reader, out),
            Value::Ints => self.made(out, |payload| {
                each(reader, |reader| {
                    payload.extend_from_slice(&reader.int()?.to_le_bytes());
                    Ok(())
                })
            }),
            Value::IntsAsLongs => self.made(out, |payload| {
                each(reader, |reader| {
                    payload.extend_from_slice(&i64::from(reader.int()?).to_le_bytes());
                    Ok(())
                })
            }),
            Value::Longs => self.made(out, |payload| {
                each(reader, |reader| {
                    payload.extend_from_slice(&reader.long()?.to_le_bytes());
                    Ok(())
                })
            }),
            Value::TextList => self.list(source, Union::No, reader, out, |reader| reader.text()),
            _ => self.list(source, Union::No, reader, out, |reader| reader.string()),
        }
    }

    /// An array whose items are in unions. None of them may be null.
    #[inline(never)]
    fn array_of_unions(
        &mut self,
        source: Source,
        array: Value,
        union: Union,
        reader: &mut Reader,
        out: &mut Records,
    ) -> Result<(), Stop> {
        match array {
            Value::TextList => {
                return self.list(source, union, reader, out, |reader| reader.text());
            }
            Value::BytesList => {
                return self.list(source, union, reader, out, |reader| reader.string());
            }
            _ => {}
        }
        self.made(out, |payload| {
            each(reader, |reader| {
                item(reader, union)?;
                match array {
                    Value::Ints => payload.extend_from_slice(&reader.int()?.to_le_bytes()),
                    Value::IntsAsLongs => {
                        payload.extend_from_slice(&i64::from(reader.int()?).to_le_bytes());
                    }
                    Value::Longs => payload.extend_from_slice(&reader.long()?.to_le_bytes()),
                    Value::Fixeds(size) => {
                        let range = reader.take(size.into())?;
                        payload.extend_from_slice(&reader.bytes()[range]);
                    }
                    _ => {
                        let range = reader.boolean()?;
                        payload.extend_from_slice(&reader.bytes()[range]);
                    }
                }
                Ok(())
            })
        })
    }

    /// An array of numbers that are written to the payload.
    fn made(
        &mut self,
        out: &mut Records,
        write: impl FnOnce(&mut Vec<u8>) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        out.field_made(|payload| {
            let before = payload.len();
            let result = write(payload);
            self.array_bytes += payload.len() - before;
            result
        })
    }

    /// An array of values of `size` bytes, unchanged. In one block it is a part of the source.
    fn fixeds(
        &mut self,
        source: Source,
        size: u32,
        booleans: bool,
        reader: &mut Reader,
        out: &mut Records,
    ) -> Result<(), Stop> {
        let next = |reader: &mut Reader| -> Result<Option<Range<usize>>, Stop> {
            let Some(items) = reader.items()? else { return Ok(None) };
            let range = reader.take(items.count.saturating_mul(size.into()))?;
            reader.end_items(&items)?;
            let checked = if booleans { &reader.bytes()[range.clone()] } else { &[] };
            match checked.iter().position(|byte| *byte > 1) {
                Some(bad) => reader.bad(range.start + bad, Problem::Boolean(checked[bad])),
                None => Ok(Some(range)),
            }
        };
        let Some(first) = next(reader)? else {
            out.field_bytes(&[]);
            return Ok(());
        };
        let Some(second) = next(reader)? else {
            source.field(out, first);
            return Ok(());
        };
        self.made(out, |payload| {
            let bytes = reader.bytes();
            payload.extend_from_slice(&bytes[first]);
            payload.extend_from_slice(&bytes[second]);
            while let Some(more) = next(reader)? {
                payload.extend_from_slice(&bytes[more]);
            }
            Ok(())
        })
    }

    /// A list of bytes or text, each in this union: offsets from the start of the value, then the
    /// elements. It is read twice: first to check and count the elements.
    fn list(
        &mut self,
        source: Source,
        union: Union,
        reader: &mut Reader,
        out: &mut Records,
        element: impl Fn(&mut Reader) -> Result<Range<usize>, Stop>,
    ) -> Result<(), Stop> {
        let (mut again, mut count) = (reader.clone(), 0);
        each(reader, |reader| {
            count += 1;
            item(reader, union)?;
            element(reader).map(drop)
        })?;
        let offset = |at: usize| (at as u32).to_le_bytes();
        self.made(out, |payload| {
            let (start, mut slot) = (payload.len(), payload.len());
            let first = 4 * (count + 1);
            payload.resize(start + first, 0);
            payload[slot..slot + 4].copy_from_slice(&offset(first));
            each(&mut again, |reader| {
                item(reader, union)?;
                payload.extend_from_slice(&source.bytes()[reader.string()?]);
                slot += 4;
                let end = offset(payload.len() - start);
                payload[slot..slot + 4].copy_from_slice(&end);
                Ok(())
            })
        })
    }
}

/// The number of a union's branch.
#[inline(always)]
fn branch(reader: &mut Reader, branches: u8) -> Result<u8, Stop> {
    let at = reader.at();
    let found = reader.long()?;
    if found < 0 || found >= branches.into() {
        return reader.bad(at, Problem::Branch { found, branches: branches.into() });
    }
    Ok(found as u8)
}

/// Reads the branch of an item of an array, which must not be null.
#[inline(always)]
fn item(reader: &mut Reader, union: Union) -> Result<(), Stop> {
    let at = reader.at();
    match union {
        Union::No => Ok(()),
        Union::Single => branch(reader, 1).map(drop),
        Union::Null(null) if branch(reader, 2)? == null => reader.bad(at, Problem::NullItem),
        Union::Null(_) => Ok(()),
    }
}

/// The number of an enum's symbol.
#[inline(always)]
fn symbol(reader: &mut Reader, symbols: u32) -> Result<u32, Stop> {
    let at = reader.at();
    let found = i64::from(reader.int()?);
    if found < 0 || found >= symbols.into() {
        return reader.bad(at, Problem::Symbol { found, symbols });
    }
    Ok(found as u32)
}

/// Reads each item of an array.
fn each(
    reader: &mut Reader,
    mut read: impl FnMut(&mut Reader) -> Result<(), Stop>,
) -> Result<(), Stop> {
    while let Some(items) = reader.items()? {
        // Each item has a byte or more.
        reader.require(items.count)?;
        for _ in 0..items.count {
            read(reader)?;
        }
        reader.end_items(&items)?;
    }
    Ok(())
}
