//! The inputs of the tests: nasty text, and tables with a writer for them.

use proptest::prelude::*;

/// Text that consists largely of bytes with a meaning.
pub fn nasty() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        4 => Just(&b"\""[..]),
        3 => Just(&b","[..]),
        3 => Just(&b"\n"[..]),
        1 => Just(&b"\r\n"[..]),
        1 => Just(&b"\r"[..]),
        1 => Just(&b"\"\""[..]),
        1 => Just(&b"\",\""[..]),
        1 => Just(&b"\"\n\""[..]),
        1 => Just(&b"#"[..]),
        1 => Just(&b"\\"[..]),
        1 => Just(&b" "[..]),
        1 => Just(&b"\t"[..]),
        4 => Just(&b"a"[..]),
        1 => Just(&b"1.5"[..]),
        1 => Just(&b"\xef\xbb\xbf"[..]),
        1 => Just(&b"\xff\0"[..]),
        // Longer than a block of the scanner.
        1 => Just(&b"0123456789012345678901234567890123456789012345678901234567890123456789"[..]),
    ];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

/// A table: all rows have the same number of fields.
pub fn table() -> impl Strategy<Value = Vec<Vec<Vec<u8>>>> {
    let byte = prop_oneof![
        Just(b','),
        Just(b'"'),
        Just(b'\n'),
        Just(b'\r'),
        Just(b'a'),
        Just(b' '),
        any::<u8>()
    ];
    let field = prop::collection::vec(byte, 0..20);
    (1usize..6).prop_flat_map(move |width| {
        prop::collection::vec(prop::collection::vec(field.clone(), width), 0..12)
    })
}

/// Writes a table. `coins` decides the choices of a writer: unnecessary quotes, CR LF instead of
/// LF, blank lines between rows, no line end after the last row.
pub fn write(table: &[Vec<Vec<u8>>], coins: &[u8]) -> Vec<u8> {
    let mut coins = coins.iter().copied().cycle();
    let mut coin = || coins.next().unwrap_or(0);
    let mut file = Vec::new();
    for (i, row) in table.iter().enumerate() {
        for (j, field) in row.iter().enumerate() {
            if j > 0 {
                file.push(b',');
            }
            let blank = row.len() == 1 && field.is_empty();
            let bom = i == 0 && j == 0 && field.starts_with(b"\xef");
            // At the end of the file, this byte would be its end for DOS, and not text.
            let is_last = i + 1 == table.len() && j + 1 == row.len();
            let dos_end = is_last && field.ends_with(b"\x1a");
            let special = field.iter().any(|byte| b",\"\r\n".contains(byte));
            if special || blank || bom || dos_end || coin() % 3 == 0 {
                file.push(b'"');
                for byte in field {
                    file.extend(if *byte == b'"' {
                        &b"\"\""[..]
                    } else {
                        std::slice::from_ref(byte)
                    });
                }
                file.push(b'"');
            } else {
                file.extend(field);
            }
        }
        let last = i + 1 == table.len();
        file.extend(match coin() % 8 {
            0 | 1 => &b"\r\n"[..],
            2 => &b"\n\n\r\n"[..],
            3 if last => &b""[..],
            _ => &b"\n"[..],
        });
    }
    file
}

/// A written table with some bytes changed, often to bytes with a meaning.
pub fn damaged_table() -> impl Strategy<Value = Vec<u8>> {
    let byte =
        prop_oneof![Just(b'"'), Just(b','), Just(b'\n'), Just(b'\r'), Just(b'#'), any::<u8>()];
    let coins = prop::collection::vec(any::<u8>(), 1..40);
    let damage = prop::collection::vec((any::<prop::sample::Index>(), byte), 0..4);
    (table(), coins, damage).prop_map(|(table, coins, damage)| {
        let mut file = write(&table, &coins);
        for (at, byte) in damage {
            if !file.is_empty() {
                let at = at.index(file.len());
                file[at] = byte;
            }
        }
        file
    })
}
