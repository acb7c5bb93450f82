//! Classifies the first bytes of an object: a signature, text, or unknown.
//!
//! The result depends only on the object, not on how its bytes arrive: [`sniff`] returns `None`
//! until it has all the bytes that it needs.

use pipemill_source::Compression;

use super::Format;
use super::dialect::Dialect;
use super::text::{self, Text};

/// Number of bytes that are searched for signatures: one block of a tar archive.
const SIGNATURE_BYTES: usize = 512;
/// The header of a Riegeli file's first block, up to its constants: a hash, and no bytes before it.
const RIEGELI: [u8; 16] = *b"\x83\xaf\x70\xd1\x0d\x88\x4a\x3f\0\0\0\0\0\0\0\0";
/// First word of a RecordIO record, little-endian.
const RECORDIO_MAGIC: [u8; 4] = 0xced7_230a_u32.to_le_bytes();

/// The kind of an object's first bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Sniffed {
    /// The object has no byte.
    Empty,
    /// A signature that only this format has.
    Format(Format),
    /// Compressed data.
    Compressed(Compression),
    /// A format that no decoder reads: its name, and what to do about it.
    Unsupported(&'static str, &'static str),
    /// Text.
    Text(Text),
    /// Neither text, nor a known signature.
    Unknown {
        /// Whether it can be MessagePack.
        msgpack: bool,
        /// The first byte that no text contains, and its place: the offset, and the line, from 1.
        odd: Option<(u8, usize, usize)>,
    },
}

/// Classifies the first bytes of an object, and finds what rows they have with this dialect.
/// `ended` says that `head` is the whole object. `None` means that more bytes are needed.
pub(super) fn sniff(head: &[u8], ended: bool, dialect: &Dialect) -> Option<Sniffed> {
    if !ended && head.len() < SIGNATURE_BYTES {
        return None;
    }
    if head.is_empty() {
        return Some(Sniffed::Empty);
    }
    let first = &head[..head.len().min(SIGNATURE_BYTES)];
    if let Some(found) = signature(first) {
        return Some(found);
    }
    // The end-of-file byte of DOS at the end of a text is not part of it.
    let text = text::without_dos_end(head);
    let may_end = text.len() < head.len() && text::is_text(&text[..text.len().min(first.len())]);
    if !ended && may_end && head.len() < text::MAX_BYTES {
        return None;
    }
    let head = if ended { text } else { head };
    let first = &head[..head.len().min(SIGNATURE_BYTES)];
    // Text rarely begins like this, so it must not be text if it is MessagePack.
    let window = match text::window(head, ended) {
        _ if !text::is_text(first) => first,
        Some(window) => window,
        None => return None,
    };
    if text::is_text(window) {
        let whole = ended && window.len() == head.len();
        return Some(match text::markup(window) {
            Some((what, remedy)) => Sniffed::Unsupported(what, remedy),
            None => Sniffed::Text(Text::of(window, whole, dialect)),
        });
    }
    let cut = !(ended && first.len() == head.len());
    Some(Sniffed::Unknown { msgpack: is_msgpack(first, cut), odd: text::odd_byte(window) })
}

