//! Reads the parts of Avro's binary encoding: varints, and bytes after their length.
//!
//! **Two ends.** The available bytes may end before the value does. More bytes are needed then, and
//! the value is read again. A value that extends beyond `limit` is invalid, however many bytes
//! come. Only this file distinguishes the two, so that the errors do not depend on the split.

use std::ops::Range;

/// The reason why a value was not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// It extends beyond the available bytes. It ends at this position or later.
    Cut(usize),
    /// It is invalid.
    Bad {
        /// The start of its invalid part.
        at: usize,
        problem: Problem,
    },
}

/// The problem of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Problem {
    /// It extends beyond the limit.
    Limit,
    /// A varint has more than this many bits.
    Varint(u32),
    /// A length or a size is negative.
    Negative(i64),
    /// A boolean is neither 0 nor 1.
    Boolean(u8),
    /// A union has no branch of this number, but only `branches`.
    Branch { found: i64, branches: usize },
    /// An enum has no symbol of this number, but only `symbols`.
    Symbol { found: i64, symbols: u32 },
    /// A text has this byte, which is not UTF-8.
    Utf8(u8),
    /// The items of an array or a map have another size than their block says.
    BlockSize { expected: u64, found: u64 },
    /// An item of an array is null.
    NullItem,
    /// Values are nested too deep.
    Depth,
}

/// A reader of the values in `bytes`, from `at` on.
#[derive(Debug, Clone)]
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    limit: usize,
}

impl<'a> Reader<'a> {
    /// A reader that starts at `at`. Values must end at `limit` or before. Positions count from the
    /// start of `bytes`.
    #[inline(always)]
    pub(crate) fn new(bytes: &'a [u8], at: usize, limit: usize) -> Self {
        Self { bytes: &bytes[..bytes.len().min(limit)], at, limit }
    }

    /// The position of the next byte.
    #[inline(always)]
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// The available bytes, up to the limit.
    #[inline(always)]
    pub(crate) fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Bytes from the next one to the limit.
    #[inline(always)]
    fn left(&self) -> u64 {
        (self.limit - self.at) as u64
    }

    /// The stop of a value that ends `count` bytes after the next one.
    #[cold]
    fn short(&self, count: u64) -> Stop {
        if count > self.left() {
            return Stop::Bad { at: self.at, problem: Problem::Limit };
        }
        // The value fits: the limit is not before it.
        Stop::Cut(self.at + count as usize)
    }

    /// The stop of a value that starts at `at`.
    #[cold]
    pub(crate) fn bad<T>(&self, at: usize, problem: Problem) -> Result<T, Stop> {
        Err(Stop::Bad { at, problem })
    }

    /// The next `count` bytes.
    #[inline(always)]
    pub(crate) fn take(&mut self, count: u64) -> Result<Range<usize>, Stop> {
        self.require(count)?;
        let start = self.at;
        // The value fits: at least as many bytes are available.
        self.at += count as usize;
        Ok(start..self.at)
    }

    /// Checks that `count` bytes are available.
    #[inline(always)]
    pub(crate) fn require(&self, count: u64) -> Result<(), Stop> {
        if count > (self.bytes.len() - self.at) as u64 {
            return Err(self.short(count));
        }
        Ok(())
    }

    /// A boolean. Returns its place.
    #[inline(always)]
    pub(crate) fn boolean(&mut self) -> Result<Range<usize>, Stop> {
        let range = self.take(1)?;
        match self.bytes[range.start] {
            0 | 1 => Ok(range),
            other => self.bad(range.start, Problem::Boolean(other)),
        }
    }

    /// An `int`: at most 5 bytes and 32 bits.
    #[inline(always)]
    pub(crate) fn int(&mut self) -> Result<i32, Stop> {
        let value = match self.bytes.get(self.at) {
            Some(byte) if *byte < 0x80 => {
                self.at += 1;
                u32::from(*byte)
            }
            _ => self.varint::<5, 0x0f>(32)? as u32,
        };
        Ok((value >> 1) as i32 ^ -((value & 1) as i32))
    }

