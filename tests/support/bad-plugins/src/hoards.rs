//! Misdeeds against the host's memory and time: what the decoder passes is small or shared, what the
//! host would have to make of it is large.

use pipemill_plugin::bindings::exports::pipemill::decoder0_1_0::decoder::{
    DecodeError, Progress, Resume,
};
use pipemill_plugin::bindings::pipemill::decoder0_1_0::host;
use pipemill_plugin::bindings::pipemill::decoder0_1_0::types::{Field, Level};

use crate::plugin::{emit, field, progress, span, typed};

const IN_PAYLOAD: u64 = 1 << 63;
/// Bytes of the input of those that begin only when they see all of it.
const WHOLE: usize = 16 << 20;
/// A text that is far too large.
const LARGE: usize = 20 << 20;
/// Fields of which each is the whole chunk.
const COPIES: usize = 200;
/// Fields that share their bytes, and the number of these bytes.
const SHARING_FIELDS: usize = 1000;
const SHARED_BYTES: usize = 8000;

/// The schemas.
pub fn at_open(misdeed: &str) {
    match misdeed {
        "hoard-name-schema" => host::set_schema(&[field("x".repeat(LARGE))]),
        "hoard-categories-schema" => {
            let categories = vec![String::new(); 1 << 20];
            host::set_schema(&[Field { categories, ..typed("kind", "uint32") }]);
        }
        "hoard-dimensions-schema" => {
            host::set_schema(&[Field { shape: vec![1; 200_000], ..typed("cube", "uint8") }]);
        }
        "hoard-elements-schema" => {
            host::set_schema(&[Field { shape: vec![1 << 20; 3], ..typed("cube", "uint8") }]);
        }
        "hoard-copies-schema" => {
            let fields: Vec<_> = (0..COPIES).map(|number| field(format!("f{number}"))).collect();
            host::set_schema(&fields);
        }
        "share-schema" => {
            let fields: Vec<_> =
                (0..SHARING_FIELDS).map(|number| field(format!("f{number}"))).collect();
            host::set_schema(&fields);
        }
        "list-spin-schema" => {
            host::set_schema(&[Field { shape: vec![0], ..typed("words", "utf8") }])
        }
        _ => {}
    }
}

/// With a chunk.
pub fn at_decode(misdeed: &str, chunk: &[u8]) -> Option<Result<Progress, DecodeError>> {
    let size = chunk.len() as u32;
    let whole = progress(0, WHOLE as u32);
    match misdeed {
        "hoard-spans" | "hoard-errors" if chunk.len() < WHOLE => return Some(Ok(whole)),
        "hoard-spans" => loop {
            emit(&vec![span(0, 0); 1 << 16], &[], &vec![0; 1 << 16]);
        },
        "hoard-errors" => {
            let message = "x".repeat(1000);
            (0..size).for_each(|at| assert!(host::bad(at, at + 1, &message), "enough"));
        }
        "hoard-log" => host::log(Level::Warn, &"x".repeat(LARGE)),
        "hoard-message" => return Some(Err(error("x".repeat(LARGE)))),
        "hoard-block" if chunk.len() < 2 << 20 => return Some(Ok(progress(0, 2 << 20))),
        "hoard-block" => {
            return host::decompress("snappy", span(0, size), 0, 1)
                .err()
                .map(|why| Err(error(why)));
        }
        // A payload that is larger than its chunk: from now on, what is emitted is copied.
        "hoard-copies-schema" if chunk[0] == b'0' => {
            host::emit(1, &[IN_PAYLOAD | span(0, 1); COPIES], &[0; 64], &[0]);
            return Some(Ok(progress(1, WHOLE as u32 - 1)));
        }
        "hoard-copies-schema" if chunk.len() < WHOLE - 1 => {
            return Some(Ok(progress(0, WHOLE as u32 - 1)));
        }
        "hoard-copies-schema" => host::emit(1, &[span(0, size); COPIES], &[], &[0]),
        // Each record is many times as large as what is passed.
        "share-schema" => {
            let spans =
                vec![IN_PAYLOAD | span(0, SHARED_BYTES as u32); SHARING_FIELDS * chunk.len()];
            let starts: Vec<_> = (0..size).collect();
            host::emit(size, &spans, &[7; SHARED_BYTES], &starts);
        }
        "crc-spin" => check_for_ever(host::check_crc32c, 0x82f6_3b78),
        "crc32-spin" => check_for_ever(host::check_crc32, 0xedb8_8320),
        "list-spin-schema" => lists_for_ever(),
        _ => return None,
    }
    Some(Ok(progress(size, 1)))
}

fn error(message: String) -> DecodeError {
    DecodeError { offset: 0, message, resume: Resume::None }
}

/// Bytes of the payload that the spans of these misdeeds share.
const SHARED: usize = 900_000;

/// Has the same bytes checked a million times in one call.
fn check_for_ever(check: impl Fn(&[u64], &[u32]) -> Option<u32>, polynomial: u32) {
    emit(&[IN_PAYLOAD], &[0; SHARED], &[0]);
    let next_bit = |crc: u32, _| crc >> 1 ^ if crc & 1 == 1 { polynomial } else { 0 };
    let crc = !(0..8 * SHARED).fold(u32::MAX, next_bit);
    const TIMES: usize = 1_000_000;
    assert_eq!(check(&vec![IN_PAYLOAD | span(0, SHARED as u32); TIMES], &vec![crc; TIMES]), None);
}

/// Emits the same long list thousands of times: the host looks at each of its offsets each time.
fn lists_for_ever() {
    let offsets = vec![(SHARED as u32).to_le_bytes(); SHARED / 4].concat();
    emit(&[IN_PAYLOAD | span(0, SHARED as u32)], &offsets, &[0]);
    emit(&vec![IN_PAYLOAD | span(0, SHARED as u32); 10_000], &[], &[0; 10_000]);
}
