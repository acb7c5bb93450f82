//! A sound decoder of framed records, and the subtle mistakes that its author could make.
//!
//! A record is `a5 · u16 length · payload · sum of the payload's bytes`. Its field is the payload.

use std::cell::Cell;

use pipemill_plugin::bindings::exports::pipemill::decoder0_1_0::decoder::{
    DecodeError, Progress, Resume, Resynced,
};
use pipemill_plugin::bindings::pipemill::decoder0_1_0::host;

use crate::plugin::{emit, progress, span};

const MAGIC: u8 = 0xa5;
const IN_PAYLOAD: u64 = 1 << 63;
/// Bytes before and after the payload.
const HEADER: usize = 3;
const FOOTER: usize = 1;

/// Steps of a set-up that takes long: more than 16 ms of any processor.
const SET_UP_STEPS: u64 = 150_000_000;

/// A stream of framed records.
pub struct Framed {
    mistake: Mistake,
    max_record: u64,
    /// Whether the decoder was called.
    called: Cell<bool>,
    /// Number of records so far.
    pub records: Cell<u64>,
    is_damaged: Cell<bool>,
}

/// The mistake that a decoder makes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mistake {
    None,
    /// At the end, the bytes of a record that is not whole are consumed.
    SwallowTail,
    /// The same, if not even the header is whole.
    SwallowHeader,
    /// A record that is not whole in the chunk is an error.
    ErrorAtCut,
    /// A record that is not whole in the chunk is emitted as far as it is there.
    PartAtCut,
    /// After a wrong sum, decoding goes on this many bytes after the end of the record.
    ResumeOff(i64),
    /// A search ends one byte after the start of a record.
    FoundLate,
    /// A search finds nothing.
    FindsNothing,
    /// A search begins too far away.
    SearchFar,
    /// A record begins after its header.
    StartLate,
    /// A record is made, and begins where it ends.
    StartAtEnd,
    /// A record begins at the last byte of the one before it.
    StartEarly,
    /// The record after a wrong sum is emitted before the error is returned.
    EmitBeyond,
    /// The record with the wrong sum is emitted.
    EmitBad,
    /// One byte too much is asked for.
    NeedMore,
    /// It is never said how many bytes are needed.
    NeedNone,
    /// Bytes before a magic are skipped.
    SkipGarbage,
    /// This byte is skipped before a magic.
    SkipByte(u8),
    /// Zeros are skipped after the last record.
    SkipZerosAtEnd,
    /// Zeros up to a multiple of 16 bytes are skipped before a magic.
    SkipZeroWords,
    /// The error of a wrong sum begins at the payload.
    ErrorAtPayload,
    /// The error of a wrong magic begins after it.
    ErrorAfterMagic,
    /// The set-up takes long.
    SlowSetUp,
    /// Offsets in a chunk are kept in 16 bits.
    ShortOffsets,
    /// At the end comes a record with the number of the others, which is no mistake.
    CountAtEnd,
    /// A record is compared with `max_record` when it is whole.
    TooLargeLate,
    /// All bytes of the chunk are compared with it.
    TooLargeBySplit,
    /// It is not compared.
    NoMaxRecord,
    /// The metadata depend on the split.
    MetadataOfChunk,
    /// Decoding can begin again with nothing shown before, which is right.
    Restart,
    /// It is said to begin again after the first bytes of a record.
    RestartInRecord,
    /// It is said to begin again at any place, but records are numbered from the start.
    RestartWithState,
    /// Records are numbered from the start, and the number is saved: `saves.rs`.
    Numbers,
    /// The same, with the payload after the number.
    NumbersAndPayload,
}

const MISTAKES: [(&str, Mistake); 45] = [
    ("framed", Mistake::None),
    ("framed-swallow-tail", Mistake::SwallowTail),
    ("framed-swallow-header", Mistake::SwallowHeader),
    ("framed-error-at-cut", Mistake::ErrorAtCut),
    ("framed-part-at-cut", Mistake::PartAtCut),
    ("framed-resume-late", Mistake::ResumeOff(1)),
    ("framed-resume-early", Mistake::ResumeOff(-1)),
    ("framed-resume-far", Mistake::ResumeOff(200)),
    ("framed-found-late", Mistake::FoundLate),
    ("framed-finds-nothing", Mistake::FindsNothing),
    ("framed-search-far", Mistake::SearchFar),
    ("framed-start-late", Mistake::StartLate),
    ("framed-start-at-end", Mistake::StartAtEnd),
    ("framed-start-early", Mistake::StartEarly),
    ("framed-emit-beyond", Mistake::EmitBeyond),
    ("framed-emit-bad", Mistake::EmitBad),
    ("framed-need-more", Mistake::NeedMore),
    ("framed-need-none", Mistake::NeedNone),
    ("framed-skip-garbage", Mistake::SkipGarbage),
    ("framed-skip-zeros", Mistake::SkipByte(0)),
    ("framed-skip-5a", Mistake::SkipByte(0x5a)),
    ("framed-skip-zeros-at-end", Mistake::SkipZerosAtEnd),
    ("framed-skip-zero-words", Mistake::SkipZeroWords),
    ("framed-error-at-payload", Mistake::ErrorAtPayload),
    ("framed-error-after-magic", Mistake::ErrorAfterMagic),
    ("framed-slow-set-up", Mistake::SlowSetUp),
    ("framed-short-offsets", Mistake::ShortOffsets),
    (COUNTS_AT_END, Mistake::CountAtEnd),
    ("framed-too-large-late", Mistake::TooLargeLate),
    ("framed-too-large-by-split", Mistake::TooLargeBySplit),
    ("framed-no-max-record", Mistake::NoMaxRecord),
    ("framed-metadata-of-chunk", Mistake::MetadataOfChunk),
    ("framed-restart", Mistake::Restart),
    ("framed-restart-in-record", Mistake::RestartInRecord),
    ("framed-restart-with-state", Mistake::RestartWithState),
    ("framed-carry", Mistake::Numbers),
    ("framed-carry-long", Mistake::NumbersAndPayload),
    ("framed-carry-none", Mistake::Numbers),
    ("framed-carry-large", Mistake::Numbers),
    ("framed-carry-huge", Mistake::Numbers),
    ("framed-carry-panic", Mistake::Numbers),
    ("framed-carry-spin", Mistake::Numbers),
    ("framed-carry-emits", Mistake::Numbers),
    ("framed-carry-lies", Mistake::Numbers),
    ("framed-carry-counts", Mistake::Numbers),
];

