//! The order in which positions of an input are tried: first those at the boundaries of records and
//! up to two bytes from them, then all others, evenly spread from the first one on.

/// Each position from 0 up to `size`, once. `starts` are the starts of the records.
pub(super) fn positions(size: usize, starts: &[u64]) -> impl Iterator<Item = usize> {
    let boundaries: Vec<usize> = starts
        .iter()
        .map(|start| usize::try_from(*start).unwrap_or(size).min(size))
        .chain([0, size])
        .collect();
    let mut near = Vec::new();
    for distance in [0, -1, 1, -2, 2] {
        let places = spread(boundaries.len()).map(|index| boundaries[index]);
        near.extend(places.filter_map(|place| place.checked_add_signed(distance)));
    }
    let mut seen = vec![false; size + 1];
    near.into_iter()
        .chain(spread(size + 1))
        .filter(move |at| seen.get_mut(*at).is_some_and(|seen| !std::mem::replace(seen, true)))
}

/// The numbers below `count`, each once, in an order that begins evenly spread: fractions of
/// multiples of the golden ratio.
pub(super) fn spread(count: usize) -> impl Iterator<Item = usize> {
    let mut seen = vec![false; count];
    let fractions = (0u64..).map(|index| index.wrapping_mul(GOLDEN));
    // The number fits, because it is less than `count`.
    let numbers = fractions.map(move |part| ((u128::from(part) * count as u128) >> 64) as usize);
    numbers.filter(move |at| !std::mem::replace(&mut seen[*at], true)).take(count)
}

/// The fraction of the golden ratio, in units of 2^-64.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

#[cfg(test)]
mod tests {
    use super::{positions, spread};

    #[test]
    fn spread_has_each_number_once_and_no_large_gaps() {
        for count in [0, 1, 2, 3, 10, 64, 1000, 4096] {
            let mut all: Vec<_> = spread(count).collect();
            let half = &mut all.clone()[..count / 2];
            half.sort_unstable();
            assert!(half.windows(2).all(|pair| pair[1] - pair[0] <= 8), "{count}: {half:?}");
            all.sort_unstable();
            assert_eq!(all, (0..count).collect::<Vec<_>>());
        }
    }

    #[test]
    fn boundaries_come_first() {
        let order: Vec<_> = positions(100, &[10, 50]).collect();
        let mut first = order[..16].to_vec();
        first.sort_unstable();
        assert_eq!(first, [0, 1, 2, 8, 9, 10, 11, 12, 48, 49, 50, 51, 52, 98, 99, 100]);
        let mut all = order;
        all.sort_unstable();
        assert_eq!(all, (0..=100).collect::<Vec<_>>());
    }
}
