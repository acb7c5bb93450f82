//! What becomes of rows: their bytes, their fields or typed columns. One [`Rows`] each; the one that
//! makes a tensor is in `dense.rs`.

use std::ops::Range;

use pipemill_parsing::numbers::{Number, trimmed};
use pipemill_plugin::{DecodeError, Records, Scalar};

use crate::chunk::{Chunk, shown};
use crate::dialect::Cell;
use crate::layout::Layout;
use crate::scan::Rows;

/// What all of them need.
pub(crate) struct Job<'a> {
    pub(crate) chunk: &'a Chunk<'a>,
    /// The header, if rows equal to it are dropped.
    pub(crate) header: Option<&'a [u8]>,
    pub(crate) flexible: bool,
    pub(crate) empty_is_nan: bool,
    /// What to say about a value in the first row.
    pub(crate) first_row: FirstRow,
    pub(crate) out: &'a mut Records,
}

/// Whether the first row may be a header that the operator did not tell of.
#[derive(Debug, Clone, Copy)]
pub(crate) enum FirstRow {
    IsHeader,
    /// It is a record, and stands in this line.
    IsData(u64),
}

impl Job<'_> {
    #[inline(always)]
    pub(crate) fn is_header(&self, row: &Range<usize>) -> bool {
        self.header.is_some_and(|header| self.chunk.bytes[row.clone()] == *header)
    }

    #[inline(always)]
    pub(crate) fn check_width(
        &self,
        layout: &Layout,
        found: usize,
        row: &Range<usize>,
        next: usize,
    ) -> Result<(), DecodeError> {
        let expected = layout.names.len();
        if found == expected || self.flexible {
            return Ok(());
        }
        let told_by = &layout.told_by;
        Err(self.chunk.error(
            row.start,
            format_args!(
                ": expected {expected} fields, as {told_by}, found {found}; set flexible = true to \
                 take such rows"
            ),
            next,
        ))
    }

    /// Appends the value of a field that is not as it stands.
    fn unescape(&mut self, cell: Cell) {
        let Self { chunk, out, .. } = self;
        out.field_made(|value| chunk.dialect.unescape(&chunk.bytes[cell.range()], value));
    }
}

/// A value that its column can't hold.
pub(crate) struct Wrong {
    pub(crate) column: usize,
    pub(crate) expected: &'static str,
    pub(crate) found: String,
}

impl Wrong {
    #[cold]
    pub(crate) fn new(column: usize, expected: &'static str, found: &[u8]) -> Self {
        Self { column, expected, found: shown(found) }
    }

    #[cold]
    pub(crate) fn error(self, job: &Job, layout: &Layout, row: usize, next: usize) -> DecodeError {
        let Self { column, expected, found } = self;
        let name = &layout.names[column.min(layout.names.len() - 1)];
        let hint = match job.first_row {
            FirstRow::IsData(line) if line == job.chunk.line(row) => {
                "; if this row is the header, set header = true"
            }
            _ => "",
        };
        let what =
            format_args!(", column {column} (`{name}`): expected {expected}, found {found}{hint}");
        job.chunk.error(row, what, next)
    }
}

/// Each row one field.
pub(crate) struct WholeRows<'a> {
    pub(crate) job: Job<'a>,
}

impl Rows for WholeRows<'_> {
    const FIELDS: bool = false;

    #[inline(always)]
    fn field(&mut self, _: Cell) {}

    #[inline(always)]
    fn row(&mut self, row: Range<usize>, _: usize) -> Result<(), DecodeError> {
        if !self.job.is_header(&row) {
            self.job.out.span(row.start, row);
        }
        Ok(())
    }

    fn again(&mut self) {}
}

/// Each column a field of bytes, in order.
pub(crate) struct AllFields<'a> {
    pub(crate) job: Job<'a>,
    pub(crate) layout: &'a Layout,
}

impl Rows for AllFields<'_> {
    const FIELDS: bool = true;

    #[inline(always)]
    fn field(&mut self, cell: Cell) {
        if cell.raw { self.job.unescape(cell) } else { self.job.out.field(cell.range()) }
    }

    #[inline(always)]
    fn row(&mut self, row: Range<usize>, next: usize) -> Result<(), DecodeError> {
        let found = self.job.out.fields_so_far();
        if let Err(error) = self.job.check_width(self.layout, found, &row, next) {
            self.again();
            return Err(error);
        }
        if self.job.is_header(&row) {
            self.again();
        } else {
            self.job.out.end_record(row.start);
        }
        Ok(())
    }

    fn again(&mut self) {
        self.job.out.abandon_record();
    }
}

