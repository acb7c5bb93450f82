//! Detects objects of clearly other formats by their first bytes: for decoders that accept any
//! bytes.
//!
//! A signature is listed here only if other data does not begin like it by chance: it has at least
//! 32 bits, or it is text that no data contains. The result depends only on the object, not on how
//! its bytes arrive: while [`is_undecided`] says so, more bytes are needed.

/// The format of an object that begins with `head`, if it is clear, and what to do. The text
/// completes a sentence: "the object is …".
///
/// Ask [`is_undecided`] first, unless `head` is the whole object.
pub fn foreign(head: &[u8]) -> Option<&'static str> {
    let head = &head[..head.len().min(MAX_HEAD)];
    SIGNATURES.iter().find(|known| (known.begins)(head) == Begin::Yes).map(|known| known.what)
}

/// Whether `head` is too short to detect the format. Text is decided at its first byte that no
/// signature has, at most after [`MAX_HEAD`] bytes.
pub fn is_undecided(head: &[u8]) -> bool {
    head.len() < MAX_HEAD && SIGNATURES.iter().any(|known| (known.begins)(head) == Begin::Cut)
}

/// Number of bytes of an object after which the decision is always possible.
pub const MAX_HEAD: usize = 64;

/// The beginning of an object, compared with a signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Begin {
    /// It differs from the signature.
    No,
    /// It matches the signature so far, but is incomplete.
    Cut,
    /// It matches the signature.
    Yes,
}

struct Signature {
    begins: fn(&[u8]) -> Begin,
    what: &'static str,
}

const SIGNATURES: &[Signature] = &[
    Signature {
        begins: |head| with(head, b"version https://git-lfs.github.com/spec/"),
        what: "a pointer of Git LFS, not the data: `git lfs pull` gets the data",
    },
    Signature {
        begins: html,
        what: "an HTML page, maybe the error page of a server: look into it, and get the data again",
    },
    Signature {
        begins: |head| with(head, b"\x93NUMPY"),
        what: "a NumPy array with a header (.npy): set decoder = \"npy\"",
    },
    Signature {
        begins: llm_c,
        what: "a token file of llm.c: set decoder = \"tokens\" and its option format = \"llm.c\"",
    },
    Signature { begins: gzip, what: "compressed with gzip: set compression = \"gzip\"" },
    Signature {
        begins: |head| with(head, b"\x28\xb5\x2f\xfd"),
        what: "compressed with zstd: set compression = \"zstd\"",
    },
    Signature { begins: bzip2, what: "compressed with bzip2: unpack it first" },
    Signature {
        begins: |head| with(head, b"\xfd7zXZ\0"),
        what: "compressed with xz: unpack it first",
    },
    Signature {
        begins: |head| with(head, b"\x04\x22\x4d\x18"),
        what: "compressed with lz4: unpack it first",
    },
    Signature {
        begins: |head| with(head, b"PK\x03\x04"),
        what: "a zip archive: unpack it first; if it is a .npz of NumPy, set decoder = \"npz\"",
    },
    Signature {
        begins: |head| with_control(head, b"PAR1"),
        what: "a Parquet file: set decoder = \"parquet\"",
    },
    Signature {
        begins: |head| with_control(head, b"ARROW1"),
        what: "an Arrow file: set decoder = \"arrow\"",
    },
    Signature {
        begins: |head| with_control(head, b"ORC"),
        what: "an ORC file: `pyarrow` reads it, and can write rows from it",
    },
    Signature {
        begins: |head| with(head, b"MMIDIDX\0\0"),
        what: "the index of a dataset of Megatron-LM: name the .bin beside it, and set decoder = \
               \"megatron\"",
    },
    Signature {
        begins: |head| with(head, b"\x83\xaf\x70\xd1\x0d\x88\x4a\x3f\0\0\0\0\0\0\0\0"),
        what: "an ArrayRecord or Riegeli file: set decoder = \"array-record\"",
    },
    Signature {
        begins: |head| with(head, b"Obj\x01"),
        what: "an Avro file: set decoder = \"avro\"",
    },
    Signature { begins: |head| with(head, b"\x89HDF\r\n\x1a\n"), what: "an HDF5 file" },
    Signature { begins: |head| with(head, b"SQLite format 3\0"), what: "an SQLite database" },
    Signature { begins: |head| with(head, b"\x89PNG\r\n\x1a\n"), what: "a PNG image" },
    Signature { begins: jpeg, what: "a JPEG image" },
    Signature { begins: |head| with(head, b"%PDF-"), what: "a PDF document" },
];

