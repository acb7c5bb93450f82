//! What a line is under the options, and the walk over those of a chunk.

use std::ops::Range;

use pipemill_parsing::newlines::{Newlines, PIECE};
use pipemill_plugin::{DecodeError, Records, Resume};

/// The options, and the limit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rules {
    pub(crate) strip_cr: bool,
    pub(crate) skip_blank: bool,
    pub(crate) utf8: bool,
    /// Longest line in bytes, its end not counted.
    pub(crate) max_record: usize,
}

impl Rules {
    /// Emits the lines of the chunk that end at LF; answers where the one without begins. The chunk is
    /// text up to `valid`.
    pub(crate) fn ended_lines(
        self,
        chunk: &[u8],
        valid: usize,
        newlines: &mut Newlines,
        out: &mut Records,
    ) -> Result<usize, DecodeError> {
        // A loop of its own for each choice: short lines are a third faster for it.
        match (self.strip_cr, self.skip_blank) {
            (true, false) => self.walk::<true, false>(chunk, valid, newlines, out),
            (true, true) => self.walk::<true, true>(chunk, valid, newlines, out),
            (false, false) => self.walk::<false, false>(chunk, valid, newlines, out),
            (false, true) => self.walk::<false, true>(chunk, valid, newlines, out),
        }
    }

    fn walk<const STRIP_CR: bool, const SKIP_BLANK: bool>(
        self,
        chunk: &[u8],
        valid: usize,
        newlines: &mut Newlines,
        out: &mut Records,
    ) -> Result<usize, DecodeError> {
        let mut start = 0;
        for (index, piece) in chunk.chunks(PIECE).enumerate() {
            for place in newlines.of(piece) {
                let newline = index * PIECE + *place as usize;
                let cr = STRIP_CR && newline > start && chunk[newline - 1] == b'\r';
                let line = start..newline - usize::from(cr);
                if line.len() > self.max_record || valid < newline {
                    let next = Resume::At(newline as u64 + 1);
                    return Err(self.fault(chunk, line, valid, next));
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
            return Err(self.fault(chunk, line, valid, Resume::At(chunk.len() as u64)));
        }
        out.span(start, line);
        Ok(())
    }

    /// How far the lines of the chunk that can be judged are text: where the first byte stands that is
    /// not, or the end of the chunk.
    pub(crate) fn valid_until(self, chunk: &[u8], end: bool) -> usize {
        if !self.utf8 {
            return chunk.len();
        }
        // A character can be cut by the end of the chunk, but not by the end of a line.
        let judged = if end { chunk.len() } else { memchr::memrchr(b'\n', chunk).unwrap_or(0) };
        match str::from_utf8(&chunk[..judged]) {
            Ok(_) => chunk.len(),
            Err(error) => error.valid_up_to(),
        }
    }

    /// The error of a line that is too long; `next` is where decoding can go on.
    pub(crate) fn too_long(self, start: usize, next: Resume) -> DecodeError {
        // How long it is can't be said: its end need not be in view.
        let message = format!(
            "line is longer than max_record ({} bytes); raise max_record if lines may be that long",
            self.max_record
        );
        DecodeError { offset: start, message, resume: next }
    }

    #[cold]
    fn fault(self, chunk: &[u8], line: Range<usize>, valid: usize, next: Resume) -> DecodeError {
        if line.len() > self.max_record {
            return self.too_long(line.start, next);
        }
        let message = format!(
            "expected UTF-8, found byte {:02x} at +{}; the line is damaged or in another encoding: \
             utf8 = false takes it as bytes",
            chunk[valid],
            valid - line.start
        );
        DecodeError { offset: line.start, message, resume: next }
    }
}
