//! Parquet files: the columns of the file's schema become fields of a record, and a record is a row.
//!
//! A file is groups of rows, each with the pages of its columns one after the other, and a footer at
//! the end, which holds the schema and says where the pages lie (`footer`). So a file is decoded when
//! all of it is in the chunk. `columns` decides which columns become fields, `column_reader` reads
//! the pages of one of them (`page_header`), `values` and its encodings (`hybrid`, `delta`) the
//! values in a page, and `convert` makes values of fields of them. The host decompresses pages.
//!
//! **State between calls.** The state has what the footer says, and a position in each column of the
//! group that is being read, with the rows that are read and not emitted yet. Bytes are consumed up
//! to the first group that is still to be read.
//!
//! **After an error** in a group, decoding continues at the next group: pages of a column have no
//! marks at which another row begins.

mod column_reader;
mod columns;
mod convert;
mod delta;
mod footer;
mod hybrid;
mod page_header;
mod thrift;
mod values;

use column_reader::{ColumnReader, Input, Rows, Stop};
use columns::Column;
use footer::{ENCRYPTED, Footer, MAGIC, TAIL};
use pipemill_parsing::head::Head;
use pipemill_parsing::paths::{WantedPath, wanted_paths};
use pipemill_plugin::{
    DecodeError, Decoder, Field, OptionSpec, Options, Progress, Records, StreamInfo,
};

#[cfg(feature = "export")]
pipemill_plugin::export!(Parquet);

/// Rows of a column that are read at a time, and the bytes of values at which reading stops.
const ROWS: usize = 1024;
const ROWS_BYTES: usize = 1 << 20;
/// Bytes of values that a call emits before it returns.
const CALL_BYTES: usize = 8 << 20;

/// The decoder of a stream.
#[derive(Debug)]
pub struct Parquet {
    head: Head,
    wanted: Option<Vec<WantedPath>>,
    verify: bool,
    max_record: u64,
    size: Option<u64>,
    file: Option<File>,
}

/// A file whose footer was read.
#[derive(Debug)]
struct File {
    footer: Footer,
    columns: Vec<Column>,
    /// For each group, the place of the first byte that it and those after it need; then the end.
    needed_from: Vec<u64>,
    /// The place of the chunk's first byte in the object.
    base: u64,
    /// The group that is read, the rows that are left of it, and its columns. They are empty before
    /// its first row.
    group: usize,
    rows_left: u64,
    readers: Vec<(ColumnReader, Rows)>,
}

impl Decoder for Parquet {
    fn options() -> Vec<OptionSpec> {
        vec![
            OptionSpec::string(
                "columns",
                None,
                "the columns to read, as in \"id,name=user.name\"; default: all",
            ),
            OptionSpec::bool("verify", true, "check the checksums of pages that have one"),
        ]
    }

    fn open(options: &Options, info: &StreamInfo) -> Result<Self, String> {
        Ok(Self {
            head: Head::new(info).of_decoder("parquet"),
            wanted: wanted_paths(options, "columns", "column")?,
            verify: options.is_on("verify"),
            max_record: info.max_record,
            size: info.size,
            file: None,
        })
    }

    fn schema(&self) -> Option<Vec<Field>> {
        None
    }

    fn decode(
        &mut self,
        chunk: &[u8],
        end: bool,
        out: &mut Records,
    ) -> Result<Progress, DecodeError> {
        let result = match &mut self.file {
            Some(file) => file.decode(chunk, self.verify, out),
            None if chunk.is_empty() && end => Ok(Progress::consumed(0)),
            None => self.begin(chunk, end, out),
        };
        self.head.explain(chunk, end, result)
    }
}

impl Parquet {
    /// Reads the footer, once the whole file is in the chunk.
    fn begin(
        &mut self,
        chunk: &[u8],
        end: bool,
        out: &mut Records,
    ) -> Result<Progress, DecodeError> {
        if chunk.len() < MAGIC.len() && !end {
            return Ok(Progress::wants(MAGIC.len()));
        }
        let first = &chunk[..chunk.len().min(MAGIC.len())];
        if ![MAGIC, ENCRYPTED].iter().any(|magic| magic.starts_with(first)) {
            let found = first.escape_ascii();
            let message =
                format!("expected `PAR1` at the start of a Parquet file, found `{found}`");
            return Err(DecodeError::fatal(0, message));
        }
        if !end {
            return self.wait(chunk);
        }
        let footer = read_footer(chunk)?;
        let refused = |why: String| DecodeError::refused(0, why);
        let columns = columns::columns(&footer.schema, self.wanted.as_deref()).map_err(refused)?;
        let fields: Vec<_> = columns.iter().map(|column| column.field.clone()).collect();
        let needed_from = check_groups(&footer, &columns, chunk)?;
        out.set_schema(&fields);
        let file = File {
            footer,
            columns,
            needed_from,
            base: 0,
            group: 0,
            rows_left: 0,
            readers: Vec::new(),
        };
        self.file.insert(file).decode(chunk, self.verify, out)
    }