/// It has something to do where a chunk is empty, too.
pub const COUNTS_AT_END: &str = "framed-count-at-end";

fn mistake(name: &str) -> Option<Mistake> {
    MISTAKES.iter().find(|(known, _)| *known == name).map(|(_, mistake)| *mistake)
}

/// Whether this is one of these mistakes, or none of them.
pub fn knows(misdeed: &str) -> bool {
    mistake(misdeed).is_some()
}

impl Framed {
    pub fn new(misdeed: &str, max_record: u64) -> Self {
        let mistake = mistake(misdeed).unwrap_or(Mistake::None);
        if mistake == Mistake::SlowSetUp {
            (0..SET_UP_STEPS).for_each(|step| {
                std::hint::black_box(step);
            });
        }
        Self {
            mistake,
            max_record,
            called: Cell::new(false),
            records: Cell::new(0),
            is_damaged: Cell::new(false),
        }
    }
}

/// Emits the records that lie whole in the chunk.
pub fn decode(stream: &Framed, chunk: &[u8], end: bool) -> Result<Progress, DecodeError> {
    let decoded = decode_records(stream, chunk, end);
    stream.is_damaged.set(stream.is_damaged.get() || decoded.is_err());
    decoded
}

fn decode_records(stream: &Framed, chunk: &[u8], end: bool) -> Result<Progress, DecodeError> {
    let is = |mistake| stream.mistake == mistake;
    if !stream.called.replace(true) {
        let first = if is(Mistake::MetadataOfChunk) { chunk.len().min(5) } else { 0 };
        host::set_metadata("first chunk", &first.to_string());
        match stream.mistake {
            Mistake::Restart | Mistake::RestartWithState => {
                host::set_metadata("pipemill.restart", "0");
            }
            Mistake::RestartInRecord => host::set_metadata("pipemill.restart", "3"),
            _ => {}
        }
    }
    let (mut at, mut made) = (0, 0);
    loop {
        let rest = &chunk[at..];
        let wants = |size: usize| match stream.mistake {
            Mistake::NeedMore => progress(at as u32, size as u32 + 1),
            Mistake::NeedNone => progress(at as u32, 0),
            _ => progress(at as u32, size as u32),
        };
        let consumed = || Ok(progress(chunk.len() as u32, 0));
        let [first, ..] = rest else {
            // After an error in the last bytes there is no further call.
            if end && is(Mistake::CountAtEnd) && !stream.is_damaged.get() {
                emit_made(made, &[stream.records.get() as u8], at);
            }
            return Ok(wants(HEADER));
        };
        if *first != MAGIC {
            if is(Mistake::ErrorAfterMagic) && rest.len() < HEADER {
                return Ok(wants(HEADER));
            }
            match skipped(stream, rest, end) {
                Skipped::Bytes(count) => {
                    at += count;
                    continue;
                }
                Skipped::NotKnown => return Ok(wants(rest.len() + 1)),
                Skipped::None => {}
            }
            let message = format!("expected the magic a5, found {first:02x}");
            let far = if is(Mistake::SearchFar) { 120 } else { 0 };
            let offset = at + usize::from(is(Mistake::ErrorAfterMagic));
            return error(offset, message, Resume::Scan(offset as u64 + 1 + far));
        }
        let [_, low, high, ..] = rest else {
            if end && (is(Mistake::SwallowTail) || is(Mistake::SwallowHeader)) {
                return consumed();
            }
            return Ok(wants(HEADER));
        };
        let length = usize::from(u16::from_le_bytes([*low, *high]));
        let size = HEADER + length + FOOTER;
        let compared = match stream.mistake {
            Mistake::NoMaxRecord => 0,
            Mistake::TooLargeLate if rest.len() < size => 0,
            Mistake::TooLargeBySplit => rest.len() - HEADER,
            _ => length,
        };
        if compared as u64 > stream.max_record {
            let message = format!("a record of {length} bytes is larger than max_record");
            return error(at, message, Resume::At((at + size) as u64));
        }
        if rest.len() < size {
            match stream.mistake {
                Mistake::SwallowTail if end => return consumed(),
                Mistake::ErrorAtCut => {
                    return error(at, "a record is not whole".to_owned(), Resume::None);
                }
                Mistake::PartAtCut if !end && rest.len() > HEADER => {
                    let payload = span((at + HEADER) as u32, (rest.len() - HEADER) as u32);
                    emit(&[payload], &[], &[at as u32]);
                    return consumed();
                }
                _ => return Ok(wants(size)),
            }
        }
        let payload = &rest[HEADER..HEADER + length];
        let sum = payload.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte));
        if sum != rest[size - FOOTER] {
            return wrong_sum(stream, chunk, at, size);
        }
        let start = match stream.mistake {
            Mistake::StartLate => at + HEADER,
            Mistake::StartEarly => at.saturating_sub(1),
            _ => at,
        };
        stream.records.set(stream.records.get().wrapping_add(1));
        if is(Mistake::RestartWithState) {
            made += emit_made(made, &[stream.records.get() as u8], at);
        } else if is(Mistake::Numbers) {
            made += emit_made(made, &stream.records.get().to_le_bytes(), at);
        } else if is(Mistake::NumbersAndPayload) {
            let number = stream.records.get().to_le_bytes();
            made += emit_made(made, &[&number, payload].concat(), at);
        } else if is(Mistake::StartAtEnd) {
            made += emit_made(made, payload, at + size);
        } else if is(Mistake::ShortOffsets) && at + HEADER > usize::from(u16::MAX) {
            emit(&[span((at + HEADER) as u32, 0)], &[], &[start as u32]);
        } else {
            emit(&[span((at + HEADER) as u32, length as u32)], &[], &[start as u32]);
        }
        at += size;
    }
}

