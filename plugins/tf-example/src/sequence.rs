//! The steps of a feature list of `tf.train.SequenceExample`, as one array or list.
//!
//! `SequenceExample{context: 1, feature_lists: 2}`, `FeatureLists{map<string, FeatureList>
//! feature_list: 1}`, `FeatureList{repeated Feature feature: 1}`. The context has the number and
//! the type of the features of an `Example`. The first size of a field's shape is the number of
//! steps, the others are those of the values of a step.

use std::ops::Range;

use pipemill_parsing::protobuf::{
    MessageReader, OneOf, Pieces, add_fixed, add_varints, append_varints, count_varints,
};
use pipemill_plugin::{Records, Scalar};

use crate::describe::{self, CASES, case_of};
use crate::settings::Feature;
use crate::values::{Refused, check_text, read_numbers};

/// Buffers that are reused for each record.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    feature: OneOf,
    numbers: Pieces,
    values: Vec<Range<usize>>,
}

impl Steps {
    /// Emits the feature list in `list`, a message of type `FeatureList`.
    pub(crate) fn emit(
        &mut self,
        wanted: &Feature,
        chunk: &[u8],
        list: &Pieces,
        out: &mut Records,
    ) -> Result<(), Refused> {
        match wanted.scalar {
            Scalar::Int64 | Scalar::Float32 => {
                out.field_made(|payload| self.append_numbers(wanted, chunk, list, payload))
            }
            _ => self.emit_list(wanted, chunk, list, out),
        }
    }

    fn append_numbers(
        &mut self,
        wanted: &Feature,
        chunk: &[u8],
        list: &Pieces,
        payload: &mut Vec<u8>,
    ) -> Result<(), Refused> {
        let (mut steps, mut sizes) = (0, StepSizes::new(wanted));
        let mut reader = MessageReader::over(chunk, list);
        while let Some(step) = reader.next()? {
            if step.number != 1 {
                continue;
            }
            read_step(&mut self.feature, wanted, chunk, step.bytes()?)?;
            let values = MessageReader::over(chunk, &self.feature.message);
            let numbers = &mut self.numbers;
            let count = match wanted.scalar {
                Scalar::Float32 => {
                    read_numbers(values, numbers, |all, field| add_fixed(all, field, 4))?;
                    numbers.len() / 4
                }
                _ => {
                    read_numbers(values, numbers, |all, field| add_varints(chunk, all, field))?;
                    count_varints(chunk, numbers)
                }
            };
            sizes.check(wanted, steps, count)?;
            match wanted.scalar {
                Scalar::Float32 => numbers.append_to(chunk, payload),
                _ => append_varints(chunk, numbers, count, payload, u64::to_le_bytes)?,
            }
            steps += 1;
        }
        check_steps(wanted, steps)
    }

    /// A list of bytes or text: each step has one.
    fn emit_list(
        &mut self,
        wanted: &Feature,
        chunk: &[u8],
        list: &Pieces,
        out: &mut Records,
    ) -> Result<(), Refused> {
        self.values.clear();
        let (mut steps, mut sizes) = (0, StepSizes::new(wanted));
        let mut reader = MessageReader::over(chunk, list);
        while let Some(step) = reader.next()? {
            if step.number != 1 {
                continue;
            }
            read_step(&mut self.feature, wanted, chunk, step.bytes()?)?;
            let before = self.values.len();
            let mut values = MessageReader::over(chunk, &self.feature.message);
            while let Some(field) = values.next()? {
                if field.number == 1 {
                    self.values.push(field.bytes()?);
                }
            }
            let found = &self.values[before..];
            sizes.check(wanted, steps, found.len())?;
            found.iter().try_for_each(|value| check_text(wanted, &chunk[value.clone()]))?;
            steps += 1;
        }
        check_steps(wanted, steps)?;
        out.list(self.values.iter().map(|value| &chunk[value.clone()]));
        Ok(())
    }
}

/// Reads a step, a message of type `Feature`, which must be of the wanted type.
fn read_step(
    feature: &mut OneOf,
    wanted: &Feature,
    chunk: &[u8],
    step: Range<usize>,
) -> Result<(), Refused> {
    feature.read(chunk, &Pieces::from(step), &CASES)?;
    if feature.case != 0 && feature.case != case_of(wanted.scalar) {
        return Err(Refused::Mismatch(describe::other_kind(wanted, chunk, feature)?));
    }
    Ok(())
}

/// The number of values of the steps.
struct StepSizes {
    /// The product of the sizes in the shape.
    fixed: usize,
    /// The number of values of each step; `None` if the first step determines it.
    wanted: Option<usize>,
}

impl StepSizes {
    fn new(wanted: &Feature) -> Self {
        let sizes = wanted.shape.get(1..).unwrap_or_default();
        let product = |all: usize, size: &u32| all.saturating_mul((*size).max(1) as usize);
        let fixed = sizes.iter().fold(1, product);
        Self { fixed, wanted: (!sizes.contains(&0)).then_some(fixed) }
    }

    /// Checks that this step has as many values as all others.
    fn check(&mut self, wanted: &Feature, step: usize, count: usize) -> Result<(), Refused> {
        let is_right = match self.wanted {
            Some(wanted) => count == wanted,
            None => count.is_multiple_of(self.fixed),
        };
        if !is_right {
            let expected = self.wanted.unwrap_or(self.fixed);
            return Err(Refused::Mismatch(describe::other_step(wanted, step, expected, count)));
        }
        self.wanted = Some(count);
        Ok(())
    }
}

/// Checks the number of steps.
fn check_steps(wanted: &Feature, steps: usize) -> Result<(), Refused> {
    match wanted.shape.first() {
        Some(0) => Ok(()),
        Some(size) if *size as usize == steps => Ok(()),
        _ => Err(Refused::Mismatch(describe::other_steps(wanted, steps))),
    }
}
