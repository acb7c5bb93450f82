//! Indexed datasets of Megatron-LM: tokens in a `.bin`, and beside it an index `.idx`, which says
//! where sequences and documents begin. The index is the companion of the `.bin`.
//!
//! `index` reads the header of the index. `plan` makes parts of the `.bin`, each with its piece of
//! the index, and `part` is the head of such a part. `sequences` decodes a part. `rules` are the
//! options.
//!
//! **State between calls.** Within a part, the state has the sizes of its sequences and their
//! documents. Between two parts there is no state.
//!
//! **After an error** in a part, decoding continues at the next part.

mod index;
mod part;
mod plan;
mod rules;
mod sequences;

use part::{HEAD, Kind, PartHead};
use pipemill_plugin::{
    Companion, DecodeError, Decoder, Field, Next, OptionSpec, Options, Piece, Progress, Records,
    Scalar, StreamInfo,
};
use rules::Rules;
use sequences::{Sequences, Step};

#[cfg(feature = "export")]
pipemill_plugin::export!(Megatron);

/// The decoder of a stream.
#[derive(Debug)]
pub struct Megatron {
    rules: Rules,
    /// The type of the tokens, if it is known.
    scalar: Option<Scalar>,
    /// The part that is decoded.
    part: Option<Sequences>,
}

impl Decoder for Megatron {
    fn options() -> Vec<OptionSpec> {
        Rules::options()
    }

    fn open(options: &Options, info: &StreamInfo) -> Result<Self, String> {
        let rules = Rules::of(options)?;
        if !info.is_planned() {
            return Err("a .bin is decoded with the .idx beside it, and this stream has none: it \
                        needs a file or an object in S3 that can be read at any place"
                .to_owned());
        }
        Ok(Self { rules, scalar: None, part: None })
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
        let result = self.decode_parts(chunk, end, out);
        if result.is_err() {
            // The next part follows.
            self.part = None;
        }
        result
    }

    fn restart(&self) -> Option<u64> {
        self.part.is_none().then_some(0)
    }

    fn plans() -> bool {
        true
    }

    fn companions(_: &Options) -> Vec<Companion> {
        vec![Companion { object: ".bin", companion: ".idx" }]
    }

    fn plan(options: &Options, info: &StreamInfo, seen: &[Piece]) -> Result<Next, String> {
        Ok(plan::plan(&Rules::of(options)?, info, seen))
    }
}

impl Megatron {
    fn decode_parts(
        &mut self,
        chunk: &[u8],
        end: bool,
        out: &mut Records,
    ) -> Result<Progress, DecodeError> {
        let (mut at, mut budget) = (0, sequences::CALL_BYTES);
        loop {
            let Some(part) = &mut self.part else {
                if at == chunk.len() {
                    return Ok(Progress::consumed(at));
                }
                match self.begin_part(&chunk[at..], end, out) {
                    Ok(Some(head)) => {
                        self.part = Some(Sequences::new(head));
                        at += HEAD;
                        continue;
                    }
                    Ok(None) => return Ok(Progress::consumed(at).and_wants(HEAD)),
                    Err(Begin::Wants(bytes)) => {
                        return Ok(Progress::consumed(at).and_wants(bytes));
                    }
                    Err(Begin::Failed(error)) => return Err(error.later_by(at)),
                }
            };
            match part.decode(self.rules, chunk, at, end, &mut budget, out)? {
                (consumed, Step::Over) => {
                    at = consumed;
                    self.part = None;
                }
                (consumed, Step::Wants(bytes)) => {
                    return Ok(Progress::consumed(consumed).and_wants(bytes));
                }
                (consumed, Step::More) => return Ok(Progress::more(consumed)),
            }
        }
    }

    /// Reads the head of the part at the start of these bytes. `None` if more must come.
    fn begin_part(
        &mut self,
        bytes: &[u8],
        end: bool,
        out: &mut Records,
    ) -> Result<Option<PartHead>, Begin> {
        let Some(head) = bytes.first_chunk::<HEAD>() else {
            if end {
                return Err(DecodeError::fatal(0, "the plan ends in the head of a part").into());
            }
            return Ok(None);
        };
        let Some(head) = PartHead::read(head) else {
            return Err(DecodeError::fatal(0, "expected the head of a part of a plan").into());
        };
        if head.kind != Kind::Sequences {
            let size = HEAD + head.text as usize;
            let Some(text) = bytes.get(HEAD..size) else {
                return Err(match end {
                    true => DecodeError::fatal(0, "the plan ends in the text of a part").into(),
                    false => Begin::Wants(size),
                });
            };
            let message = String::from_utf8_lossy(text);
            return Err(match head.kind {
                Kind::Refused => DecodeError::refused(0, message).into(),
                _ => DecodeError::skippable(0, message, size as u64).into(),
            });
        }
        let scalar = head.index.scalar();
        match self.scalar {
            None => {
                out.set_schema(&self.rules.fields(scalar));
                self.scalar = Some(scalar);
            }
            Some(before) if before == scalar => {}
            Some(_) => {
                let message = "the parts of a plan have tokens of several types";
                return Err(DecodeError::fatal(0, message).into());
            }
        }
        Ok(Some(head))
    }
}

/// Why a part does not begin.
enum Begin {
    /// This many bytes are needed.
    Wants(usize),
    Failed(DecodeError),
}

impl From<DecodeError> for Begin {
    fn from(error: DecodeError) -> Self {
        Self::Failed(error)
    }
}