fn signature(first: &[u8]) -> Option<Sniffed> {
    let format = |format| Some(Sniffed::Format(format));
    match first {
        [0x1f, 0x8b, 8, ..] => return Some(Sniffed::Compressed(Compression::Gzip)),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => return Some(Sniffed::Compressed(Compression::Zstd)),
        _ if first.starts_with(b"Obj\x01") => return format(Format::Avro),
        _ if first.starts_with(&RIEGELI) => return format(Format::ArrayRecord),
        _ if first.starts_with(b"\x93NUMPY") => return format(Format::Npy),
        _ if is_recordio(first) => return format(Format::RecordIo),
        _ if is_tfrecord(first) => return format(Format::TfRecord),
        _ if is_tar(first) => return format(Format::Tar),
        _ if is_npz(first) => return format(Format::Npz),
        _ if is_mds(first) => return format(Format::Mds),
        _ => {}
    }
    if let Some(what) = utf16(first) {
        return Some(Sniffed::Unsupported(what, "convert it: `iconv -f UTF-16 -t UTF-8`"));
    }
    let is_text = text::is_text(first);
    if first.starts_with(b"ARROW1") && !is_text || is_arrow_stream(first) {
        return format(Format::Arrow);
    }
    if first.starts_with(b"PAR1") && !first.starts_with(INDEX) && !is_text {
        return format(Format::Parquet);
    }
    // Magic bytes that a text may begin with count only if bytes follow that no text contains.
    let mut known = UNSUPPORTED.iter().filter(|known| !known.letters || !is_text);
    let found = known.find(|known| first.starts_with(known.magic))?;
    Some(Sniffed::Unsupported(found.what, found.remedy))
}

/// A format that no decoder reads.
struct Unsupported {
    magic: &'static [u8],
    /// Whether the magic bytes are plain letters.
    letters: bool,
    what: &'static str,
    remedy: &'static str,
}

const fn unsupported(
    magic: &'static [u8],
    letters: bool,
    what: &'static str,
    remedy: &'static str,
) -> Unsupported {
    Unsupported { magic, letters, what, remedy }
}

const FEATHER_2: &str = "no decoder reads it: write it again as version 2, with `pyarrow.feather`";
const UNPACK: &str = "unpack it first, or compress it with gzip or zstd";
const NO_DECODER: &str = "no decoder reads it; check what the source holds";

/// An index is Parquet, and no data. It begins like this.
const INDEX: &[u8] = b"PAR1pipemill";
const READ_AS_INDEX: &str =
    "read it as one, with source = { index = \"…\" }; `pipemill index show` shows what it knows";

const UNSUPPORTED: &[Unsupported] = &[
    unsupported(b"PARE", true, "an encrypted Parquet file", "decrypt it first"),
    unsupported(INDEX, true, "an index of pipemill", READ_AS_INDEX),
    unsupported(b"FEA1", true, "a Feather file of version 1", FEATHER_2),
    unsupported(b"BZh", true, "compressed with bzip2", UNPACK),
    unsupported(b"\xfd7zXZ\0", false, "compressed with xz", UNPACK),
    unsupported(b"\x04\x22\x4d\x18", false, "compressed with lz4", UNPACK),
    unsupported(b"PK\x03\x04", false, "a zip archive", UNPACK),
    unsupported(b"PK\x05\x06", false, "an empty zip archive", UNPACK),
    unsupported(b"\x89HDF\r\n\x1a\n", false, "an HDF5 file", NO_DECODER),
    unsupported(b"SQLite format 3\0", false, "an SQLite database", NO_DECODER),
    unsupported(b"\x89PNG\r\n\x1a\n", false, "a PNG image", NO_DECODER),
    unsupported(b"\xff\xd8\xff", false, "a JPEG image", NO_DECODER),
    unsupported(b"%PDF-", true, "a PDF document", NO_DECODER),
    unsupported(b"\0asm", false, "WebAssembly", "name it after `-d` if it is a decoder"),
];

fn is_recordio(first: &[u8]) -> bool {
    let Some([magic @ .., a, b, c, d]) = first.first_chunk::<8>() else { return false };
    if *magic != RECORDIO_MAGIC {
        return false;
    }
    // The next record follows on a multiple of 4 bytes. The three bits above the length say which
    // part of a record it is.
    let length = (u32::from_le_bytes([*a, *b, *c, *d]) & 0x1fff_ffff) as usize;
    let next = 8 + length.next_multiple_of(4);
    first.get(next..next + 4).is_none_or(|magic| magic == RECORDIO_MAGIC)
}

