//! The errors of an archive or a sample: their messages, and where decoding can continue.

use pipemill_plugin::DecodeError;

use crate::header::{BLOCK, HeaderError};
use crate::member::{MAX_EXTRA_HEADERS, MemberError};
use crate::sample::{Sample, SampleError};
use crate::wanted::Form;

/// The archive is damaged or not supported: at `start`, or after the first members of the sample
/// with this key, which started there.
#[cold]
pub(crate) fn damaged(start: usize, key: Option<&[u8]>, error: MemberError) -> DecodeError {
    let (at, what) = match error {
        MemberError::Header { at, error } => (at, header(error)),
        MemberError::TooLong { at, size } => (
            at,
            format!(
                "expected no more than {} KiB of headers for a member, found {size} bytes or more; \
                 the archive is damaged",
                MAX_EXTRA_HEADERS >> 10
            ),
        ),
        MemberError::Pax { at } => (
            at,
            "expected records of pax, \"length key=value\" each, found something else; the archive \
             is damaged"
                .to_owned(),
        ),
        MemberError::Global { at, key } => (
            at,
            format!(
                "expected nothing of {key} in records of pax that are for all members, which is not \
                 supported; write the archive without it"
            ),
        ),
        MemberError::LoneZeros { at } => (
            at,
            "expected a tar header, or two blocks of zeros at the end of an archive, found one; the \
             archive is damaged"
                .to_owned(),
        ),
        MemberError::Sparse { at } => (
            at,
            "found a file with holes, whose data does not stand in one piece; write the archive \
             without --sparse"
                .to_owned(),
        ),
    };
    let offset = at - start;
    let message = match key {
        Some(key) => format!("sample `{}`, at +{offset}: {what}", key.escape_ascii()),
        None => format!("at +{offset}: {what}"),
    };
    DecodeError::searchable(start, message, (at + BLOCK) as u64)
}

fn header(error: HeaderError) -> String {
    match error {
        HeaderError::Checksum { found, stored } => {
            let stored = match stored {
                Some(stored) => format!("says {stored}"),
                None => "says no number".to_owned(),
            };
            format!(
                "expected a tar header, found a block whose bytes add up to {found} where it {stored}; \
                 this is not tar, or it is damaged here or before"
            )
        }
        HeaderError::Size => {
            "expected a tar header, found one without a size; the archive is damaged here \
                        or before"
                .to_owned()
        }
    }
}

/// The sample at `start` has at least `size` bytes, with its headers and the entries between its
/// members. The search for the next sample starts at `data`, after the headers of the last member
/// that was read.
#[cold]
pub(crate) fn too_large(start: usize, key: &[u8], size: u64, max: u64, data: usize) -> DecodeError {
    let message = format!(
        "sample `{}` of {size} bytes or more is larger than max_record ({max} bytes); raise max_record \
         if samples may be that large",
        key.escape_ascii()
    );
    DecodeError::searchable(start, message, data as u64)
}

/// The sample is complete, but can't be a record. The next member starts at `next`. `comes_again`:
/// another sample of the archive had the same key.
#[cold]
pub(crate) fn invalid_sample(
    sample: &Sample,
    chunk: &[u8],
    next: usize,
    error: SampleError,
    comes_again: bool,
) -> DecodeError {
    const MARK: &str = "mark it with `?` if samples may lack it; if the member stands in another \
                        place of the archive, sort the archive by name";
    const SORT: &str = "a sample with this key came before, so its members are not next to each \
                        other: sort the archive by name";
    let what = match error {
        SampleError::Twice(extension) => format!(
            "the extension `{}` comes twice; each may come once in a sample",
            extension.escape_ascii()
        ),
        SampleError::Missing(field) => {
            let has: Vec<_> = sample
                .extensions(chunk)
                .take(20)
                .map(|one| one.escape_ascii().to_string())
                .collect();
            format!(
                "expected a member `{}`, found only: {}; {}",
                field.extensions.join(";"),
                has.join(", "),
                if comes_again { SORT } else { MARK }
            )
        }
        SampleError::Key => "expected a key in UTF-8; set key = false to do without it".to_owned(),
        SampleError::Value(field, why) => match &field.form {
            // The message also names the pointer.
            Form::Json(_, json) => format!("`{}`: {why}", json.selector),
            _ => format!("member `{}`: {why}", field.extensions.join(";")),
        },
        SampleError::Json(member, why) => format!("member `{member}`: {why}; it is not JSON"),
    };
    let message = format!("sample `{}`: {what}", sample.key.escape_ascii());
    DecodeError::skippable(sample.start, message, next as u64)
}
