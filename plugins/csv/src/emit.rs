//! Emits rows unchanged, as fields of bytes, or as typed columns. Each is a [`RowSink`]; the sink
//! that emits a tensor is in `dense.rs`.

use std::ops::Range;

use pipemill_parsing::encoding::looks_like;
use pipemill_parsing::numbers::{Number, trimmed};
use pipemill_plugin::{DecodeError, Scalar};

use crate::backoff::Backoff;
use crate::chunk::{Chunk, LineCount, shown, value};
use crate::delimiter_hint;
use crate::dialect::Cell;
use crate::guess::{is_null_word, parse_boolean};
use crate::layout::{Layout, Pick};
use crate::merged_rows;
use crate::plain_rows::{AsWritten, PlainRows};
use crate::row_context::{FirstRow, RowContext, Surplus};
use crate::scan::{RowSink, StopReason};
use crate::typed_rows::{TypedRows, is_code};
use crate::written_numbers::parse_with_comma;
use crate::{value_hint, width_hint};

impl Surplus {
    #[cold]
    fn add(&mut self, chunk: &Chunk, row: usize, fields: usize) {
        if self.rows == 0 {
            self.first = (fields, chunk.line(row));
        }
        self.rows += 1;
    }

    /// The warning about them, at the end of an object.
    pub(crate) fn told(&self, layout: &Layout) -> String {
        let (fields, line) = self.first;
        let place = line.map_or(String::new(), |line| format!(" in line {line}"));
        let hint = match line {
            Some(line @ 2..) if layout.names.len() == 1 => width_hint::preamble(line - 1),
            _ => String::new(),
        };
        format!(
            "flexible = true left out the fields beyond {} in {} rows, the first with {fields} fields\
             {place}; give more names by `names` to keep them{hint}",
            layout.names.len(),
            self.rows
        )
    }
}

impl<'a> RowContext<'a> {
    #[inline(always)]
    pub(crate) fn is_header(&self, row: &Range<usize>) -> bool {
        self.header.is_some_and(|header| self.chunk.bytes[row.clone()] == *header)
    }

    #[inline(always)]
    pub(crate) fn check_width(
        &mut self,
        layout: &Layout,
        found: usize,
        row: &Range<usize>,
        next: usize,
    ) -> Result<(), DecodeError> {
        let expected = layout.names.len();
        if found == expected {
            return Ok(());
        }
        if self.flexible {
            if found > expected && !(self.is_dense && layout.all) {
                self.surplus.add(self.chunk, row.start, found);
            }
            return Ok(());
        }
        Err(self.wrong_width(layout, found, row, next))
    }

    #[cold]
    fn wrong_width(
        &self,
        layout: &Layout,
        found: usize,
        row: &Range<usize>,
        next: usize,
    ) -> DecodeError {
        let (expected, source) = (layout.names.len(), &layout.source);
        let fields = if expected == 1 { "field" } else { "fields" };
        let hint = width_hint::of_row(self, layout, found, row);
        self.chunk.error(
            row.start,
            ": ",
            format_args!("expected {expected} {fields}, as {source}, found {found}{hint}"),
            next,
        )
    }

    #[cold]
    fn delimiter_hint(&self, layout: &Layout, row: Range<usize>) -> String {
        let Chunk { bytes, dialect, .. } = self.chunk;
        delimiter_hint::of_row(dialect, &bytes[row], layout.names.len(), layout.are_named)
    }

    /// The words that are NaN, if empty values are NaN.
    pub(crate) fn nan(&self) -> Option<&'a [Vec<u8>]> {
        self.empty_is_nan.then_some(self.null)
    }

    /// Emits the value of a raw field.
    fn unescape(&mut self, cell: Cell) {
        let Self { chunk, out, .. } = self;
        out.field_made(|value| chunk.dialect.unescape(&chunk.bytes[cell.range()], value));
    }
}

/// A value that is invalid for the type of its column.
pub(crate) struct ValueError {
    pub(crate) column: usize,
    pub(crate) expected: &'static str,
    pub(crate) found: String,
    /// The text that was found, if another type or option may accept it.
    text: Vec<u8>,
    /// Whether it is not text.
    is_binary: bool,
}

