//! The `csv` decoder: rows of delimited text, as fields, as typed columns, as one tensor of float32
//! or as they are written. It follows RFC 4180, and accepts what real files have besides.
//!
//! **Rows.** A row ends at LF or CR LF (with `lone_cr` also at CR); the last row needs no line end.
//! A quote opens a quoted field only at the start of a field. In a quoted field delimiters and line
//! ends are text, and two quotes mean one. Blank lines and comment lines are no rows. A byte order
//! mark at the start of an object is skipped. Bytes that are not UTF-8 are valid in columns of type
//! bytes; other columns are text, or have the types that the first rows tell (`learn.rs`). Numbers may have blanks around them. Columns count from 0, lines from
//! 1.
//!
//! **Header.** There is no header unless `header = true`, as SageMaker has it for `text/csv`. A
//! header that is read as a record is noticed at once; a record that is read as a header is lost
//! silently.
//!
//! **Schema.** With `names` or `emit = "row"` the fields are known at `open`; else the first row
//! tells them. An empty field of a number type is absent; with `emit = "dense"` it is an error or
//! NaN, by the option `empty`. Empty bytes and text are empty values.
//!
//! **As in Python's `csv`**, text after a closing quote is appended (`"a"b` is `ab`), a quote in an
//! unquoted field is text, and escapes work inside and outside quotes. `docs/decoders.md` lists the
//! differences; `tests/decoder/differences.rs` gives the reasons. A CR at the end of the input is a
//! line end, as in Python, because an LF may have been cut off.
//!
//! # The files, for the next person
//!
//! Three readers give the same rows, at different speeds. `dialect.rs` is the reference: a state
//! machine, one byte at a time. `scan.rs` reads 64 bytes at a time and leaves rows that it does not
//! understand to the reference. `fast_path.rs` reads rows of plain numbers without a list of
//! fields, four numbers at a time (`parse_f32x4.rs`), and leaves all other rows to the scanner.
//! Both use `simd.rs`. What to do with a row is in `emit.rs` and `dense.rs`. `delimiter_hint.rs` only
//! adds to their messages. If you change the
//! format, change `dialect.rs` first; the tests compare the others with it and with Python.

mod backoff;
mod chunk;
mod delimiter_hint;
mod dense;
mod dialect;
mod emit;
mod fast_path;
mod layout;
mod learn;
mod parse_f32x4;
mod plain_masks;
mod plain_rows;
mod scan;
mod search;
mod settings;
mod simd;

use std::ops::Range;

use chunk::{Chunk, LineCount, NextRow, shown};
use dense::Dense;
use dialect::Cell;
use emit::{AllFields, Columns, FirstRow, RowContext, WholeRows};
use layout::{Layout, default_name};
use learn::{Learner, Learnt};
use pipemill_parsing::encoding::{looks_like, valid_up_to};
use pipemill_plugin::{
    DecodeError, Decoder, Field, Level, OptionSpec, Options, Progress, Records, Resume, Resync,
    Scalar, StreamInfo,
};
use plain_rows::PlainRows;
use search::Search;
use settings::{Emit, Header, Settings};

/// The byte order mark of UTF-8.
const BOM: &[u8] = b"\xef\xbb\xbf";

/// The `csv` decoder.
#[derive(Debug)]
pub struct Csv {
    settings: Settings,
    /// Largest row in bytes.
    max_record: u64,
    /// Whether nothing of the object was decoded yet.
    at_start: bool,
    /// Whether a stream that begins inside of the object has the same columns, without a header.
    knows_columns: bool,
    /// What the names of the columns come from, if not from the rows, for messages.
    names_source: &'static str,
    /// Bytes of the object before the next chunk.
    offset: u64,
    /// Bytes of the object up to the end of the header.
    header_end: u64,
    /// Number of the line in which the next chunk starts, from 1; 0 if it is not known, because
    /// decoding began inside of the object.
    line: u64,
    /// Whether the byte before the next chunk is a CR.
    after_cr: bool,
    /// Whether the first row is a header, once it was read.
    first_row: Option<FirstRow>,
    /// The bytes of the header, if later rows are compared with it.
    header: Vec<u8>,
    /// The fields of the objects before, if the option `header` or `types` is `auto`.
    fields_before: Option<Vec<Field>>,
    /// The rows that tell header and types, while they are read.
    learner: Learner,
    /// What the first rows told.
    learnt: Option<Learnt>,
    /// The columns, once they are known.
    layout: Option<Layout>,
    /// The fields of one row. A field only so that its memory is reused.
    cells: Vec<Cell>,
    /// Memory of the fast path of plain rows.
    plain: PlainRows,
    /// The search for a row, if decoding began inside of the object and nothing was decoded there.
    search: Option<Search>,
}

