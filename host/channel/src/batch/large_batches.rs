//! Decides which batches of a fixed size begin in a dedicated buffer: those that come after one
//! that did not fit its slot, until several have been small enough again.

/// As many batches in a row that would have fit a slot end the use of dedicated buffers. A batch
/// that begins in a slot and does not fit it costs a copy.
const FITTING: u32 = 4;

/// The sizes of the last batches.
#[derive(Debug, Default)]
pub(crate) struct LargeBatches {
    /// Bytes of the largest one that did not fit a slot; 0 if batches begin in slots.
    bytes: usize,
    /// Bytes of a batch that would have fit a slot, with some to spare.
    small: usize,
    /// How many in a row would have fit a slot.
    fitting: u32,
}

impl LargeBatches {
    /// Bytes of the dedicated buffer in which the next batch begins; `None`: it begins in a slot.
    pub(crate) fn next_bytes(&self) -> Option<usize> {
        (self.bytes > 0).then_some(self.bytes)
    }

    /// A batch did not fit a slot with this many bytes.
    pub(crate) fn left_slot(&mut self, slot: usize) {
        self.small = slot - slot / 8;
    }

    /// A batch in a dedicated buffer has used this many bytes. The next one can get as many, not
    /// more: the next batch can get what this one got.
    pub(crate) fn used(&mut self, bytes: usize) {
        if bytes > self.small {
            (self.bytes, self.fitting) = (self.bytes.max(bytes), 0);
            return;
        }
        self.fitting += 1;
        if self.fitting >= FITTING {
            *self = Self::default();
        } else {
            self.bytes = self.bytes.max(bytes).max(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// A single large batch among many small ones costs few dedicated buffers, and where most
        /// are large, nearly all begin in one.
        #[test]
        fn they_begin_where_the_last_ones_fit(
            sizes in prop::collection::vec(1_usize..2_000, 1..300),
            slot in 1_usize..2_000,
        ) {
            let mut large = LargeBatches::default();
            let (mut dedicated, mut copied) = (0, 0);
            for bytes in &sizes {
                match large.next_bytes() {
                    Some(next) => {
                        prop_assert!(next <= 2_000);
                        dedicated += 1;
                        large.used(*bytes);
                    }
                    None if *bytes > slot => {
                        copied += 1;
                        large.left_slot(slot);
                        large.used(*bytes);
                        prop_assert_eq!(large.next_bytes(), Some(*bytes));
                    }
                    None => {}
                }
            }
            let larger = sizes.iter().filter(|bytes| **bytes > slot - slot / 8).count();
            prop_assert!(dedicated <= larger * FITTING as usize);
            prop_assert!(copied * (FITTING as usize + 1) <= sizes.len() + FITTING as usize);
        }
    }
}
