//! Parquet files: the columns of the file's schema become fields of a record, and a record is a row.
//!
//! A file is groups of rows, each with the pages of its columns one after the other, and a footer at
//! the end, which holds the schema and says where the pages lie (`footer`). `directory` reads and
//! checks it. `plan` makes parts of a file that can be read at any place: a part is a group, with the
//! bytes of the wanted columns, and a footer of its own (`part`, `footer_writer`). A file that can be
//! read only from its start is decoded when all of it is in the chunk. `columns` decides which
//! columns become fields. `pages` reads the pages of one of them (`page_header`), which the host
//! decompresses, `column_reader` the levels in them, `values` and its encodings (`hybrid`, `delta`)
//! the values, and `convert` makes values of fields of them. `rows` has those that are read and not
//! emitted yet, and `block` emits them, field by field.
//!
//! **State between calls.** The state has what the footer says, and a position in each column of the
//! group that is being read, with the rows that are read and not emitted yet. Bytes are consumed up
//! to the first group that is still to be read. Between two parts there is no state.
//!
//! **After an error** in a group, decoding continues at the next group: pages of a column have no
//! marks at which another row begins.

mod block;
mod column_reader;
mod columns;
mod convert;
mod delta;
mod directory;
mod footer;
mod footer_writer;
mod hybrid;
mod page_header;
mod pages;
mod part;
mod plan;
mod rows;
mod thrift;
mod thrift_writer;
mod values;

use block::Block;
use column_reader::ColumnReader;
use directory::Directory;
use footer::{ENCRYPTED, MAGIC};
use pages::{Input, Stop};
use part::{HEAD, Kind, PartHead};
use pipemill_parsing::head::Head;
use pipemill_parsing::paths::{WantedPath, wanted_paths};
use pipemill_plugin::{
    DecodeError, Decoder, Field, Next, OptionSpec, Options, Piece, Progress, Records, StreamInfo,
};
use rows::Rows;

#[cfg(feature = "export")]
pipemill_plugin::export!(Parquet);

/// Bytes of values that a call emits before it returns: those of one block, or of more if the groups
/// are small.
const CALL_BYTES: usize = 1 << 20;
/// The end of the message about an error in a file that is decoded as a whole and whose row groups
/// do not lie in their order. The groups after the damaged one are lost, too, but not if each is
/// decoded as a part.
pub const OUT_OF_ORDER: &str = "rows after it: the groups do not lie in their order";

/// The decoder of a stream.
#[derive(Debug)]
pub struct Parquet {
    head: Head,
    wanted: Option<Vec<WantedPath>>,
    verify: bool,
    max_record: u64,
    size: Option<u64>,
    is_planned: bool,
    has_schema: bool,
    file: Option<File>,
}