    /// Asks for the rest of the file.
    fn wait(&self, chunk: &[u8]) -> Result<Progress, DecodeError> {
        let known = self.size.filter(|size| *size > chunk.len() as u64);
        let size = known.unwrap_or(chunk.len() as u64 + 1);
        if size > self.max_record {
            let least = if known.is_some() { "" } else { "at least " };
            return Err(DecodeError::refused(
                0,
                format!(
                    "the file has {least}{size} bytes, more than max_record ({} bytes), and a \
                     Parquet file is decoded as a whole; raise max_record",
                    self.max_record
                ),
            ));
        }
        let more = (chunk.len() as u64 * 2).clamp(size, self.max_record);
        Ok(Progress::wants(
            usize::try_from(if known.is_some() { size } else { more }).unwrap_or(usize::MAX),
        ))
    }
}

/// Reads the footer of a whole file.
fn read_footer(chunk: &[u8]) -> Result<Footer, DecodeError> {
    let fatal = |why: String| DecodeError::fatal(0, why);
    let cut = || {
        let size = chunk.len();
        fatal(format!(
            "expected `PAR1` at the end of a Parquet file of {size} bytes, found something else; the \
             file was cut short, or is still being written"
        ))
    };
    if chunk.len() < MAGIC.len() + TAIL {
        return Err(cut());
    }
    let (body, tail) = chunk.split_at(chunk.len() - TAIL);
    let (size, magic) = tail.split_at(4);
    if magic == ENCRYPTED {
        let why = "the footer of the Parquet file is encrypted; decrypt the file first";
        return Err(DecodeError::refused(0, why));
    }
    if magic != MAGIC {
        return Err(cut());
    }
    let size = size.iter().rev().fold(0, |all, byte| all << 8 | usize::from(*byte));
    let at = body.len().checked_sub(size).filter(|at| *at >= MAGIC.len());
    let at = at.ok_or_else(|| {
        fatal(format!(
            "expected a footer of at most {} bytes, found {size}",
            body.len() - MAGIC.len()
        ))
    })?;
    let footer = Footer::read(&body[at..]).map_err(|what| {
        fatal(format!(
            "expected {} in the footer at {at}, found something else; it is damaged",
            what.0
        ))
    })?;
    if footer.is_encrypted {
        let why = "columns of the Parquet file are encrypted; decrypt the file first";
        return Err(DecodeError::refused(0, why));
    }
    let ends = footer.groups.iter().flat_map(|group| &group.chunks);
    let end = ends.map(|one| one.start().saturating_add(one.size)).max().unwrap_or(0);
    let end = usize::try_from(end).unwrap_or(0).min(at);
    let pair = [MAGIC, MAGIC].concat();
    if body[end..at].windows(pair.len()).any(|bytes| bytes == pair) {
        let why = "several Parquet files follow each other in this object, and only the last one \
                   can be found; read each file as an object of its own";
        return Err(DecodeError::refused(0, why));
    }
    Ok(footer)
}

/// Checks that the groups fit the schema and the file. Returns [`File::needed_from`].
fn check_groups(
    footer: &Footer,
    columns: &[Column],
    chunk: &[u8],
) -> Result<Vec<u64>, DecodeError> {
    let fatal = |why: String| DecodeError::fatal(0, why);
    let all = columns_of(footer);
    let mut rows = 0i64;
    let mut needed_from = vec![chunk.len() as u64];
    for (number, group) in footer.groups.iter().enumerate().rev() {
        let found = group.chunks.len();
        if found != all || group.rows < 0 {
            return Err(fatal(format!(
                "expected {all} columns in row group {number}, found {found} columns of {} rows; the \
                 footer is damaged",
                group.rows
            )));
        }
        rows = rows.saturating_add(group.rows);
        let mut first = *needed_from.last().unwrap_or(&0);
        // A group without rows may have no pages.
        for column in columns.iter().filter(|_| group.rows > 0) {
            let one = &group.chunks[column.number];
            let start = u64::try_from(one.start()).unwrap_or(u64::MAX);
            let end = start.saturating_add(u64::try_from(one.size).unwrap_or(u64::MAX));
            if start < MAGIC.len() as u64 || end > chunk.len() as u64 {
                return Err(fatal(format!(
                    "expected the pages of column `{}` in row group {number} inside of the file of \
                     {} bytes, found them at {} with {} bytes",
                    column.path,
                    chunk.len(),
                    one.start(),
                    one.size
                )));
            }
            first = first.min(start);
        }
        needed_from.push(first);
    }
    if rows != footer.rows {
        let expected = footer.rows;
        return Err(fatal(format!(
            "the footer says that the file has {expected} rows, and its row groups have {rows}"
        )));
    }
    needed_from.reverse();
    Ok(needed_from)
}