impl ValueError {
    /// A value that is text.
    #[cold]
    pub(crate) fn new(column: usize, expected: &'static str, found: &[u8]) -> Self {
        Self { column, expected, found: shown(found), text: found.to_vec(), is_binary: false }
    }

    /// That text says nothing about types; `found` says everything.
    #[cold]
    pub(crate) fn of_other(column: usize, expected: &'static str, found: String) -> Self {
        Self { column, expected, found, text: Vec::new(), is_binary: false }
    }

    #[cold]
    pub(crate) fn into_decode_error(
        self,
        context: &RowContext,
        layout: &Layout,
        row: usize,
        next: usize,
    ) -> DecodeError {
        let name = &layout.names[self.column.min(layout.names.len() - 1)];
        let hint = self.hint(context, layout, row, next);
        let Self { column, expected, found, .. } = self;
        let message =
            format_args!("column {column} (`{name}`): expected {expected}, found {found}{hint}");
        context.chunk.error(row, ", ", message, next)
    }

    /// The likely meaning, and the option for it.
    fn hint(&self, context: &RowContext, layout: &Layout, row: usize, next: usize) -> String {
        let column = self.column.min(layout.names.len() - 1);
        if self.is_binary {
            return match layout.types_are_learnt {
                true => {
                    let name = layout.name_in_types(column);
                    format!("; types = \"auto,{name}:bytes\" takes it as it is")
                }
                false => "; types = \"bytes\" takes it as it is".to_owned(),
            };
        }
        if self.text.is_empty() {
            return String::new();
        }
        let row_end = context.chunk.row_end(row, next);
        let other = context.delimiter_hint(layout, row..row_end);
        let is_first = matches!(context.first_row, FirstRow::IsData(Some(line))
            if Some(line) == context.chunk.line(row));
        let value = value_hint::of_value(context, layout, column, self.expected, &self.text);
        let may_be_header =
            is_first && !layout.types_are_learnt && !is_null_word(trimmed(&self.text));
        match (may_be_header, other.is_empty()) {
            (true, _) => format!("; if this row is the header, set header = true{other}"),
            (false, true) => value,
            (false, false) if layout.types_are_learnt => format!("{value}{other}"),
            (false, false) => other,
        }
    }
}

/// Emits each row as one field.
pub(crate) struct WholeRows<'a> {
    pub(crate) context: RowContext<'a>,
}

impl RowSink for WholeRows<'_> {
    const FIELDS: bool = false;

    #[inline(always)]
    fn field(&mut self, _: Cell) {}

    #[inline(always)]
    fn row(&mut self, row: Range<usize>, _: usize) -> Result<(), DecodeError> {
        if !self.context.is_header(&row) {
            self.context.out.span(row.start, row);
        }
        Ok(())
    }

    fn discard_row(&mut self) {}
}

/// Emits all columns as fields of bytes or of text that is known to be UTF-8, in the order of the
/// row.
pub(crate) struct AllFields<'a> {
    context: RowContext<'a>,
    layout: &'a Layout,
    /// The fast path, if the dialect has one.
    plain: Option<&'a mut PlainRows>,
    backoff: Backoff,
}

/// Whether there is a fast path for the dialect.
fn has_fast_path(context: &RowContext) -> bool {
    let dialect = &context.chunk.dialect;
    dialect.escape.is_none() && !dialect.lone_cr
}

impl<'a> AllFields<'a> {
    pub(crate) fn new(
        context: RowContext<'a>,
        layout: &'a Layout,
        plain: &'a mut PlainRows,
    ) -> Self {
        let plain = has_fast_path(&context).then_some(plain);
        // The fast path reads little of a row before it gives up.
        Self { context, layout, plain, backoff: Backoff::new(1) }
    }
}

