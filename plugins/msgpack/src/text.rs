//! Checks that texts are UTF-8. Most are short and ASCII.

use std::ops::Range;

const NOT_ASCII: u64 = 0x8080_8080_8080_8080;

/// Checks that the text is UTF-8. The error is the position of the first byte that is not.
pub(crate) fn check(text: &[u8]) -> Result<(), usize> {
    str::from_utf8(text).map(drop).map_err(|error| error.valid_up_to())
}

/// Whether the bytes of the chunk in this range are ASCII. A false result can be wrong directly
/// before the end of the chunk.
#[inline(always)]
pub(crate) fn is_ascii(chunk: &[u8], range: Range<usize>) -> bool {
    let word = |at: usize| Some(u64::from_le_bytes(*chunk.get(at..)?.first_chunk()?));
    let mut at = range.start;
    while at + 8 < range.end {
        match word(at) {
            Some(word) if word & NOT_ASCII == 0 => at += 8,
            _ => return false,
        }
    }
    // The last 0 to 8 bytes, and bytes after them that do not count.
    let Some(word) = word(at) else { return false };
    let bits = 8 * (range.end - at) as u32;
    word & NOT_ASCII & u64::MAX.checked_shl(bits).map_or(u64::MAX, |after| !after) == 0
}

#[cfg(test)]
mod tests {
    use super::is_ascii;

    #[test]
    fn every_place_is_looked_at() {
        let mut chunk = [b'a'; 60];
        for start in 0..20 {
            for end in start..=50 {
                assert!(is_ascii(&chunk, start..end), "{start}..{end}");
                for at in 0..chunk.len() {
                    chunk[at] = 0x80;
                    assert_eq!(is_ascii(&chunk, start..end), !(start..end).contains(&at));
                    chunk[at] = b'a';
                }
            }
        }
        assert!(!is_ascii(b"abc", 0..3));
    }
}
