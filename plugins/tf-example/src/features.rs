//! Reads one `tf.train.Example` or `SequenceExample` and emits its wanted features as the fields of
//! a record.
//!
//! `Example{features: 1}`, `Features{map<string, Feature> feature: 1}`, `Feature{oneof: bytes_list
//! 1, float_list 2, int64_list 3}`, each list `{repeated value: 1}`. Bytes are spans of the chunk.
//! Numbers are copied: TFRecord does not align floats, and int64 is encoded as varints.

use std::ops::Range;

use pipemill_parsing::field_spec::shape_accepts;
use pipemill_parsing::framing::tfrecord::next_start;
use pipemill_parsing::protobuf::{
    MessageMap, MessageReader, OneOf, Pieces, add_fixed, add_varints, append_varints, count_varints,
};
use pipemill_plugin::{DecodeError, Field, Records, Scalar};

use crate::describe::{self, CASES, case_of};
use crate::sequence::Steps;
use crate::settings::Feature;
use crate::values::{Refused, check_text, read_numbers};

/// The wanted features, and buffers that are reused for each record.
#[derive(Debug)]
pub(crate) struct Features {
    wanted: Vec<Feature>,
    /// The features of the record, by the index of the wanted feature.
    map: MessageMap,
    /// The feature lists of a `SequenceExample`, by the same index.
    lists: MessageMap,
    /// Whether the record has feature lists.
    is_sequence: bool,
    steps: Steps,
    /// The feature that is being read.
    feature: OneOf,
    /// The numbers of that feature.
    numbers: Pieces,
    /// Buffer for the ranges of the elements of a list of bytes.
    values: Vec<Range<usize>>,
}

impl Features {
    pub(crate) fn new(wanted: Vec<Feature>) -> Self {
        let keys = || wanted.iter().map(|feature| feature.key.as_str());
        let (map, lists) = (MessageMap::new(keys()), MessageMap::new(keys()));
        Self {
            wanted,
            map,
            lists,
            is_sequence: false,
            steps: Steps::default(),
            feature: OneOf::default(),
            numbers: Pieces::default(),
            values: Vec::new(),
        }
    }

    /// The fields of a record.
    pub(crate) fn fields(&self) -> Vec<Field> {
        let field = |feature: &Feature| {
            let field = Field::new(&feature.name, feature.scalar).shaped(feature.shape.clone());
            Field { nullable: feature.optional, ..field }
        };
        self.wanted.iter().map(field).collect()
    }

    /// Emits the record with this payload. The record starts at `start`, including its framing.
    #[inline]
    pub(crate) fn emit(
        &mut self,
        chunk: &[u8],
        start: usize,
        payload: Range<usize>,
        out: &mut Records,
    ) -> Result<(), DecodeError> {
        let next = next_start(&payload) as u64;
        if let Err(refused) = self.emit_fields(chunk, payload, out) {
            out.abandon_record();
            let message = match refused {
                Refused::Invalid(error) => format!(
                    "expected a tf.train.Example, found at +{} {error}; the record is damaged, or of \
                     another type",
                    error.at - start
                ),
                Refused::Mismatch(message) => message,
            };
            return Err(DecodeError::skippable(start, message, next));
        }
        out.end_record(start);
        Ok(())
    }

    #[inline]
    fn emit_fields(
        &mut self,
        chunk: &[u8],
        payload: Range<usize>,
        out: &mut Records,
    ) -> Result<(), Refused> {
        self.map.clear();
        self.is_sequence = false;
        let mut example = MessageReader::new(chunk, payload.clone());
        while let Some(field) = example.next()? {
            let map = match field.number {
                1 => &mut self.map,
                // An `Example` has no such field, so there it would be unknown.
                2 if field.bytes().is_ok() => {
                    if !std::mem::replace(&mut self.is_sequence, true) {
                        self.lists.clear();
                    }
                    &mut self.lists
                }
                _ => continue,
            };
            let mut features = MessageReader::new(chunk, field.bytes()?);
            while let Some(entry) = features.next()? {
                if entry.number == 1 {
                    map.add(chunk, entry.bytes()?)?;
                }
            }
        }
        for index in 0..self.wanted.len() {
            self.emit_field(chunk, &payload, index, out)?;
        }
        Ok(())
    }

