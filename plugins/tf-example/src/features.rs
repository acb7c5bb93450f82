//! One `tf.train.Example`: where the wanted features lie in it, and their way into a record.
//!
//! `Example{features: 1}`, `Features{map<string, Feature> feature: 1}`, `Feature{oneof: bytes_list 1,
//! float_list 2, int64_list 3}`, each list `{repeated value: 1}`. Bytes stay where they are. Numbers
//! are copied: TFRecord aligns nothing, and int64 stands as varints.

use std::ops::Range;

use pipemill_parsing::field_spec::holds;
use pipemill_parsing::framing::tfrecord::behind;
use pipemill_parsing::protobuf::{
    Fault, Map, OneOf, Pieces, Reader, add_fixed, add_varints, append_varints, count_varints,
};
use pipemill_plugin::{DecodeError, Field, Records, Scalar};

use crate::describe::{self, CASES, case_of};
use crate::settings::Feature;

/// The features that are wanted, and room to read them.
#[derive(Debug)]
pub(crate) struct Features {
    wanted: Vec<Feature>,
    map: Map,
    feature: OneOf,
    list: Pieces,
}

/// Why a record is refused.
#[derive(Debug)]
enum Refused {
    /// It can't be read.
    Fault(Fault),
    /// It is not as the operator said, in which way.
    Told(String),
}

impl From<Fault> for Refused {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl Features {
    pub(crate) fn new(wanted: Vec<Feature>) -> Self {
        let map = Map::new(wanted.iter().map(|feature| feature.key.as_str()));
        Self { wanted, map, feature: OneOf::default(), list: Pieces::default() }
    }

    /// The fields of a record.
    pub(crate) fn fields(&self) -> Vec<Field> {
        let field = |feature: &Feature| {
            Field::new(&feature.name, feature.scalar).shaped(feature.shape.clone())
        };
        self.wanted.iter().map(field).collect()
    }

    /// Emits the record whose payload lies there; it starts at `start`, its framing included.
    #[inline]
    pub(crate) fn take(
        &mut self,
        chunk: &[u8],
        start: usize,
        payload: Range<usize>,
        out: &mut Records,
    ) -> Result<(), DecodeError> {
        let next = behind(&payload) as u64;
        if let Err(why) = self.emit(chunk, payload, out) {
            out.abandon_record();
            let message = match why {
                Refused::Fault(fault) => format!(
                    "expected a tf.train.Example, found at +{} {fault}; the record is damaged, or of \
                     another type",
                    fault.at - start
                ),
                Refused::Told(message) => message,
            };
            return Err(DecodeError::skippable(start, message, next));
        }
        out.end_record(start);
        Ok(())
    }

    #[inline]
    fn emit(
        &mut self,
        chunk: &[u8],
        payload: Range<usize>,
        out: &mut Records,
    ) -> Result<(), Refused> {
        self.map.clear();
        let mut example = Reader::new(chunk, payload.clone());
        while let Some(entry) = example.next()? {
            if entry.number != 1 {
                continue;
            }
            let mut features = Reader::new(chunk, entry.bytes()?);
            while let Some(entry) = features.next()? {
                if entry.number == 1 {
                    self.map.add(chunk, entry.bytes()?)?;
                }
            }
        }
        for number in 0..self.wanted.len() {
            self.emit_field(chunk, &payload, number, out)?;
        }
        Ok(())
    }

    #[inline]
    fn emit_field(
        &mut self,
        chunk: &[u8],
        payload: &Range<usize>,
        number: usize,
        out: &mut Records,
    ) -> Result<(), Refused> {
        let wanted = &self.wanted[number];
        self.feature.case = 0;
        if let Some(feature) = self.map.get(number) {
            self.feature.read(chunk, feature, &CASES)?;
        }
        match self.feature.case {
            0 if wanted.optional => {
                out.absent();
                return Ok(());
            }
            0 => return Err(Refused::Told(describe::missing(wanted, chunk, payload)?)),
            case if case != case_of(wanted.scalar) => {
                return Err(Refused::Told(describe::other_kind(wanted, chunk, &self.feature)?));
            }
            _ => {}
        }
        let list = Reader::over(chunk, &self.feature.message);
        match wanted.scalar {
            Scalar::Int64 => emit_int64(wanted, chunk, list, &mut self.list, out),
            Scalar::Float32 => emit_float32(wanted, chunk, list, &mut self.list, out),
            _ => emit_bytes(wanted, chunk, list, out),
        }
    }
}

fn emit_bytes(
    wanted: &Feature,
    chunk: &[u8],
    mut list: Reader,
    out: &mut Records,
) -> Result<(), Refused> {
    let (mut value, mut count) = (0..0, 0);
    while let Some(entry) = list.next()? {
        if entry.number == 1 {
            value = entry.bytes()?;
            count += 1;
        }
    }
    if count != 1 {
        return Err(Refused::Told(describe::other_count(wanted, count)));
    }
    if wanted.scalar == Scalar::Utf8
        && let Err(error) = str::from_utf8(&chunk[value.clone()])
    {
        let byte = chunk[value.start + error.valid_up_to()];
        return Err(Refused::Told(describe::no_text(wanted, byte, error.valid_up_to())));
    }
    out.field(value);
    Ok(())
}

fn emit_float32(
    wanted: &Feature,
    chunk: &[u8],
    mut list: Reader,
    numbers: &mut Pieces,
    out: &mut Records,
) -> Result<(), Refused> {
    numbers.clear();
    while let Some(entry) = list.next()? {
        if entry.number == 1 {
            add_fixed(numbers, &entry, 4)?;
        }
    }
    let count = numbers.len() / 4;
    if !holds(&wanted.shape, count) {
        return Err(Refused::Told(describe::other_count(wanted, count)));
    }
    out.field_made(|payload| numbers.append_to(chunk, payload));
    Ok(())
}

fn emit_int64(
    wanted: &Feature,
    chunk: &[u8],
    mut list: Reader,
    numbers: &mut Pieces,
    out: &mut Records,
) -> Result<(), Refused> {
    numbers.clear();
    while let Some(entry) = list.next()? {
        if entry.number == 1 {
            add_varints(chunk, numbers, &entry)?;
        }
    }
    let count = count_varints(chunk, numbers);
    if !holds(&wanted.shape, count) {
        return Err(Refused::Told(describe::other_count(wanted, count)));
    }
    out.field_made(|payload| append_varints(chunk, numbers, count, payload, u64::to_le_bytes))?;
    Ok(())
}
