//! The options' definition of a line, and the loop over the lines of a chunk.

use std::ops::Range;

use pipemill_parsing::encoding::{looks_like, valid_up_to};
use pipemill_parsing::newlines::{Newlines, PIECE};
use pipemill_plugin::{DecodeError, Records, Resume};

/// The options of the stream, and its limit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rules {
    pub(crate) strip_cr: bool,
    pub(crate) skip_blank: bool,
    pub(crate) utf8: bool,
    /// Longest line in bytes, without its line end.
    pub(crate) max_record: usize,
}

impl Rules {
    /// Emits the lines of the chunk that end with LF. Returns the start of the last line, which has
    /// no LF yet. The chunk is valid UTF-8 up to `valid`.
    pub(crate) fn ended_lines(
        self,
        chunk: &[u8],
        valid: usize,
        newlines: &mut Newlines,
        out: &mut Records,
    ) -> Result<usize, DecodeError> {
        // There is one loop for each combination of options, which makes short lines a third
        // faster.
        match (self.strip_cr, self.skip_blank) {
            (true, false) => self.emit_lines::<true, false>(chunk, valid, newlines, out),
            (true, true) => self.emit_lines::<true, true>(chunk, valid, newlines, out),
            (false, false) => self.emit_lines::<false, false>(chunk, valid, newlines, out),
            (false, true) => self.emit_lines::<false, true>(chunk, valid, newlines, out),
        }
    }

    fn emit_lines<const STRIP_CR: bool, const SKIP_BLANK: bool>(
        self,
        chunk: &[u8],
        valid: usize,
        newlines: &mut Newlines,
        out: &mut Records,
    ) -> Result<usize, DecodeError> {
        let mut start = 0;
        for (index, piece) in chunk.chunks(PIECE).enumerate() {
            for offset in newlines.find(piece) {
                let newline = index * PIECE + *offset as usize;
                let cr = STRIP_CR && newline > start && chunk[newline - 1] == b'\r';
                let line = start..newline - usize::from(cr);
                if line.len() > self.max_record || valid < newline {
                    let next = Resume::At(newline as u64 + 1);
                    return Err(self.line_error(chunk, line, valid, next));
                }
                if !(SKIP_BLANK && line.is_empty()) {
                    out.span(start, line);
                }
                start = newline + 1;
            }
        }
        Ok(start)
    }

    /// Emits the last line of the input, which has no LF.
    pub(crate) fn last_line(
        self,
        chunk: &[u8],
        start: usize,
        valid: usize,
        out: &mut Records,
    ) -> Result<(), DecodeError> {
        let line = start..chunk.len();
        if line.len() > self.max_record || valid < chunk.len() {
            return Err(self.line_error(chunk, line, valid, Resume::At(chunk.len() as u64)));
        }
        out.span(start, line);
        Ok(())
    }

    /// Offset of the first byte in a complete line that is not UTF-8; the length of the chunk if
    /// there is none.
    pub(crate) fn valid_until(self, chunk: &[u8], end: bool) -> usize {
        if !self.utf8 {
            return chunk.len();
        }
        // The end of the chunk can cut a character, but the end of a line can't.
        let whole_lines =
            if end { chunk.len() } else { memchr::memrchr(b'\n', chunk).unwrap_or(0) };
        match valid_up_to(&chunk[..whole_lines], true) {
            valid if valid == whole_lines => chunk.len(),
            valid => valid,
        }
    }

    /// The error of the line at `start`, which is too long. `next` is where decoding can continue.
    pub(crate) fn too_long(self, start: usize, next: Resume) -> DecodeError {
        // The message can't contain its length, because its end may not have arrived.
        let message = format!(
            "line is longer than max_record ({} bytes); raise max_record if lines may be that long",
            self.max_record
        );
        DecodeError { offset: start, message, resume: next }
    }

    /// The error of a line that is too long or not UTF-8.
    #[cold]
    fn line_error(
        self,
        chunk: &[u8],
        line: Range<usize>,
        valid: usize,
        next: Resume,
    ) -> DecodeError {
        if line.len() > self.max_record {
            return self.too_long(line.start, next);
        }
        let message = format!(
            "expected UTF-8, found byte {:02x} at +{}; it looks like {}; utf8 = false takes lines as \
             bytes",
            chunk[valid],
            valid - line.start,
            looks_like(&chunk[line.clone()], valid - line.start)
        );
        DecodeError { offset: line.start, message, resume: next }
    }
}