#[cfg(feature = "export")]
pipemill_plugin::export!(Csv);

impl Decoder for Csv {
    fn options() -> Vec<OptionSpec> {
        settings::specs()
    }

    fn open(options: &Options, info: &StreamInfo) -> Result<Self, String> {
        let mut settings = Settings::new(options)?;
        let restart = info.restart().filter(|at| at.place > 0);
        let knows_columns = settings.knows_columns();
        let names_source = match settings.names {
            Some(_) => "option `names` has",
            None => "the rows before have",
        };
        if let Some(restart) = restart {
            settings.header = if restart.header == 0 { Header::No } else { Header::Yes };
            if restart.header == 0 && settings.names.is_none() {
                settings.names = names_before(&settings, info);
            }
        }
        let layout = match (&settings.names, settings.emit) {
            (Some(names), _) if settings.types.default.is_some() => {
                Some(Layout::new(&settings, names.clone(), names_source.to_owned(), &[])?)
            }
            (None, Emit::Row) => Some(Layout::new(&settings, Vec::new(), String::new(), &[])?),
            _ => None,
        };
        let is_learnt = settings.learns() && settings.emit == Emit::Fields;
        Ok(Self {
            settings,
            max_record: info.max_record,
            names_source,
            at_start: restart.is_none_or(|at| at.header > 0),
            knows_columns,
            offset: 0,
            header_end: 0,
            line: if restart.is_some() { 0 } else { 1 },
            after_cr: false,
            first_row: None,
            header: Vec::new(),
            fields_before: if is_learnt { info.fields_before() } else { None },
            learner: Learner::default(),
            learnt: None,
            layout,
            cells: Vec::new(),
            plain: PlainRows::default(),
            search: restart.map(|at| Search::new(at.header)),
        })
    }

    fn schema(&self) -> Option<Vec<Field>> {
        self.layout.as_ref().map(|layout| layout.fields.clone())
    }

    fn restart(&self) -> Option<u64> {
        // A new stream takes types that were learnt from the schema, which can't say such a name.
        let is_said = self.settings.types.default.is_some()
            || self.settings.emit == Emit::Fields
                && self.layout.as_ref().is_some_and(|layout| {
                    layout.fields.iter().all(|field| !field.name.contains('\n'))
                });
        let place = match self.first_row {
            Some(FirstRow::IsHeader) => Some(self.header_end),
            Some(FirstRow::IsData(_)) => self.knows_columns.then_some(0),
            None => (self.settings.header == Header::No && self.knows_columns).then_some(0),
        };
        place.filter(|_| is_said)
    }

    fn decode(
        &mut self,
        bytes: &[u8],
        end: bool,
        out: &mut Records,
    ) -> Result<Progress, DecodeError> {
        // It begins here, and is not asked for a place: the chunk has more than the header.
        self.search.take_if(|search| self.offset + bytes.len() as u64 > search.header);
        let mut counted = LineCount::default();
        let result = self.decode_rows(bytes, end, &mut counted, out);
        let done = match &result {
            Ok(consumed) => *consumed,
            Err(DecodeError { resume: Resume::At(to) | Resume::Scan(to), .. }) => *to as usize,
            Err(DecodeError { resume: Resume::None | Resume::Refused, .. }) => bytes.len(),
        };
        self.offset += done as u64;
        if self.settings.dialect.lone_cr {
            self.count_lines(&bytes[..done]);
        } else {
            let lines = counted.up_to(bytes, done);
            self.line += if self.line > 0 { lines } else { 0 };
        }
        result.map(Progress::consumed)
    }

    fn resync(&mut self, chunk: &[u8], end: bool) -> Resync {
        if let Some(search) = &mut self.search {
            let columns = self.layout.as_ref().map_or(0, |layout| layout.names.len());
            let columns = (columns > 0 && !self.settings.flexible).then_some(columns);
            return search.find(&self.settings.dialect, columns, chunk, end);
        }
        let line_end = self.settings.dialect.line_end(chunk, 0);
        let consumed = line_end.map_or(chunk.len(), |at| at + 1);
        self.count_lines(&chunk[..consumed]);
        self.offset += consumed as u64;
        Resync { consumed, found: line_end.is_some() }
    }
}

