//! JSON Lines: one JSON text per line. A record is the whole line, in one field `line`, or the
//! values that the option `fields` selects by JSON pointer.
//!
//! A line ends at LF. A CR before the LF, or at the end of the input, belongs to the line end. The
//! last line needs no LF. Blank lines are skipped, and so is a byte order mark at the start of an
//! object.
//!
//! Each line is parsed once, unless `validate` is off. It must be JSON as RFC 8259 defines it, in
//! UTF-8, with arrays and objects at most 128 deep. If an object has a key twice, the last value
//! counts. Escaped surrogates must come in pairs.

mod errors;
mod fields;

use std::ops::Range;

use fields::Fields;
use pipemill_parsing::head::{Checked, Head};
use pipemill_parsing::json::nan_option;
use pipemill_parsing::newlines::{Newlines, PIECE};
use pipemill_plugin::{
    DecodeError, Decoder, Field, OptionSpec, Options, Progress, Records, Resume, Resync, Scalar,
    StreamInfo,
};

/// The byte order mark of UTF-8.
const BOM: &[u8] = b"\xef\xbb\xbf";

/// The `jsonl` decoder.
#[derive(Debug)]
pub struct Jsonl {
    head: Head,
    emit: Emit,
    /// Longest line in bytes, without its line end.
    max_record: usize,
    newlines: Newlines,
    /// Whether nothing of the object was decoded yet.
    at_start: bool,
}

/// The record that a line becomes.
#[derive(Debug)]
enum Emit {
    /// The field `line`, not checked.
    Line,
    /// The field `line`, checked to be JSON.
    CheckedLine(Fields),
    /// The fields that the operator named.
    Fields(Fields),
}

#[cfg(feature = "export")]
pipemill_plugin::export!(Jsonl);

impl Decoder for Jsonl {
    fn options() -> Vec<OptionSpec> {
        vec![
            OptionSpec::string(
                "fields",
                None,
                "values to take from a line, by JSON pointer: \
                 \"id=/meta/id:int64,/text:utf8,vec=/emb:float32[128],/tag:utf8?\"; default: the \
                 whole line, as `line`",
            ),
            OptionSpec::bool(
                "validate",
                true,
                "lines must be JSON; with `fields` they always must be",
            ),
            nan_option(),
        ]
    }

    fn open(options: &Options, info: &StreamInfo) -> Result<Self, String> {
        let nan = options.is_on("nan");
        let emit = match (options.get("fields"), options.is_on("validate")) {
            (Some(text), true) => Emit::Fields(Fields::new(text, nan)?),
            (Some(_), false) => {
                return Err(
                    "validate = false has no meaning with `fields`: what is chosen from a \
                            line is found by checking it"
                        .to_owned(),
                );
            }
            (None, true) => Emit::CheckedLine(Fields::none(nan)),
            (None, false) => Emit::Line,
        };
        let max_record = usize::try_from(info.max_record).unwrap_or(usize::MAX);
        let at_start = info.restart().is_none_or(|at| at.place == 0);
        Ok(Self { head: Head::new(info), emit, max_record, newlines: Newlines::new(), at_start })
    }

    fn schema(&self) -> Option<Vec<Field>> {
        Some(match &self.emit {
            Emit::Line => vec![Field::bytes("line")],
            Emit::CheckedLine(_) => vec![Field::new("line", Scalar::Utf8)],
            Emit::Fields(fields) => fields.schema(),
        })
    }

    fn restart(&self) -> Option<u64> {
        Some(0)
    }

    fn decode(
        &mut self,
        chunk: &[u8],
        end: bool,
        out: &mut Records,
    ) -> Result<Progress, DecodeError> {
        if let Checked::Wait(progress) = self.head.check(chunk, end)? {
            return Ok(progress);
        }
        let mut from = 0;
        if self.at_start {
            if !end && chunk.len() < BOM.len() && BOM.starts_with(chunk) {
                return Ok(Progress::consumed(0));
            }
            self.at_start = false;
            from = if chunk.starts_with(BOM) { BOM.len() } else { 0 };
        }
        let Self { emit, newlines, max_record, .. } = self;
        let lines = Lines { chunk, from, end, max_record: *max_record };
        let consumed = match emit {
            Emit::Line => lines.each(newlines, |line, _| {
                out.span(line.start, line);
                Ok(())
            }),
            Emit::CheckedLine(fields) => lines.each_parsed(fields, |_, line, _| {
                out.span(line.start, line);
                Ok(())
            }),
            Emit::Fields(fields) => {
                lines.each_parsed(fields, |fields, line, next| fields.emit(chunk, &line, next, out))
            }
        }?;
        // The length of the next line is unknown, so there is no `need`.
        Ok(Progress::consumed(consumed))
    }

