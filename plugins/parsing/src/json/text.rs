//! JSON strings: finding their end, checking them, and removing their escapes.

use super::syntax_error::SyntaxError;

/// Checks the string whose opening quote is at `start`: it must be UTF-8 without control
/// characters, with valid escapes. Returns the offset after the closing quote, and whether there
/// are escapes.
#[inline(always)]
pub(super) fn check_string(text: &[u8], start: usize) -> Result<(usize, bool), SyntaxError> {
    let (mut at, mut escaped, mut high) = (start + 1, false, 0);
    loop {
        while let Some(word) = text.get(at..).and_then(<[u8]>::first_chunk) {
            let word = u64::from_le_bytes(*word);
            high |= word;
            match stop_mask(word) {
                0 => at += 8,
                mask => {
                    at += mask.trailing_zeros() as usize / 8;
                    break;
                }
            }
        }
        match text.get(at) {
            Some(b'"') => break,
            Some(b'\\') => {
                at = escape(text, at)?;
                escaped = true;
            }
            Some(..0x20) | None => {
                return Err(SyntaxError {
                    at,
                    expected: "`\"` or characters other than control ones",
                });
            }
            // Fewer than eight bytes are left of the text.
            Some(byte) => {
                high |= u64::from(*byte);
                at += 1;
            }
        }
    }
    // `high` may include bytes after the quote. The check is not needed then, but does no harm.
    if high & ONES << 7 != 0 {
        check_utf8(text, start + 1, at)?;
    }
    Ok((at + 1, escaped))
}

/// 1 in each byte.
const ONES: u64 = 0x0101_0101_0101_0101;

/// Nonzero if one of the eight bytes is a quote, a backslash or a control character. The lowest set
/// bit is in the first such byte; higher bits can be wrong.
#[inline(always)]
fn stop_mask(word: u64) -> u64 {
    let quote = word ^ (ONES * b'"' as u64);
    let backslash = word ^ (ONES * b'\\' as u64);
    let found = quote.wrapping_sub(ONES) & !quote
        | backslash.wrapping_sub(ONES) & !backslash
        | word.wrapping_sub(ONES * 0x20) & !word;
    found & ONES << 7
}

fn check_utf8(text: &[u8], start: usize, end: usize) -> Result<(), SyntaxError> {
    str::from_utf8(&text[start..end])
        .map(|_| ())
        .map_err(|error| SyntaxError { at: start + error.valid_up_to(), expected: "UTF-8" })
}

/// Checks the escape at `at`. Returns the end of the escape.
#[inline(always)]
pub(super) fn escape(text: &[u8], at: usize) -> Result<usize, SyntaxError> {
    match text.get(at + 1) {
        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => Ok(at + 2),
        Some(b'u') => unicode(text, at).map(|(_, end)| end),
        _ => Err(SyntaxError { at, expected: "an escape that JSON has" }),
    }
}

/// The character that is escaped by the `\u` at `at`, and the end of the escape.
fn unicode(text: &[u8], at: usize) -> Result<(char, usize), SyntaxError> {
    let (first, mut end) = (hex_digits(text, at)?, at + 6);
    let mut code = first;
    if (0xd800..0xdc00).contains(&first) && text[end..].starts_with(b"\\u") {
        let second = hex_digits(text, end)?;
        if (0xdc00..0xe000).contains(&second) {
            code = 0x1_0000 + ((first - 0xd800) << 10 | (second - 0xdc00));
            end += 6;
        }
    }
    // This fails only for a surrogate without its other half.
    let character = char::from_u32(code);
    character.map(|c| (c, end)).ok_or(SyntaxError { at, expected: "surrogates in pairs" })
}

/// The value of the four hexadecimal digits of the `\u` at `at`.
#[inline(always)]
fn hex_digits(text: &[u8], at: usize) -> Result<u32, SyntaxError> {
    let digits: Option<&[u8; 4]> = text.get(at + 2..).and_then(<[u8]>::first_chunk);
    let code = digits.map_or(NO_DIGIT, |digits| {
        digits.iter().fold(0, |code, digit| code << 4 | HEX[usize::from(*digit)])
    });
    if code >= NO_DIGIT {
        return Err(SyntaxError { at, expected: "four hexadecimal digits after `\\u`" });
    }
    Ok(code)
}

/// Four digits never have a value as large as this.
const NO_DIGIT: u32 = 1 << 16;

/// The values of hexadecimal digits. The value of any other byte makes the sum [`NO_DIGIT`] or
/// more, at any position.
const HEX: [u32; 256] = {
    let mut values = [NO_DIGIT; 256];
    let mut value = 0;
    while value < 16 {
        values[b"0123456789abcdef"[value] as usize] = value as u32;
        values[b"0123456789ABCDEF"[value] as usize] = value as u32;
        value += 1;
    }
    values
};

/// Appends the value of a string, without its escapes. `text` is the bytes between the quotes,
/// which [`check_string`] accepted.
pub(super) fn unescape(text: &[u8], to: &mut Vec<u8>) {
    let mut rest = 0;
    while let Some(ahead) = memchr::memchr(b'\\', &text[rest..]) {
        let at = rest + ahead;
        to.extend_from_slice(&text[rest..at]);
        let plain = match text.get(at + 1) {
            Some(b'b') => 0x08,
            Some(b'f') => 0x0c,
            Some(b'n') => b'\n',
            Some(b'r') => b'\r',
            Some(b't') => b'\t',
            Some(b'u') => {
                let Ok((character, end)) = unicode(text, at) else { return };
                to.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                rest = end;
                continue;
            }
            Some(other) => *other,
            None => return,
        };
        to.push(plain);
        rest = at + 2;
    }
    to.extend_from_slice(&text[rest..]);
}

#[cfg(test)]
mod tests {
    use super::{check_string, stop_mask};

    #[test]
    fn the_mask_finds_the_first_stop() {
        for byte in 0..=u8::MAX {
            let is_stop = byte < 0x20 || byte == b'"' || byte == b'\\';
            for around in [b'a', 0x20, 0x7f, 0x80, 0xff, b'#', b'!', b'[', b']'] {
                for place in 0..8 {
                    let mut word = [around; 8];
                    word[place] = byte;
                    let found = stop_mask(u64::from_le_bytes(word));
                    let wanted = if is_stop { place } else { 8 };
                    assert_eq!(found.trailing_zeros() as usize / 8, wanted, "{byte} in {around}");
                }
            }
        }
    }

    #[test]
    fn utf8_is_checked_at_every_offset() {
        for before in 0..20 {
            for after in 0..20 {
                let mut text = [vec![b'a'; before], b"\xff".to_vec(), vec![b'b'; after]].concat();
                text.insert(0, b'"');
                text.push(b'"');
                let error = check_string(&text, 0).expect_err("not UTF-8");
                assert_eq!((error.at, error.expected), (before + 1, "UTF-8"));
            }
        }
    }
}
