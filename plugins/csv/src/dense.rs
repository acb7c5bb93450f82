//! Emits rows as one tensor of float32, and maybe a label: `emit = "dense"`.

use std::ops::Range;

use pipemill_parsing::numbers::{Number, trimmed};
use pipemill_plugin::{DecodeError, Records};

use crate::backoff::Backoff;
use crate::chunk::{Chunk, LineCount, value};
use crate::dialect::Cell;
use crate::emit::{ValueError, read};
use crate::fast_path::FastPath;
use crate::layout::Layout;
use crate::row_context::RowContext;
use crate::scan::{RowSink, StopReason};

/// Number of rows after which the fast path pays off, although it reads a row twice that it can't
/// read.
const RESET_AFTER: u64 = 8;

/// Emits the field `x`, and the field `y` if there is a label.
pub(crate) struct Dense<'a> {
    context: RowContext<'a>,
    layout: &'a Layout,
    /// The columns of `x`, in order.
    columns: Vec<usize>,
    /// The number of fields in a row for which `columns` is right. It changes if rows are flexible.
    row_width: usize,
    /// The fields of the current row.
    cells: Vec<Cell>,
    /// Buffer for the value of a raw field, or for the numbers of a row.
    buffer: Vec<u8>,
    /// `None` if rows of this kind have no fast path.
    fast_path: Option<FastPath>,
    backoff: Backoff,
}

impl<'a> Dense<'a> {
    pub(crate) fn new(context: RowContext<'a>, layout: &'a Layout) -> Self {
        let columns = layout.picks.iter().map(|pick| pick.column).collect();
        let row_width = layout.names.len();
        let dialect = &context.chunk.dialect;
        let fast_path = match dialect.decimal_comma {
            true => None,
            false => FastPath::new(dialect, layout, context.empty_is_nan),
        };
        let (cells, buffer, backoff) = (Vec::new(), Vec::new(), Backoff::new(RESET_AFTER));
        Self { context, layout, columns, row_width, cells, buffer, fast_path, backoff }
    }

    /// Emits the fields of the current row. The error is the column whose value is invalid.
    fn fields(&mut self) -> Result<(), usize> {
        let width = self.cells.len();
        if self.context.flexible && self.layout.all && self.row_width != width {
            let label = self.layout.label;
            self.columns = (0..width).filter(|column| Some(*column) != label).collect();
            self.row_width = width;
        }
        let Self { context, cells, buffer, columns, .. } = self;
        let (chunk, nan) = (context.chunk, context.nan());
        context.out.field_made(|x| {
            let from = x.len();
            x.resize(from + 4 * columns.len(), 0);
            for (place, column) in x[from..].chunks_exact_mut(4).zip(&*columns) {
                let cell = cells.get(*column).copied();
                let float = match cell.and_then(|cell| read(chunk, cell, buffer)) {
                    Some(float) => float,
                    None => empty_value(chunk, cell, buffer, nan).ok_or(*column)?,
                };
                place.copy_from_slice(&f32::to_le_bytes(float));
            }
            Ok::<(), usize>(())
        })?;
        match self.layout.label {
            Some(label) => self.label(label),
            None => Ok(()),
        }
    }

    #[inline(never)]
    fn label(&mut self, column: usize) -> Result<(), usize> {
        let Self { context, cells, buffer, .. } = self;
        let cell = cells.get(column).copied();
        let float = cell
            .and_then(|cell| read::<f32>(context.chunk, cell, buffer))
            .or_else(|| empty_value(context.chunk, cell, buffer, context.nan()))
            .ok_or(column)?;
        context.out.field_bytes(&float.to_le_bytes());
        Ok(())
    }

    /// The error for the value in a column.
    #[cold]
    fn value_error(&mut self, column: usize) -> ValueError {
        let cell = self.cells.get(column);
        let chunk = self.context.chunk;
        match cell.map_or(&[][..], |cell| trimmed(value(chunk, *cell, &mut self.buffer))) {
            [] => {
                let found = "an empty field; set empty = \"nan\" to take it as NaN".to_owned();
                ValueError::of_other(column, f32::NAME, found)
            }
            text => ValueError::new(column, f32::NAME, text),
        }
    }
}

/// NaN for an empty or missing field and for a null word, if the option `empty` allows it: `nan`
/// contains these words then.
#[cold]
fn empty_value(
    chunk: &Chunk,
    cell: Option<Cell>,
    buffer: &mut Vec<u8>,
    nan: Option<&[Vec<u8>]>,
) -> Option<f32> {
    let null = nan?;
    let is_none = |text: &[u8]| text.is_empty() || null.iter().any(|word| word == text);
    let empty = cell.is_none_or(|cell| is_none(trimmed(value(chunk, cell, buffer))));
    empty.then_some(f32::NAN)
}

impl RowSink for Dense<'_> {
    const FIELDS: bool = true;

    #[inline(always)]
    fn field(&mut self, cell: Cell) {
        self.cells.push(cell);
    }

    fn row(&mut self, row: Range<usize>, next: usize) -> Result<(), DecodeError> {
        self.backoff.row();
        self.context.check_width(self.layout, self.cells.len(), &row, next)?;
        if !self.context.is_header(&row) {
            if let Err(column) = self.fields() {
                self.context.out.abandon_record();
                let error = self.value_error(column);
                return Err(error.into_decode_error(&self.context, self.layout, row.start, next));
            }
            self.context.out.end_record(row.start);
        }
        self.cells.clear();
        Ok(())
    }

    fn discard_row(&mut self) {
        self.cells.clear();
    }

    fn fast_path(&mut self, start: usize, counted: &mut LineCount) -> StopReason {
        let Self { context, fast_path: Some(fast_path), buffer, backoff, .. } = self else {
            return StopReason::Fallback(start);
        };
        let chunk = context.chunk;
        let (mut at, mut rows) = (start, 0);
        let lines = counted.up_to(chunk.bytes, start);
        while backoff.is_over() {
            let read = match &fast_path.order {
                None => context.out.field_made(|x| fast_path.row(chunk.bytes, at, x)),
                Some(_) => {
                    buffer.clear();
                    fast_path.row(chunk.bytes, at, buffer)
                }
            };
            let good = read.filter(|row| {
                chunk.check_length(at..row.end).is_ok() && !context.is_header(&(at..row.end))
            });
            let Some(row) = good else {
                context.out.abandon_record();
                backoff.start(rows);
                break;
            };
            if let Some(order) = &fast_path.order {
                emit_picks(buffer, order, self.layout.label.is_some(), context.out);
            }
            context.out.end_record(at);
            (at, rows) = (row.next, rows + 1);
        }
        *counted = LineCount { to: at, lines: lines + rows };
        StopReason::Fallback(at)
    }

    #[inline(always)]
    fn fast_path_due(&self) -> bool {
        self.backoff.is_over() && self.fast_path.is_some()
    }
}

/// Emits the wanted numbers of a row, in this order of its columns. With `label`, the last one is
/// `y`.
fn emit_picks(numbers: &[u8], order: &[usize], label: bool, out: &mut Records) {
    let (numbers, _) = numbers.as_chunks::<4>();
    let (x, y) = order.split_at(order.len() - usize::from(label));
    out.field_made(|bytes| x.iter().for_each(|column| bytes.extend_from_slice(&numbers[*column])));
    y.iter().for_each(|column| out.field_bytes(&numbers[*column]));
}
