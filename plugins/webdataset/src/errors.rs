//! What can be wrong with an archive or a sample, in words, and where decoding can go on.

use pipemill_plugin::DecodeError;

use crate::header::{BLOCK, Fault};
use crate::member::Wrong;
use crate::sample::{Sample, Unfit};

/// At `start` stands what is no member, or what can't be given; or, with a key, this follows the first
/// members of the sample there.
#[cold]
pub(crate) fn damaged(start: usize, key: Option<&[u8]>, wrong: Wrong) -> DecodeError {
    let (at, what) = match wrong {
        Wrong::Header { at, fault } => (at, header(fault)),
        Wrong::TooLong { at, size } => (
            at,
            format!(
                "expected no more than 256 KiB of headers for a member, found {size} bytes or more; \
                 the archive is damaged"
            ),
        ),
        Wrong::Pax { at } => (
            at,
            "expected records of pax, \"length key=value\" each, found something else; the archive \
             is damaged"
                .to_owned(),
        ),
        Wrong::Global { at, what } => (
            at,
            format!(
                "expected nothing of {what} in records of pax that are for all members, which is not \
                 supported; write the archive without it"
            ),
        ),
        Wrong::LoneZeros { at } => (
            at,
            "expected a tar header, or two blocks of zeros at the end of an archive, found one; the \
             archive is damaged"
                .to_owned(),
        ),
        Wrong::Sparse { at } => (
            at,
            "found a file with holes, whose data does not stand in one piece; write the archive \
             without --sparse"
                .to_owned(),
        ),
    };
    let place = at - start;
    let message = match key {
        Some(key) => format!("sample `{}`, at +{place}: {what}", key.escape_ascii()),
        None => format!("at +{place}: {what}"),
    };
    DecodeError::searchable(start, message, (at + BLOCK) as u64)
}

fn header(fault: Fault) -> String {
    match fault {
        Fault::Checksum { found, stored } => {
            let stored = match stored {
                Some(stored) => format!("says {stored}"),
                None => "says no number".to_owned(),
            };
            format!(
                "expected a tar header, found a block whose bytes add up to {found} where it {stored}; \
                 this is not tar, or it is damaged here or before"
            )
        }
        Fault::Size => {
            "expected a tar header, found one without a size; the archive is damaged here \
                        or before"
                .to_owned()
        }
    }
}

/// The sample at `start` has `size` bytes or more, all that stands between its members included.
/// Behind the headers of the last, `data`, the search can pass over it.
#[cold]
pub(crate) fn too_large(start: usize, key: &[u8], size: u64, max: u64, data: usize) -> DecodeError {
    let message = format!(
        "sample `{}` of {size} bytes or more is larger than max_record ({max} bytes); raise max_record \
         if samples may be that large",
        key.escape_ascii()
    );
    DecodeError::searchable(start, message, data as u64)
}

/// The sample is whole, but can't be a record. The next thing stands at `next`.
#[cold]
pub(crate) fn unfit(sample: &Sample, chunk: &[u8], next: usize, unfit: Unfit) -> DecodeError {
    let what = match unfit {
        Unfit::Twice(extension) => format!(
            "the extension `{}` comes twice; each may come once in a sample",
            extension.escape_ascii()
        ),
        Unfit::Missing(field) => {
            let has: Vec<_> = sample
                .extensions(chunk)
                .take(20)
                .map(|one| one.escape_ascii().to_string())
                .collect();
            format!(
                "expected a member `{}`, found only: {}; mark it with `?` if samples may lack it",
                field.extensions.join(";"),
                has.join(", ")
            )
        }
        Unfit::Key => "expected a key in UTF-8; set key = false to do without it".to_owned(),
        Unfit::Text(field, at) => format!(
            "member `{}`: expected UTF-8, found something else at byte {at} of it; set fields to take \
             it as bytes",
            field.extensions.join(";")
        ),
    };
    let message = format!("sample `{}`: {what}", sample.key.escape_ascii());
    DecodeError::skippable(sample.start, message, next as u64)
}
