//! Integers of one to ten bytes, as in protocol buffers.

/// Takes an integer from the start of the bytes. `None` if there is none.
pub(crate) fn take(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for (number, byte) in bytes.iter().enumerate().take(10) {
        let bits = u64::from(byte & 0x7f);
        // The tenth byte has one bit.
        if number == 9 && bits > 1 {
            return None;
        }
        value |= bits << (7 * number);
        if byte & 0x80 == 0 {
            *bytes = &bytes[number + 1..];
            return Some(value);
        }
    }
    None
}
