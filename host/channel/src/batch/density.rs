//! How close to each other the records of an object are.

/// The latest density is measured over at least this many bytes. Over fewer bytes, a single short
/// record would make it far too large.
const WINDOW: u64 = 64 << 10;

/// Records per byte of an object.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Density {
    /// Byte offset in the object at which decoding began, and the number of the record there. A
    /// worker that begins inside of an object counts from 0, because it does not know that number.
    began_at: (u64, u64),
    /// Byte offset and record number from which the latest density is measured.
    at: (u64, u64),
    /// Density since decoding began.
    on_average: f64,
    /// Density in the last [`WINDOW`] bytes or more.
    lately: f64,
}

impl Density {
    /// The density of an object that is decoded from byte `offset` on, with record number `record`.
    pub(crate) fn of_object_from(offset: u64, record: u64) -> Self {
        let at = (offset, record);
        Self { began_at: at, at, ..Self::default() }
    }

    /// Updates the estimate: the record of this number begins at this byte offset.
    pub(crate) fn measure(&mut self, offset: u64, record: u64) {
        let since = |(from, first): (u64, u64)| {
            (record - first) as f64 / offset.saturating_sub(from).max(1) as f64
        };
        self.on_average = since(self.began_at);
        if offset.saturating_sub(self.at.0) >= WINDOW {
            self.lately = since(self.at);
            self.at = (offset, record);
        }
    }

    /// Estimate of the number of records in each of the next bytes; 0 before the first record.
    pub(crate) fn likely(&self) -> f64 {
        if self.lately > 0.0 { self.lately } else { self.on_average }
    }

    /// Estimate of the number of records in each of the next bytes, rather too many than too few:
    /// records whose index does not fit after their bytes have to be copied.
    pub(crate) fn cautious(&self) -> f64 {
        1.1 * self.on_average.max(self.lately)
    }

    /// Cautious estimate of the number of records in the next `bytes` bytes.
    pub(crate) fn records_in(&self, bytes: usize) -> usize {
        (bytes as f64 * self.cautious()) as usize + 16
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Otherwise the index does not fit and the records must be copied.
        #[test]
        fn it_is_the_same_wherever_decoding_begins(
            offset in 0..u64::MAX / 2,
            first in 0..u64::MAX / 2,
            bytes in 1..1_u64 << 30,
            records in 1..1_u64 << 20,
        ) {
            let mut density = Density::of_object_from(offset, first);
            density.measure(offset + bytes, first + records);
            let expected = records as f64 / bytes as f64;
            prop_assert_eq!(density.likely(), expected);
            prop_assert!(density.records_in(bytes as usize) as u64 >= records);
        }

        #[test]
        fn where_records_get_closer_more_are_expected(
            before in (1..1_u64 << 20, WINDOW..1_u64 << 30),
            lately in (1..1_u64 << 20, WINDOW..1_u64 << 30),
        ) {
            let mut density = Density::of_object_from(0, 0);
            density.measure(before.1, before.0);
            density.measure(before.1 + lately.1, before.0 + lately.0);
            prop_assert!(density.records_in(lately.1 as usize) as u64 >= lately.0);
        }
    }
}