    fn resync(&mut self, chunk: &[u8], _end: bool) -> Resync {
        match memchr::memchr(b'\n', chunk) {
            Some(at) => Resync { consumed: at + 1, found: true },
            None => Resync { consumed: chunk.len(), found: false },
        }
    }
}

/// The lines of a chunk.
struct Lines<'a> {
    chunk: &'a [u8],
    /// The start of the first line.
    from: usize,
    /// Whether no byte follows the chunk.
    end: bool,
    /// Longest line in bytes, without its line end.
    max_record: usize,
}

impl Lines<'_> {
    /// Calls `take` with each complete line that is not blank, and with the start of the next line.
    /// Returns the start of the first incomplete line.
    #[inline(always)]
    fn each(
        &self,
        newlines: &mut Newlines,
        mut take: impl FnMut(Range<usize>, usize) -> Result<(), DecodeError>,
    ) -> Result<usize, DecodeError> {
        let (chunk, mut start) = (self.chunk, self.from);
        for (index, piece) in chunk.chunks(PIECE).enumerate() {
            for offset in newlines.find(piece) {
                let newline = index * PIECE + *offset as usize;
                self.take_line(start..newline, newline + 1, &mut take)?;
                start = newline + 1;
            }
        }
        self.rest(start, &mut take)
    }

    /// Like [`each`](Self::each), for lines that are parsed. Parsing a plain line finds its end, so
    /// that it need not be searched.
    #[inline(always)]
    fn each_parsed(
        &self,
        fields: &mut Fields,
        mut emit: impl FnMut(&Fields, Range<usize>, usize) -> Result<(), DecodeError>,
    ) -> Result<usize, DecodeError> {
        let (chunk, mut start) = (self.chunk, self.from);
        let last = memchr::memrchr(b'\n', chunk).map_or(0, |at| at + 1);
        while start < last {
            if let Some((line, next)) = fields.plain_line(chunk, start)
                && line.len() <= self.max_record
            {
                emit(fields, line, next)?;
                start = next;
                continue;
            }
            let length = memchr::memchr(b'\n', &chunk[start..]).unwrap_or(chunk.len() - start);
            let next = start + length + 1;
            self.take_line(start..start + length, next, &mut |line, next| {
                fields.check(chunk, &line, next)?;
                emit(fields, line, next)
            })?;
            start = next;
        }
        self.rest(start, &mut |line, next| {
            fields.check(chunk, &line, next)?;
            emit(fields, line, next)
        })
    }

    /// Handles the bytes after the last LF. Returns the start of the first incomplete line.
    fn rest(
        &self,
        start: usize,
        take: &mut impl FnMut(Range<usize>, usize) -> Result<(), DecodeError>,
    ) -> Result<usize, DecodeError> {
        let chunk = self.chunk;
        if self.end {
            self.take_line(start..chunk.len(), chunk.len(), take)?;
            return Ok(chunk.len());
        }
        if chunk.len() - start > self.max_record.saturating_add(1) {
            // The line is too long even if its last byte is the CR of its line end.
            let next = Resume::Scan(chunk.len() as u64);
            return Err(errors::too_long(start, self.max_record, next));
        }
        Ok(start)
    }

    /// Calls `take` with a line, unless it is blank.
    #[inline(always)]
    fn take_line(
        &self,
        mut line: Range<usize>,
        next: usize,
        take: &mut impl FnMut(Range<usize>, usize) -> Result<(), DecodeError>,
    ) -> Result<(), DecodeError> {
        if let [.., b'\r'] = &self.chunk[line.clone()] {
            line.end -= 1;
        }
        if line.len() > self.max_record {
            return Err(errors::too_long(line.start, self.max_record, Resume::At(next as u64)));
        }
        let text = &self.chunk[line.clone()];
        let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r');
        // Nearly all lines begin with a brace.
        let has_text = text.first().is_some_and(|byte| *byte > b' ');
        if has_text || !text.iter().all(is_blank) { take(line, next) } else { Ok(()) }
    }
}