    /// A `long`: at most 10 bytes and 64 bits.
    #[inline(always)]
    pub(crate) fn long(&mut self) -> Result<i64, Stop> {
        let value = match self.bytes.get(self.at) {
            Some(byte) if *byte < 0x80 => {
                self.at += 1;
                u64::from(*byte)
            }
            _ => self.varint::<10, 0x01>(64)?,
        };
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// A varint of at most `MAX_BYTES` bytes. If it has that many, the last one is at most `LAST`.
    #[inline(always)]
    fn varint<const MAX_BYTES: usize, const LAST: u8>(&mut self, bits: u32) -> Result<u64, Stop> {
        let rest = &self.bytes[self.at..];
        if let Some(word) = rest.first_chunk() {
            let word = u64::from_le_bytes(*word);
            let ends = !word & 0x8080_8080_8080_8080;
            let size = ends.trailing_zeros() as usize / 8 + 1;
            if ends != 0 && (size < MAX_BYTES || size == MAX_BYTES && rest[size - 1] <= LAST) {
                self.at += size;
                return Ok(join_bits(word & (u64::MAX >> (64 - 8 * size))));
            }
        }
        self.varint_by_bytes::<MAX_BYTES, LAST>(bits)
    }

    /// Like [`varint`](Self::varint), for one that is long or near the end of the bytes.
    #[inline(never)]
    fn varint_by_bytes<const MAX_BYTES: usize, const LAST: u8>(
        &mut self,
        bits: u32,
    ) -> Result<u64, Stop> {
        let rest = &self.bytes[self.at..];
        let mut value = 0;
        for (index, byte) in rest.iter().take(MAX_BYTES).enumerate() {
            value |= u64::from(byte & 0x7f) << (7 * index);
            if index + 1 == MAX_BYTES && *byte > LAST {
                return self.bad(self.at, Problem::Varint(bits));
            }
            if *byte < 0x80 {
                self.at += index + 1;
                return Ok(value);
            }
        }
        Err(self.short(rest.len() as u64 + 1))
    }

    /// A size in bytes: a `long` that is not negative.
    #[inline(always)]
    pub(crate) fn size(&mut self) -> Result<u64, Stop> {
        let at = self.at;
        let size = self.long()?;
        if size < 0 {
            return self.bad(at, Problem::Negative(size));
        }
        Ok(size as u64)
    }

    /// Bytes or text, which follow their size.
    #[inline(always)]
    pub(crate) fn string(&mut self) -> Result<Range<usize>, Stop> {
        let size = self.size()?;
        self.take(size)
    }

    /// Text. It must be UTF-8.
    #[inline(always)]
    pub(crate) fn text(&mut self) -> Result<Range<usize>, Stop> {
        let range = self.string()?;
        let text = &self.bytes[range.clone()];
        if !is_ascii(text)
            && let Err(error) = str::from_utf8(text)
        {
            let at = range.start + error.valid_up_to();
            return self.bad(at, Problem::Utf8(self.bytes[at]));
        }
        Ok(range)
    }

    /// Start of a block of an array or a map: the number of its items, and its end if it contains
    /// its size. `None` after the last block.
    #[inline(never)] // It is large, used in many places, and called only twice for most arrays.
    pub(crate) fn items(&mut self) -> Result<Option<Items>, Stop> {
        let at = self.at;
        let count = self.long()?;
        if count > 0 {
            return Ok(Some(Items { count: count as u64, start: 0, size: None }));
        }
        if count == 0 {
            return Ok(None);
        }
        if count == i64::MIN {
            return self.bad(at, Problem::Negative(count));
        }
        let size = self.size()?;
        self.require(size)?;
        Ok(Some(Items { count: count.unsigned_abs(), start: self.at, size: Some(size) }))
    }

    /// Checks the size of a block of items, after the last of them.
    #[inline(always)]
    pub(crate) fn end_items(&self, items: &Items) -> Result<(), Stop> {
        match items.size {
            Some(expected) if (self.at - items.start) as u64 != expected => {
                let found = (self.at - items.start) as u64;
                self.bad(items.start, Problem::BlockSize { expected, found })
            }
            _ => Ok(()),
        }
    }
}

/// A block of items of an array or a map.
#[derive(Debug)]
pub(crate) struct Items {
    /// Number of the items.
    pub(crate) count: u64,
    /// Start of the first one; only with a size.
    start: usize,
    /// Size of the items in bytes, if the block says it.
    pub(crate) size: Option<u64>,
}

/// The bits of a varint of at most eight bytes: the lower seven of each byte, without gaps.
#[inline(always)]
fn join_bits(word: u64) -> u64 {
    let word = (word & 0x007f_007f_007f_007f) | ((word & 0x7f00_7f00_7f00_7f00) >> 1);
    let word = (word & 0x0000_3fff_0000_3fff) | ((word & 0x3fff_0000_3fff_0000) >> 2);
    (word & 0x0fff_ffff) | ((word & 0x0fff_ffff_0000_0000) >> 4)
}

/// Whether all bytes are ASCII.
#[inline(always)]
fn is_ascii(text: &[u8]) -> bool {
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let word = |bytes: &[u8; 8]| u64::from_le_bytes(*bytes);
    let half = |bytes: &[u8; 4]| u32::from_le_bytes(*bytes);
    // The last word may overlap the one before it. In WebAssembly, `[u8]::is_ascii` reads more than
    // 16 bytes in words of 4.
    if let Some(last) = text.last_chunk() {
        let words = text.as_chunks().0.iter();
        return words.fold(word(last), |all, one| all | word(one)) & HIGH == 0;
    }
    match (text.first_chunk(), text.last_chunk()) {
        (Some(first), Some(last)) => (half(first) | half(last)) & HIGH as u32 == 0,
        _ => text.iter().fold(0, |all, byte| all | byte) < 0x80,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zigzag(value: i64) -> Vec<u8> {
        let mut left = (value << 1 ^ value >> 63) as u64;
        let mut bytes = Vec::new();
        while left >= 0x80 {
            bytes.push(left as u8 | 0x80);
            left >>= 7;
        }
        bytes.push(left as u8);
        bytes
    }

    fn long(bytes: &[u8]) -> Result<i64, Stop> {
        Reader::new(bytes, 0, 1 << 20).long()
    }

    fn int(bytes: &[u8]) -> Result<i32, Stop> {
        Reader::new(bytes, 0, 1 << 20).int()
    }

    #[test]
    fn varints_of_every_size() {
        for bits in 0..64 {
            for value in [1i64 << bits, (1i64 << bits).wrapping_sub(1), -(1i64 << bits >> 1)] {
                let bytes = zigzag(value);
                for after in [0, 3, 20] {
                    let bytes = [&bytes[..], &vec![0xff; after]].concat();
                    assert_eq!(long(&bytes), Ok(value), "{value}");
                    if let Ok(value) = i32::try_from(value) {
                        assert_eq!(int(&bytes), Ok(value), "{value}");
                    }
                }
                for size in 0..bytes.len() {
                    assert_eq!(long(&bytes[..size]), Err(Stop::Cut(size + 1)), "{value}");
                }
            }
        }
    }

    #[test]
    fn a_varint_may_be_longer_than_its_value_needs() {
        for size in 1..10 {
            let bytes = [&vec![0x80; size][..], &[0]].concat();
            assert_eq!(long(&bytes), Ok(0), "{size}");
        }
        assert_eq!(int(&[0x82, 0x80, 0x80, 0x80, 0x00]), Ok(1));
    }

    #[test]
    fn varints_that_are_too_long() {
        let bad = |bits| Err(Stop::Bad { at: 0, problem: Problem::Varint(bits) });
        for after in [0, 20] {
            let bytes = |last: &[u8]| [last, &vec![0; after]].concat();
            assert_eq!(int(&bytes(&[0xff, 0xff, 0xff, 0xff, 0x10])), bad(32).map(|()| 0));
            assert_eq!(int(&bytes(&[0xff; 5])), bad(32).map(|()| 0));
            assert_eq!(int(&bytes(&[0xff, 0xff, 0xff, 0xff, 0x0f])), Ok(i32::MIN));
            let mut long_one = [0xff; 10];
            assert_eq!(long(&bytes(&long_one)), bad(64).map(|()| 0));
            long_one[9] = 2;
            assert_eq!(long(&bytes(&long_one)), bad(64).map(|()| 0));
            long_one[9] = 1;
            assert_eq!(long(&bytes(&long_one)), Ok(i64::MIN));
        }
        // The fifth byte is missing.
        assert_eq!(int(&[0xff; 4]), Err(Stop::Cut(5)));
    }

    #[test]
    fn the_limit_is_told_from_the_end_of_the_bytes() {
        let bytes = [0x14, b'a', b'b'];
        assert_eq!(Reader::new(&bytes, 0, 11).string(), Err(Stop::Cut(11)));
        let bad = |at| Stop::Bad { at, problem: Problem::Limit };
        assert_eq!(Reader::new(&bytes, 0, 10).string(), Err(bad(1)));
        assert_eq!(Reader::new(&[0x80], 0, 1).long(), Err(bad(0)));
        assert_eq!(Reader::new(&[0x80], 0, 2).long(), Err(Stop::Cut(2)));
        // A limit after the bytes, before them, and a block of items that is too large.
        assert_eq!(Reader::new(&bytes, 0, 1).string(), Err(bad(1)));
        let items = Reader::new(&[0x01, 0x14], 0, 11).items();
        assert_eq!(items.map(|_| ()), Err(bad(2)));
    }

    #[test]
    fn ascii_is_checked_at_every_byte() {
        for size in 0..80 {
            let mut text = vec![b'a'; size];
            assert!(is_ascii(&text));
            for at in 0..size {
                text[at] = 0x80;
                assert!(!is_ascii(&text), "{at} of {size}");
                text[at] = b'a';
            }
        }
    }
}
