//! The `csv` decoder: rows of delimited text, as fields, as typed columns, as one tensor of float32
//! or unchanged. It follows RFC 4180, and also accepts other things that real files have.
//!
//! **Rows.** A row ends at LF or CR LF (with `lone_cr` also at CR); the last row needs no line end.
//! A quote opens a quoted field only at the start of a field. In a quoted field delimiters and line
//! ends are text, and two quotes mean one. Blank lines and comment lines are not rows. Blank lines
//! and comment lines are not rows. Bytes that are not UTF-8 are valid in columns of type bytes;
//! other columns are text, or have the types that the first rows tell (`learn.rs`). Bytes that are
//! not UTF-8 are valid in columns of type bytes; other columns are text, or have the types that the
//! first rows show (`learn.rs`). Columns count from 0, lines from 1.
//!
//! **Header.** There is no header unless `header = true`, as SageMaker has it for `text/csv`. A
//! header that is read as a record is noticed at once; a record that is read as a header is lost
//! silently.
//!
//! **Schema.** With `names` or `emit = "row"`, and without a header, the fields are known at
//! `open`; otherwise the first row shows them. An empty field of a number type is absent; with
//! `emit = "dense"` it is an error or NaN, by the option `empty`. Empty bytes and text are empty
//! values.
//!
//! **As in Python's `csv`**, a quote in an unquoted field is text, and escapes work inside and outside
//! quotes. `docs/decoders.md` lists the differences; `tests/decoder/differences.rs` gives the
//! reasons. A CR at the end of the input is a line end, as in Python, because an LF may have been
//! cut off.
//!
//! **Right or refused.** If another option would read the input, the channel ends with the name of
//! that option: text after a closing quote (`dialect.rs`), rows that quotes have merged
//! (`merged_rows.rs`), lines that end at CR (`line_ends.rs`), rows that `flexible` would cut
//! (`first_widths.rs`), another delimiter or no text at all (`head.rs`), a first row that may be a
//! header or a record (`header_guess.rs`). An error of one row names that option, too:
//! `delimiter_hint.rs`, `quote_hint.rs`, `width_hint.rs`, `value_hint.rs`. These checks look only
//! at the first rows, or at a bad row.
//!
//! **Headers are compared.** The host ends a channel whose objects have different fields. So the names of
//! a header are always a part of the fields: as their names, or as a fact about them (`names.rs`).
//!
//! # The files, for the next person
//!
//! Four readers give the same rows, at different speeds. `dialect.rs` is the reference: a state
//! machine, one byte at a time. `scan.rs` reads 64 bytes at a time and leaves rows that it does not
//! understand to the reference. `fast_path.rs` reads rows of plain numbers without a list of
//! fields, four numbers at a time (`parse_f32x4.rs`). `plain_rows.rs` splits rows whose fields are
//! emitted unchanged, or converted in `typed_rows.rs`. Both leave all other rows to the scanner.
//! They and the scanner use `simd.rs`. The fields of a row are emitted in `emit.rs` and `dense.rs`.
//! If you change the format, change `dialect.rs` first; the tests compare the others with it and
//! with Python.

mod backoff;
mod chunk;
mod delimiter_hint;
mod dense;
mod dialect;
mod emit;
mod fast_path;
mod first_widths;
mod guess;
mod head;
mod header_guess;
mod layout;
mod learn;
mod line_ends;
mod merged_rows;
mod names;
mod parse_f32x4;
mod plain_masks;
mod plain_rows;
mod quote_hint;
mod row_context;
mod scan;
mod search;
mod settings;
mod simd;
mod typed_rows;
mod value_hint;
mod width_hint;
mod written_numbers;

use std::ops::Range;

use chunk::{Chunk, LineCount, NextRow, value};
use dense::Dense;
use dialect::Cell;
use emit::{AllFields, Columns, WholeRows};
use head::Head;
use layout::{ColumnNames, Layout};
use learn::{Learner, Learnt, MAX_ROWS, MAX_ROWS_OF_STREAM};
use names::default_name;
use pipemill_parsing::encoding::valid_up_to;
use pipemill_plugin::{
    DecodeError, Decoder, Field, Level, OptionSpec, Options, Progress, Records, Resume, Resync,
    Scalar, StreamInfo,
};
use plain_rows::PlainRows;
use row_context::{FirstRow, RowContext, Surplus};
use search::Search;
use settings::{Emit, Header, Settings};

/// The end-of-file byte of DOS, which some programs still write.
const DOS_END: u8 = 0x1a;

