//! JSON Lines: a JSON text a line. A record is the line as it stands, in one field `line`, or what the
//! option `fields` chooses of it by JSON pointer.
//!
//! A line ends at LF; a CR before it is part of the end, as it is at the end of the input. The last
//! line needs no LF. Lines of nothing but blanks are passed over, and so is a byte order mark at the
//! start of an object.
//!
//! With `fields`, and unless `validate` is off, a line is walked over once and must be JSON as RFC 8259
//! has it, in UTF-8, not more than 128 arrays and objects deep. Where an object has a key twice, the
//! last one counts. Escapes of surrogates must come in pairs.

mod convert;
mod errors;
mod fields;
mod text;
mod tree;
mod walk;

use std::ops::Range;

use fields::Fields;
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
    emit: Emit,
    max_record: usize,
    newlines: Newlines,
    /// Whether no byte was looked at yet.
    at_start: bool,
}

/// What a line becomes.
#[derive(Debug)]
enum Emit {
    /// The field `line`, not looked at.
    Line,
    /// The field `line`, which must be JSON.
    CheckedLine(Fields),
    /// The fields that were asked for.
    Fields(Fields),
}

pipemill_plugin::export!(Jsonl);

impl Decoder for Jsonl {
    fn options() -> Vec<OptionSpec> {
        vec![
            OptionSpec::string(
                "fields",
                None,
                "what to take of a line, by JSON pointer: \
                 \"id=/meta/id:int64,/text:utf8,vec=/emb:float32[128],/tag:utf8?\"; else all, as `line`",
            ),
            OptionSpec::bool(
                "validate",
                true,
                "lines must be JSON; with `fields` they always must",
            ),
        ]
    }

    fn open(options: &Options, info: &StreamInfo) -> Result<Self, String> {
        let emit = match (options.get("fields"), options.is_on("validate")) {
            (Some(text), true) => Emit::Fields(Fields::new(text)?),
            (Some(_), false) => {
                return Err(
                    "validate = false has no meaning with `fields`: what is chosen from a \
                            line is found by checking it"
                        .to_owned(),
                );
            }
            (None, true) => Emit::CheckedLine(Fields::none()),
            (None, false) => Emit::Line,
        };
        let max_record = usize::try_from(info.max_record).unwrap_or(usize::MAX);
        Ok(Self { emit, max_record, newlines: Newlines::new(), at_start: true })
    }

    fn schema(&self) -> Option<Vec<Field>> {
        Some(match &self.emit {
            Emit::Line => vec![Field::bytes("line")],
            Emit::CheckedLine(_) => vec![Field::new("line", Scalar::Utf8)],
            Emit::Fields(fields) => fields.schema(),
        })
    }

    fn decode(
        &mut self,
        chunk: &[u8],
        end: bool,
        out: &mut Records,
    ) -> Result<Progress, DecodeError> {
        let mut from = 0;
        if self.at_start {
            if !end && chunk.len() < BOM.len() && BOM.starts_with(chunk) {
                return Ok(Progress { consumed: 0, need: 0 });
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
            Emit::CheckedLine(fields) => lines.each(newlines, |line, next| {
                fields.walk(chunk, &line, next)?;
                out.span(line.start, line);
                Ok(())
            }),
            Emit::Fields(fields) => lines.each(newlines, |line, next| {
                fields.walk(chunk, &line, next)?;
                fields.emit(chunk, &line, next, out)
            }),
        }?;
        // Nothing tells how long a line will be.
        Ok(Progress { consumed, need: 0 })
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
    /// Where the first one starts.
    from: usize,
    end: bool,
    /// Longest line in bytes, its end not counted.
    max_record: usize,
}

impl Lines<'_> {
    /// Gives each line that is not blank, with the place behind its end, to `take`; answers where the
    /// first line starts that is not whole.
    #[inline(always)]
    fn each(
        &self,
        newlines: &mut Newlines,
        mut take: impl FnMut(Range<usize>, usize) -> Result<(), DecodeError>,
    ) -> Result<usize, DecodeError> {
        let (chunk, mut start) = (self.chunk, self.from);
        for (index, piece) in chunk.chunks(PIECE).enumerate() {
            for place in newlines.of(piece) {
                let newline = index * PIECE + *place as usize;
                self.one(start..newline, newline + 1, &mut take)?;
                start = newline + 1;
            }
        }
        let rest = chunk.len() - start;
        if self.end {
            self.one(start..chunk.len(), chunk.len(), &mut take)?;
            return Ok(chunk.len());
        }
        if rest > self.max_record.saturating_add(1) {
            // Too long whatever comes, even if its last byte is the CR of its end.
            let next = Resume::Scan(chunk.len() as u64);
            return Err(errors::too_long(start, self.max_record, next));
        }
        Ok(start)
    }

    #[inline(always)]
    fn one(
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
        let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r');
        if self.chunk[line.clone()].iter().all(is_blank) { Ok(()) } else { take(line, next) }
    }
}
