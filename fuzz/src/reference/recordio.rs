//! RecordIO after dmlc-core's `recordio.h`: parts of `magic · cflag << 29 | length · data · padding
//! to a multiple of 4`. cflag 0 is a whole record; 1, 2 and 3 are the first, a middle and the last
//! part of one that had the magic in it, which the writer cut out. It searches for the magic only
//! at multiples of 4 bytes, so all parts except for the last have such a length.

use pipemill_plugin::testing::{Outcome, Setup};

use super::{Expected, max_record};
use crate::decoders::option;

const MAGIC: [u8; 4] = 0xced7_230a_u32.to_le_bytes();

/// Compares the outcome with this module's.
pub(crate) fn compare(setup: &Setup, input: &[u8], outcome: &Outcome) {
    let put_back: &[u8] = if option(setup, "multipart") == Some("concat") { &[] } else { &MAGIC };
    read(input, put_back, max_record(setup)).compare(outcome);
}

fn read(input: &[u8], put_back: &[u8], max: usize) -> Expected {
    let (mut expected, mut at) = (Expected::default(), 0);
    while at < input.len() {
        let Some((data, end)) = record(&input[at..], put_back, max) else {
            return expected.failed_at(at);
        };
        expected.records.push((at, data));
        at += end;
    }
    expected
}

/// The data of the first record, and the size of all its parts.
fn record(input: &[u8], put_back: &[u8], max: usize) -> Option<(Vec<u8>, usize)> {
    let (cflag, first, mut end) = part(input)?;
    let mut data = first.to_vec();
    if cflag > 1 {
        return None;
    }
    let mut more = cflag == 1;
    let is_cut = |part: &[u8]| put_back.is_empty() || part.len().is_multiple_of(4);
    if more && !is_cut(first) {
        return None;
    }
    while more && data.len() <= max {
        let (cflag, next, size) = part(&input[end..])?;
        data.extend_from_slice(put_back);
        data.extend_from_slice(next);
        end += size;
        more = match cflag {
            2 if is_cut(next) => true,
            3 => false,
            _ => return None,
        };
    }
    (data.len() <= max).then_some((data, end))
}

/// The first part: its cflag, its data, its size with header and padding.
fn part(input: &[u8]) -> Option<(u32, &[u8], usize)> {
    let rest = input.strip_prefix(&MAGIC)?;
    let (word, rest) = rest.split_first_chunk::<4>()?;
    let word = u32::from_le_bytes(*word);
    let length = (word & 0x1fff_ffff) as usize;
    let padded = rest.get(..length.next_multiple_of(4))?;
    Some((word >> 29, &padded[..length], 8 + padded.len()))
}
