//! Checks that text is UTF-8, and names the likely encoding if it is not.

/// Offset of the first byte that is not UTF-8; the length of `bytes` if there is none. Without
/// `end`, a character at the end may be incomplete.
pub fn valid_up_to(bytes: &[u8], end: bool) -> usize {
    match simdutf8::compat::from_utf8(bytes) {
        Ok(_) => bytes.len(),
        Err(error) if !end && error.error_len().is_none() => bytes.len(),
        Err(error) => error.valid_up_to(),
    }
}

/// The likely encoding of a value that is not UTF-8 from byte `at` on, and how to convert it. Only
/// the value counts, so that the result does not depend on how the input was split.
pub fn looks_like(value: &[u8], at: usize) -> &'static str {
    let bad = value.get(at..).unwrap_or_default();
    match value {
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => "UTF-16 (`iconv -f UTF-16 -t UTF-8` converts it)",
        [0x1f, 0x8b, ..] => "gzip: set its compression",
        [0x28, 0xb5, 0x2f, 0xfd, ..] => "zstd: set its compression",
        _ if bad.contains(&0) => "binary data",
        // The control codes of Latin-1 are letters and quotes of Windows-1252.
        _ if bad.iter().any(|byte| (0x80..0xa0).contains(byte)) => {
            "Windows-1252 (`iconv -f WINDOWS-1252 -t UTF-8` converts it)"
        }
        _ => "Latin-1 (`iconv -f LATIN1 -t UTF-8` converts it)",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_character_is_bad_only_at_the_end() {
        let text = "aé".as_bytes();
        assert_eq!(valid_up_to(text, true), 3);
        assert_eq!(valid_up_to(&text[..2], false), 2);
        assert_eq!(valid_up_to(&text[..2], true), 1);
        assert_eq!(valid_up_to(b"a\xffb", false), 1);
    }

    #[test]
    fn encodings_are_named() {
        for (value, at, expected) in [
            (&b"\xff\xfea\0"[..], 0, "UTF-16"),
            (b"caf\xe9", 3, "Latin-1"),
            (b"a \x93quoted\x94", 2, "Windows-1252"),
            (b"\x1f\x8b\x08", 1, "gzip"),
            (b"\xff\0\0", 0, "binary data"),
        ] {
            assert!(looks_like(value, at).starts_with(expected), "{value:?}");
        }
    }
}
