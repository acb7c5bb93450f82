//! TFRecord after TensorFlow's documentation (<https://www.tensorflow.org/tutorials/load_data/tfrecord>):
//! `u64 length · u32 masked CRC-32C of the length · data · u32 masked CRC-32C of the data`.

use pipemill_plugin::testing::{Outcome, Setup};

use super::{Expected, max_record};
use crate::decoders::option;

/// The masked checksum of these bytes.
pub(crate) fn masked(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}

/// Compares the outcome with this module's.
pub(crate) fn compare(setup: &Setup, input: &[u8], outcome: &Outcome) {
    let verify = option(setup, "verify") != Some("false");
    read(input, verify, max_record(setup)).compare(outcome);
}

fn read(input: &[u8], verify: bool, max: usize) -> Expected {
    let (mut expected, mut at) = (Expected::default(), 0);
    while at < input.len() {
        let Some((data, end)) = record(&input[at..], verify, max) else {
            return expected.failed_at(at);
        };
        expected.records.push((at, data.to_vec()));
        at += end;
    }
    expected
}

/// The data of the first record, and the record's size.
fn record(input: &[u8], verify: bool, max: usize) -> Option<(&[u8], usize)> {
    let (length, rest) = input.split_first_chunk::<8>()?;
    let (length_crc, rest) = rest.split_first_chunk::<4>()?;
    let size = usize::try_from(u64::from_le_bytes(*length)).ok().filter(|size| *size <= max)?;
    let (data, rest) = rest.split_at_checked(size)?;
    let data_crc = rest.first_chunk::<4>()?;
    let good = |bytes: &[u8], crc: &[u8; 4]| masked(bytes) == u32::from_le_bytes(*crc);
    let good = !verify || good(length, length_crc) && good(data, data_crc);
    good.then_some((data, size + 16))
}
