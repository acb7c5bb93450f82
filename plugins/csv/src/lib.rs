//! The `csv` decoder: rows of delimited text, as fields, as typed columns, as one tensor of float32 or
//! as they stand. RFC 4180, and what real files do besides.
//!
//! Rows end at LF or CR LF (with `lone_cr` at a CR, too); the last one needs no line end. A quote
//! opens a quoted field only where a field starts; in it delimiters and line ends are text, and two
//! quotes stand for one. Blank lines and comment lines are no rows. A byte order mark is skipped at the
//! very start of an object. NUL and bytes that are not UTF-8 pass, but for columns of type utf8.
//! Numbers may have blanks around them. Columns are counted from 0, lines from 1.
//!
//! There is no header unless `header = true`, as SageMaker has it for `text/csv`: taken for a record, a
//! header shows at once; taken for a header, a record is lost without a word.
//!
//! The fields are known at open with `names`, and with `emit = "row"`; else the first row tells them.
//! A number's empty field is absent (with `emit = "dense"`, an error or NaN as `empty` says); empty
//! bytes and text are empty.
//!
//! Text behind a closing quote is appended (`"a"b` is `ab`), a quote inside of an unquoted field is
//! plain, and an escape works inside and outside of quotes, all as for Python's `csv`. Where this is not
//! as there, `docs/decoders.md` says so, and why is in `tests/decoder/differences.rs`.
//!
//! Of a CR at the end of the input, nobody knows whether an LF was to follow: it is taken for a line
//! end, as there.

mod chunk;
mod dense;
mod dialect;
mod emit;
mod four;
mod layout;
mod scan;
mod settings;
mod simd;
mod straight;

use std::ops::Range;

use chunk::{Chunk, Counted, NextRow, shown};
use dense::Dense;
use dialect::Cell;
use emit::{AllFields, Columns, FirstRow, Job, WholeRows};
use layout::{Layout, unnamed};
use pipemill_plugin::{
    DecodeError, Decoder, Field, OptionSpec, Options, Progress, Records, Resume, Resync, Scalar,
    StreamInfo,
};
use settings::{Emit, Settings};

/// The byte order mark of UTF-8.
const BOM: &[u8] = b"\xef\xbb\xbf";

/// The `csv` decoder.
#[derive(Debug)]
pub struct Csv {
    settings: Settings,
    max_record: u64,
    /// Whether no byte was looked at yet.
    at_start: bool,
    /// Line in which the next chunk starts, from 1.
    line: u64,
    /// Whether a CR stands before it.
    after_cr: bool,
    /// What the first row is, once it was seen.
    first_row: Option<FirstRow>,
    /// The header as it stands in the file.
    header: Vec<u8>,
    /// The columns, once they are known.
    layout: Option<Layout>,
    /// The fields of one row: kept for its memory only.
    cells: Vec<Cell>,
}

pipemill_plugin::export!(Csv);

impl Decoder for Csv {
    fn options() -> Vec<OptionSpec> {
        settings::specs()
    }

    fn open(options: &Options, info: &StreamInfo) -> Result<Self, String> {
        let settings = Settings::new(options)?;
        let layout = match (&settings.names, settings.emit) {
            (Some(names), _) => {
                Some(Layout::new(&settings, names.clone(), "option `names` has".to_owned())?)
            }
            (None, Emit::Row) => Some(Layout::new(&settings, Vec::new(), String::new())?),
            _ => None,
        };
        Ok(Self {
            settings,
            max_record: info.max_record,
            at_start: true,
            line: 1,
            after_cr: false,
            first_row: None,
            header: Vec::new(),
            layout,
            cells: Vec::new(),
        })
    }

    fn schema(&self) -> Option<Vec<Field>> {
        self.layout.as_ref().map(|layout| layout.fields.clone())
    }

    fn decode(
        &mut self,
        bytes: &[u8],
        end: bool,
        out: &mut Records,
    ) -> Result<Progress, DecodeError> {
        let mut counted = Counted::default();
        let answer = self.rows(bytes, end, &mut counted, out);
        let done = match &answer {
            Ok(consumed) => *consumed,
            Err(DecodeError { resume: Resume::At(to) | Resume::Scan(to), .. }) => *to as usize,
            Err(DecodeError { resume: Resume::None, .. }) => bytes.len(),
        };
        if self.settings.dialect.lone_cr {
            self.pass(&bytes[..done]);
        } else {
            self.line += counted.up_to(bytes, done);
        }
        answer.map(|consumed| Progress { consumed, need: 0 })
    }

    fn resync(&mut self, chunk: &[u8], _end: bool) -> Resync {
        let line_end = self.settings.dialect.line_end(chunk, 0);
        let consumed = line_end.map_or(chunk.len(), |at| at + 1);
        self.pass(&chunk[..consumed]);
        Resync { consumed, found: line_end.is_some() }
    }
}