/// Number of columns of the schema, with those that can't be fields.
fn columns_of(footer: &Footer) -> usize {
    footer.schema.iter().skip(1).filter(|node| node.children <= 0).count()
}

impl File {
    /// Emits rows, until the file ends or the call has emitted enough.
    fn decode(
        &mut self,
        chunk: &[u8],
        verify: bool,
        out: &mut Records,
    ) -> Result<Progress, DecodeError> {
        let mut spent = 0;
        while self.group < self.footer.groups.len() {
            if spent >= CALL_BYTES {
                let consumed = self.place(self.group);
                self.base += consumed as u64;
                return Ok(Progress::more(consumed));
            }
            let input = Input { chunk, base: self.base, verify };
            match self.rows(input, out) {
                Ok(bytes) => spent += bytes,
                Err((column, stop)) => return Err(self.failed(column, stop)),
            }
        }
        self.base += chunk.len() as u64;
        Ok(Progress::consumed(chunk.len()))
    }

    /// The first byte of the chunk that this group and those after it need.
    fn place(&self, group: usize) -> usize {
        (self.needed_from[group] - self.base) as usize
    }

    /// Emits some rows of the group. Returns the bytes of their values.
    fn rows(&mut self, input: Input, out: &mut Records) -> Result<usize, (usize, Stop)> {
        if self.readers.is_empty() {
            self.begin_group()?;
        }
        let wanted = ROWS.min(usize::try_from(self.rows_left).unwrap_or(ROWS));
        let mut rows = wanted;
        for (number, column) in self.columns.iter().enumerate() {
            let (reader, read) = &mut self.readers[number];
            let limits = (rows.max(1), ROWS_BYTES);
            let result = if self.rows_left == 0 {
                Ok(())
            } else {
                reader.read(column, input, out, read, limits)
            };
            result.map_err(|stop| (number, stop))?;
            if read.len() == 0 && wanted > 0 {
                let left = self.rows_left;
                let why = format!("expected {left} more rows, found the end of its values");
                return Err((number, Stop::Bad(why)));
            }
            rows = rows.min(read.len());
        }
        let start = self.place(self.group);
        let mut bytes = 0;
        for row in 0..rows {
            for (_, read) in &self.readers {
                match read.get(row) {
                    Some(value) => {
                        bytes += value.len();
                        out.field_bytes(value);
                    }
                    None => out.absent(),
                }
            }
            out.end_record(start);
        }
        self.readers.iter_mut().for_each(|(_, read)| read.drop_first(rows));
        self.rows_left -= rows as u64;
        if self.rows_left == 0 {
            self.end_group()?;
        }
        Ok(bytes + rows * 8 * self.columns.len())
    }

    fn begin_group(&mut self) -> Result<(), (usize, Stop)> {
        let group = &self.footer.groups[self.group];
        self.rows_left = u64::try_from(group.rows).unwrap_or(0);
        for (number, column) in self.columns.iter().enumerate() {
            let reader = ColumnReader::new(&group.chunks[column.number], column);
            let reader = reader.map_err(|stop| (number, stop))?;
            self.readers.push((reader, Rows::default()));
        }
        Ok(())
    }

    /// Checks that no column has more rows than the group, and goes on to the next group.
    fn end_group(&mut self) -> Result<(), (usize, Stop)> {
        let more =
            self.readers.iter().position(|(reader, read)| !reader.is_at_end() || read.len() > 0);
        if let Some(number) = more {
            let rows = self.footer.groups[self.group].rows;
            let why = format!("expected the {rows} rows of the group, found more values");
            return Err((number, Stop::Bad(why)));
        }
        self.readers.clear();
        self.group += 1;
        Ok(())
    }

    /// The error in a column of the group, after which the next group is read.
    fn failed(&mut self, number: usize, stop: Stop) -> DecodeError {
        let (at, group, left) = (self.place(self.group), self.group, self.rows_left);
        let column = &self.columns[number].path;
        let message = |why: &str| format!("column `{column}` in row group {group}: {why}");
        let why = match stop {
            Stop::Refused(why) => return DecodeError::refused(at, message(&why)),
            Stop::Bad(why) => message(&why),
        };
        let next = self.place(group + 1);
        self.base += next as u64;
        self.group += 1;
        self.readers.clear();
        let lost = format!("{why}; the last {left} rows of the group can't be decoded");
        // Groups that do not lie in their order share their bytes.
        if next <= at {
            DecodeError::fatal(at, lost)
        } else {
            DecodeError::skippable(at, lost, next as u64)
        }
    }
}
