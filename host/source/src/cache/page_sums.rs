//! The checksum of bytes, made of those of their pages: no byte is read for it again.

use std::sync::LazyLock;

use crc_fast::{CrcAlgorithm, checksum_combine};

use super::block_file::PAGE;

/// What each byte of a checksum adds to the checksum of the bytes and a page that follows them.
type BeforePage = [[u64; 256]; 8];

static BEFORE_PAGE: LazyLock<Box<BeforePage>> = LazyLock::new(|| {
    let before = |sum: u64| checksum_combine(CrcAlgorithm::Crc64Nvme, sum, 0, PAGE);
    let mut table = Box::new([[0; 256]; 8]);
    for (number, of_byte) in table.iter_mut().enumerate() {
        for bit in 0..8 {
            let of_bit = before(1 << (8 * number + bit));
            for value in 0..1 << bit {
                of_byte[1 << bit | value] = of_byte[value] ^ of_bit;
            }
        }
    }
    table
});

/// The CRC-64/NVME of bytes that have the checksum `before`, followed by a page of [`PAGE`] bytes
/// that has the checksum `page`.
pub(crate) fn with_page(before: u64, page: u64) -> u64 {
    let bytes = before.to_le_bytes().into_iter().zip(BEFORE_PAGE.iter());
    bytes.fold(page, |sum, (byte, of_byte)| sum ^ of_byte[usize::from(byte)])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn crc(bytes: &[u8]) -> u64 {
        crc_fast::checksum(CrcAlgorithm::Crc64Nvme, bytes)
    }

    proptest! {
        #[test]
        fn the_checksum_is_that_of_the_bytes(
            before in prop::collection::vec(any::<u8>(), 0..300),
            seeds in prop::collection::vec(any::<u64>(), 1..4),
        ) {
            let mut bytes = before;
            let mut sum = crc(&bytes);
            for seed in seeds {
                let mut page = vec![0; PAGE as usize];
                fastrand::Rng::with_seed(seed).fill(&mut page);
                sum = with_page(sum, crc(&page));
                bytes.append(&mut page);
                prop_assert_eq!(sum, crc(&bytes));
            }
        }
    }
}
