//! JSON strings: where one ends, whether it is sound, and what it is without its escapes.

use crate::walk::Fault;

/// From the opening quote at `start` to behind the closing one, and whether there are escapes between.
/// The string is UTF-8, has no control characters, and its escapes are sound, surrogates in pairs.
#[inline(always)]
pub(crate) fn string(text: &[u8], start: usize) -> Result<(usize, bool), Fault> {
    let (mut at, mut escaped, mut high) = (start + 1, false, 0);
    loop {
        while let Some(word) = text.get(at..).and_then(<[u8]>::first_chunk) {
            let word = u64::from_le_bytes(*word);
            high |= word;
            match stops(word) {
                0 => at += 8,
                stops => {
                    at += stops.trailing_zeros() as usize / 8;
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
                return Err(Fault { at, expected: "`\"` or characters other than control ones" });
            }
            // Less than eight bytes before the end of the text.
            Some(byte) => {
                high |= u64::from(*byte);
                at += 1;
            }
        }
    }
    // Bytes behind the quote may have been among those looked at: then it is checked in vain.
    if high & ONES << 7 != 0 {
        check_utf8(text, start + 1, at)?;
    }
    Ok((at + 1, escaped))
}

const ONES: u64 = 0x0101_0101_0101_0101;

/// Not 0 where a quote, a backslash or a control character is among the eight bytes; the lowest bit
/// set lies in the first one.
#[inline(always)]
fn stops(word: u64) -> u64 {
    let quote = word ^ (ONES * b'"' as u64);
    let backslash = word ^ (ONES * b'\\' as u64);
    let found = quote.wrapping_sub(ONES) & !quote
        | backslash.wrapping_sub(ONES) & !backslash
        | word.wrapping_sub(ONES * 0x20) & !word;
    found & ONES << 7
}

fn check_utf8(text: &[u8], start: usize, end: usize) -> Result<(), Fault> {
    str::from_utf8(&text[start..end])
        .map(|_| ())
        .map_err(|error| Fault { at: start + error.valid_up_to(), expected: "UTF-8" })
}

/// The escape at `at`; answers what stands behind it.
fn escape(text: &[u8], at: usize) -> Result<usize, Fault> {
    match text.get(at + 1) {
        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => Ok(at + 2),
        Some(b'u') => unicode(text, at).map(|(_, end)| end),
        _ => Err(Fault { at, expected: "an escape that JSON has" }),
    }
}

/// The character that the `\u` at `at` stands for, and where its escape ends.
fn unicode(text: &[u8], at: usize) -> Result<(char, usize), Fault> {
    let (first, mut end) = (unit(text, at)?, at + 6);
    let mut code = first;
    if (0xd800..0xdc00).contains(&first) && text[end..].starts_with(b"\\u") {
        let second = unit(text, end)?;
        if (0xdc00..0xe000).contains(&second) {
            code = 0x1_0000 + ((first - 0xd800) << 10 | (second - 0xdc00));
            end += 6;
        }
    }
    // Only a surrogate without its other half is no character.
    let character = char::from_u32(code);
    character.map(|c| (c, end)).ok_or(Fault { at, expected: "surrogates in pairs" })
}

/// The four hexadecimal digits of the `\u` at `at`.
fn unit(text: &[u8], at: usize) -> Result<u32, Fault> {
    let digits = text.get(at + 2..at + 6).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
    let code = digits.and_then(|digits| u32::from_str_radix(str::from_utf8(digits).ok()?, 16).ok());
    code.ok_or(Fault { at, expected: "four hexadecimal digits behind `\\u`" })
}

/// Appends what a string is without its escapes. `text` is what stands between the quotes, found sound
/// by [`string`].
pub(crate) fn unescape(text: &[u8], to: &mut Vec<u8>) {
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
    use super::{stops, string};

    #[test]
    fn first_stop() {
        for byte in 0..=u8::MAX {
            let is_stop = byte < 0x20 || byte == b'"' || byte == b'\\';
            for around in [b'a', 0x20, 0x7f, 0x80, 0xff, b'#', b'!', b'[', b']'] {
                for place in 0..8 {
                    let mut word = [around; 8];
                    word[place] = byte;
                    let found = stops(u64::from_le_bytes(word));
                    let wanted = if is_stop { place } else { 8 };
                    assert_eq!(found.trailing_zeros() as usize / 8, wanted, "{byte} in {around}");
                }
            }
        }
    }

    #[test]
    fn utf8_is_checked_wherever_it_stands() {
        for before in 0..20 {
            for after in 0..20 {
                let mut text = [vec![b'a'; before], b"\xff".to_vec(), vec![b'b'; after]].concat();
                text.insert(0, b'"');
                text.push(b'"');
                let fault = string(&text, 0).expect_err("is no UTF-8");
                assert_eq!((fault.at, fault.expected), (before + 1, "UTF-8"));
            }
        }
    }
}