/// The columns that were asked for, as the types that were asked for.
pub(crate) struct Columns<'a> {
    pub(crate) job: Job<'a>,
    pub(crate) layout: &'a Layout,
    pub(crate) cells: Vec<Cell>,
    pub(crate) made: Vec<u8>,
}

impl Columns<'_> {
    fn column(&mut self, column: usize, scalar: Scalar) -> Result<(), Wrong> {
        let Some(cell) = self.cells.get(column).copied() else {
            self.job.out.absent();
            return Ok(());
        };
        match scalar {
            Scalar::Int32 => self.number::<i32, 4>(column, cell, i32::to_le_bytes),
            Scalar::Int64 => self.number::<i64, 8>(column, cell, i64::to_le_bytes),
            Scalar::Float32 => self.number::<f32, 4>(column, cell, f32::to_le_bytes),
            Scalar::Float64 => self.number::<f64, 8>(column, cell, f64::to_le_bytes),
            Scalar::Utf8 => {
                let text = value(self.job.chunk, cell, &mut self.made);
                if let Err(error) = str::from_utf8(text) {
                    return Err(not_utf8(column, text, error.valid_up_to()));
                }
                self.bytes(cell);
                Ok(())
            }
            Scalar::Bytes | Scalar::Boolean => {
                self.bytes(cell);
                Ok(())
            }
        }
    }

    fn bytes(&mut self, cell: Cell) {
        if cell.raw { self.job.unescape(cell) } else { self.job.out.field(cell.range()) }
    }

    #[inline]
    fn number<N: Number, const SIZE: usize>(
        &mut self,
        column: usize,
        cell: Cell,
        to_bytes: fn(N) -> [u8; SIZE],
    ) -> Result<(), Wrong> {
        match read::<N>(self.job.chunk, cell, &mut self.made) {
            Some(number) => self.job.out.field_bytes(&to_bytes(number)),
            None => {
                let text = trimmed(value(self.job.chunk, cell, &mut self.made));
                if !text.is_empty() {
                    return Err(Wrong::new(column, N::NAME, text));
                }
                self.job.out.absent();
            }
        }
        Ok(())
    }
}

#[cold]
fn not_utf8(column: usize, text: &[u8], at: usize) -> Wrong {
    let found = format!("{} at byte {at} of the value", shown(&text[at..]));
    Wrong { column, expected: "utf8", found }
}

impl Rows for Columns<'_> {
    const FIELDS: bool = true;

    #[inline(always)]
    fn field(&mut self, cell: Cell) {
        self.cells.push(cell);
    }

    fn row(&mut self, row: Range<usize>, next: usize) -> Result<(), DecodeError> {
        let layout = self.layout;
        self.job.check_width(layout, self.cells.len(), &row, next)?;
        if !self.job.is_header(&row) {
            for pick in &layout.picks {
                if let Err(wrong) = self.column(pick.column, pick.scalar) {
                    self.job.out.abandon_record();
                    return Err(wrong.error(&self.job, layout, row.start, next));
                }
            }
            self.job.out.end_record(row.start);
        }
        self.cells.clear();
        Ok(())
    }

    fn again(&mut self) {
        self.cells.clear();
    }
}

/// The number in a field, if it is one.
#[inline(always)]
pub(crate) fn read<N: Number>(chunk: &Chunk, cell: Cell, made: &mut Vec<u8>) -> Option<N> {
    if cell.raw {
        return N::parse(trimmed(value(chunk, cell, made)));
    }
    N::read(chunk.bytes, cell.start as usize, cell.end as usize)
}

/// The value of a field; `made` holds it where it is not as it stands.
#[inline(always)]
pub(crate) fn value<'a>(chunk: &Chunk<'a>, cell: Cell, made: &'a mut Vec<u8>) -> &'a [u8] {
    let text = &chunk.bytes[cell.range()];
    if !cell.raw {
        return text;
    }
    made.clear();
    chunk.dialect.unescape(text, made);
    made
}
