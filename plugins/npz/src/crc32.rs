//! The CRC-32 of zip and gzip, for bytes that come in pieces. The host computes it faster, but only
//! for bytes that are all in the chunk.
//!
//! Sixteen bytes at a time, with a table for each of them ("slicing by 16"). The portable code of
//! crc32fast does the same, but takes 1.4 times as long in WebAssembly, from 256 bytes on.

/// The polynomial, with the lowest bit first.
const POLYNOMIAL: u32 = 0xedb8_8320;

/// `TABLES[k][byte]`: the CRC of a byte that `k` zeros follow.
static TABLES: [[u32; 256]; 16] = tables();

const fn tables() -> [[u32; 256]; 16] {
    let mut tables = [[0; 256]; 16];
    let mut byte = 0;
    while byte < 256 {
        let (mut crc, mut bit) = (byte as u32, 0);
        while bit < 8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ POLYNOMIAL } else { crc >> 1 };
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut table = 1;
    while table < 16 {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[table - 1][byte];
            tables[table][byte] = before >> 8 ^ tables[0][(before & 0xff) as usize];
            byte += 1;
        }
        table += 1;
    }
    tables
}

/// Four bytes of a block.
fn word(block: &[u8; 16], at: usize) -> u32 {
    u32::from_le_bytes([block[at], block[at + 1], block[at + 2], block[at + 3]])
}

/// A checksum that is being computed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Crc32(u32);

impl Crc32 {
    /// The checksum of no bytes.
    pub(crate) fn new() -> Self {
        Self(!0)
    }

    /// Adds bytes.
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        let (blocks, rest) = bytes.as_chunks::<16>();
        let mut crc = self.0;
        for block in blocks {
            let [a, b, c, d] = (crc ^ word(block, 0)).to_le_bytes();
            let [e, f, g, h] = word(block, 4).to_le_bytes();
            let [i, j, k, l] = word(block, 8).to_le_bytes();
            let [m, n, o, p] = word(block, 12).to_le_bytes();
            let bytes = [p, o, n, m, l, k, j, i, h, g, f, e, d, c, b, a];
            crc = TABLES
                .iter()
                .zip(bytes)
                .fold(0, |crc, (table, byte)| crc ^ table[usize::from(byte)]);
        }
        for byte in rest {
            crc = crc >> 8 ^ TABLES[0][((crc ^ u32::from(*byte)) & 0xff) as usize];
        }
        self.0 = crc;
    }

    /// The checksum of all bytes that were added.
    pub(crate) fn value(self) -> u32 {
        !self.0
    }
}

#[cfg(test)]
mod tests {
    use pipemill_plugin::testing::crc32;
    use proptest::prelude::*;

    use super::Crc32;

    proptest! {
        #[test]
        fn same_as_the_reference(pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..70), 0..6)) {
            let mut crc = Crc32::new();
            pieces.iter().for_each(|piece| crc.update(piece));
            prop_assert_eq!(crc.value(), crc32(&pieces.concat()));
        }
    }
}