    #[inline]
    fn emit_field(
        &mut self,
        chunk: &[u8],
        payload: &Range<usize>,
        index: usize,
        out: &mut Records,
    ) -> Result<(), Refused> {
        let wanted = &self.wanted[index];
        self.feature.case = 0;
        if let Some(feature) = self.map.get(index) {
            self.feature.read(chunk, feature, &CASES)?;
        }
        let list = self.lists.get(index).filter(|_| self.is_sequence);
        if let Some(list) = list {
            if self.feature.case != 0 {
                return Err(Refused::Mismatch(describe::in_both(wanted)));
            }
            return self.steps.emit(wanted, chunk, list, out);
        }
        match self.feature.case {
            0 if wanted.optional => {
                out.absent();
                return Ok(());
            }
            0 => return Err(Refused::Mismatch(describe::missing(wanted, chunk, payload)?)),
            case if case != case_of(wanted.scalar) => {
                return Err(Refused::Mismatch(describe::other_kind(wanted, chunk, &self.feature)?));
            }
            _ => {}
        }
        let list = MessageReader::over(chunk, &self.feature.message);
        match wanted.scalar {
            Scalar::Int64 => emit_int64(wanted, chunk, list, &mut self.numbers, out),
            Scalar::Float32 => emit_float32(wanted, chunk, list, &mut self.numbers, out),
            _ if wanted.shape.is_empty() => emit_bytes(wanted, chunk, list, out),
            _ => emit_list(wanted, chunk, list, &mut self.values, out),
        }
    }
}

fn emit_bytes(
    wanted: &Feature,
    chunk: &[u8],
    mut list: MessageReader,
    out: &mut Records,
) -> Result<(), Refused> {
    let (mut value, mut count) = (0..0, 0);
    while let Some(field) = list.next()? {
        if field.number == 1 {
            value = field.bytes()?;
            count += 1;
        }
    }
    if count != 1 {
        return Err(Refused::Mismatch(describe::other_count(wanted, count)));
    }
    check_text(wanted, &chunk[value.clone()])?;
    out.field(value);
    Ok(())
}

/// Emits a list of bytes or text. `values` is a buffer for the ranges of its elements.
fn emit_list(
    wanted: &Feature,
    chunk: &[u8],
    mut list: MessageReader,
    values: &mut Vec<Range<usize>>,
    out: &mut Records,
) -> Result<(), Refused> {
    values.clear();
    while let Some(field) = list.next()? {
        if field.number == 1 {
            values.push(field.bytes()?);
        }
    }
    if !shape_accepts(&wanted.shape, values.len()) {
        return Err(Refused::Mismatch(describe::other_count(wanted, values.len())));
    }
    values.iter().try_for_each(|value| check_text(wanted, &chunk[value.clone()]))?;
    out.list(values.iter().map(|value| &chunk[value.clone()]));
    Ok(())
}

fn emit_float32(
    wanted: &Feature,
    chunk: &[u8],
    list: MessageReader,
    numbers: &mut Pieces,
    out: &mut Records,
) -> Result<(), Refused> {
    read_numbers(list, numbers, |numbers, field| add_fixed(numbers, field, 4))?;
    let count = numbers.len() / 4;
    if !shape_accepts(&wanted.shape, count) {
        return Err(Refused::Mismatch(describe::other_count(wanted, count)));
    }
    out.field_made(|payload| numbers.append_to(chunk, payload));
    Ok(())
}

fn emit_int64(
    wanted: &Feature,
    chunk: &[u8],
    list: MessageReader,
    numbers: &mut Pieces,
    out: &mut Records,
) -> Result<(), Refused> {
    read_numbers(list, numbers, |numbers, field| add_varints(chunk, numbers, field))?;
    let count = count_varints(chunk, numbers);
    if !shape_accepts(&wanted.shape, count) {
        return Err(Refused::Mismatch(describe::other_count(wanted, count)));
    }
    out.field_made(|payload| append_varints(chunk, numbers, count, payload, u64::to_le_bytes))?;
    Ok(())
}
