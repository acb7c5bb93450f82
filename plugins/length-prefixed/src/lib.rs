//! Records with a length before each: one field `data` per record. The decoder does not look at the
//! bytes of a record. The length is an integer of 2, 4 or 8 bytes in either byte order, or a
//! varint, as in protobuf's delimited messages.
//!
//! **Errors.** Only the length frames a record. So a damaged length is noticed only if it is larger
//! than `max_record`, and nothing marks the next record: every error ends the object.

mod errors;
mod prefix;
mod rules;

use pipemill_parsing::head::{self, Checked, Head};
use pipemill_plugin::{
    DecodeError, Decoder, Field, OptionSpec, Options, Progress, Records, StreamInfo,
};
use prefix::{BigEndian, Length, LittleEndian, Prefix, Varint};
use rules::Rules;

/// The `length-prefixed` decoder.
#[derive(Debug)]
pub struct LengthPrefixed {
    head: Head,
    emit_records: EmitRecords,
    rules: Rules,
}

/// The loop over the records of a chunk. Each kind of prefix has its own: that is a third faster
/// than one loop for all.
type EmitRecords = fn(&Rules, &[u8], &mut Records) -> Result<Progress, DecodeError>;

/// The values of the option `prefix`, each with its loop.
const KINDS: [(&str, EmitRecords); 7] = [
    ("u16le", Rules::emit_records::<LittleEndian<2>>),
    ("u16be", Rules::emit_records::<BigEndian<2>>),
    ("u32le", Rules::emit_records::<LittleEndian<4>>),
    ("u32be", Rules::emit_records::<BigEndian<4>>),
    ("u64le", Rules::emit_records::<LittleEndian<8>>),
    ("u64be", Rules::emit_records::<BigEndian<8>>),
    ("varint", Rules::emit_records::<Varint>),
];

#[cfg(feature = "export")]
pipemill_plugin::export!(LengthPrefixed);

impl Decoder for LengthPrefixed {
    fn options() -> Vec<OptionSpec> {
        vec![
            OptionSpec::choice(
                "prefix",
                &KINDS.map(|(kind, _)| kind),
                "u32le",
                "how a length is encoded: its bits and byte order, or a varint, as in protobuf",
            ),
            OptionSpec::bool("includes_prefix", false, "lengths include their own bytes"),
            head::option(),
        ]
    }

    fn open(options: &Options, info: &StreamInfo) -> Result<Self, String> {
        let kind = options.text("prefix");
        let known = KINDS.iter().find(|(name, _)| *name == kind);
        let (_, emit_records) =
            known.ok_or_else(|| format!("option `prefix` has no kind {kind:?}"))?;
        let rules = Rules {
            kind: kind.to_owned(),
            includes_prefix: options.is_on("includes_prefix"),
            max_record: info.max_record,
        };
        let head = Head::sniffing(options, info);
        Ok(Self { head, emit_records: *emit_records, rules })
    }

    fn schema(&self) -> Option<Vec<Field>> {
        Some(vec![Field::bytes("data")])
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
        (self.emit_records)(&self.rules, chunk, out)
    }
}

impl Rules {
    /// Emits the records that are completely in the chunk.
    fn emit_records<P: Prefix>(
        &self,
        chunk: &[u8],
        out: &mut Records,
    ) -> Result<Progress, DecodeError> {
        let mut at = 0;
        loop {
            let (size, value) = match P::read(&chunk[at..]) {
                Length::Whole { size, value } => (size, value),
                Length::Cut { need } => return Ok(Progress::consumed(at).and_wants(need)),
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
                return Ok(Progress::consumed(at).and_wants(need.unwrap_or(usize::MAX)));
            }
            // The value fits: the chunk is not shorter.
            let end = data + length as usize;
            out.span(at, data..end);
            at = end;
        }
    }
}