/// A TFRecord begins with its length and the masked CRC-32C of the length.
fn is_tfrecord(first: &[u8]) -> bool {
    let Some(head) = first.first_chunk::<12>() else { return false };
    let crc = crc_fast::crc32_iscsi(&head[..8]);
    let masked = crc.rotate_right(15).wrapping_add(0xa282_ead8);
    head[8..] == masked.to_le_bytes()
}

/// The header of a tar archive has the sum of its bytes, in which the sum itself counts as blanks.
fn is_tar(first: &[u8]) -> bool {
    if first.len() < SIGNATURE_BYTES || first[0] == 0 {
        return false;
    }
    let digits: Vec<u8> =
        first[148..156].iter().copied().filter(|byte| !matches!(byte, b' ' | 0)).collect();
    let told = str::from_utf8(&digits).ok().and_then(|text| u32::from_str_radix(text, 8).ok());
    let sum: u32 = first.iter().map(|byte| u32::from(*byte)).sum();
    let of_field: u32 = first[148..156].iter().map(|byte| u32::from(*byte)).sum();
    told == Some(sum - of_field + 8 * u32::from(b' '))
}

/// A stream of Arrow begins with a mark, the size of its first message, and the place of a table in
/// that message.
fn is_arrow_stream(first: &[u8]) -> bool {
    /// The largest plausible size of a schema.
    const MAX_BYTES: u32 = 16 << 20;
    let Some([mark @ .., a, b, c, d, e, f, g, h]) = first.first_chunk::<12>() else { return false };
    let (size, table) =
        (u32::from_le_bytes([*a, *b, *c, *d]), u32::from_le_bytes([*e, *f, *g, *h]));
    *mark == [0xff; 4]
        && size > 0
        && size <= MAX_BYTES
        && size % 8 == 0
        && table > 0
        && table < size
}

/// A zip archive whose first member is an array of NumPy.
fn is_npz(first: &[u8]) -> bool {
    let Some(length) = first.get(26..28) else { return false };
    let length = usize::from(u16::from_le_bytes([length[0], length[1]]));
    let name = first.get(30..30 + length);
    first.starts_with(b"PK\x03\x04") && name.is_some_and(|name| name.ends_with(b".npy"))
}

/// A shard of MDS begins with the number of its samples, and their places, which grow. JSON is
/// between them and the first sample.
fn is_mds(first: &[u8]) -> bool {
    /// The largest plausible size of the JSON, which describes columns.
    const MAX_BYTES: u64 = 1 << 20;
    let (numbers, _) = first.as_chunks::<4>();
    let mut numbers = numbers.iter().map(|number| u32::from_le_bytes(*number));
    let (Some(samples), Some(start)) = (numbers.next(), numbers.next()) else { return false };
    let json = 8 + 4 * u64::from(samples);
    let mut last = start;
    let mut places = numbers.take(usize::try_from(samples).unwrap_or(usize::MAX));
    samples > 0
        && (json + 2..json + MAX_BYTES).contains(&start.into())
        && places.all(|place| std::mem::replace(&mut last, place) < place)
        && usize::try_from(json).ok().and_then(|at| first.get(at)).is_none_or(|byte| *byte == b'{')
}

/// UTF-16 has a byte order mark, or a zero in every second byte.
fn utf16(first: &[u8]) -> Option<&'static str> {
    const LITTLE: &str = "text in UTF-16 (little-endian)";
    const BIG: &str = "text in UTF-16 (big-endian)";
    let pairs = first.len() / 2;
    let zeros = |at: usize| first.chunks_exact(2).filter(|pair| pair[at] == 0).count();
    let others = |at: usize| {
        let plain = |byte: u8| (0x20..0x7f).contains(&byte) || matches!(byte, 9 | 10 | 13);
        first.chunks_exact(2).filter(|pair| plain(pair[at])).count()
    };
    // Nearly all characters of a text with one alphabet are ASCII: blanks, digits, markup.
    let mostly = |high: usize| {
        pairs >= 8 && zeros(high) * 10 >= pairs * 9 && others(1 - high) * 10 >= pairs * 9
    };
    match first {
        [0xff, 0xfe, 0, 0, ..] => None,
        [0xff, 0xfe, ..] if text_in_utf16(first, u16::from_le_bytes) => Some(LITTLE),
        [0xfe, 0xff, ..] if text_in_utf16(first, u16::from_be_bytes) => Some(BIG),
        _ if mostly(1) => Some(LITTLE),
        _ if mostly(0) => Some(BIG),
        _ => None,
    }
}

