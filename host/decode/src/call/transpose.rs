//! Turns spans, which a decoder emits record by record, into columns.

use pipemill_types::Column;

/// The spans of two neighbouring fields of a record.
type Pair = [u64; 2];
/// The offsets and the lengths of one field of four records.
type Four = ([u32; 4], [u32; 4]);

/// Adds records that have one span for each column. The offset of an absent field is `ABSENT`,
/// because all bits of its span are set; its length is 0.
pub(crate) fn append_columns(columns: &mut [Column], spans: &[u64]) {
    let fields = columns.len();
    let mut pairs = columns.chunks_exact_mut(2);
    for (pair, columns) in (&mut pairs).enumerate() {
        if let [one, two] = columns {
            append_pair(one, two, spans, 2 * pair, fields);
        }
    }
    for column in pairs.into_remainder() {
        let last = || spans.iter().skip(fields - 1).step_by(fields);
        let (offsets, lengths) = column.lists();
        offsets.extend(last().map(|span| offset(*span)));
        lengths.extend(last().map(|span| length(*span)));
    }
}

/// Adds the fields `field` and `field + 1`.
fn append_pair<'a>(
    one: &'a mut Column,
    two: &'a mut Column,
    spans: &[u64],
    field: usize,
    fields: usize,
) {
    let from = one.len();
    let longer = |column: &'a mut Column| {
        let (offsets, lengths) = column.lists();
        offsets.resize(from + spans.len() / fields, 0);
        lengths.resize(from + spans.len() / fields, 0);
        (offsets, lengths)
    };
    let ((offsets, lengths), (next_offsets, next_lengths)) = (longer(one), longer(two));
    let pair = |row: &[u64]| -> Pair { [row[field], row[field + 1]] };
    let (offsets, last_offsets) = offsets[from..].as_chunks_mut();
    let (lengths, last_lengths) = lengths[from..].as_chunks_mut();
    let (next_offsets, last_next_offsets) = next_offsets[from..].as_chunks_mut();
    let (next_lengths, last_next_lengths) = next_lengths[from..].as_chunks_mut();
    let mut fours = spans.chunks_exact(4 * fields);
    let places = offsets.iter_mut().zip(lengths).zip(next_offsets).zip(next_lengths);
    for ((((offsets, lengths), next_offsets), next_lengths), rows) in places.zip(&mut fours) {
        let at = |row: usize| pair(&rows[row * fields..]);
        let pairs = [at(0), at(1), at(2), at(3)];
        [(*offsets, *lengths), (*next_offsets, *next_lengths)] = fours_of(pairs);
    }
    for (record, row) in fours.remainder().chunks_exact(fields).enumerate() {
        let [span, next] = pair(row);
        (last_offsets[record], last_lengths[record]) = (offset(span), length(span));
        (last_next_offsets[record], last_next_lengths[record]) = (offset(next), length(next));
    }
}

fn offset(span: u64) -> u32 {
    (span >> 32) as u32
}

fn length(span: u64) -> u32 {
    if span == u64::MAX { 0 } else { span as u32 }
}

/// The columns of four records.
#[cfg(not(target_arch = "x86_64"))]
fn fours_of(pairs: [Pair; 4]) -> [Four; 2] {
    [0, 1].map(|field| {
        let spans = pairs.map(|pair| pair[field]);
        (spans.map(offset), spans.map(length))
    })
}

/// The columns of four records.
#[cfg(target_arch = "x86_64")]
fn fours_of(pairs: [Pair; 4]) -> [Four; 2] {
    // SAFETY: every x86-64 processor has SSE2.
    unsafe { sse2::fours_of(pairs) }
}

#[cfg(target_arch = "x86_64")]
mod sse2 {
    //! The compiler does not vectorize plain code for this.

    use std::arch::x86_64::{
        __m128i, _mm_and_si128, _mm_andnot_si128, _mm_cmpeq_epi32, _mm_cvtsi128_si64,
        _mm_set_epi64x, _mm_set1_epi32, _mm_unpackhi_epi32, _mm_unpackhi_epi64, _mm_unpacklo_epi32,
        _mm_unpacklo_epi64,
    };

    use super::{Four, Pair};

    #[inline]
    #[target_feature(enable = "sse2")]
    pub(crate) fn fours_of([a, b, c, d]: [Pair; 4]) -> [Four; 2] {
        let (a, b, c, d) = (load(a), load(b), load(c), load(d));
        [
            columns(_mm_unpacklo_epi32(a, b), _mm_unpacklo_epi32(c, d)),
            columns(_mm_unpackhi_epi32(a, b), _mm_unpackhi_epi32(c, d)),
        ]
    }

    #[inline]
    #[target_feature(enable = "sse2")]
    fn load([one, two]: Pair) -> __m128i {
        _mm_set_epi64x(two as i64, one as i64)
    }

    /// The columns of spans whose lengths are the first two words of each vector.
    #[inline]
    #[target_feature(enable = "sse2")]
    fn columns(first: __m128i, last: __m128i) -> Four {
        let (lengths, offsets) = (_mm_unpacklo_epi64(first, last), _mm_unpackhi_epi64(first, last));
        let ones = _mm_set1_epi32(-1);
        let absent = _mm_and_si128(_mm_cmpeq_epi32(lengths, ones), _mm_cmpeq_epi32(offsets, ones));
        (words(offsets), words(_mm_andnot_si128(absent, lengths)))
    }

    #[inline]
    #[target_feature(enable = "sse2")]
    fn words(vector: __m128i) -> [u32; 4] {
        let low = _mm_cvtsi128_si64(vector);
        let high = _mm_cvtsi128_si64(_mm_unpackhi_epi64(vector, vector));
        [low as u32, (low >> 32) as u32, high as u32, (high >> 32) as u32]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn columns_are_those_of_the_records(
            (fields, spans) in (1usize..7).prop_flat_map(|fields| {
                let ends = vec![u64::MAX, u64::MAX << 32, u64::MAX >> 32];
                let span = prop_oneof![1 => any::<u64>(), 3 => prop::sample::select(ends)];
                (Just(fields), prop::collection::vec(prop::collection::vec(span, fields), 0..20))
            }),
            cut in any::<prop::sample::Index>(),
        ) {
            let mut columns = vec![Column::default(); fields];
            let (before, after) = spans.split_at(cut.index(spans.len() + 1));
            append_columns(&mut columns, &before.concat());
            append_columns(&mut columns, &after.concat());
            for (field, column) in columns.iter().enumerate() {
                let of: Vec<u64> = spans.iter().map(|row| row[field]).collect();
                let offsets: Vec<_> = of.iter().map(|s| (s >> 32) as u32).collect();
                prop_assert_eq!(column.offsets(), &offsets[..]);
                let lengths = of.iter().map(|s| if *s == u64::MAX { 0 } else { *s as u32 });
                prop_assert_eq!(column.lengths(), &lengths.collect::<Vec<_>>()[..]);
            }
        }
    }
}
