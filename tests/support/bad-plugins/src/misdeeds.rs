//! The misdeeds, by name. None that is due at another time: the stream is decoded as it should be.

use std::hint::black_box;

use pipemill_plugin::bindings::exports::pipemill::decoder0_1_0::decoder::{
    DecodeError, Progress, Resume, Resynced,
};
use pipemill_plugin::bindings::pipemill::decoder0_1_0::host;
use pipemill_plugin::bindings::pipemill::decoder0_1_0::types::{Field, Level};
use pipemill_plugin::bindings::pipemill::decoder0_3_0::blocks as host_blocks;

use crate::plugin::{emit, every_byte, field, nullable, progress, span, typed};
use crate::{blocks, columns, hoards, mix};

/// Bit of a span that says: in the payload.
const IN_PAYLOAD: u64 = 1 << 63;

/// Misdeeds before the first chunk; those with schemas, and those that keep the stream from starting.
pub fn at_open(misdeed: &str) -> Result<(), String> {
    match misdeed {
        "refuse" => return Err("no,\n\x1b[31mI won't".to_owned()),
        "trap-at-open" => panic!("I fell over the doorstep"),
        "spin-at-open" => spin(),
        "emit-at-open" => emit(&[span(0, 1)], &[], &[0]),
        "twice-schema" => (0..2).for_each(|_| host::set_schema(&[field("byte")])),
        "empty-schema" => host::set_schema(&[]),
        "same-names-schema" => host::set_schema(&[field("a"), field("b"), field("a")]),
        "huge-schema" => {
            host::set_schema(&(0..70_000).map(|n| field(format!("f{n}"))).collect::<Vec<_>>())
        }
        "wordy-schema" => host::set_schema(&[field("x".repeat(100_000))]),
        "pair-schema" => host::set_schema(&[field("a"), field("b")]),
        "mix-schema" => host::set_schema(&["a", "b", "c"].map(nullable)),
        "blocks-schema" => {
            host::set_metadata("format", "old");
            host::set_metadata("format", "items");
            host::set_schema(&blocks::schema());
        }
        "much-metadata" => {
            (0..70).for_each(|n| host::set_metadata(&n.to_string(), &"x".repeat(1000)))
        }
        "unknown-type-schema" => host::set_schema(&[typed("number", "int\u{1b}[2J128")]),
        "two-dimensional-list-schema" => {
            host::set_schema(&[Field { shape: vec![0, 2], ..typed("words", "utf8") }]);
        }
        "float-categories-schema" => {
            let categories = vec!["a".to_owned()];
            host::set_schema(&[Field { categories, ..typed("kind", "float32") }]);
        }
        "wrong-logical-schema" => {
            let logical = "timestamp[us]".to_owned();
            host::set_schema(&[Field { logical, ..typed("time", "int32") }]);
        }
        "reserved-metadata-schema" => {
            let metadata = vec![("pipemill.unit".to_owned(), "m".to_owned())];
            host::set_schema(&[Field { metadata, ..typed("way", "int32") }]);
        }
        "list-schema" => host::set_schema(&[Field { shape: vec![0], ..typed("words", "utf8") }]),
        "read-at-open" => drop(host_blocks::read("zstd", span(0, 1), 0, 1)),
        "decompress-at-open" => drop(host::decompress("zstd", span(0, 1), 0, 1)),
        "bad-at-open" => drop(host::bad(0, 1, "bad")),
        "short-number-schema" => host::set_schema(&[typed("number", "int32")]),
        "no-text-schema" => host::set_schema(&[typed("text", "utf8")]),
        "no-boolean-schema" => host::set_schema(&[typed("flag", "boolean")]),
        _ if misdeed.starts_with("columns-") => host::set_schema(&columns::schema(misdeed)),
        _ => hoards::at_open(misdeed),
    }
    Ok(())
}