/// The `csv` decoder.
#[derive(Debug)]
pub struct Csv {
    settings: Settings,
    /// Largest row in bytes.
    max_record: u64,
    /// The bytes before the first row.
    head: Head,
    /// Number of bytes of the object that the stream gets before those from another position on;
    /// `None` if it begins at the object's start. If it is set, another stream has examined the
    /// first rows.
    shown_first: Option<u64>,
    /// Whether a stream that begins inside the object has the same columns, without a header.
    knows_columns: bool,
    /// The source of the columns' names, if it is not the rows, for messages.
    names_source: &'static str,
    /// Number of bytes of the object before the next chunk.
    offset: u64,
    /// Number of bytes of the object up to the end of the header.
    header_end: u64,
    /// Number of the line in which the next chunk starts, from 1; 0 if it is not known, because
    /// decoding began inside the object.
    line: u64,
    /// Whether the byte before the next chunk is a CR.
    after_cr: bool,
    /// Whether the first row is a header, once it was read.
    first_row: Option<FirstRow>,
    /// The bytes of the header, if later rows are compared with it.
    header: Vec<u8>,
    /// The fields of earlier objects, if the option `header` or `types` is `auto`.
    fields_before: Option<Vec<Field>>,
    /// The rows that show header and types, while they are read.
    learner: Learner,
    /// The facts that the first rows showed.
    learnt: Option<Learnt>,
    /// The columns, once they are known.
    layout: Option<Layout>,
    /// The fields of one row. It is a member only so that its memory is reused.
    cells: Vec<Cell>,
    /// Memory of the fast path of plain rows.
    plain: PlainRows,
    /// Rows with fields beyond the columns.
    surplus: Surplus,
    /// The search for a row, if decoding began inside the object and nothing was decoded there.
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
        // Otherwise the header decides the fields of the records.
        let layout = match (&settings.names, settings.emit) {
            _ if settings.header != Header::No => None,
            (Some(names), _) if settings.types.default.is_some() => {
                let (names, source) = (names.clone(), names_source.to_owned());
                Some(Layout::new(&settings, ColumnNames { names, source, header: None }, &[])?)
            }
            (None, Emit::Row) => Some(Layout::new(&settings, ColumnNames::default(), &[])?),
            _ => None,
        };
        let is_learnt = settings.learns() && settings.emit == Emit::Fields;
        // Only types are worth more rows.
        let max_rows = match info.size {
            Some(_) if is_learnt && settings.types.default.is_none() => MAX_ROWS,
            _ => MAX_ROWS_OF_STREAM,
        };
        let at_start = restart.is_none_or(|at| at.header > 0);
        Ok(Self {
            head: match at_start {
                true => Head::new(settings.skip_rows),
                false => Head::passed(),
            },
            shown_first: restart.map(|at| at.header),
            settings,
            max_record: info.max_record,
            names_source,
            knows_columns,
            offset: 0,
            header_end: 0,
            line: if restart.is_some() { 0 } else { 1 },
            after_cr: false,
            first_row: None,
            header: Vec::new(),
            fields_before: if is_learnt { info.fields_before() } else { None },
            learner: Learner::new(max_rows),
            learnt: None,
            layout,
            cells: Vec::new(),
            plain: PlainRows::default(),
            surplus: Surplus::default(),
            search: restart.map(|at| Search::new(at.header)),
        })
    }

    fn schema(&self) -> Option<Vec<Field>> {
        self.layout.as_ref().map(|layout| layout.fields.clone())
    }

    fn restart(&self) -> Option<u64> {
        // A new stream takes learnt types from the schema, which can't express such a name.
        let is_said = self.settings.types.default.is_some()
            || self.settings.emit == Emit::Fields
                && self.layout.as_ref().is_some_and(|layout| {
                    layout.fields.iter().all(|field| !field.name.contains('\n'))
                });
        let place = match self.first_row {
            Some(FirstRow::IsHeader) => Some(self.header_end),
            Some(FirstRow::IsData(_)) => self.knows_columns.then_some(0),
            // The first row may still be refused.
            None if self.offset > 0 => None,
            None => (self.settings.header == Header::No && self.knows_columns).then_some(0),
        };
        place.filter(|_| is_said && self.head.is_done())
    }

    fn decode(
        &mut self,
        bytes: &[u8],
        end: bool,
        out: &mut Records,
    ) -> Result<Progress, DecodeError> {
        // The stream begins here, so it is not asked for a position: the chunk has more than the
        // header.
        self.search.take_if(|search| self.offset + bytes.len() as u64 > search.header);
        let mut counted = LineCount::default();
        let dos_end = bytes.iter().rev().take_while(|byte| end && **byte == DOS_END).count();
        let text = &bytes[..bytes.len() - dos_end];
        let result = self.decode_rows(text, end, &mut counted, out);
        let result = result.map(|read| if read == text.len() { bytes.len() } else { read });
        if end && self.surplus.rows > 0 {
            self.tell_surplus(out);
        }
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

/// The names of the columns of a stream that begins inside an object without a header.
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
    /// Counts the lines in bytes that are not passed again.
    fn count_lines(&mut self, bytes: &[u8]) {
        let lines = self.settings.dialect.count_lines(bytes, &mut self.after_cr);
        self.line += if self.line > 0 { lines } else { 0 };
    }

    /// Reads the bytes before the first row. Returns how many of them are in `bytes`.
    fn read_head(&mut self, bytes: &[u8], end: bool) -> Result<usize, DecodeError> {
        if self.head.is_done() {
            return Ok(0);
        }
        let shown = self.offset + bytes.len() as u64;
        let end = end || self.shown_first.is_some_and(|header| shown >= header);
        let read = self.head.read(&self.settings.dialect, bytes, end);
        read.map_err(|(at, message)| DecodeError::refused(at, message))
    }

    /// Emits the rows of a chunk. Returns the number of finished bytes.
    fn decode_rows(
        &mut self,
        bytes: &[u8],
        end: bool,
        counted: &mut LineCount,
        out: &mut Records,
    ) -> Result<usize, DecodeError> {
        let mut at = self.read_head(bytes, end)?;
        if !self.head.is_done() {
            return Ok(at);
        }
        let chunk = Chunk {
            bytes,
            end,
            dialect: self.settings.dialect,
            max_record: self.max_record,
            line: self.line,
            after_cr: self.after_cr,
        };
        if self.first_row.is_none() {
            if !self.look_ahead(&chunk, at)? {
                return Ok(at);
            }
            if self.is_only_header(end) {
                return Ok(bytes.len());
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
                Err(error) if error.resume == Resume::Refused => return Err(error),
                // Without the header the columns are not known, so no other row can be decoded.
                Err(error) if has_header => {
                    return Err(DecodeError { resume: Resume::None, ..error });
                }
                Err(error) => {
                    // The next row becomes the first one, and must show the facts.
                    self.learner.reset();
                    self.learnt = None;
                    return Err(error);
                }
            },
        };
        self.emit(&chunk, at, first_row, counted, out)
    }
}

