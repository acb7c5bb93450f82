//! A point of a compressed object at which inflating can begin, and its form as bytes, which an
//! index keeps.

use std::io::{self, ErrorKind};

use crate::Codec;

/// Largest distance of a back reference of deflate.
pub(crate) const WINDOW: usize = 32 << 10;
/// Number of inflated bytes after a point that are compared with the point before the first of them
/// is returned. A back reference reaches over the point only from the first 32 KiB after it. So if
/// these are right, no later byte depends on the window any more.
pub(crate) const CHECKED_BYTES: usize = 64 << 10;
/// First byte of a point as bytes: the version of this form.
const VERSION: u8 = 1;
/// Bytes of a point before the window.
const FIXED_BYTES: usize = 2 + 8 + 8 + 4 + 4;
/// Bytes of the state of a block before the window.
const BLOCK_BYTES: usize = 1 + 1 + 4 + 4 + 4;
/// Bytes of the checksum at the end.
const CHECKSUM_BYTES: usize = 4;
/// Largest size of a compressed window: zstd adds a few bytes to one that it can't compress.
const MAX_WINDOW: usize = WINDOW + 512;

/// A point of a compressed object at which inflating can begin.
///
/// - The start of a gzip member, of a zlib stream or of a zstd frame needs nothing but its place.
/// - The boundary of two deflate blocks inside a gzip member or a zlib stream also needs the last
///   32 KiB of content before it, the bits of the byte that both blocks share, and the checksum of
///   the content before it. So the checksum at the end of the member is compared as if the member
///   had been read from its start.
/// - A zstd frame has no point inside: its blocks depend on all before them. A file of one frame,
///   which `zstd` writes unless it is told otherwise, can be inflated only from its start.
///
/// Deflate can't show that its window was another one. So a point has the checksum of the inflated
/// bytes after it, up to 64 KiB: they are compared before the first of them is returned. Damage
/// after them is found where it is found if the object is inflated from its start: by the checksum
/// of the member, the stream or the frame. Some writers of zstd leave that one out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeekPoint {
    pub(crate) codec: Codec,
    pub(crate) compressed: u64,
    pub(crate) inflated: u64,
    pub(crate) block: Option<BlockStart>,
    /// Number of inflated bytes after the point that its checksum covers, from 1 to 64 KiB.
    pub(crate) checked: u32,
    /// Their CRC-32.
    pub(crate) crc: u32,
}

/// The state between two deflate blocks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BlockStart {
    /// Number of bits of the byte before the point that belong to the block after it: 0 to 7.
    pub(crate) bit_count: u8,
    /// These bits.
    pub(crate) bits: u8,
    /// Checksum of the member's content before the point: CRC-32 in gzip, Adler-32 in zlib.
    pub(crate) checksum: u32,
    /// Bytes of the member's content before the point, modulo 2^32. 0 in zlib.
    pub(crate) size: u32,
    /// Bytes of the window: fewer than 32 KiB near the start of a member.
    pub(crate) window_len: u32,
    /// The window as a zstd frame; nothing if it has no bytes.
    pub(crate) window: Box<[u8]>,
}

impl SeekPoint {
    /// Largest size in bytes of a point as bytes. Reading one takes no more memory than this, and
    /// 32 KiB while inflating begins there.
    pub const MAX_BYTES: usize = FIXED_BYTES + BLOCK_BYTES + MAX_WINDOW + CHECKSUM_BYTES;

    /// gzip, zlib or zstd.
    pub fn codec(&self) -> Codec {
        self.codec
    }

    /// Byte of the compressed object at which inflating begins.
    pub fn compressed(&self) -> u64 {
        self.compressed
    }

    /// The first inflated byte after the point, counted from the start of the inflated object.
    pub fn inflated(&self) -> u64 {
        self.inflated
    }

    /// Whether the point is inside of a gzip member or of a zlib stream, and so has a window.
    pub fn has_window(&self) -> bool {
        self.block.is_some()
    }

    /// Bytes that the point takes in memory.
    pub fn memory(&self) -> usize {
        size_of::<Self>() + self.block.as_ref().map_or(0, |block| block.window.len())
    }