impl Csv {
    /// These bytes are not shown again.
    fn pass(&mut self, bytes: &[u8]) {
        self.line += self.settings.dialect.count_lines(bytes, &mut self.after_cr);
    }

    /// Emits the rows of a chunk and says how far it came.
    fn rows(
        &mut self,
        bytes: &[u8],
        end: bool,
        counted: &mut Counted,
        out: &mut Records,
    ) -> Result<usize, DecodeError> {
        let mut at = 0;
        if self.at_start {
            if !end && bytes.len() < BOM.len() && BOM.starts_with(bytes) {
                return Ok(0);
            }
            self.at_start = false;
            at = if bytes.starts_with(BOM) { BOM.len() } else { 0 };
        }
        let chunk = Chunk {
            bytes,
            end,
            dialect: self.settings.dialect,
            max_record: self.max_record,
            line: self.line,
            after_cr: self.after_cr,
        };
        let first_row = match self.first_row {
            Some(first_row) => first_row,
            None => match chunk.next_row(at, &mut self.cells) {
                Ok(NextRow::Cut(at)) => return Ok(at),
                Ok(NextRow::Whole { row, next }) => {
                    let start = row.start;
                    let learned = self.learn(&chunk, row, out);
                    let first_row = learned.map_err(|what| chunk.fatal(start, what))?;
                    at = if self.settings.header { next } else { start };
                    *self.first_row.insert(first_row)
                }
                // Without its header, the rest can't be told what it is.
                Err(error) if self.settings.header => {
                    return Err(DecodeError { resume: Resume::None, ..error });
                }
                Err(error) => return Err(error),
            },
        };
        self.emit(&chunk, at, first_row, counted, out)
    }
}

impl Csv {
    /// Learns from the first row what the columns are, if the options didn't tell.
    fn learn(
        &mut self,
        chunk: &Chunk,
        row: Range<usize>,
        out: &mut Records,
    ) -> Result<FirstRow, String> {
        let line = chunk.line(row.start);
        let settings = &self.settings;
        if settings.drop_repeated_header {
            self.header = chunk.bytes[row].to_vec();
        }
        if self.layout.is_none() {
            let (names, told_by) = if settings.header {
                (header_names(chunk, &self.cells)?, "the header has".to_owned())
            } else {
                let names = (0..self.cells.len()).map(unnamed).collect();
                (names, format!("the first row (line {line}) has"))
            };
            let layout = Layout::new(settings, names, told_by)?;
            out.set_schema(&layout.fields);
            self.layout = Some(layout);
        }
        Ok(if settings.header { FirstRow::IsHeader } else { FirstRow::IsData(line) })
    }

    /// Emits the rows from `at` on, in the way that was asked for.
    fn emit(
        &mut self,
        chunk: &Chunk,
        at: usize,
        first_row: FirstRow,
        counted: &mut Counted,
        out: &mut Records,
    ) -> Result<usize, DecodeError> {
        // The first row was seen: it told the layout, or that was known before.
        let layout = self.layout.as_ref().expect("known behind the first row");
        let settings = &self.settings;
        let job = Job {
            chunk,
            header: settings.drop_repeated_header.then_some(&self.header),
            flexible: settings.flexible,
            empty_is_nan: settings.empty_is_nan,
            first_row,
            out,
        };
        let bytes_alone = layout.picks.iter().all(|pick| pick.scalar == Scalar::Bytes);
        let row = &mut self.cells;
        let (cells, made) = (Vec::new(), Vec::new());
        match settings.emit {
            Emit::Row => scan::scan(chunk, at, row, counted, &mut WholeRows { job }),
            Emit::Fields if layout.all && bytes_alone && !settings.flexible => {
                scan::scan(chunk, at, row, counted, &mut AllFields { job, layout })
            }
            Emit::Fields => {
                scan::scan(chunk, at, row, counted, &mut Columns { job, layout, cells, made })
            }
            Emit::Dense => scan::scan(chunk, at, row, counted, &mut Dense::new(job, layout)),
        }
    }
}

/// The names that a header gives. A column without one is called as if there were no header.
fn header_names(chunk: &Chunk, cells: &[Cell]) -> Result<Vec<String>, String> {
    let name = |(column, cell): (usize, &Cell)| {
        let text = &chunk.bytes[cell.range()];
        let mut name = Vec::new();
        if cell.raw {
            chunk.dialect.unescape(text, &mut name);
        } else {
            name.extend_from_slice(text);
        }
        if name.is_empty() {
            return Ok(unnamed(column));
        }
        String::from_utf8(name).map_err(|error| {
            let found = shown(error.as_bytes());
            format!("expected the name of column {column} in UTF-8, found {found}")
        })
    };
    cells.iter().enumerate().map(name).collect()
}