/// Whether the bytes after a byte order mark are characters without control codes.
fn text_in_utf16(first: &[u8], unit: fn([u8; 2]) -> u16) -> bool {
    let units: Vec<u16> = first.chunks_exact(2).map(|pair| unit([pair[0], pair[1]])).collect();
    let mut decoded = char::decode_utf16(units.iter().copied());
    let is_cut = |at: usize| at + 1 == units.len();
    let mut at = 0;
    decoded.all(|char| {
        at += 1;
        match char {
            Ok(char) => !char.is_control() || matches!(char, '\t' | '\n' | '\r'),
            Err(_) => is_cut(at - 1),
        }
    })
}

/// Whether the bytes are a sequence of maps and lists of MessagePack. `cut` says that the last one
/// may continue after them.
fn is_msgpack(bytes: &[u8], cut: bool) -> bool {
    let mut at = 0;
    while at < bytes.len() {
        let first = bytes[at];
        if !matches!(first, 0x80..=0x9f | 0xdc..=0xdf) {
            return false;
        }
        // The number of values that are still to come: the values of a map or list come before the
        // next one.
        let mut left = 1_u64;
        while left > 0 {
            match msgpack_value(&bytes[at..]) {
                Some((length, inside)) => {
                    at += length;
                    left = left - 1 + inside;
                }
                // No value begins with this byte; all other values may continue after these bytes.
                None => return cut && bytes.get(at) != Some(&0xc1),
            }
        }
    }
    // A few bytes may look like MessagePack by chance.
    cut || bytes.len() >= 4
}

/// The length of a value's head, with its bytes if it has some, and the number of values inside it.
fn msgpack_value(bytes: &[u8]) -> Option<(usize, u64)> {
    let first = *bytes.first()?;
    let size = |width: usize| {
        let digits = bytes.get(1..1 + width)?;
        Some(digits.iter().fold(0_u64, |size, digit| size << 8 | u64::from(*digit)))
    };
    let (head, data, inside) = match first {
        0x00..=0x7f | 0xc0 | 0xc2 | 0xc3 | 0xe0..=0xff => (1, 0, 0),
        0x80..=0x8f => (1, 0, 2 * u64::from(first & 15)),
        0x90..=0x9f => (1, 0, u64::from(first & 15)),
        0xa0..=0xbf => (1, u64::from(first & 31), 0),
        0xc1 => return None,
        0xc4 | 0xd9 => (2, size(1)?, 0),
        0xc5 | 0xda => (3, size(2)?, 0),
        0xc6 | 0xdb => (5, size(4)?, 0),
        0xc7 => (2, 1 + size(1)?, 0),
        0xc8 => (3, 1 + size(2)?, 0),
        0xc9 => (5, 1 + size(4)?, 0),
        0xca | 0xce | 0xd2 => (1, 4, 0),
        0xcb | 0xcf | 0xd3 => (1, 8, 0),
        0xcc | 0xd0 => (1, 1, 0),
        0xcd | 0xd1 => (1, 2, 0),
        0xd4..=0xd8 => (1, 1 + (1 << (first - 0xd4)), 0),
        0xdc => (3, 0, size(2)?),
        0xdd => (5, 0, size(4)?),
        0xde => (3, 0, 2 * size(2)?),
        0xdf => (5, 0, 2 * size(4)?),
    };
    let length = usize::try_from(head + data).ok()?;
    bytes.get(..length).map(|_| (length, inside))
}
