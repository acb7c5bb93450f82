//! How close to each other the records of an object are.

/// Records per byte of an object, on average, from where its decoding began to where it is.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Density {
    /// Byte offset in the object at which decoding began, and the number of the record there. A worker
    /// that begins inside of an object counts from 0, because it does not know that number.
    began_at: (u64, u64),
    per_byte: f64,
}

impl Density {
    /// Decoding begins at this byte offset, with the record of this number.
    pub(super) fn of_object_from(offset: u64, record: u64) -> Self {
        Self { began_at: (offset, record), per_byte: 0.0 }
    }

    /// It has come to this byte offset, before the record of this number.
    pub(super) fn measure(&mut self, offset: u64, record: u64) {
        let (from, first) = self.began_at;
        self.per_byte = (record - first) as f64 / (offset - from).max(1) as f64;
    }

    /// Records per byte; 0 before the first record.
    pub(super) fn per_byte(&self) -> f64 {
        self.per_byte
    }

    /// Estimate of the number of records in `bytes` bytes: rather too many than too few.
    pub(super) fn records_in(&self, bytes: usize) -> usize {
        (bytes as f64 * self.per_byte * 1.1) as usize + 16
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Else memory is filled with bytes whose records have no room beside them, and are copied.
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
            prop_assert_eq!(density.per_byte(), expected);
            prop_assert!(density.records_in(bytes as usize) as u64 >= records);
        }
    }
}
