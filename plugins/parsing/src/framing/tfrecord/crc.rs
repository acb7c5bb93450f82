//! TensorFlow's masked CRC-32C. The host checks the checksums quickly; the code here computes only
//! the checksum of a bad record, for its message.

/// Removes the mask: `masked = rotate_right(crc, 15) + 0xa282ead8`.
#[inline(always)]
pub(super) fn unmask(masked: u32) -> u32 {
    masked.wrapping_sub(0xa282_ead8).rotate_left(15)
}

/// The masked CRC-32C of `bytes`.
pub(super) fn masked(bytes: &[u8]) -> u32 {
    let step = |crc: u32, byte: &u8| TABLE[usize::from(crc as u8 ^ byte)] ^ crc >> 8;
    let crc = !bytes.iter().fold(!0, step);
    crc.rotate_right(15).wrapping_add(0xa282_ead8)
}

/// The CRC-32C of each byte, for a table lookup per byte.
const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::{masked, unmask};

    #[test]
    fn check_value() {
        assert_eq!(masked(b"123456789"), 0xc78a_b0e5);
        assert_eq!(unmask(0xc78a_b0e5), 0xe306_9283);
    }
}