/// A file whose footer was read, or a part of one.
#[derive(Debug)]
struct File {
    directory: Directory,
    /// The number of its first group, for messages.
    first_group: u64,
    /// The place of the chunk's first byte in the file or part.
    base: u64,
    /// The group that is read, the rows that are left of it, and its columns. They are empty before
    /// its first row.
    group: usize,
    rows_left: u64,
    readers: Vec<(ColumnReader, Rows)>,
    /// The rows that are emitted together.
    block: Block,
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
            head: match info.is_planned() {
                true => Head::unchecked(),
                false => Head::new(info).of_decoder("parquet"),
            },
            wanted: wanted_paths(options, "columns", "column")?,
            verify: options.is_on("verify"),
            max_record: info.max_record,
            size: info.size,
            is_planned: info.is_planned(),
            has_schema: false,
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
            None if self.is_planned => self.begin_part(chunk, end, out),
            None => self.begin(chunk, end, out),
        };
        if self.is_planned {
            // After its last group, and after an error, the next part follows.
            self.file = self.file.take().filter(|file| !file.is_over());
        }
        self.head.explain(chunk, end, result)
    }

    fn restart(&self) -> Option<u64> {
        self.is_planned.then_some(0)
    }

    fn plans() -> bool {
        true
    }

    fn plan(options: &Options, info: &StreamInfo, seen: &[Piece]) -> Result<Next, String> {
        plan::plan(options, info, seen)
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
        if chunk.len() as u64 > self.max_record {
            return Err(self.too_large());
        }
        let directory = Directory::of_file(chunk, self.wanted.as_deref())?;
        self.decode_file(directory, 0, chunk, out)
    }

    /// Reads the head of a part, once the whole part is in the chunk.
    fn begin_part(
        &mut self,
        chunk: &[u8],
        end: bool,
        out: &mut Records,
    ) -> Result<Progress, DecodeError> {
        let cut = |wanted: u64| {
            let left = chunk.len();
            DecodeError::fatal(0, format!("expected {wanted} bytes of a part, found {left}"))
        };
        if chunk.len() < HEAD {
            return if end { Err(cut(HEAD as u64)) } else { Ok(Progress::wants(HEAD)) };
        }
        let head = PartHead::read(chunk).ok_or_else(|| {
            DecodeError::fatal(0, "expected the head of a part, found something else")
        })?;
        let size = head.size();
        if size > self.max_record {
            return Err(DecodeError::refused(
                0,
                format!(
                    "row group {} has {size} bytes in the wanted columns, more than max_record ({} \
                     bytes); raise max_record, or read fewer columns",
                    head.group, self.max_record
                ),
            ));
        }
        if (chunk.len() as u64) < size {
            let wanted = usize::try_from(size).unwrap_or(usize::MAX);
            return if end { Err(cut(size)) } else { Ok(Progress::wants(wanted)) };
        }
        let part = &chunk[..size as usize];
        match head.kind {
            Kind::Damaged => Err(DecodeError::fatal(0, head.text(part))),
            Kind::Refused => Err(DecodeError::refused(0, head.text(part))),
            Kind::Group => {
                let directory = Directory::of_part(&head, part, self.wanted.as_deref())?;
                self.decode_file(directory, head.group, chunk, out)
            }
        }
    }

    fn decode_file(
        &mut self,
        directory: Directory,
        first_group: u64,
        chunk: &[u8],
        out: &mut Records,
    ) -> Result<Progress, DecodeError> {
        if !self.has_schema {
            let columns = &directory.columns;
            let fields: Vec<_> = columns.iter().map(|column| column.field.clone()).collect();
            out.set_schema(&fields);
            self.has_schema = true;
        }
        let block = Block::new(&directory.columns);
        let (base, group, rows_left, readers) = (0, 0, 0, Vec::new());
        let file = File { directory, first_group, base, group, rows_left, readers, block };
        self.file.insert(file).decode(chunk, self.verify, out)
    }

    /// Asks for the rest of the file.
    fn wait(&self, chunk: &[u8]) -> Result<Progress, DecodeError> {
        let seen = chunk.len() as u64;
        let size = self.size.unwrap_or(0);
        if seen.max(size) > self.max_record {
            return Err(self.too_large());
        }
        let wanted = match size > seen {
            true => size,
            // One byte more than max_record shows that the file is too large.
            false => (seen * 2).clamp(seen + 1, self.max_record.saturating_add(1)),
        };
        Ok(Progress::wants(usize::try_from(wanted).unwrap_or(usize::MAX)))
    }

    /// The refusal of a file. It does not say how much has been seen, which depends on the host.
    fn too_large(&self) -> DecodeError {
        let most = self.max_record;
        let has = match self.size.filter(|size| *size > most) {
            Some(size) => format!("{size} bytes, more than max_record ({most} bytes)"),
            None => format!("more bytes than max_record ({most} bytes)"),
        };
        let message = format!(
            "the file has {has}, and a Parquet file is decoded as a whole; raise max_record"
        );
        DecodeError::refused(0, message)
    }
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
        while !self.is_over() {
            if self.directory.footer.groups[self.group].rows == 0 {
                // A plan has no part for it, and nothing says where its columns are.
                self.group += 1;
                continue;
            }
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
        let consumed = self.place(self.group);
        self.base += consumed as u64;
        // The next part may be in the chunk.
        let rest = chunk.len() - consumed;
        Ok(Progress::consumed(consumed).and_wants(if rest > 0 { 1 } else { HEAD }))
    }

    /// Whether all groups are decoded.
    fn is_over(&self) -> bool {
        self.group == self.directory.footer.groups.len()
    }

    /// The first byte of the chunk that this group and those after it need.
    fn place(&self, group: usize) -> usize {
        (self.directory.needed_from[group] - self.base) as usize
    }

    /// Emits some rows of the group. Returns the bytes of their values. An error comes after the
    /// rows before it.
    fn rows(&mut self, input: Input, out: &mut Records) -> Result<usize, (usize, Stop)> {
        if self.readers.is_empty() {
            self.begin_group()?;
        }
        let start = self.place(self.group);
        let columns = &self.directory.columns;
        self.block.read(columns, &mut self.readers, (input, &mut *out), self.rows_left);
        let (rows, bytes) = (self.block.rows, self.block.bytes());
        self.block.emit(&mut self.readers, (input.chunk, start), out);
        self.rows_left -= rows as u64;
        if let Some(stop) = self.stop() {
            return Err(stop);
        }
        if self.rows_left == 0 {
            self.end_group()?;
        } else if rows == 0 {
            let column = self.readers.iter().position(|(_, rows)| rows.read() == 0);
            let why = format!("expected {} more rows, found the end of its values", self.rows_left);
            return Err((column.unwrap_or(0), Stop::Bad(why)));
        }
        Ok(bytes)
    }

    /// The error right after the rows that were emitted, with the number of its column.
    fn stop(&self) -> Option<(usize, Stop)> {
        let mut readers = self.readers.iter().enumerate();
        readers.find_map(|(number, (reader, rows))| {
            let stop = reader.stop().filter(|_| rows.read() == self.block.rows)?;
            Some((number, stop.clone()))
        })
    }

    fn begin_group(&mut self) -> Result<(), (usize, Stop)> {
        let group = &self.directory.footer.groups[self.group];
        self.rows_left = u64::try_from(group.rows).unwrap_or(0);
        for (number, column) in self.directory.columns.iter().enumerate() {
            let reader = ColumnReader::new(&group.chunks[column.number], column);
            let reader = reader.map_err(|stop| (number, stop))?;
            self.readers.push((reader, Rows::new(column.size())));
        }
        Ok(())
    }

    /// Checks that no column has more rows than the group, and goes on to the next group.
    fn end_group(&mut self) -> Result<(), (usize, Stop)> {
        let more =
            self.readers.iter().position(|(reader, rows)| !reader.is_at_end() || rows.len() > 0);
        if let Some(number) = more {
            let rows = self.directory.footer.groups[self.group].rows;
            let why = format!("expected the {rows} rows of the group, found more values");
            return Err((number, Stop::Bad(why)));
        }
        self.readers.clear();
        self.group += 1;
        Ok(())
    }

    /// The error in a column of the group, after which the next group is read.
    fn failed(&mut self, column: usize, stop: Stop) -> DecodeError {
        let (at, left) = (self.place(self.group), self.rows_left);
        let number = self.first_group + self.group as u64;
        let column = self.directory.columns[column].path.clone();
        let message = |why: &str| format!("column `{column}` in row group {number}: {why}");
        let why = match stop {
            Stop::Refused(why) => return DecodeError::refused(at, message(&why)),
            Stop::Bad(why) => message(&why),
        };
        let next = self.place(self.group + 1);
        self.base += next as u64;
        self.group += 1;
        self.readers.clear();
        let lost = format!("{why}; the last {left} rows of the group can't be decoded");
        if next > at {
            return DecodeError::skippable(at, lost, next as u64);
        }
        let after = self.directory.footer.groups[self.group..].iter();
        let after = after.fold(0i64, |rows, group| rows.saturating_add(group.rows));
        DecodeError::fatal(at, format!("{lost}, nor the {after} {OUT_OF_ORDER}"))
    }
}
