//! Token files for language models: a sequence of integers, as nanoGPT and llm.c write it. A record
//! is a window of `length` tokens, in one field `tokens`. Windows do not overlap.
//!
//! [`pipemill_fixed`], which this decoder wraps, handles records and raw headers. This decoder adds
//! what `fixed` does not have: the header of llm.c, and a last record that is too short.
//!
//! **State between calls.** The state is that of `fixed`; for llm.c also the number of bytes of the
//! object that are left according to its header.

mod errors;
mod llm_c;
mod rules;

use pipemill_fixed::Fixed;
use pipemill_parsing::field_spec::scalar_from_name;
use pipemill_parsing::head::{self, Checked, Head};
use pipemill_plugin::{
    DecodeError, Decoder, Field, Level, OptionSpec, Options, Progress, Records, StreamInfo,
};
use rules::Rules;

/// The types of tokens.
const TYPES: [&str; 4] = ["uint16", "uint32", "int32", "int64"];

/// The `tokens` decoder.
#[derive(Debug)]
pub struct Tokens {
    head: Head,
    /// Finds the records.
    records: Fixed,
    rules: Rules,
    /// The known rest of the object.
    rest: Rest,
    /// Number of bytes of the object between its header and the bytes that are passed after it: see
    /// [`Decoder::restart`].
    skipped: u64,
    /// Whether a header is passed alone first.
    is_restart: bool,
}

/// The rest of an object.
#[derive(Debug)]
enum Rest {
    /// All bytes up to the end of the input.
    ToTheEnd,
    /// A header of llm.c, which was not read yet, and its tokens.
    LlmC,
    /// The tokens of a file whose header was read.
    LlmCTokens {
        /// Number of bytes that are not consumed yet.
        left: u64,
        /// Number of tokens of the object, according to its header.
        count: u64,
    },
}

#[cfg(feature = "export")]
pipemill_plugin::export!(Tokens);

impl Decoder for Tokens {
    fn options() -> Vec<OptionSpec> {
        vec![
            OptionSpec::int("length", None, "tokens of a record").required(),
            OptionSpec::choice("type", &TYPES, "uint16", "type of a token, little-endian"),
            OptionSpec::int("header", Some("0"), "bytes to skip at the start of each object"),
            OptionSpec::choice(
                "format",
                &["raw", "llm.c"],
                "raw",
                "raw: nothing but tokens, after `header` bytes; llm.c: tokens after llm.c's header, \
                 which is checked",
            ),
            OptionSpec::choice(
                "tail",
                &["error", "drop"],
                "error",
                "what to do with tokens at the end of an object that are fewer than `length`",
            ),
            head::option(),
        ]
    }

    fn open(options: &Options, info: &StreamInfo) -> Result<Self, String> {
        let length = options.int("length").and_then(|length| u32::try_from(length).ok());
        let length = length.filter(|length| *length > 0).ok_or_else(|| {
            let given = options.text("length");
            format!("option `length` takes a number from 1 to {}, not {given}", u32::MAX)
        })?;
        let word = options.text("type");
        let scalar =
            scalar_from_name(word).ok_or_else(|| format!("option `type` has no type {word:?}"))?;
        let (header, rest) = match (options.text("format"), options.int("header").unwrap_or(0)) {
            ("llm.c", 0) => (llm_c::HEADER_BYTES as u64, Rest::LlmC),
            ("llm.c", _) => {
                return Err(
                    "option `header` has no meaning with format = \"llm.c\", whose header \
                            has a size of its own"
                        .to_owned(),
                );
            }
            (_, header) => (header, Rest::ToTheEnd),
        };
        let head = match rest {
            Rest::ToTheEnd => Head::sniffing(options, info).skipping(header),
            // The header is checked separately.
            _ => Head::new(info).of_decoder("tokens"),
        };
        let field = Field::new("tokens", scalar).shaped([length]).logical("tokens");
        let records = Fixed::of_numbers(field, header, info)?;
        let drop_tail = options.text("tail") == "drop";
        let skipped = info.restart().map_or(0, |at| at.place.saturating_sub(at.header));
        let is_restart = info.restart().is_some_and(|at| at.header > 0);
        let rules = Rules { scalar, length, drop_tail };
        Ok(Self { head, records, rules, rest, skipped, is_restart })
    }

    fn schema(&self) -> Option<Vec<Field>> {
        self.records.schema()
    }

    fn restart(&self) -> Option<u64> {
        match self.rest {
            Rest::ToTheEnd | Rest::LlmCTokens { left: 1.., .. } => self.records.restart(),
            Rest::LlmC | Rest::LlmCTokens { .. } => None,
        }
    }

