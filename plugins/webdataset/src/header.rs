//! One tar header: a block of 512 bytes. What is read here is what the block says by itself; the
//! headers that say more of the next one are for [`crate::member`].
//!
//! Follows POSIX ustar, and `tar(5)` of libarchive for what GNU and the old ones do otherwise.

/// Bytes of a block. Headers take one, and data is filled up with zeros to whole ones.
pub(crate) const BLOCK: usize = 512;

/// What a header announces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Type {
    /// A file with data.
    File,
    /// Records of pax for the next header.
    Pax,
    /// Records of pax for all that follow.
    GlobalPax,
    /// A name for the next header, as GNU tar writes it.
    LongName,
    /// The target of a link, likewise.
    LongLink,
    /// A file with holes, whose data is not what it looks like.
    Sparse,
    /// A directory, a link or a device: no data follows, whatever the size is.
    Bare,
    /// Anything else, with data.
    Other,
}

/// A header.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Header {
    pub(crate) kind: Type,
    /// Bytes of data behind it.
    pub(crate) size: u64,
    /// Length of the name, which starts with the block.
    pub(crate) name: usize,
    /// Length of what goes before the name, with a slash between; it starts at [`PREFIX`].
    pub(crate) prefix: usize,
}

/// Why a block is no header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It has not the sum that it should; what it has, and what it says.
    Checksum { found: u32, stored: Option<u32> },
    /// Its size is no number.
    Size,
}

const NAME: usize = 100;
const SIZE: usize = 124;
const SUM: usize = 148;
const TYPE: usize = 156;
const MAGIC: usize = 257;
pub(crate) const PREFIX: usize = 345;

/// Whether the block is the mark of an archive's end.
#[inline]
pub(crate) fn is_zero(block: &[u8; BLOCK]) -> bool {
    block[0] == 0 && *block == [0; BLOCK]
}

impl Header {
    /// Reads a block that is not all zeros.
    pub(crate) fn read(block: &[u8; BLOCK]) -> Result<Self, Fault> {
        check(block)?;
        let size = number(&block[SIZE..SIZE + 12]).ok_or(Fault::Size)?;
        let name = length(&block[..NAME]);
        let kind = match block[TYPE] {
            // Before there were types, a directory was a file whose name ends with a slash. Such a name
            // has no extension, so it needs no care here.
            0 | b'0' | b'7' => Type::File,
            b'1'..=b'6' => Type::Bare,
            b'x' | b'X' => Type::Pax,
            b'g' => Type::GlobalPax,
            b'L' => Type::LongName,
            b'K' => Type::LongLink,
            b'S' => Type::Sparse,
            _ => Type::Other,
        };
        // GNU tar has other things in the place of the prefix, and another magic.
        let has_prefix = block[MAGIC..MAGIC + 6] == *b"ustar\0";
        let prefix = if has_prefix { length(&block[PREFIX..PREFIX + 155]) } else { 0 };
        Ok(Self { kind, size: if kind == Type::Bare { 0 } else { size }, name, prefix })
    }
}

/// Compares the sum of the bytes with what the header says. Some writers took bytes for signed ones.
fn check(block: &[u8; BLOCK]) -> Result<(), Fault> {
    let stored = number(&block[SUM..SUM + 8]).and_then(|sum| u32::try_from(sum).ok());
    // The sum's own bytes count as blanks.
    let own: u32 = block[SUM..SUM + 8].iter().map(|byte| u32::from(*byte)).sum();
    let found = block.iter().map(|byte| u32::from(*byte)).sum::<u32>() - own + 8 * u32::from(b' ');
    if stored == Some(found) {
        return Ok(());
    }
    // A byte from 0x80 on counts 256 less.
    let high = |bytes: &[u8]| bytes.iter().filter(|byte| **byte >= 0x80).count() as u32;
    let less = 256 * (high(block) - high(&block[SUM..SUM + 8]));
    if stored.is_some() && stored == found.checked_sub(less) {
        return Ok(());
    }
    Err(Fault::Checksum { found, stored })
}

/// Bytes before the first NUL.
fn length(field: &[u8]) -> usize {
    field.iter().position(|byte| *byte == 0).unwrap_or(field.len())
}

/// A number in octal digits, with blanks around it and ended by a NUL or by the field; or, with the top
/// bit set, as GNU tar writes large ones, in base 256. A field without digits is 0.
pub(crate) fn number(field: &[u8]) -> Option<u64> {
    if let [first @ 0x80..=0xff, rest @ ..] = field {
        // 0xff starts a negative one.
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