impl Csv {
    /// Examines the first rows, which begin at `start`, for the facts that must be known before the
    /// first record. Returns whether they are known now; otherwise more bytes are needed.
    ///
    /// # Errors
    /// The rows don't show them, or don't fit the options.
    fn look_ahead(&mut self, chunk: &Chunk, start: usize) -> Result<bool, DecodeError> {
        if self.settings.learns() && self.learnt.is_none() {
            self.learnt = self.learn_from_rows(chunk, start)?;
            if self.learnt.is_none() && !chunk.end {
                return Ok(false);
            }
        }
        let settings = &self.settings;
        let are_cut_off = self.shown_first.is_none()
            && settings.flexible
            && settings.emit == Emit::Fields
            && settings.names.is_none();
        match are_cut_off {
            true => first_widths::check(chunk, start, settings, &mut self.cells),
            false => Ok(true),
        }
    }

    /// Whether the object has only a header, and the next object must show its types.
    fn is_only_header(&self, end: bool) -> bool {
        let types = self.settings.types.default;
        let is_header = |learnt: &Learnt| learnt.header && learnt.rows == 1 && learnt.is_whole;
        end && types.is_none()
            && self.fields_before.is_none()
            && self.learnt.as_ref().is_some_and(is_header)
    }

    /// Learns header and types from the rows at `start`, or from earlier objects. `None` if there
    /// are no rows, or if more of them are needed.
    ///
    /// # Errors
    /// The rows don't show them.
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
            let text = |cell: &Cell| value(chunk, *cell, &mut buffer).to_vec();
            let first: Vec<_> = self.cells.iter().map(text).collect();
            learn::of_fields_before(before, settings, &first).map(Some)
        } else if self.learner.read(chunk, start, &mut self.cells, settings) {
            if let Some(row) = self.learner.bad_row() {
                // This error is the reason why the rows don't show more.
                chunk.next_row(start + row, &mut self.cells)?;
            }
            self.learner.learnt(settings)
        } else {
            Ok(None)
        };
        learnt.map_err(|message| chunk.refused(start, message))
    }

    /// Reports once at the end of the object which fields `flexible` has left out.
    fn tell_surplus(&mut self, out: &mut Records) {
        if let Some(layout) = &self.layout {
            out.log(Level::Warn, &self.surplus.told(layout));
        }
        self.surplus = Surplus::default();
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
        if has_header || self.shown_first.is_none() {
            line_ends::check(chunk, &row, &self.cells, has_header)?;
        }
        if settings.drop_repeated_header {
            self.header = chunk.bytes[row].to_vec();
        }
        if self.layout.is_none() {
            let types = self.learnt.as_ref().map_or(&[][..], |learnt| &learnt.types);
            let columns = self.column_names(chunk, start, has_header)?;
            let layout = Layout::new(settings, columns, types)
                .map_err(|message| chunk.refused(start, message))?;
            out.set_schema(&layout.fields);
            if let Some(learnt) = self.learnt.as_ref().filter(|_| self.fields_before.is_none()) {
                out.log(Level::Info, &learn::told(learnt, &layout.fields));
                for told in learn::warnings(learnt, &layout) {
                    out.log(Level::Warn, &told);
                }
            }
            self.layout = Some(layout);
        }
        Ok(if has_header { FirstRow::IsHeader } else { FirstRow::IsData(line) })
    }

    /// The names of the columns, from the options, the header, or their numbers. `start` is the
    /// first row, whose fields are known.
    ///
    /// # Errors
    /// The header is bad.
    fn column_names(
        &self,
        chunk: &Chunk,
        start: usize,
        has_header: bool,
    ) -> Result<ColumnNames, DecodeError> {
        let settings = &self.settings;
        let header = match (has_header, &settings.names) {
            // These names are compared, but not read.
            (true, Some(_)) => Some(names::as_written(chunk, &self.cells)),
            (true, None) if settings.emit == Emit::Row => {
                Some(names::as_written(chunk, &self.cells))
            }
            (true, None) => {
                let names = names::of_header(chunk, &self.cells);
                let names = names.map_err(|message| chunk.fatal(start, message))?;
                Some(match settings.rename_duplicates {
                    true => names::without_duplicates(names),
                    false => names,
                })
            }
            (false, _) => None,
        };
        let (names, source) = match (&settings.names, &header) {
            (Some(names), _) => (names.clone(), self.names_source.to_owned()),
            (None, Some(header)) => (header.clone(), "the header has".to_owned()),
            (None, None) => {
                let names = (0..self.cells.len()).map(default_name).collect();
                let source = match chunk.line(start) {
                    Some(line) => format!("the first row (line {line}) has"),
                    None => "the first row has".to_owned(),
                };
                (names, source)
            }
        };
        let names = if settings.emit == Emit::Row { Vec::new() } else { names };
        Ok(ColumnNames { names, source, header })
    }

    /// Emits the rows from `at` on, in the form that the option `emit` names.
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
            is_dense: settings.emit == Emit::Dense,
            empty_is_nan: settings.empty_is_nan,
            null: &settings.null,
            first_record: self
                .header_end
                .checked_sub(self.offset)
                .filter(|_| self.header_end > 0 && self.shown_first.is_none())
                .and_then(|at| usize::try_from(at).ok()),
            surplus: &mut self.surplus,
            first_row,
            out,
        };
        let has = |scalar| layout.picks.iter().any(|pick| pick.scalar == scalar);
        // One pass over the chunk is much faster than one check for each value. It also finds bad
        // bytes outside of values; in that case each value is checked.
        let is_utf8 = settings.emit == Emit::Fields
            && has(Scalar::Utf8)
            && valid_up_to(chunk.bytes, chunk.end) == chunk.bytes.len();
        let is_plain = layout.picks.iter().all(|pick| match pick.scalar {
            Scalar::Bytes => true,
            Scalar::Utf8 => is_utf8,
            _ => false,
        });
        let has_null = !settings.null.is_empty();
        let (row, plain) = (&mut self.cells, &mut self.plain);
        match settings.emit {
            Emit::Row => scan::scan(chunk, at, row, counted, &mut WholeRows { context }),
            Emit::Fields if layout.all && is_plain && !settings.flexible && !has_null => {
                let rows = &mut AllFields::new(context, layout, plain);
                scan::scan(chunk, at, row, counted, rows)
            }
            Emit::Fields => {
                let columns = &mut Columns::new(context, layout, is_utf8, plain);
                scan::scan(chunk, at, row, counted, columns)
            }
            Emit::Dense => scan::scan(chunk, at, row, counted, &mut Dense::new(context, layout)),
        }
    }
}
