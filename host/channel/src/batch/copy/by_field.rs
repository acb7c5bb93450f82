//! Copies records that follow each other, field by field: the copies of a field's values are
//! adjacent. Values that are adjacent before, too, are copied at once.

use std::ops::Range;

use pipemill_types::{ABSENT, Column, Even};

use crate::batch::ALIGN;

/// The copies of a field's values begin at a multiple of [`ALIGN`] if they have this many bytes or
/// more. So at most a sixteenth of the bytes lies between the fields.
const MIN_ALIGNED: usize = 16 * ALIGN;

/// Most bytes of payload that the copies of these bytes of values take.
pub(crate) fn most_bytes(values: usize) -> usize {
    values + values / (MIN_ALIGNED / ALIGN)
}

/// The first place from `end` on that lies at the same distance from a multiple of [`ALIGN`] as
/// `from`, for a copy of `bytes` bytes.
pub(crate) fn aligned_as(from: usize, bytes: usize, end: usize) -> usize {
    if bytes < MIN_ALIGNED {
        return end;
    }
    end + from.wrapping_sub(end) % ALIGN
}

/// Copies these values of a field to the end of a payload, and adds them to a column. `source` has
/// the bytes from an offset on. Returns the end of the payload after them.
pub(crate) fn copy_field<'s>(
    (values, records): (&Column, &Range<usize>),
    source: impl Fn(u32) -> &'s [u8],
    to: &mut Column,
    memory: &mut [u8],
    end: usize,
) -> usize {
    let bytes = values.bytes(records.clone()) as usize;
    let from = aligned_as(0, bytes, end);
    if let Some(even) = even_values(values, records) {
        memory[from..from + bytes].copy_from_slice(&source(even.first)[..bytes]);
        to.extend_even(Even { first: from as u32, ..even });
        return from + bytes;
    }
    let offsets = &values.offsets()[records.clone()];
    let lengths = &values.lengths()[records.clone()];
    let (to_offsets, to_lengths) = to.lists();
    to_lengths.extend_from_slice(lengths);
    let (mut at, mut adjacent, mut adjacent_to) = (from, 0..0, from);
    let mut copy = |adjacent: Range<u32>, to: usize| {
        let bytes = &source(adjacent.start)[..adjacent.len()];
        memory[to..to + bytes.len()].copy_from_slice(bytes);
    };
    to_offsets.extend(offsets.iter().zip(lengths).map(|(offset, length)| {
        if *offset == ABSENT {
            return ABSENT;
        }
        if *offset != adjacent.end {
            copy(std::mem::replace(&mut adjacent, *offset..*offset), adjacent_to);
            adjacent_to = at;
        }
        adjacent.end += length;
        let place = at as u32;
        at += *length as usize;
        place
    }));
    copy(adjacent, adjacent_to);
    at
}

/// The values of these records, if they have one size and are adjacent.
fn even_values(values: &Column, records: &Range<usize>) -> Option<Even> {
    if let Some(even) = values.even() {
        return (!records.is_empty()).then(|| even.part(records));
    }
    let offsets = &values.offsets()[records.clone()];
    let lengths = &values.lengths()[records.clone()];
    let (first, size) = (*offsets.first()?, *lengths.first()?);
    let numbers = 0..offsets.len() as u32;
    // Without an early end, the loop is compiled to vector instructions.
    let differences = offsets.iter().zip(lengths).zip(numbers).fold(0, |found, (value, number)| {
        let (offset, length) = value;
        found | (offset ^ first.wrapping_add(number.wrapping_mul(size))) | (length ^ size)
    });
    let even = Even { first, size, records: records.len() as u32 };
    (differences == 0 && first != ABSENT).then_some(even)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Values of a field: even, adjacent or anywhere, some of them absent.
    fn columns() -> impl Strategy<Value = Column> {
        let even = (0_u32..500, 0_u32..20, 0_u32..90).prop_map(|(first, size, count)| {
            let even = Column::from(Even { first, size, records: count });
            // Nobody may notice whether the lists are there.
            match count % 2 {
                0 => even,
                _ => Column::of_lists(even.offsets().to_vec(), even.lengths().to_vec()),
            }
        });
        let value = (0_u32..4, 0_u32..60, proptest::bool::weighted(0.9), proptest::bool::ANY);
        let any = proptest::collection::vec(value, 0..90).prop_map(|values| {
            let mut column = Column::default();
            let mut end = 0;
            for (gap, length, is_there, goes_back) in values {
                end = if goes_back { end / 2 } else { end + 3 * (gap / 3) };
                let (offset, length) = if is_there { (end, length) } else { (ABSENT, 0) };
                column.push(offset, length);
                end += length;
            }
            column
        });
        prop_oneof![even, any]
    }

    proptest! {
        #[test]
        fn the_copies_are_adjacent_and_have_the_same_values(
            columns in proptest::collection::vec(columns(), 1..4),
            end in 0_usize..200,
        ) {
            let bytes: Vec<u8> = (0..20_000_u32).map(|at| ((at * 31) >> 3) as u8).collect();
            let lengths = columns.iter().flat_map(Column::lengths);
            let values: usize = lengths.map(|length| *length as usize).sum();
            let mut memory = vec![0; end + most_bytes(values)];
            let mut at = end;
            for from in &columns {
                let mut to = Column::of_lists(vec![7], vec![0]);
                let of = (from, &(0..from.len()));
                let size: usize = from.lengths().iter().map(|length| *length as usize).sum();
                let start = aligned_as(0, size, at);
                prop_assert!(size < MIN_ALIGNED || start.is_multiple_of(ALIGN));
                at = copy_field(of, |from| &bytes[from as usize..], &mut to, &mut memory, at);
                prop_assert_eq!(at, start + size);
                prop_assert_eq!(&to.lengths()[1..], from.lengths());
                let mut expected = start;
                let places = to.offsets()[1..].iter().zip(from.offsets());
                for ((to, from), length) in places.zip(from.lengths()) {
                    prop_assert_eq!(*to == ABSENT, *from == ABSENT);
                    if *from != ABSENT {
                        let length = *length as usize;
                        prop_assert_eq!(*to as usize, expected);
                        prop_assert_eq!(
                            &memory[expected..expected + length],
                            &bytes[*from as usize..*from as usize + length]
                        );
                        expected += length;
                    }
                }
            }
            prop_assert!(at <= memory.len());
        }

        #[test]
        fn a_place_is_aligned_as_another(from in 0_usize..1_000, end in 0_usize..1_000) {
            let place = aligned_as(from, MIN_ALIGNED, end);
            prop_assert!(place >= end && place < end + ALIGN);
            prop_assert_eq!(place % ALIGN, from % ALIGN);
        }
    }
}