    /// The point as bytes, for [`from_bytes`](Self::from_bytes).
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(Self::MAX_BYTES.min(64 + self.memory()));
        bytes.extend([VERSION, self.kind()]);
        bytes.extend(self.compressed.to_le_bytes());
        bytes.extend(self.inflated.to_le_bytes());
        bytes.extend(self.checked.to_le_bytes());
        bytes.extend(self.crc.to_le_bytes());
        if let Some(block) = &self.block {
            bytes.extend([block.bit_count, block.bits]);
            bytes.extend(block.checksum.to_le_bytes());
            bytes.extend(block.size.to_le_bytes());
            bytes.extend(block.window_len.to_le_bytes());
            bytes.extend(&*block.window);
        }
        bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
        bytes
    }

    /// Reads what [`to_bytes`](Self::to_bytes) has written.
    ///
    /// # Errors
    /// The text says what is wrong with the bytes.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, String> {
        let size = bytes.len();
        let version = bytes.first().copied().unwrap_or(VERSION);
        if version != VERSION {
            return Err(format!("its version is {version}, expected {VERSION}"));
        }
        let expected = FIXED_BYTES + CHECKSUM_BYTES..=Self::MAX_BYTES;
        if !expected.contains(&size) {
            let (least, most) = expected.into_inner();
            return Err(format!("it has {size} bytes, expected {least} to {most}"));
        }
        let (bytes, sum) = bytes.split_at(size - CHECKSUM_BYTES);
        let mut fields = Fields(sum);
        let (sum, found) = (fields.u32(), crc32fast::hash(bytes));
        if found != sum {
            return Err(format!("its checksum is {found:#010x}, expected {sum:#010x}"));
        }
        let mut fields = Fields(&bytes[1..]);
        let [kind] = fields.array();
        let (compressed, inflated) = (fields.u64(), fields.u64());
        let (checked, crc) = (fields.u32(), fields.u32());
        let (codec, is_inside) = match kind {
            0 => (Codec::Gzip, false),
            1 => (Codec::Gzip, true),
            2 => (Codec::Zlib, false),
            3 => (Codec::Zlib, true),
            4 => (Codec::Zstd, false),
            _ => return Err(format!("its kind is {kind}, expected 0 to 4")),
        };
        // Offsets of files have 63 bits.
        if let Some(large) = [compressed, inflated].into_iter().find(|at| at >> 62 != 0) {
            return Err(format!("its offset {large} is larger than any object"));
        }
        if checked == 0 || checked as usize > CHECKED_BYTES {
            let most = CHECKED_BYTES;
            return Err(format!("its checksum is of {checked} bytes, expected 1 to {most}"));
        }
        let block = if is_inside { Some(BlockStart::from(fields)?) } else { fields.end()? };
        Ok(Self { codec, compressed, inflated, block, checked, crc })
    }

    fn kind(&self) -> u8 {
        match (self.codec, &self.block) {
            (Codec::Zlib, None) => 2,
            (Codec::Zlib, Some(_)) => 3,
            (Codec::Zstd, _) => 4,
            (_, None) => 0,
            (_, Some(_)) => 1,
        }
    }

    /// The error for a point at which inflating can't begin.
    pub(crate) fn wrong(&self, why: impl std::fmt::Display) -> io::Error {
        let (compressed, inflated) = (self.compressed, self.inflated);
        let why = format!(
            "can't be inflated from compressed byte {compressed} (inflated byte {inflated}): {why}"
        );
        io::Error::new(ErrorKind::InvalidData, WrongSeekPoint(why))
    }

    /// Checks that the point is one of this codec.
    pub(crate) fn check_codec(&self, codec: Codec) -> io::Result<()> {
        if self.codec == codec {
            return Ok(());
        }
        let (found, expected) = (self.codec.word(), codec.word());
        Err(self.wrong(format_args!("the point is one of {found} data, expected {expected}")))
    }
}

impl BlockStart {
    fn from(mut fields: Fields) -> Result<Self, String> {
        if fields.0.len() < BLOCK_BYTES {
            let (found, least) = (fields.0.len(), BLOCK_BYTES);
            return Err(format!("its block has {found} bytes, expected {least} or more"));
        }
        let [bit_count, bits] = fields.array();
        let (checksum, size, window_len) = (fields.u32(), fields.u32(), fields.u32());
        if bit_count > 7 || u32::from(bits) >> bit_count != 0 {
            return Err(format!("it has the {bit_count} bits {bits:#x}, expected at most 7"));
        }
        if window_len as usize > WINDOW || (window_len == 0) != fields.0.is_empty() {
            let found = fields.0.len();
            return Err(format!(
                "its window has {window_len} bytes in {found}, expected {WINDOW} at most"
            ));
        }
        let window = fields.0.into();
        Ok(Self { bit_count, bits, checksum, size, window_len, window })
    }

