//! Tests that the native test host behaves as the real one: here, after errors.

use pipemill_plugin::testing::{Setup, assert_all_splits, decode_whole};
use pipemill_plugin::{
    DecodeError, Decoder, Field, Options, Progress, Records, Resync, StreamInfo,
};

/// A record for each byte. `!` means that the rest can't be decoded, `?` that the search continues
/// after it; it wants at least one record.
struct Bytes {
    has_records: bool,
    gave_up: bool,
}

impl Decoder for Bytes {
    fn open(_: &Options, _: &StreamInfo) -> Result<Self, String> {
        Ok(Self { has_records: false, gave_up: false })
    }

    fn schema(&self) -> Option<Vec<Field>> {
        Some(vec![Field::bytes("byte")])
    }

    fn decode(
        &mut self,
        chunk: &[u8],
        end: bool,
        out: &mut Records,
    ) -> Result<Progress, DecodeError> {
        assert!(!self.gave_up, "called after it gave the rest up");
        for (at, byte) in chunk.iter().enumerate() {
            if *byte == b'!' {
                self.gave_up = true;
                return Err(DecodeError::fatal(at, "given up"));
            }
            if *byte == b'?' {
                return Err(DecodeError::searchable(at, "searching", at as u64 + 1));
            }
            out.span(at, at..at + 1);
            self.has_records = true;
        }
        if end && !self.has_records {
            self.gave_up = true;
            return Err(DecodeError::fatal(chunk.len(), "no record"));
        }
        Ok(Progress::consumed(chunk.len()))
    }

    fn resync(&mut self, _: &[u8], _: bool) -> Resync {
        Resync { consumed: 0, found: true }
    }
}

#[test]
fn after_an_error_without_resume_the_decoder_is_not_called_again() {
    let setup = Setup::new(&[]).skipping();
    let outcome = assert_all_splits::<Bytes>(&setup, b"a?b!c");
    assert_eq!(outcome.records.len(), 2);
    let errors = [(1, 1, "searching".to_owned()), (3, 2, "given up".to_owned())];
    assert_eq!(outcome.errors, errors);
}

/// It has no byte that could be skipped.
#[test]
fn an_error_at_the_end_of_the_input_can_be_skipped() {
    let outcome = decode_whole::<Bytes>(&Setup::new(&[]).skipping(), b"");
    assert_eq!(outcome.errors, [(0, 0, "no record".to_owned())]);
}