fn with(head: &[u8], magic: &[u8]) -> Begin {
    match head.len() < magic.len() {
        _ if head.starts_with(magic) => Begin::Yes,
        true if magic.starts_with(head) => Begin::Cut,
        _ => Begin::No,
    }
}

/// Letters that a text may begin with: a control code that no text contains must follow them.
fn with_control(head: &[u8], letters: &[u8]) -> Begin {
    match (with(head, letters), head.get(letters.len())) {
        (Begin::Yes, None) => Begin::Cut,
        (Begin::Yes, Some(0..=8 | 14..=31)) => Begin::Yes,
        (Begin::Yes, Some(_)) => Begin::No,
        (other, _) => other,
    }
}

/// Whether the bytes from the start of `head` on fulfil `tests`, with one test for each byte.
fn each<const N: usize>(head: &[u8], tests: [fn(u8) -> bool; N]) -> Begin {
    match tests.iter().zip(head).all(|(test, byte)| test(*byte)) {
        true if head.len() < N => Begin::Cut,
        true => Begin::Yes,
        false => Begin::No,
    }
}

/// The header of RFC 1952. The time is arbitrary; the reserved flags are 0.
fn gzip(head: &[u8]) -> Begin {
    let any = |_| true;
    each(
        head,
        [
            |byte| byte == 0x1f,
            |byte| byte == 0x8b,
            |byte| byte == 8,
            |flags| flags < 0x20,
            any,
            any,
            any,
            any,
            |level| matches!(level, 0 | 2 | 4),
            |system| matches!(system, 0..=13 | 255),
        ],
    )
}

/// The level, then the first block, or the end if there is none.
fn bzip2(head: &[u8]) -> Begin {
    match with(head, b"BZh") {
        Begin::Yes => {}
        other => return other,
    }
    let Some((level, rest)) = head[3..].split_first() else { return Begin::Cut };
    if !(b'1'..=b'9').contains(level) {
        return Begin::No;
    }
    match with(rest, b"1AY&SY") {
        Begin::No => with(rest, b"\x17\x72\x45\x38\x50\x90"),
        other => other,
    }
}

fn jpeg(head: &[u8]) -> Begin {
    let any = |_| true;
    let start = each(head, [|byte| byte == 0xff, |byte| byte == 0xd8, |byte| byte == 0xff, any]);
    let Some(marker) = head.get(3..) else { return start };
    if start != Begin::Yes {
        return start;
    }
    // JFIF, Exif, or a table of quantization of 67 or 132 bytes.
    match marker {
        [0xe0, _, _, name @ ..] => with(name, b"JFIF\0"),
        [0xe1, _, _, name @ ..] => with(name, b"Exif\0"),
        [0xdb, length @ ..] => match with(length, &[0, 67]) {
            Begin::No => with(length, &[0, 132]),
            other => other,
        },
        [0xe0 | 0xe1, ..] => Begin::Cut,
        _ => Begin::No,
    }
}

/// The magic number and the version of llm.c's files of tokens, for GPT-2 and for Llama 3.
fn llm_c(head: &[u8]) -> Begin {
    const GPT_2: [u8; 8] = header_of(20_240_520, 1);
    const LLAMA_3: [u8; 8] = header_of(20_240_801, 7);
    match with(head, &GPT_2) {
        Begin::No => with(head, &LLAMA_3),
        other => other,
    }
}

const fn header_of(magic: u32, version: u32) -> [u8; 8] {
    let ([a, b, c, d], [e, f, g, h]) = (magic.to_le_bytes(), version.to_le_bytes());
    [a, b, c, d, e, f, g, h]
}