/// Misdeeds with a chunk, which is not empty.
#[inline(never)] // Messages name it.
pub fn at_decode(misdeed: &str, chunk: &[u8], end: bool) -> Option<Result<Progress, DecodeError>> {
    let size = chunk.len() as u32;
    let all = progress(size, 1);
    match misdeed {
        "spin" => spin(),
        "alloc" => allocate(),
        "panic" => panic!("{}\nand on the next line", "I was told to panic \x1b[2J"),
        "deep-recursion" => {
            black_box(recurse(size as u64));
        }
        // No misdeed: it only takes its time.
        "work" => {
            for number in 0..1u64 << 28 {
                black_box(number);
            }
            return None;
        }
        "log-flood" => {
            (0..500)
                .for_each(|n| host::log(Level::Warn, &format!("flood {n} {}", "x".repeat(3_000))));
            return None;
        }
        "large-record" => emit(&[IN_PAYLOAD | span(0, 100_000)], &[7; 100_000], &[0]),
        "no-schema" | "pair-schema" => emit(&[span(0, 1)], &[], &[0]),
        "wordy-schema" | "short-number-schema" | "no-text-schema" | "no-boolean-schema" => {
            return None;
        }
        // Both give other records when the input comes in other pieces, or less of it.
        "record-a-chunk" => emit(&[span(0, size)], &[], &[0]),
        "invent-at-end" => {
            let whole = size / 4 * 4;
            for at in (0..whole).step_by(4) {
                emit(&[span(at, 4)], &[], &[at]);
            }
            if end && whole < size {
                emit(&[IN_PAYLOAD | span(0, 4), IN_PAYLOAD | span(0, 4)], b"....", &[whole, whole]);
                return Some(Ok(all));
            }
            return Some(Ok(progress(whole, 4)));
        }
        // Right, but for bytes that are first seen together with the end.
        "forget-at-end" => {
            let whole = size / 4 * 4;
            let kept = if end { whole.saturating_sub(4) } else { whole };
            (0..kept).step_by(4).for_each(|at| emit(&[span(at, 4)], &[], &[at]));
            return Some(Ok(progress(whole, 4)));
        }
        "fall-over-percent" if chunk.contains(&b'%') => panic!("100 %"),
        "spin-at-percent" if chunk.contains(&b'%') => spin(),
        "lie-about-percent" if chunk.contains(&b'%') => emit(&[span(size, 1)], &[], &[0]),
        "mix-schema" => return Some(Ok(mix::records(chunk))),
        "blocks-schema" => return Some(blocks::records(chunk)),
        "list-schema" => emit(&[IN_PAYLOAD | span(0, 9)], b"\x08\0\0\0\x0b\0\0\0x", &[0]),
        "absent" => emit(&[span(0, 1), u64::MAX], &[], &[0, 1]),
        "rest-too-far" if size == 16 => {
            emit(&[span(0, 1)], &[], &[0]);
            return Some(Ok(Progress { more: true, ..progress(1, 0) }));
        }
        "rest-too-far" => return Some(Ok(progress(size + 1, 1))),
        "more-of-nothing" => return Some(Ok(Progress { more: true, ..progress(0, 0) })),
        "more-for-ever" => {
            emit(&[IN_PAYLOAD | span(0, 1)], b"x", &[0]);
            return Some(Ok(Progress { more: true, ..progress(0, 0) }));
        }
        "late-metadata" => {
            emit(&[span(0, 1)], &[], &[0]);
            host::set_metadata("key", "value");
        }
        "restart-no-number" => host::set_metadata("pipemill.restart", "4 KiB"),
        "restart-beyond" => {
            host::set_metadata("pipemill.restart", "17");
            return None;
        }
        "unknown-host-metadata" => host::set_metadata("pipemill.resume", "0"),
        "bad-outside" => drop(host::bad(size - 1, size + 1, "bad")),
        "bad-of-nothing" => drop(host::bad(1, 1, "bad")),
        "bad-inside-record" => {
            emit(&[span(0, 3)], &[], &[0]);
            host::bad(2, 4, "bad");
        }
        "bad-and-on" => {
            host::bad(0, 1, "bad");
            emit(&[span(1, 1)], &[], &[1]);
        }
        "bad-and-done" => drop(host::bad(0, 1, "bad")),
        "unknown-codec" => drop(host::decompress("rar\u{9b}", span(0, 1), 0, 1)),
        "read-outside" => drop(host_blocks::read("zstd", span(size, 1), 0, 1)),
        "read-pieces-outside" => {
            drop(host_blocks::read_pieces("zstd", &[span(0, 1), span(size, 1)], 0, 1));
        }
        "read-pieces-mixed" => {
            drop(host_blocks::read_pieces("zstd", &[span(2, 2), span(0, 3)], 0, 1));
        }
        "decompress-outside" => drop(host::decompress("zstd", span(size, 1), 0, 1)),
        "inflate-a-bomb" => {
            let mut skip = 0;
            while let Ok(part) = host::decompress("deflate", span(0, size), skip, u32::MAX) {
                assert!(!part.bytes.is_empty() || part.last, "the payload is full");
                skip += part.bytes.len() as u64;
            }
        }
        "skip-bombs-for-ever" => loop {
            drop(host::decompress("deflate", span(0, size), u64::MAX / 2, 1));
        },
        "span-outside" => emit(&[span(0, 1), span(size - 1, 2)], &[], &[0, 1]),
        "span-far-outside" => emit(&[span(0x7fff_ffff, 0xffff_ffff)], &[], &[0]),
        // Fields of two records, one of which lacks one.
        "too-few-spans" => host::emit(2, &[span(0, 1)], &[], &[0, 1]),
        "start-too-late" => emit(&[span(0, 1), span(1, 1)], &[], &[0, 2]),
        "starts-go-back" => emit(&[span(2, 1), span(3, 1)], &[], &[2, 1]),
        "error-inside-record" => {
            emit(&[span(0, 3)], &[], &[0]);
            return Some(error(1, "bad, but emitted", Resume::At(3)));
        }
        "refuse-input" => {
            emit(&[span(0, 1)], &[], &[0]);
            return Some(error(1, "a codec that I don't know", Resume::Refused));
        }
        "span-overlap" => emit(&[span(0, 3), span(2, 2)], &[], &[0, 2]),
        "payload-outside" => emit(&[IN_PAYLOAD | span(1, 3)], b"abc", &[0]),
        "stay" => return Some(Ok(progress(0, 0))),
        "bad-need" => return Some(Ok(progress(0, 1))),
        "endless-need" => return Some(Ok(progress(0, u32::MAX))),
        "consume-too-much" => return Some(Ok(progress(size + 1, 0))),
        "consume-too-little" => {
            every_byte(chunk);
            return Some(Ok(progress(size - 1, 0)));
        }
        "emit-and-stay" => {
            emit(&[IN_PAYLOAD | span(0, 1)], b"x", &[0]);
            return Some(Ok(progress(0, 0)));
        }
        "emit-forever" => loop {
            emit(&[IN_PAYLOAD | span(0, 60_000)], &[7; 60_000], &[0]);
        },
        "emit-nothings" => loop {
            emit(&[IN_PAYLOAD; 1000], &[], &[0; 1000]);
        },
        "emit-then-trap" => {
            emit(&[span(0, 1), span(1, 1), span(2, 1)], &[], &[0, 1, 2]);
            panic!("three were enough");
        }
        "crc-outside" => drop(host::check_crc32c(&[span(size, 1)], &[0])),
        "crc-uneven" => drop(host::check_crc32c(&[span(0, 1)], &[0, 0])),
        "error-behind-chunk" => return Some(error(size + 1, "far out", Resume::None)),
        "error-goes-back" => return Some(error(size - 1, "again", Resume::At(0))),
        "control-characters" => {
            return Some(error(0, "red \x1b[31malert\x07\r\nsecond\u{9b}2J line\0", Resume::None));
        }
        "long-message" => return Some(error(0, &"la".repeat(1 << 20), Resume::None)),
        "resync-too-much" | "resync-spins" | "resync-stays" => {
            return Some(error(0, "lost", Resume::Scan(1)));
        }
        _ if misdeed.starts_with("columns-") => return columns::at_decode(misdeed, chunk).map(Ok),
        _ => return hoards::at_decode(misdeed, chunk),
    }
    Some(Ok(all))
}

/// Misdeeds while looking for the next record.
pub fn at_resync(misdeed: &str, chunk: &[u8]) -> Resynced {
    match misdeed {
        "resync-spins" => spin(),
        "resync-stays" => {
            host::log(Level::Warn, "searches");
            Resynced { consumed: 0, found: false }
        }
        _ => Resynced { consumed: chunk.len() as u32 + 1, found: true },
    }
}

fn error(offset: u32, message: &str, resume: Resume) -> Result<Progress, DecodeError> {
    Err(DecodeError { offset, message: message.to_owned(), resume })
}

fn spin() -> ! {
    let mut turns = 0u64;
    loop {
        turns = black_box(turns.wrapping_add(1));
    }
}

fn allocate() -> ! {
    let mut hoard = Vec::new();
    loop {
        // Grown, and not touched: that would take time.
        hoard.push(black_box(Vec::<u8>::with_capacity(1 << 20)));
    }
}

#[expect(unconditional_recursion, reason = "that is the misdeed")]
fn recurse(depth: u64) -> u64 {
    black_box(recurse(black_box(depth + 1)) + 1)
}