    fn decode(
        &mut self,
        chunk: &[u8],
        end: bool,
        out: &mut Records,
    ) -> Result<Progress, DecodeError> {
        if matches!(self.rest, Rest::ToTheEnd) {
            return match self.head.check(chunk, end)? {
                Checked::Wait(progress) => Ok(progress),
                Checked::Decode => self.decode_raw(chunk, end, out),
            };
        }
        let result = self.decode_with_header(chunk, end, out);
        self.head.explain(chunk, end, result)
    }
}

impl Tokens {
    /// Decodes tokens that end with the object.
    fn decode_raw(
        &mut self,
        chunk: &[u8],
        end: bool,
        out: &mut Records,
    ) -> Result<Progress, DecodeError> {
        let progress = self.records.decode(chunk, end, out)?;
        let consumed = progress.consumed;
        // Less than a header is left only before the end: otherwise `fixed` has returned an error.
        if !end {
            return Ok(progress);
        }
        let tail = self.rules.tail(consumed, chunk.len() - consumed, out)?;
        Ok(Progress::consumed(consumed + tail))
    }

    /// Decodes a header of llm.c and the tokens after it.
    fn decode_with_header(
        &mut self,
        chunk: &[u8],
        end: bool,
        out: &mut Records,
    ) -> Result<Progress, DecodeError> {
        match self.rest {
            Rest::ToTheEnd => self.decode_raw(chunk, end, out),
            Rest::LlmC => match llm_c::token_count(&self.rules, chunk, end, self.is_restart)? {
                Some(count) => {
                    let left =
                        (count * self.rules.token_bytes() as u64).saturating_sub(self.skipped);
                    if chunk.len() == llm_c::HEADER_BYTES && !end {
                        self.rest = Rest::LlmCTokens { left, count };
                        return self.records.decode(chunk, false, out);
                    }
                    let left = llm_c::HEADER_BYTES as u64 + left;
                    self.rest = Rest::LlmCTokens { left, count };
                    self.decode_llm_c(chunk, end, left, count, out)
                }
                // One byte more than the header is needed, so that a file without a token has its
                // error there.
                None => Ok(Progress::wants(llm_c::HEADER_BYTES + usize::from(!self.is_restart))),
            },
            Rest::LlmCTokens { left, count } => self.decode_llm_c(chunk, end, left, count, out),
        }
    }

    /// Decodes tokens after a header of llm.c. The object has `left` bytes from the start of the
    /// chunk.
    fn decode_llm_c(
        &mut self,
        chunk: &[u8],
        end: bool,
        left: u64,
        count: u64,
        out: &mut Records,
    ) -> Result<Progress, DecodeError> {
        let all_in_view = chunk.len() as u64 >= left;
        // If more bytes must come, the last one is held back. So the record that it ends stays, and
        // an object that is cut there has its error at that record, regardless of the split.
        let shown = if all_in_view { left as usize } else { chunk.len().saturating_sub(1) };
        let consumed = self.records.decode(&chunk[..shown], false, out)?.consumed;
        if !all_in_view {
            if end && !chunk.is_empty() {
                return Err(errors::cut_short(count, consumed));
            }
            let left = left - consumed as u64;
            self.rest = Rest::LlmCTokens { left, count };
            let need = left.min(self.records.record_bytes() as u64 + 1);
            return Ok(Progress::consumed(consumed).and_wants(need as usize));
        }
        let consumed = consumed + self.rules.tail(consumed, shown - consumed, out)?;
        if chunk.len() > consumed {
            return Err(errors::surplus(count, consumed));
        }
        self.rest = Rest::LlmCTokens { left: 0, count };
        Ok(Progress::consumed(consumed))
    }
}

impl Rules {
    /// Handles the last `bytes` bytes of an object, which are less than a record. They start at
    /// `at`. Returns how many of them are finished.
    fn tail(&self, at: usize, bytes: usize, out: &mut Records) -> Result<usize, DecodeError> {
        let tokens = bytes / self.token_bytes();
        if bytes == 0 {
            return Ok(0);
        }
        if !bytes.is_multiple_of(self.token_bytes()) {
            return Err(errors::cut_token(self, at, bytes));
        }
        if !self.drop_tail {
            return Err(errors::short_record(self, at, tokens));
        }
        let message = format!(
            "the last {tokens} tokens of the object are left out: a record has {} (option `tail`)",
            self.length
        );
        out.log(Level::Info, &message);
        Ok(bytes)
    }
}