fn html(head: &[u8]) -> Begin {
    const BOM: &[u8] = b"\xef\xbb\xbf";
    let text = head.strip_prefix(BOM).unwrap_or(head).trim_ascii_start();
    if text.is_empty() && !head.is_empty() || BOM.starts_with(head) {
        return Begin::Cut;
    }
    let lower = text[..text.len().min(16)].to_ascii_lowercase();
    match (with(&lower, b"<!doctype html"), with(&lower, b"<html")) {
        (Begin::No, Begin::Yes) => match lower.get(5) {
            None => Begin::Cut,
            Some(b'>' | b' ' | b'\t' | b'\r' | b'\n') => Begin::Yes,
            Some(_) => Begin::No,
        },
        (Begin::No, other) => other,
        (other, _) => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: &[(&[u8], &str)] = &[
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:", "a pointer of Git LFS"),
        (b"\xef\xbb\xbf \r\n<!DOCTYPE html>", "an HTML page"),
        (b"<HTML lang=\"en\">", "an HTML page"),
        (b"\x93NUMPY\x01\0v\0", "a NumPy array"),
        (b"\x88\xd8\x34\x01\x01\0\0\0\0\x10", "a token file of llm.c"),
        (b"\xa1\xd9\x34\x01\x07\0\0\0\0\x10", "a token file of llm.c"),
        (b"\x1f\x8b\x08\x08abcd\0\x03x.csv\0", "compressed with gzip"),
        (b"\x28\xb5\x2f\xfd\x04", "compressed with zstd"),
        (b"BZh91AY&SY1234", "compressed with bzip2"),
        (b"BZh9\x17\x72\x45\x38\x50\x90", "compressed with bzip2"),
        (b"\xfd7zXZ\0\0", "compressed with xz"),
        (b"PK\x03\x04\x14\0", "a zip archive"),
        (b"PAR1\x15\x04\x15", "a Parquet file"),
        (b"ARROW1\0\0", "an Arrow file"),
        (b"\x83\xaf\x70\xd1\x0d\x88\x4a\x3f\0\0\0\0\0\0\0\0\x40", "an ArrayRecord or Riegeli"),
        (b"Obj\x01\x04", "an Avro file"),
        (b"SQLite format 3\0\x10", "an SQLite database"),
        (b"\xff\xd8\xff\xe0\0\x10JFIF\0\x01", "a JPEG image"),
        (b"%PDF-1.7\n", "a PDF document"),
    ];

    #[test]
    fn what_is_plainly_something_else_is_known() {
        for (head, what) in KNOWN {
            assert!(!is_undecided(head), "{}", head.escape_ascii());
            let found = foreign(head).unwrap_or_default();
            assert!(found.starts_with(what), "{}: {found}", head.escape_ascii());
        }
    }

    #[test]
    fn every_prefix_is_undecided_or_tells_the_same() {
        for (head, _) in KNOWN {
            for length in 0..head.len() {
                let part = &head[..length];
                let told = foreign(part);
                assert!(told.is_none() || told == foreign(head), "{}", part.escape_ascii());
                assert!(told.is_some() || is_undecided(part), "{}", part.escape_ascii());
            }
        }
    }

    #[test]
    fn data_is_not_something_else() {
        for head in [
            &b"PAR1,PAR2\n1,2\n"[..],
            b"version,https\n",
            b"BZh9 is a word\n",
            b"ORC,ELF\n",
            b"<htmlx>\n",
            b"<item>\n",
            b"a,b\n",
            b"\xef\xbb\xbfa,b\n",
            b"\x1f\x8b\x08\x20abcd\0\x03",
            b"\x1f\x8b\x08\0abcd\x01\x03",
            b"\xff\xff\xff\xff\0\0\0\0",
            b"\xff\xd8\xff\x05\x01\x02",
        ] {
            assert_eq!(
                (foreign(head), is_undecided(head)),
                (None, false),
                "{}",
                head.escape_ascii()
            );
        }
        assert!(is_undecided(b"PAR"));
        assert!(!is_undecided(b"x"));
        assert!(!is_undecided(&[b' '; MAX_HEAD]));
        assert_eq!(foreign(format!("{:80}<html>", "").as_bytes()), None);
    }
}