impl RowSink for AllFields<'_> {
    const FIELDS: bool = true;

    #[inline(always)]
    fn field(&mut self, cell: Cell) {
        if cell.raw { self.context.unescape(cell) } else { self.context.out.field(cell.range()) }
    }

    #[inline(always)]
    fn row(&mut self, row: Range<usize>, next: usize) -> Result<(), DecodeError> {
        self.backoff.row();
        let found = self.context.out.fields_so_far();
        if let Err(error) = self.context.check_width(self.layout, found, &row, next) {
            self.discard_row();
            return Err(error);
        }
        if self.context.is_header(&row) {
            self.discard_row();
        } else {
            self.context.out.end_record(row.start);
        }
        Ok(())
    }

    fn discard_row(&mut self) {
        self.context.out.abandon_record();
    }

    fn check_lines(&mut self, row: &Range<usize>) -> Result<(), DecodeError> {
        let checked = merged_rows::check(&self.context, self.layout, row);
        checked.inspect_err(|_| self.discard_row())
    }

    fn fast_path(&mut self, start: usize, counted: &mut LineCount) -> StopReason {
        let Self { context, layout, plain: Some(plain), backoff } = self else {
            return StopReason::Fallback(start);
        };
        if !backoff.is_over() {
            return StopReason::Fallback(start);
        }
        let (rows, stop) = plain.read(&mut AsWritten, context, layout.names.len(), start, counted);
        backoff.start(rows);
        stop
    }

    #[inline(always)]
    fn fast_path_due(&self) -> bool {
        self.backoff.is_over() && self.plain.is_some()
    }
}

/// Emits the columns that the operator wants, with their types.
pub(crate) struct Columns<'a> {
    context: RowContext<'a>,
    layout: &'a Layout,
    /// Whether the chunk is known to be UTF-8. If so, every value in it is.
    is_utf8: bool,
    /// The fast path, if the dialect and the options have one.
    plain: Option<&'a mut PlainRows>,
    backoff: Backoff,
    /// The fields of the current row.
    cells: Vec<Cell>,
    /// Buffer for the value of a raw field.
    value: Vec<u8>,
}

impl<'a> Columns<'a> {
    pub(crate) fn new(
        context: RowContext<'a>,
        layout: &'a Layout,
        is_utf8: bool,
        plain: &'a mut PlainRows,
    ) -> Self {
        let is_plain = !context.flexible && !context.chunk.dialect.decimal_comma;
        let plain = (is_plain && has_fast_path(&context)).then_some(plain);
        // The fast path splits many rows before it reads the values of one.
        let backoff = Backoff::new(16);
        Self { context, layout, is_utf8, plain, backoff, cells: Vec::new(), value: Vec::new() }
    }

    fn column(&mut self, pick: Pick) -> Result<(), ValueError> {
        let Pick { column, scalar, is_learnt } = pick;
        let Some(cell) = self.cells.get(column).copied() else {
            self.context.out.absent();
            return Ok(());
        };
        if !self.context.null.is_empty() && self.is_null(cell) {
            self.context.out.absent();
            return Ok(());
        }
        match scalar {
            Scalar::Int32 => self.number::<i32, 4>(column, cell, i32::to_le_bytes),
            Scalar::Int64 if is_learnt && is_code(&self.context.chunk.bytes[cell.range()]) => {
                Err(self.code(column, cell))
            }
            Scalar::Int64 => self.number::<i64, 8>(column, cell, i64::to_le_bytes),
            Scalar::Float32 => self.number::<f32, 4>(column, cell, f32::to_le_bytes),
            Scalar::Float64 => self.number::<f64, 8>(column, cell, f64::to_le_bytes),
            Scalar::Boolean => self.boolean(column, cell),
            Scalar::Utf8 if !self.is_utf8 => {
                let text = value(self.context.chunk, cell, &mut self.value);
                if let Err(error) = str::from_utf8(text) {
                    return Err(not_utf8(column, text, error.valid_up_to()));
                }
                self.bytes(cell);
                Ok(())
            }
            // Checked text, or bytes: the option `types` accepts no other type.
            _ => {
                self.bytes(cell);
                Ok(())
            }
        }
    }

    fn bytes(&mut self, cell: Cell) {
        if cell.raw { self.context.unescape(cell) } else { self.context.out.field(cell.range()) }
    }