/// The names of the columns of a stream that begins inside of an object without a header.
fn names_before(settings: &Settings, info: &StreamInfo) -> Option<Vec<String>> {
    match settings.emit {
        Emit::Fields => {
            let fields = info.fields_before()?;
            Some(fields.into_iter().map(|field| field.name).collect())
        }
        Emit::Dense => {
            let columns = learn::width_before(&info.fields_before()?)?
                + usize::from(settings.label.is_some());
            Some((0..columns).map(default_name).collect())
        }
        Emit::Row => None,
    }
}

impl Csv {
    /// Counts the lines in bytes that are not shown again.
    fn count_lines(&mut self, bytes: &[u8]) {
        let lines = self.settings.dialect.count_lines(bytes, &mut self.after_cr);
        self.line += if self.line > 0 { lines } else { 0 };
    }

    /// Emits the rows of a chunk. Returns how many bytes are done with.
    fn decode_rows(
        &mut self,
        bytes: &[u8],
        end: bool,
        counted: &mut LineCount,
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
        if self.first_row.is_none() && self.settings.learns() && self.learnt.is_none() {
            match self.learn_from_rows(&chunk, at)? {
                Some(learnt) => self.learnt = Some(learnt),
                None if !end => return Ok(at),
                None => {}
            }
        }
        let has_header = self
            .learnt
            .as_ref()
            .map_or_else(|| self.settings.header != Header::No, |learnt| learnt.header);
        let first_row = match self.first_row {
            Some(first_row) => first_row,
            None => match chunk.next_row(at, &mut self.cells) {
                Ok(NextRow::Cut(at)) => return Ok(at),
                Ok(NextRow::Whole { row, next }) => {
                    let start = row.start;
                    let first_row = self.learn(&chunk, row, has_header, out)?;
                    at = if has_header { next } else { start };
                    self.header_end = self.offset + next as u64;
                    *self.first_row.insert(first_row)
                }
                // Without the header the columns are not known, so no other row can be decoded.
                Err(error) if has_header => {
                    return Err(DecodeError { resume: Resume::None, ..error });
                }
                Err(error) => {
                    // The next row is the first, and tells what this one would have told.
                    (self.learner, self.learnt) = (Learner::default(), None);
                    return Err(error);
                }
            },
        };
        self.emit(&chunk, at, first_row, counted, out)
    }
}

impl Csv {
    /// Learns header and types from the rows at `start`, or from the objects before. `None` if there
    /// are no rows, or if more of them must be seen.
    ///
    /// # Errors
    /// The rows don't tell.
    fn learn_from_rows(
        &mut self,
        chunk: &Chunk,
        start: usize,
    ) -> Result<Option<Learnt>, DecodeError> {
        let settings = &self.settings;
        let learnt = if let Some(before) = &self.fields_before {
            let Ok(NextRow::Whole { .. }) = chunk.next_row(start, &mut self.cells) else {
                return Ok(None);
            };
            let mut buffer = Vec::new();
            let text = |cell: &Cell| emit::value(chunk, *cell, &mut buffer).to_vec();
            let first: Vec<_> = self.cells.iter().map(text).collect();
            learn::of_fields_before(before, settings, &first).map(Some)
        } else if self.learner.read(chunk, start, &mut self.cells, &settings.null) {
            self.learner.learnt(settings)
        } else {
            Ok(None)
        };
        learnt.map_err(|message| chunk.refused(start, message))
    }

    /// Learns the columns from the first row, if the options did not give them.
    ///
    /// # Errors
    /// The header is bad, or the options don't fit the columns.
    fn learn(
        &mut self,
        chunk: &Chunk,
        row: Range<usize>,
        has_header: bool,
        out: &mut Records,
    ) -> Result<FirstRow, DecodeError> {
        let start = row.start;
        let line = chunk.line(start);
        let settings = &self.settings;
        if has_header {
            check_line_ends(chunk, start, &self.cells)?;
        }
        if settings.drop_repeated_header {
            self.header = chunk.bytes[row].to_vec();
        }
        if self.layout.is_none() {
            let types = self.learnt.as_ref().map_or(&[][..], |learnt| &learnt.types);
            let (names, source) = if let Some(names) = &settings.names {
                (names.clone(), self.names_source.to_owned())
            } else if has_header {
                let names = header_names(chunk, &self.cells);
                (names.map_err(|message| chunk.fatal(start, message))?, "the header has".to_owned())
            } else {
                let names = (0..self.cells.len()).map(default_name).collect();
                (
                    names,
                    line.map_or("the first row has".into(), |line| {
                        format!("the first row (line {line}) has")
                    }),
                )
            };
            let layout = Layout::new(settings, names, source, types)
                .map_err(|message| chunk.refused(start, message))?;
            out.set_schema(&layout.fields);
            if let Some(learnt) = self.learnt.as_ref().filter(|_| self.fields_before.is_none()) {
                out.log(Level::Info, &learn::told(learnt, &layout.fields));
            }
            self.layout = Some(layout);
        }
        Ok(if has_header { FirstRow::IsHeader } else { FirstRow::IsData(line) })
    }

