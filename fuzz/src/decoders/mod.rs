//! A target for each built-in decoder: its native core, with options, splits and bytes of the
//! fuzzer.

mod case;
mod check;
mod compressed;
mod mend;
mod parts;
mod presets;

use case::Case;
use check::check;
use pipemill_plugin::testing::{self, Outcome, Setup};

use crate::reference;

pub(crate) fn array_record(bytes: &[u8]) {
    let case = Case::new(bytes, presets::ARRAY_RECORD).mended(mend::riegeli).decompressing();
    check::<pipemill_array_record::ArrayRecord>(&case);
}

pub(crate) fn arrow(bytes: &[u8]) {
    let case = Case::new(bytes, presets::ARROW).decompressing();
    check::<pipemill_arrow::Arrow>(&case);
}

pub(crate) fn augmented_manifest(bytes: &[u8]) {
    check::<pipemill_augmented_manifest::AugmentedManifest>(&Case::new(
        bytes,
        presets::AUGMENTED_MANIFEST,
    ));
}

pub(crate) fn avro(bytes: &[u8]) {
    let case = Case::new(bytes, presets::AVRO).decompressing();
    check::<pipemill_avro::Avro>(&case);
}

pub(crate) fn csv(bytes: &[u8]) {
    let case = Case::new(bytes, presets::CSV);
    check::<pipemill_csv::Csv>(&case);
    reference::csv::compare(&case.input, case.flags);
}

pub(crate) fn fixed(bytes: &[u8]) {
    check::<pipemill_fixed::Fixed>(&Case::new(bytes, presets::FIXED));
}

pub(crate) fn jsonl(bytes: &[u8]) {
    check::<pipemill_jsonl::Jsonl>(&Case::new(bytes, presets::JSONL));
}

pub(crate) fn length_prefixed(bytes: &[u8]) {
    let case = Case::new(bytes, presets::LENGTH_PREFIXED);
    if let Some(outcome) =
        check::<pipemill_length_prefixed::LengthPrefixed>(&case).filter(is_own_format)
    {
        reference::length_prefixed::compare(&case.setup, &case.input, &outcome);
    }
}

pub(crate) fn lines(bytes: &[u8]) {
    let case = Case::new(bytes, presets::LINES);
    if let Some(outcome) = check::<pipemill_lines::Lines>(&case).filter(is_own_format) {
        reference::lines::compare(&case.setup, &case.input, &outcome);
    }
}

pub(crate) fn mds(bytes: &[u8]) {
    check::<pipemill_mds::Mds>(&Case::new(bytes, presets::MDS).mended(mend::mds));
}

/// The input is the length of an index, the index, and the tokens.
pub(crate) fn megatron(bytes: &[u8]) {
    type Megatron = pipemill_megatron::Megatron;
    let mut case = Case::new(bytes, presets::MEGATRON);
    let Some((length, rest)) = case.input.split_first_chunk() else { return };
    let length = usize::from(u16::from_le_bytes(*length)).min(rest.len());
    let (index, tokens) = rest.split_at(length);
    let parts = testing::parts_with::<Megatron>(&case.setup, tokens, &[index]);
    let Ok(Some(parts)) = parts else { return };
    case.input = parts.concat();
    case.setup = case.setup.planned();
    check::<Megatron>(&case);
}

pub(crate) fn msgpack(bytes: &[u8]) {
    check::<pipemill_msgpack::Msgpack>(&Case::new(bytes, presets::MSGPACK));
}

pub(crate) fn npy(bytes: &[u8]) {
    check::<pipemill_npy::Npy>(&Case::new(bytes, presets::NPY));
}

pub(crate) fn npz(bytes: &[u8]) {
    let case = Case::new(bytes, presets::NPZ).decompressing();
    check::<pipemill_npz::Npz>(&case);
}

pub(crate) fn parquet(bytes: &[u8]) {
    let case = Case::new(bytes, presets::PARQUET).decompressing();
    check::<pipemill_parquet::Parquet>(&case);
    parts::compare(&case);
}

pub(crate) fn recordio(bytes: &[u8]) {
    let case = Case::new(bytes, presets::RECORDIO);
    if let Some(outcome) = check::<pipemill_recordio::RecordIo>(&case).filter(is_own_format) {
        reference::recordio::compare(&case.setup, &case.input, &outcome);
    }
}

pub(crate) fn recordio_protobuf(bytes: &[u8]) {
    check::<pipemill_recordio_protobuf::RecordIoProtobuf>(&Case::new(
        bytes,
        presets::RECORDIO_PROTOBUF,
    ));
}

pub(crate) fn tf_example(bytes: &[u8]) {
    let case = Case::new(bytes, presets::TF_EXAMPLE).mended(mend::tfrecord);
    check::<pipemill_tf_example::TfExample>(&case);
}

pub(crate) fn tfrecord(bytes: &[u8]) {
    let case = Case::new(bytes, presets::TFRECORD).mended(mend::tfrecord);
    if let Some(outcome) = check::<pipemill_tfrecord::TfRecord>(&case).filter(is_own_format) {
        reference::tfrecord::compare(&case.setup, &case.input, &outcome);
    }
}

pub(crate) fn tokens(bytes: &[u8]) {
    check::<pipemill_tokens::Tokens>(&Case::new(bytes, presets::TOKENS));
}

pub(crate) fn webdataset(bytes: &[u8]) {
    let case = Case::new(bytes, presets::WEBDATASET).mended(mend::tar);
    check::<pipemill_webdataset::WebDataset>(&case);
    reference::webdataset::compare(&case.input);
}

/// Whether the decoder has not refused the object as one of another format, which a reference reads
/// anyway.
fn is_own_format(outcome: &Outcome) -> bool {
    !outcome.errors.iter().any(|(.., message)| message.starts_with("the object is "))
}

/// The value of an option that a setup names.
pub(crate) fn option<'a>(setup: &'a Setup, name: &str) -> Option<&'a str> {
    let last = setup.options.iter().rev().find(|(given, _)| given == name);
    last.map(|(_, value)| value.as_str())
}