/// Bytes that are skipped before a magic.
enum Skipped {
    None,
    Bytes(usize),
    /// More bytes are needed to know.
    NotKnown,
}

/// What is skipped of bytes that don't begin with a magic.
fn skipped(stream: &Framed, rest: &[u8], end: bool) -> Skipped {
    let zeros = rest.iter().take_while(|byte| **byte == 0).count();
    let is_open = zeros == rest.len() && !end;
    match stream.mistake {
        Mistake::SkipGarbage => Skipped::Bytes(1),
        Mistake::SkipByte(byte) if rest[0] == byte => Skipped::Bytes(1),
        Mistake::SkipZerosAtEnd | Mistake::SkipZeroWords if zeros > 0 && is_open => {
            Skipped::NotKnown
        }
        Mistake::SkipZerosAtEnd if zeros == rest.len() => Skipped::Bytes(zeros),
        Mistake::SkipZeroWords if zeros >= 16 => Skipped::Bytes(zeros - zeros % 16),
        _ => Skipped::None,
    }
}

/// Emits a record that is made, after `made` bytes of payload. Returns its length.
fn emit_made(made: usize, payload: &[u8], start: usize) -> usize {
    let value = IN_PAYLOAD | span(made as u32, payload.len() as u32);
    emit(&[value], payload, &[start as u32]);
    payload.len()
}

/// The record of `size` bytes at `at` has a wrong sum.
fn wrong_sum(
    stream: &Framed,
    chunk: &[u8],
    at: usize,
    size: usize,
) -> Result<Progress, DecodeError> {
    let next = at + size;
    let off = match stream.mistake {
        Mistake::EmitBeyond if next < chunk.len() => {
            emit_made(0, b"bad", next);
            0
        }
        Mistake::EmitBad => {
            emit_made(0, b"bad", at);
            0
        }
        Mistake::ResumeOff(off) => off,
        _ => 0,
    };
    let message = format!("expected another sum than {:02x}", chunk[next - FOOTER]);
    let offset = if stream.mistake == Mistake::ErrorAtPayload { at + HEADER } else { at };
    error(offset, message, Resume::At(next.saturating_add_signed(off as isize) as u64))
}

/// Searches for a record: its magic.
pub fn resync(stream: &Framed, chunk: &[u8], _end: bool) -> Resynced {
    let magics = chunk.iter().enumerate().filter(|(_, byte)| **byte == MAGIC);
    let mut places = magics.map(|(place, _)| place);
    let found = match stream.mistake {
        Mistake::FindsNothing => None,
        Mistake::FoundLate => places.next().map(|place| (place + 1).min(chunk.len())),
        _ => places.next(),
    };
    let consumed = found.unwrap_or(chunk.len()) as u32;
    Resynced { consumed, found: found.is_some() }
}

fn error(offset: usize, message: String, resume: Resume) -> Result<Progress, DecodeError> {
    Err(DecodeError { offset: offset as u32, message, resume })
}
