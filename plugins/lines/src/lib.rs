//! Lines of text: one field `line` per record. The decoder checks that lines are UTF-8; without
//! `utf8` it emits them as bytes.
//!
//! A line ends at LF. A CR before that LF belongs to the line end, unless `strip_cr` is off. The
//! last line needs no LF; a CR at the end of the input then belongs to the line.

mod rules;

use pipemill_parsing::head::{self, Checked, Head};
use pipemill_parsing::newlines::Newlines;
use pipemill_plugin::{
    DecodeError, Decoder, Field, OptionSpec, Options, Progress, Records, Resume, Resync, Scalar,
    StreamInfo,
};
use rules::Rules;

/// The `lines` decoder.
#[derive(Debug)]
pub struct Lines {
    head: Head,
    rules: Rules,
    newlines: Newlines,
}

#[cfg(feature = "export")]
pipemill_plugin::export!(Lines);

impl Decoder for Lines {
    fn options() -> Vec<OptionSpec> {
        vec![
            OptionSpec::bool("strip_cr", true, "take CR LF for the end of a line, as well as LF"),
            OptionSpec::bool("skip_blank", false, "skip empty lines"),
            OptionSpec::bool("utf8", true, "make the field text: lines must be UTF-8"),
            head::option(),
        ]
    }

    fn open(options: &Options, info: &StreamInfo) -> Result<Self, String> {
        let rules = Rules {
            strip_cr: options.is_on("strip_cr"),
            skip_blank: options.is_on("skip_blank"),
            utf8: options.is_on("utf8"),
            max_record: usize::try_from(info.max_record).unwrap_or(usize::MAX),
        };
        Ok(Self { head: Head::sniffing(options, info), rules, newlines: Newlines::new() })
    }

    fn schema(&self) -> Option<Vec<Field>> {
        let scalar = if self.rules.utf8 { Scalar::Utf8 } else { Scalar::Bytes };
        Some(vec![Field::new("line", scalar)])
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
        let valid = self.rules.valid_until(chunk, end);
        let start = self.rules.ended_lines(chunk, valid, &mut self.newlines, out)?;
        let rest = chunk.len() - start;
        if end && rest > 0 {
            self.rules.last_line(chunk, start, valid, out)?;
            return Ok(Progress::consumed(chunk.len()));
        }
        if rest > self.rules.max_record.saturating_add(1) {
            // The line is too long even if its last byte is the CR of its line end.
            return Err(self.rules.too_long(start, Resume::Scan(chunk.len() as u64)));
        }
        // The length of the line is unknown, so there is no `need`.
        Ok(Progress::consumed(start))
    }

    fn resync(&mut self, chunk: &[u8], _end: bool) -> Resync {
        match memchr::memchr(b'\n', chunk) {
            Some(at) => Resync { consumed: at + 1, found: true },
            None => Resync { consumed: chunk.len(), found: false },
        }
    }
}
