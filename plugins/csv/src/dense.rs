//! What becomes of rows with `emit = "dense"`: one tensor of float32, and maybe a label.

use std::ops::Range;

use pipemill_parsing::numbers::{Number, trimmed};
use pipemill_plugin::{DecodeError, Records};

use crate::chunk::{Chunk, Counted};
use crate::dialect::Cell;
use crate::emit::{Job, Wrong, read, value};
use crate::layout::Layout;
use crate::scan::Rows;
use crate::straight::Straight;

/// The columns that were asked for as one tensor of float32, and maybe a label.
pub(crate) struct Dense<'a> {
    job: Job<'a>,
    layout: &'a Layout,
    /// The columns of `x`, in order: all but the label, or those that were asked for.
    columns: Vec<usize>,
    /// With rows of any length: how many fields the row had that `columns` is for.
    wide: usize,
    cells: Vec<Cell>,
    made: Vec<u8>,
    /// The straight way, if there is one for such rows.
    straight: Option<Straight>,
    detour: Detour,
}

/// How long to keep off the straight way when it has met an odd row: for longer each time, so that
/// files of odd rows are not looked at twice.
#[derive(Debug, Clone, Copy, Default)]
struct Detour {
    /// Rows still to go.
    rows: u32,
    /// Rows when it started.
    length: u32,
}

impl Detour {
    const LONGEST: u32 = 256;
    /// After so many rows on the straight way, the next detour is a short one again.
    const ENOUGH: u64 = 8;

    /// The straight way came so many rows far.
    fn start(&mut self, came: u64) {
        let length = if came >= Self::ENOUGH { 1 } else { self.length * 2 };
        self.length = length.clamp(1, Self::LONGEST);
        self.rows = self.length;
    }
}

impl<'a> Dense<'a> {
    pub(crate) fn new(job: Job<'a>, layout: &'a Layout) -> Self {
        let columns = layout.picks.iter().map(|pick| pick.column).collect();
        let wide = layout.names.len();
        let straight = Straight::new(&job.chunk.dialect, layout, job.empty_is_nan);
        let (cells, made, detour) = (Vec::new(), Vec::new(), Detour::default());
        Self { job, layout, columns, wide, cells, made, straight, detour }
    }

    /// Emits the fields of a record, or says in which column that went wrong.
    fn fields(&mut self) -> Result<(), usize> {
        let wide = self.cells.len();
        if self.job.flexible && self.layout.all && self.wide != wide {
            let label = self.layout.label;
            self.columns = (0..wide).filter(|column| Some(*column) != label).collect();
            self.wide = wide;
        }
        let Self { job, cells, made, columns, .. } = self;
        let (chunk, nan) = (job.chunk, job.empty_is_nan);
        job.out.field_made(|x| {
            let from = x.len();
            x.resize(from + 4 * columns.len(), 0);
            for (place, column) in x[from..].chunks_exact_mut(4).zip(&*columns) {
                let cell = cells.get(*column).copied();
                let float = match cell.and_then(|cell| read(chunk, cell, made)) {
                    Some(float) => float,
                    None => nothing(chunk, cell, made, nan).ok_or(*column)?,
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
        let Self { job, cells, made, .. } = self;
        let cell = cells.get(column).copied();
        let float = cell
            .and_then(|cell| read::<f32>(job.chunk, cell, made))
            .or_else(|| nothing(job.chunk, cell, made, job.empty_is_nan))
            .ok_or(column)?;
        job.out.field_bytes(&float.to_le_bytes());
        Ok(())
    }

    #[cold]
    fn wrong(&mut self, column: usize) -> Wrong {
        let cell = self.cells.get(column);
        match cell.map_or(&[][..], |cell| trimmed(value(self.job.chunk, *cell, &mut self.made))) {
            [] => {
                let found = "an empty field; set empty = \"nan\" to take it as NaN".to_owned();
                Wrong { column, expected: f32::NAME, found }
            }
            text => Wrong::new(column, f32::NAME, text),
        }
    }
}

/// The value of a field without one, if it may have none.
#[cold]
fn nothing(chunk: &Chunk, cell: Option<Cell>, made: &mut Vec<u8>, nan: bool) -> Option<f32> {
    let empty = cell.is_none_or(|cell| trimmed(value(chunk, cell, made)).is_empty());
    (empty && nan).then_some(f32::NAN)
}

impl Rows for Dense<'_> {
    const FIELDS: bool = true;

    #[inline(always)]
    fn field(&mut self, cell: Cell) {
        self.cells.push(cell);
    }

    fn row(&mut self, row: Range<usize>, next: usize) -> Result<(), DecodeError> {
        self.detour.rows = self.detour.rows.saturating_sub(1);
        self.job.check_width(self.layout, self.cells.len(), &row, next)?;
        if !self.job.is_header(&row) {
            if let Err(column) = self.fields() {
                self.job.out.abandon_record();
                let wrong = self.wrong(column);
                return Err(wrong.error(&self.job, self.layout, row.start, next));
            }
            self.job.out.end_record(row.start);
        }
        self.cells.clear();
        Ok(())
    }

    fn again(&mut self) {
        self.cells.clear();
    }

    fn straight(&mut self, start: usize, counted: &mut Counted) -> usize {
        let Self { job, straight: Some(straight), made, detour, .. } = self else { return start };
        let chunk = job.chunk;
        let (mut at, mut rows) = (start, 0);
        let lines = counted.up_to(chunk.bytes, start);
        while detour.rows == 0 {
            let read = match &straight.order {
                None => job.out.field_made(|x| straight.row(chunk.bytes, at, x)),
                Some(_) => {
                    made.clear();
                    straight.row(chunk.bytes, at, made)
                }
            };
            let good = read.filter(|row| {
                chunk.check_length(at..row.end).is_ok() && !job.is_header(&(at..row.end))
            });
            let Some(row) = good else {
                job.out.abandon_record();
                detour.start(rows);
                break;
            };
            if let Some(order) = &straight.order {
                pick(made, order, self.layout.label.is_some(), job.out);
            }
            job.out.end_record(at);
            (at, rows) = (row.next, rows + 1);
        }
        *counted = Counted { to: at, lines: lines + rows };
        at
    }

    #[inline(always)]
    fn straight_is_due(&self) -> bool {
        self.detour.rows == 0 && self.straight.is_some()
    }
}

/// Emits those of a row's numbers that are asked for; with a label, that is the last of them.
fn pick(numbers: &[u8], order: &[usize], label: bool, out: &mut Records) {
    let (numbers, _) = numbers.as_chunks::<4>();
    let (x, y) = order.split_at(order.len() - usize::from(label));
    out.field_made(|made| x.iter().for_each(|column| made.extend_from_slice(&numbers[*column])));
    y.iter().for_each(|column| out.field_bytes(&numbers[*column]));
}