    /// Emits the rows from `at` on, as the option `emit` says.
    fn emit(
        &mut self,
        chunk: &Chunk,
        at: usize,
        first_row: FirstRow,
        counted: &mut LineCount,
        out: &mut Records,
    ) -> Result<usize, DecodeError> {
        let layout = self.layout.as_ref().expect("known after the first row");
        let settings = &self.settings;
        let context = RowContext {
            chunk,
            header: settings.drop_repeated_header.then_some(&self.header),
            flexible: settings.flexible,
            empty_is_nan: settings.empty_is_nan,
            first_row,
            out,
        };
        let has = |scalar| layout.picks.iter().any(|pick| pick.scalar == scalar);
        // One pass over the chunk is much faster than one check for each value. It finds bad bytes
        // in what is no value, too: then each value is checked.
        let is_utf8 = settings.emit == Emit::Fields
            && has(Scalar::Utf8)
            && valid_up_to(chunk.bytes, chunk.end) == chunk.bytes.len();
        let is_plain = layout.picks.iter().all(|pick| match pick.scalar {
            Scalar::Bytes => true,
            Scalar::Utf8 => is_utf8,
            _ => false,
        });
        let null = &settings.null;
        let (row, plain) = (&mut self.cells, &mut self.plain);
        let (cells, value) = (Vec::new(), Vec::new());
        match settings.emit {
            Emit::Row => scan::scan(chunk, at, row, counted, &mut WholeRows { context }),
            Emit::Fields if layout.all && is_plain && !settings.flexible && null.is_empty() => {
                let rows = &mut AllFields::new(context, layout, plain);
                scan::scan(chunk, at, row, counted, rows)
            }
            Emit::Fields => {
                let columns = &mut Columns { context, layout, null, is_utf8, cells, value };
                scan::scan(chunk, at, row, counted, columns)
            }
            Emit::Dense => scan::scan(chunk, at, row, counted, &mut Dense::new(context, layout)),
        }
    }
}

/// Refuses a header with a CR outside of quotes. In a file whose lines end at CR, the header would
/// be the whole file, and no row would come after it.
fn check_line_ends(chunk: &Chunk, row: usize, cells: &[Cell]) -> Result<(), DecodeError> {
    let is_quoted = |cell: &Cell| {
        let before = (cell.start as usize).checked_sub(1).map(|at| chunk.bytes[at]);
        cell.raw || before.is_some() && before == chunk.dialect.quote
    };
    let cr = |cell: &Cell| cell.range().find(|at| chunk.bytes[*at] == b'\r');
    let Some(at) = cells.iter().filter(|cell| !is_quoted(cell)).find_map(cr) else {
        return Ok(());
    };
    if let Err(error) = str::from_utf8(&chunk.bytes[row..at]) {
        // Compressed bytes, for example: where their lines seem to end says nothing.
        let message = not_utf8("the header", &chunk.bytes[row..at], error.valid_up_to());
        return Err(chunk.refused(row, message));
    }
    Err(chunk.refused(
        row,
        format_args!(
            "the header has a CR without LF after {} bytes, {}; if lines end at CR in this file, \
             set `lone_cr`; if it is a part of a name, put the name in quotes",
            at - row,
            shown(&chunk.bytes[row..at])
        ),
    ))
}

/// The names in a header. A column with an empty name gets its default name.
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
            return Ok(default_name(column));
        }
        String::from_utf8(name).map_err(|error| {
            let at = error.utf8_error().valid_up_to();
            let what = format!("the name of column {column}");
            let message = not_utf8(&what, error.as_bytes(), at);
            format!("{message}; to leave the header's names out, give others by `names`")
        })
    };
    cells.iter().enumerate().map(name).collect()
}

/// The message about a text whose byte `at` is not UTF-8.
fn not_utf8(what: &str, text: &[u8], at: usize) -> String {
    format!(
        "expected {what} in UTF-8, found {}; it looks like {}",
        shown(text),
        looks_like(text, at)
    )
}