    fn is_null(&mut self, cell: Cell) -> bool {
        let text = trimmed(value(self.context.chunk, cell, &mut self.value));
        self.context.null.iter().any(|word| word == text)
    }

    #[cold]
    fn code(&mut self, column: usize, cell: Cell) -> ValueError {
        let text = trimmed(value(self.context.chunk, cell, &mut self.value));
        ValueError::new(column, i64::NAME, text)
    }

    fn boolean(&mut self, column: usize, cell: Cell) -> Result<(), ValueError> {
        let text = trimmed(value(self.context.chunk, cell, &mut self.value));
        match parse_boolean(text) {
            Some(value) => self.context.out.bool(value),
            None if text.is_empty() => self.context.out.absent(),
            None => return Err(ValueError::new(column, "boolean", text)),
        }
        Ok(())
    }

    #[inline]
    fn number<N: Number, const SIZE: usize>(
        &mut self,
        column: usize,
        cell: Cell,
        to_bytes: fn(N) -> [u8; SIZE],
    ) -> Result<(), ValueError> {
        match read::<N>(self.context.chunk, cell, &mut self.value) {
            Some(number) => self.context.out.field_bytes(&to_bytes(number)),
            None => {
                let text = trimmed(value(self.context.chunk, cell, &mut self.value));
                if !text.is_empty() {
                    return Err(ValueError::new(column, N::NAME, text));
                }
                self.context.out.absent();
            }
        }
        Ok(())
    }
}

#[cold]
fn not_utf8(column: usize, text: &[u8], at: usize) -> ValueError {
    let found = format!(
        "{} at byte {at} of the value; it looks like {}",
        shown(&text[at..]),
        looks_like(text, at),
    );
    ValueError { is_binary: true, ..ValueError::of_other(column, Scalar::Utf8.word(), found) }
}

impl RowSink for Columns<'_> {
    const FIELDS: bool = true;

    #[inline(always)]
    fn field(&mut self, cell: Cell) {
        self.cells.push(cell);
    }

    fn row(&mut self, row: Range<usize>, next: usize) -> Result<(), DecodeError> {
        self.backoff.row();
        let layout = self.layout;
        self.context.check_width(layout, self.cells.len(), &row, next)?;
        if !self.context.is_header(&row) {
            for pick in &layout.picks {
                if let Err(error) = self.column(*pick) {
                    self.context.out.abandon_record();
                    return Err(error.into_decode_error(&self.context, layout, row.start, next));
                }
            }
            self.context.out.end_record(row.start);
        }
        self.cells.clear();
        Ok(())
    }

    fn discard_row(&mut self) {
        self.cells.clear();
    }

    fn check_lines(&mut self, row: &Range<usize>) -> Result<(), DecodeError> {
        merged_rows::check(&self.context, self.layout, row)
    }

    fn fast_path(&mut self, start: usize, counted: &mut LineCount) -> StopReason {
        let Self { context, layout, is_utf8, plain: Some(plain), backoff, .. } = self else {
            return StopReason::Fallback(start);
        };
        if !backoff.is_over() {
            return StopReason::Fallback(start);
        }
        let mut rows = TypedRows { layout, is_utf8: *is_utf8 };
        let (rows, stop) = plain.read(&mut rows, context, layout.names.len(), start, counted);
        backoff.start(rows);
        stop
    }

    #[inline(always)]
    fn fast_path_due(&self) -> bool {
        self.backoff.is_over() && self.plain.is_some()
    }
}

/// The number in a field; `None` if it is not a number. `buffer` is for the value of a raw field.
#[inline(always)]
pub(crate) fn read<N: Number>(chunk: &Chunk, cell: Cell, buffer: &mut Vec<u8>) -> Option<N> {
    if chunk.dialect.decimal_comma {
        return parse_with_comma(trimmed(value(chunk, cell, buffer)));
    }
    if cell.raw {
        return N::parse(trimmed(value(chunk, cell, buffer)));
    }
    N::read(chunk.bytes, cell.start as usize, cell.end as usize)
}
