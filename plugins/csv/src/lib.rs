//! The `csv` decoder.

mod chunk;
mod dialect;
mod emit;
mod layout;
mod number;
mod scan;
mod settings;
mod simd;

use chunk::{Chunk, NextRow, shown};
use dialect::Cell;
use emit::{AllFields, Columns, Dense, FirstRow, Job, WholeRows};
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
        let answer = self.rows(bytes, end, out);
        let done = match &answer {
            Ok(consumed) => *consumed,
            Err(DecodeError { resume: Resume::At(to) | Resume::Scan(to), .. }) => *to as usize,
            Err(DecodeError { resume: Resume::None, .. }) => bytes.len(),
        };
        self.pass(&bytes[..done]);
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
    fn rows(&mut self, bytes: &[u8], end: bool, out: &mut Records) -> Result<usize, DecodeError> {
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
            dialect: self.settings.dialect,
            max_record: self.max_record,
            line: self.line,
            after_cr: self.after_cr,
        };
        let first_row = match self.first_row {
            Some(first_row) => first_row,
            None => match chunk.next_row(at, end, &mut self.cells) {
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
        self.emit(&chunk, at, end, first_row, out)
    }
}