    /// Writes the window to the end of `to`, which has 32 KiB and else only zeros.
    pub(crate) fn restore_window(&self, to: &mut [u8]) -> Result<(), String> {
        if self.window_len == 0 {
            return Ok(());
        }
        let expected = self.window_len as usize;
        let at = to.len() - expected;
        let found = zstd::bulk::decompress_to_buffer(&self.window, &mut to[at..]);
        match found {
            Ok(found) if found == expected => Ok(()),
            Ok(found) => Err(format!("its window has {found} bytes, expected {expected}")),
            Err(why) => Err(format!("its window can't be decompressed: {why}")),
        }
    }
}

/// The fields of a point that were not read yet. The caller has checked that they are there.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn array<const N: usize>(&mut self) -> [u8; N] {
        let (value, rest) = self.0.split_first_chunk().expect("the length was compared");
        self.0 = rest;
        *value
    }

    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.array())
    }

    fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.array())
    }

    /// There must be no more.
    fn end<T>(self) -> Result<Option<T>, String> {
        match self.0.len() {
            0 => Ok(None),
            more => Err(format!("it has {more} bytes more than a point without a window")),
        }
    }
}

/// Why inflating can't begin at a [`SeekPoint`]: the point is of another object, of another state
/// of the object, or damaged; or the object is. The readers of this crate wrap it in
/// [`io::Error`].
#[derive(Debug)]
pub struct WrongSeekPoint(String);

impl std::fmt::Display for WrongSeekPoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for WrongSeekPoint {}

/// Whether an error says that inflating can't begin at a seek point.
pub fn is_wrong_seek_point(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<WrongSeekPoint>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(kind: u8) -> SeekPoint {
        let codec = [Codec::Gzip, Codec::Zlib, Codec::Zstd][usize::from(kind / 2)];
        let window = zstd::bulk::compress(&[7; 1000], 1).expect("memory").into();
        let block =
            BlockStart { bit_count: 3, bits: 5, checksum: 1, size: 2, window_len: 1000, window };
        let block = (kind % 2 == 1).then_some(block);
        SeekPoint { codec, compressed: 1 << 40, inflated: 1 << 41, block, checked: 9, crc: 7 }
    }

    /// The bytes with a right checksum.
    fn signed(mut bytes: Vec<u8>) -> Vec<u8> {
        let end = bytes.len() - CHECKSUM_BYTES;
        let sum = crc32fast::hash(&bytes[..end]);
        bytes[end..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    #[test]
    fn a_point_is_the_same_after_it_was_kept_as_bytes() {
        for kind in 0..5 {
            let point = point(kind);
            let bytes = point.to_bytes();
            assert_eq!(SeekPoint::from_bytes(&bytes), Ok(point));
            for at in 0..bytes.len() {
                let mut damaged = bytes.clone();
                damaged[at] ^= 1 << (at % 8);
                SeekPoint::from_bytes(&damaged).expect_err("a bit is another");
                SeekPoint::from_bytes(&bytes[..at]).expect_err("it is cut short");
            }
            SeekPoint::from_bytes(&[&bytes[..], &[0]].concat()).expect_err("it has a byte more");
        }
        let why = SeekPoint::from_bytes(&[2; 100]).expect_err("a later version");
        assert_eq!(why, "its version is 2, expected 1");
    }

    #[test]
    fn a_window_that_is_none_is_an_error() {
        let mut bad = point(1);
        let block = bad.block.as_mut().expect("it has one");
        block.window_len = 999;
        let mut window = vec![0; WINDOW];
        block.restore_window(&mut window).expect_err("it has 1000");
        block.window_len = 1001;
        block.restore_window(&mut window).expect_err("it has 1000");
        block.window = vec![1; 50].into();
        block.restore_window(&mut window).expect_err("it is no frame");
    }

    proptest::proptest! {
        /// Neither a panic nor a point that would be written in another way.
        #[test]
        fn hostile_bytes_are_an_error_or_a_point(
            kind in 0u8..6,
            damage in proptest::collection::vec((0usize..70, proptest::num::u8::ANY), 0..6),
            length in proptest::option::of(0usize..40_000),
        ) {
            let mut bytes = point(kind % 5).to_bytes();
            bytes[1] = kind;
            for (at, byte) in damage {
                let at = at % bytes.len();
                bytes[at] = byte;
            }
            if let Some(length) = length {
                bytes.resize(length.max(CHECKSUM_BYTES), 1);
            }
            let bytes = signed(bytes);
            if let Ok(point) = SeekPoint::from_bytes(&bytes) {
                proptest::prop_assert!(point.to_bytes() == bytes);
                if let Some(block) = &point.block {
                    let _ = block.restore_window(&mut [0; WINDOW]);
                }
            }
        }
    }
}
