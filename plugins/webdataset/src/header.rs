//! Reads one tar header: a block of 512 bytes. Headers that extend the next one (pax records, long
//! names) are combined in [`crate::member`].
//!
//! Follows POSIX ustar, and `tar(5)` of libarchive for the differences of GNU tar and older
//! writers.

/// Size of a block in bytes. A header is one block; data is padded with zeros to whole blocks.
pub(crate) const BLOCK: usize = 512;

/// The type of an archive entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EntryType {
    /// A file with data.
    File,
    /// Pax records for the next header.
    Pax,
    /// Pax records for all headers that follow.
    GlobalPax,
    /// GNU tar's name for the next header.
    LongName,
    /// GNU tar's link target for the next header.
    LongLink,
    /// A sparse file: its data is stored in several pieces.
    Sparse,
    /// A directory, a link or a device: it has no data, even if its size is not 0.
    NoData,
    /// Any other type, with data.
    Other,
}

/// A tar header.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Header {
    pub(crate) entry_type: EntryType,
    /// Size in bytes of the data after the header, without padding.
    pub(crate) size: u64,
    /// Length of the name in bytes. The name is at the start of the block.
    pub(crate) name: usize,
    /// Length of the prefix in bytes, which is at [`PREFIX`]. The path is the prefix, a slash and
    /// the name.
    pub(crate) prefix: usize,
    /// Whether the entry is a directory in the form of writers older than ustar: a file whose name
    /// ends with a slash. If the header has the whole name, it has no data, even if its size is not
    /// 0.
    pub(crate) is_old_directory: bool,
}

/// The reason why a block is not a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HeaderError {
    /// The sum of its bytes is `found`, but the header says `stored`, which may not be a number.
    Checksum { found: u32, stored: Option<u32> },
    /// The size is not a number.
    Size,
}

/// Length of the name, which is at offset 0.
const NAME: usize = 100;
/// Offset of the size, 12 bytes.
const SIZE: usize = 124;
/// Offset of the checksum, 8 bytes.
const CHECKSUM: usize = 148;
/// Offset of the type, one byte.
const TYPE: usize = 156;
/// Offset of the magic, 6 bytes.
const MAGIC: usize = 257;
/// Offset of the prefix, 155 bytes.
pub(crate) const PREFIX: usize = 345;

/// Whether the block is all zeros: a part of the end mark.
#[inline]
pub(crate) fn is_zero(block: &[u8; BLOCK]) -> bool {
    block[0] == 0 && *block == [0; BLOCK]
}

impl Header {
    /// Reads a block that is not all zeros.
    pub(crate) fn read(block: &[u8; BLOCK]) -> Result<Self, HeaderError> {
        check(block)?;
        let size = number(&block[SIZE..SIZE + 12]).ok_or(HeaderError::Size)?;
        let name = length(&block[..NAME]);
        let entry_type = match block[TYPE] {
            0 | b'0' | b'7' => EntryType::File,
            b'1'..=b'6' => EntryType::NoData,
            b'x' | b'X' => EntryType::Pax,
            b'g' => EntryType::GlobalPax,
            b'L' => EntryType::LongName,
            b'K' => EntryType::LongLink,
            b'S' => EntryType::Sparse,
            _ => EntryType::Other,
        };
        // GNU tar has another magic, and other values in the place of the prefix.
        let has_prefix = block[MAGIC..MAGIC + 6] == *b"ustar\0";
        let prefix = if has_prefix { length(&block[PREFIX..PREFIX + 155]) } else { 0 };
        let size = if entry_type == EntryType::NoData { 0 } else { size };
        let is_old_directory = block[TYPE] == 0 && block[..name].ends_with(b"/");
        Ok(Self { entry_type, size, name, prefix, is_old_directory })
    }
}

/// Checks the sum of all bytes. Some writers add up signed bytes, so that sum is accepted, too.
fn check(block: &[u8; BLOCK]) -> Result<(), HeaderError> {
    let checksum = &block[CHECKSUM..CHECKSUM + 8];
    let stored = number(checksum).and_then(|sum| u32::try_from(sum).ok());
    // The bytes of the checksum itself count as blanks.
    let own: u32 = checksum.iter().map(|byte| u32::from(*byte)).sum();
    let found = block.iter().map(|byte| u32::from(*byte)).sum::<u32>() - own + 8 * u32::from(b' ');
    if stored == Some(found) {
        return Ok(());
    }
    // As a signed byte, a byte from 0x80 on counts 256 less.
    let high = |bytes: &[u8]| bytes.iter().filter(|byte| **byte >= 0x80).count() as u32;
    let less = 256 * (high(block) - high(checksum));
    if stored.is_some() && stored == found.checked_sub(less) {
        return Ok(());
    }
    Err(HeaderError::Checksum { found, stored })
}

/// Number of bytes before the first NUL.
fn length(field: &[u8]) -> usize {
    field.iter().position(|byte| *byte == 0).unwrap_or(field.len())
}

/// Parses a number: octal digits with blanks around them, up to a NUL or the end of the field. If
/// the top bit is set, it is big-endian binary, as GNU tar writes large numbers. A field without
/// digits is 0.
pub(crate) fn number(field: &[u8]) -> Option<u64> {
    if let [first @ 0x80..=0xff, rest @ ..] = field {
        // A negative number starts with 0xff. Read like this it is so large that it is refused.
        let start = u64::from(first & 0x7f);
        return rest.iter().try_fold(start, |above, byte| {
            (above >> 56 == 0).then_some(above << 8 | u64::from(*byte))
        });
    }
    let digits = field[..length(field)].trim_ascii();
    digits.iter().try_fold(0u64, |above, byte| {
        let digit = matches!(byte, b'0'..=b'7').then_some(u64::from(byte & 7))?;
        (above >> 61 == 0).then_some(above << 3 | digit)
    })
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn numbers() {
        assert_eq!(number(b"00000000144\0"), Some(100));
        assert_eq!(number(b"        144 "), Some(100));
        assert_eq!(number(b"777777777777"), Some(0o777_777_777_777));
        assert_eq!(number(b"144\0garbage."), Some(100));
        assert_eq!(number(&[0; 12]), Some(0));
        assert_eq!(number(b"00000000148\0"), None);
        assert_eq!(number(b"-0000000144\0"), None);
        assert_eq!(number(b"1 1\0"), None);
        assert_eq!(number(b"\x80\0\0\0\0\0\0\x02\0\0\0\x01"), Some((2 << 32) + 1));
        assert_eq!(number(b"\x80\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff"), Some(u64::MAX));
        assert_eq!(number(b"\x80\0\0\x01\0\0\0\0\0\0\0\0"), None);
        assert_eq!(number(&[0xff; 12]), None);
    }
}
