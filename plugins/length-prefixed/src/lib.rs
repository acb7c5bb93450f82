//! Records behind their lengths: one field `data` a record. What it means is not looked at. The length
//! is a number of 2, 4 or 8 bytes in either order, or a varint, as in protobuf's delimited messages.
//!
//! Nothing else frames a record, so a damaged length can't be told from a sound one unless it is larger
//! than the channel takes, and nothing marks where the next record starts: each error ends the object.

mod errors;
mod prefix;

use pipemill_plugin::{
    DecodeError, Decoder, Field, OptionSpec, Options, Progress, Records, StreamInfo,
};
use prefix::{Be, Le, Length, Prefix, Varint};

/// The `length-prefixed` decoder.
#[derive(Debug)]
pub struct LengthPrefixed {
    walk: Walk,
    rules: Rules,
}

/// The walk over the records of a chunk, one for each kind of prefix: it is a third faster for it.
type Walk = fn(&Rules, &[u8], &mut Records) -> Result<Progress, DecodeError>;

/// What a length may be.
#[derive(Debug)]
pub(crate) struct Rules {
    /// The option `prefix`, for messages.
    pub(crate) kind: String,
    /// Whether a length counts its own bytes.
    pub(crate) includes_prefix: bool,
    pub(crate) max_record: u64,
}

/// Values of the option `prefix`, each with its walk.
const KINDS: [(&str, Walk); 7] = [
    ("u16le", Rules::walk::<Le<2>>),
    ("u16be", Rules::walk::<Be<2>>),
    ("u32le", Rules::walk::<Le<4>>),
    ("u32be", Rules::walk::<Be<4>>),
    ("u64le", Rules::walk::<Le<8>>),
    ("u64be", Rules::walk::<Be<8>>),
    ("varint", Rules::walk::<Varint>),
];

pipemill_plugin::export!(LengthPrefixed);

impl Decoder for LengthPrefixed {
    fn options() -> Vec<OptionSpec> {
        vec![
            OptionSpec::choice(
                "prefix",
                &KINDS.map(|(kind, _)| kind),
                "u32le",
                "what the length before a record is: its bits and the order of its bytes, or a varint \
                 as protobuf writes it",
            ),
            OptionSpec::bool("includes_prefix", false, "lengths count their own bytes, too"),
        ]
    }

    fn open(options: &Options, info: &StreamInfo) -> Result<Self, String> {
        let kind = options.text("prefix");
        let known = KINDS.iter().find(|(name, _)| *name == kind);
        let (_, walk) = known.ok_or_else(|| format!("option `prefix` has no kind {kind:?}"))?;
        let rules = Rules {
            kind: kind.to_owned(),
            includes_prefix: options.is_on("includes_prefix"),
            max_record: info.max_record,
        };
        Ok(Self { walk: *walk, rules })
    }

    fn schema(&self) -> Option<Vec<Field>> {
        Some(vec![Field::bytes("data")])
    }

    fn decode(
        &mut self,
        chunk: &[u8],
        _end: bool,
        out: &mut Records,
    ) -> Result<Progress, DecodeError> {
        (self.walk)(&self.rules, chunk, out)
    }
}

impl Rules {
    /// Emits the records that lie whole in the chunk.
    fn walk<P: Prefix>(&self, chunk: &[u8], out: &mut Records) -> Result<Progress, DecodeError> {
        let mut at = 0;
        loop {
            let (size, value) = match P::read(&chunk[at..]) {
                Length::Whole { size, value } => (size, value),
                Length::Cut { need } => return Ok(Progress { consumed: at, need }),
                Length::TooLong => return Err(errors::varint(&chunk[at..], at)),
            };
            let length = if self.includes_prefix {
                let rest = value.checked_sub(size as u64);
                rest.ok_or_else(|| errors::shorter_than_itself(self, value, size, at))?
            } else {
                value
            };
            if length > self.max_record {
                return Err(errors::too_large(self, length, at));
            }
            let data = at + size;
            if length > (chunk.len() - data) as u64 {
                let need = usize::try_from(length.saturating_add(size as u64));
                return Ok(Progress { consumed: at, need: need.unwrap_or(usize::MAX) });
            }
            // Not more than the chunk, so it fits.
            let end = data + length as usize;
            out.span(at, data..end);
            at = end;
        }
    }
}
