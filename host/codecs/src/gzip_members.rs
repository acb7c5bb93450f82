//! gzip members (RFC 1952), from compressed bytes that come in pieces of any size.
//!
//! The result does not depend on the pieces: neither the bytes, nor an error and its place.
//! flate2's readers drop the bytes that they inflated in the call that ends with an error. So this
//! uses the core of its inflater, which reports how many bytes it has written in each call, and
//! writes into a window of this type. The header and the trailer of a member are read byte by byte.

use std::io::{self, BufRead, ErrorKind, Read};
use std::ops::Range;

use miniz_oxide::inflate::TINFLStatus;
use miniz_oxide::inflate::core::inflate_flags::TINFL_FLAG_HAS_MORE_INPUT;
use miniz_oxide::inflate::core::{DecompressorOxide, decompress};

use crate::block_start::{STOP_AT_BLOCKS, block_start, restart};
use crate::first_bytes::FirstBytes;
use crate::seek_point::WINDOW;
use crate::seek_points::Collector;
use crate::{Codec, SeekPoint, SeekPoints};

/// ID1, ID2, and the only compression method.
const MAGIC: [u8; 3] = [0x1f, 0x8b, 8];
/// Bytes of a header before its optional parts: `MAGIC`, flags, time, extra flags, operating
/// system.
const FIXED_HEADER: usize = 10;
/// Bits of the flags that must be 0.
const RESERVED: u8 = 0xe0;
/// Largest number of bytes of a name or a comment: a header without end is refused.
const MAX_TEXT: usize = 0xffff;
/// Checksum and size of the content.
const TRAILER: usize = 8;

/// A part of a member, or the bytes between two members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    FixedHeader,
    ExtraSize,
    Extra,
    Name,
    Comment,
    HeaderChecksum,
    Content,
    Trailer,
    /// After a member.
    Between,
    /// Zeros after the last member: tapes and block devices leave them, and gzip ignores them.
    Padding,
}

/// The optional parts of a header, in their order, and the flags that announce them.
const OPTIONAL: [(u8, Part); 4] = [
    (1 << 2, Part::ExtraSize),
    (1 << 3, Part::Name),
    (1 << 4, Part::Comment),
    (1 << 1, Part::HeaderChecksum),
];

/// Inflates the members of an input. An input without any bytes ends early.
pub struct GzipMembers<R> {
    input: R,
    /// Number of compressed bytes read so far; after damage, up to its place.
    consumed: u64,
    part: Part,
    /// Number of bytes of the part that were read. They are not counted for the content.
    at: usize,
    /// The last bytes of the part that were read: all of them if they are at most 8.
    last: [u8; TRAILER],
    /// The flags of `OPTIONAL` whose parts are still to come.
    flags: u8,
    /// Size of the header's part `Extra`.
    extra_size: usize,
    /// The checksum of the header, then of the content.
    checksum: crc32fast::Hasher,
    /// Bytes of content, modulo 2^32.
    size: u32,
    /// Number of inflated bytes of all members so far.
    inflated: u64,
    /// The same, at the first byte of the member's content or of the window that it began with.
    window_begin: u64,
    inflater: Box<DecompressorOxide>,
    /// The last bytes of content. The inflater uses them as a ring buffer.
    window: Box<[u8]>,
    /// The inflated bytes in `window` that were not returned yet. The inflater continues at their
    /// end.
    pending: Range<usize>,
    /// Whether the last call of the inflater filled the window to its end: there may be more
    /// without input.
    is_full: bool,
    /// The damage that was found.
    damage: Option<String>,
    /// The first bytes after the seek point at which reading began, until they were returned.
    first: Option<Box<FirstBytes>>,
    /// Notes seek points.
    collector: Option<Box<Collector>>,
}

impl<R: BufRead> GzipMembers<R> {
    /// The members of an input.
    pub fn new(input: R) -> Self {
        Self {
            input,
            consumed: 0,
            part: Part::FixedHeader,
            at: 0,
            last: [0; TRAILER],
            flags: 0,
            extra_size: 0,
            checksum: crc32fast::Hasher::new(),
            size: 0,
            inflated: 0,
            window_begin: 0,
            inflater: Box::default(),
            window: vec![0; WINDOW].into_boxed_slice(),
            pending: 0..0,
            is_full: false,
            damage: None,
            first: None,
            collector: None,
        }
    }

    /// The rest of the members of an object from this point on. `input` begins at its compressed
    /// byte.
    ///
    /// # Errors
    /// The point is none of gzip data, or its window is damaged. Reading returns an error if the
    /// bytes after the point are not those that it was noted for:
    /// [`is_wrong_seek_point`](crate::is_wrong_seek_point) knows both.
    pub fn at(input: R, point: &SeekPoint) -> io::Result<Self> {
        point.check_codec(Codec::Gzip)?;
        let mut members = Self {
            consumed: point.compressed,
            inflated: point.inflated,
            first: Some(FirstBytes::after(point)),
            ..Self::new(input)
        };
        if let Some(block) = &point.block {
            *members.inflater =
                restart(block, &mut members.window).map_err(|why| point.wrong(why))?;
            members.part = Part::Content;
            members.window_begin = point.inflated.saturating_sub(block.window_len.into());
            members.checksum = crc32fast::Hasher::new_with_initial(block.checksum);
            members.size = block.size;
        }
        Ok(members)
    }

    /// Adds seek points while the members are inflated. It is called before the first read.
    pub fn set_seek_points(&mut self, points: &SeekPoints) {
        self.collector = Collector::of(points, self.inflated);
    }

    /// The input.
    pub fn get_ref(&self) -> &R {
        &self.input
    }

    /// The input.
    pub fn get_mut(&mut self) -> &mut R {
        &mut self.input
    }

    /// Number of compressed bytes read up to the last byte returned or the error.
    pub fn consumed(&self) -> u64 {
        self.consumed
    }

    /// Takes one piece of input. Returns whether there was one: there is none at the end of the
    /// last member.
    fn take_piece(&mut self) -> io::Result<bool> {
        if self.part == Part::Content {
            return self.inflate().map(|()| true);
        }
        let bytes = self.input.fill_buf()?;
        if bytes.is_empty() {
            let cut = match self.part {
                Part::Between | Part::Padding => {
                    if let Some(collector) = &mut self.collector {
                        collector.end();
                    }
                    return Ok(false);
                }
                Part::Trailer => "incomplete gzip trailer",
                _ => "incomplete gzip header",
            };
            return Err(io::Error::new(ErrorKind::UnexpectedEof, cut));
        }
        // The bytes are copied, not borrowed from the input: a header and a trailer are short.
        let mut piece = [0; 64];
        let count = piece.len().min(bytes.len());
        piece[..count].copy_from_slice(&bytes[..count]);
        let mut passed = 0;
        while passed < count && self.part != Part::Content && self.damage.is_none() {
            self.damage = self.pass(piece[passed]).err();
            passed += 1;
            self.consumed += 1;
        }
        self.input.consume(passed);
        Ok(true)
    }

    /// Reads one byte that is not content.
    fn pass(&mut self, byte: u8) -> Result<(), String> {
        match self.part {
            Part::Between | Part::Padding if byte == 0 => {
                self.part = Part::Padding;
                return Ok(());
            }
            Part::Between => {
                if let Some(collector) = &mut self.collector {
                    collector.note(Codec::Gzip, self.consumed, self.inflated, None);
                }
                self.checksum.reset();
                self.begin(Part::FixedHeader);
            }
            Part::Padding => {
                return Err("bytes that are not zeros after the zeros at its end".into());
            }
            _ => {}
        }
        let at = self.at;
        self.at += 1;
        self.last.rotate_left(1);
        self.last[TRAILER - 1] = byte;
        if self.part != Part::HeaderChecksum && self.part != Part::Trailer {
            self.checksum.update(&[byte]);
        }
        let is_last = match self.part {
            Part::FixedHeader => {
                self.check_fixed_header(at, byte)?;
                self.at == FIXED_HEADER
            }
            Part::ExtraSize | Part::HeaderChecksum => self.at == 2,
            Part::Extra => self.at == self.extra_size,
            Part::Name | Part::Comment if byte != 0 && self.at > MAX_TEXT => {
                return Err(format!("a text in a gzip header has more than {MAX_TEXT} bytes"));
            }
            Part::Name | Part::Comment => byte == 0,
            _ => self.at == TRAILER,
        };
        if is_last {
            self.check_part()?;
            self.begin_next();
        }
        Ok(())
    }

    fn check_fixed_header(&mut self, at: usize, byte: u8) -> Result<(), String> {
        match MAGIC.get(at) {
            Some(&expected) if byte != expected => {
                Err(format!("byte {at} of a gzip header is {byte:#04x}, expected {expected:#04x}"))
            }
            None if at == MAGIC.len() && byte & RESERVED != 0 => Err(format!(
                "the flags of a gzip header are {byte:#04x}, expected no reserved bits"
            )),
            None if at == MAGIC.len() => {
                self.flags = byte;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Checks the values in a part that was read completely.
    fn check_part(&self) -> Result<(), String> {
        let [sum @ .., s0, s1, s2, s3] = self.last;
        let found = self.checksum.clone().finalize();
        match self.part {
            Part::HeaderChecksum => {
                // The header has the lower half of the checksum.
                let (expected, found) = (u16::from_le_bytes([s2, s3]), found as u16);
                (found == expected).then_some(()).ok_or_else(|| {
                    format!(
                        "the checksum of the gzip header is {found:#06x}, expected {expected:#06x}"
                    )
                })
            }
            Part::Trailer if found != u32::from_le_bytes(sum) => {
                let expected = u32::from_le_bytes(sum);
                Err(format!(
                    "the checksum of the content is {found:#010x}, expected {expected:#010x}"
                ))
            }
            Part::Trailer if self.size != u32::from_le_bytes([s0, s1, s2, s3]) => {
                let (found, expected) = (self.size, u32::from_le_bytes([s0, s1, s2, s3]));
                Err(format!("the content has {found} bytes modulo 2^32, expected {expected}"))
            }
            _ => Ok(()),
        }
    }

    /// Begins the part after one that was read completely: the next one that the header's flags
    /// announce, or else the content.
    fn begin_next(&mut self) {
        if self.part == Part::Trailer {
            return self.begin(Part::Between);
        }
        if self.part == Part::ExtraSize {
            let [.., low, high] = self.last;
            self.extra_size = u16::from_le_bytes([low, high]).into();
            if self.extra_size > 0 {
                return self.begin(Part::Extra);
            }
        }
        if let Some((flag, part)) = OPTIONAL.into_iter().find(|(flag, _)| self.flags & flag != 0) {
            self.flags &= !flag;
            return self.begin(part);
        }
        self.checksum.reset();
        self.size = 0;
        self.window_begin = self.inflated;
        *self.inflater = DecompressorOxide::new();
        // These are the bytes that a reference to before the content finds.
        self.window.fill(0);
        self.pending = 0..0;
        self.begin(Part::Content);
    }

    fn begin(&mut self, part: Part) {
        (self.part, self.at) = (part, 0);
    }

    /// Inflates one piece of input, up to the end of the window.
    fn inflate(&mut self) -> io::Result<()> {
        let piece = if self.is_full { &[] } else { self.input.fill_buf()? };
        if piece.is_empty() && !self.is_full {
            return Err(io::Error::new(ErrorKind::UnexpectedEof, "incomplete deflate stream"));
        }
        let at = self.pending.end % WINDOW;
        let stop = if self.collector.is_some() { STOP_AT_BLOCKS } else { 0 };
        let flags = TINFL_FLAG_HAS_MORE_INPUT | stop;
        let (status, consumed, produced) =
            decompress(&mut self.inflater, piece, &mut self.window, at, flags);
        self.input.consume(consumed);
        self.consumed += consumed as u64;
        self.pending = at..at + produced;
        self.checksum.update(&self.window[self.pending.clone()]);
        self.size = self.size.wrapping_add(produced as u32);
        self.inflated += produced as u64;
        if let Some(collector) = &mut self.collector {
            collector.inflated(&self.window[self.pending.clone()]);
        }
        self.is_full = status == TINFLStatus::HasMoreOutput;
        match status {
            TINFLStatus::Done => self.begin(Part::Trailer),
            TINFLStatus::HasMoreOutput | TINFLStatus::NeedsMoreInput => {}
            TINFLStatus::BlockBoundary => self.note_block(),
            _ => self.damage = Some("invalid deflate data".to_owned()),
        }
        Ok(())
    }

    /// Notes the boundary of two blocks.
    fn note_block(&mut self) {
        let Some(collector) = &mut self.collector else { return };
        if collector.is_due(self.inflated) {
            let before = self.inflated - self.window_begin;
            let block = block_start(&self.inflater, &self.window, self.pending.end, before, |it| {
                collector.compress(it)
            });
            if let Some(mut block) = block {
                (block.checksum, block.size) = (self.checksum.clone().finalize(), self.size);
                collector.note(Codec::Gzip, self.consumed, self.inflated, Some(block));
            }
        }
    }

    /// Reads on after the first bytes of a seek point.
    fn read_on(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        while self.pending.is_empty() {
            if let Some(damage) = &self.damage {
                return Err(io::Error::new(ErrorKind::InvalidData, damage.clone()));
            }
            if !self.take_piece()? {
                return Ok(0);
            }
        }
        let pending = &self.window[self.pending.clone()];
        let count = pending.len().min(buf.len());
        buf[..count].copy_from_slice(&pending[..count]);
        self.pending.start += count;
        Ok(count)
    }
}

impl<R: BufRead> Read for GzipMembers<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if buf.is_empty() {
            return Ok(0);
        }
        let Some(mut first) = self.first.take() else { return self.read_on(buf) };
        let outcome = first.read(buf, |buf| self.read_on(buf));
        self.first = Some(first).filter(|first| !first.is_done());
        outcome
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufReader, Write};

    use flate2::bufread::MultiGzDecoder;
    use flate2::write::GzEncoder;
    use flate2::{Compression, GzBuilder};

    use super::*;

    /// The bytes before the first error, and the error with its place.
    type Inflated = (Vec<u8>, Option<(u64, String)>);

    /// Inflates with pieces of `piece` compressed bytes and reads of `read` bytes.
    fn inflate(bytes: &[u8], piece: usize, read: usize) -> Inflated {
        let mut members = GzipMembers::new(BufReader::with_capacity(piece, bytes));
        let (mut all, mut buf) = (Vec::new(), vec![0; read]);
        loop {
            match members.read(&mut buf) {
                Ok(0) => return (all, None),
                Ok(count) => all.extend_from_slice(&buf[..count]),
                Err(why) => {
                    let again = members.read(&mut buf).expect_err("an error stays one").to_string();
                    assert_eq!(again, why.to_string());
                    return (all, Some((members.consumed(), again)));
                }
            }
        }
    }

    /// The result of any pieces, which must be the same.
    fn any_pieces(bytes: &[u8]) -> Inflated {
        let whole = inflate(bytes, bytes.len().max(1), 1 << 20);
        for (piece, read) in
            [(1, 1), (1, 1 << 20), (2, 40_000), (3, 7), (13, 64), (15, 40), (4096, 1000)]
        {
            assert_eq!(inflate(bytes, piece, read), whole, "pieces of {piece}, reads of {read}");
        }
        whole
    }

    /// The error, which must be the same for any pieces.
    fn error(bytes: &[u8]) -> (u64, String) {
        any_pieces(bytes).1.expect("it is damaged")
    }

    fn gzip(content: &[u8], level: u32) -> Vec<u8> {
        let mut to = GzEncoder::new(Vec::new(), Compression::new(level));
        to.write_all(content).expect("memory");
        to.finish().expect("memory")
    }

    /// Content that is compressed with many references, to near and far.
    fn content(size: usize, seed: u64) -> Vec<u8> {
        let mut random = seed;
        let mut bytes = Vec::with_capacity(size);
        while bytes.len() < size {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let [.., a, b, c] = random.to_be_bytes().map(usize::from);
            let back = 1 + (a << 8 | b) % bytes.len().max(1);
            if random >> 62 == 0 || bytes.is_empty() {
                bytes.extend((0..4 + c % 8).map(|n| (random >> (n * 5)) as u8));
            } else {
                let from = bytes.len().saturating_sub(back);
                bytes.extend_from_within(from..(from + 3 + c).min(bytes.len()));
            }
        }
        bytes.truncate(size);
        bytes
    }

    #[test]
    fn members_of_any_size_are_whole() {
        let mut all = (Vec::new(), Vec::new());
        for size in [0, 1, 100, WINDOW - 1, WINDOW, WINDOW + 1, 300_000] {
            for level in [0, 1, 9] {
                let content = content(size, size as u64);
                assert_eq!(any_pieces(&gzip(&content, level)), (content.clone(), None));
                all.0.extend_from_slice(&gzip(&content, level));
                all.1.extend_from_slice(&content);
            }
        }
        all.0.extend_from_slice(&[0; 1000]);
        assert_eq!(any_pieces(&all.0), (all.1, None));
    }

    /// A header with all of its optional parts and its checksum.
    fn full_header() -> Vec<u8> {
        let builder = GzBuilder::new().filename("name").comment("comment").extra(*b"extra");
        let mut to = builder.write(Vec::new(), Compression::fast());
        to.write_all(b"hello").expect("memory");
        let mut member = to.finish().expect("memory");
        let end = FIXED_HEADER + 2 + 5 + 5 + 8;
        member[3] |= 1 << 1;
        let sum = crc32fast::hash(&member[..end]) as u16;
        member.splice(end..end, sum.to_le_bytes());
        member
    }

    #[test]
    fn each_part_of_a_header_is_read() {
        let member = full_header();
        assert_eq!(any_pieces(&member), (b"hello".to_vec(), None));
        for flags in 0..32 {
            let mut header = [0x1f, 0x8b, 8, flags, 0, 0, 0, 0, 0, 0xff].to_vec();
            header.extend([&b"\0\0"[..], b""][usize::from(flags & 4 == 0)]);
            header.extend([&b"a\0"[..], b""][usize::from(flags & 8 == 0)]);
            header.extend([&b"\0"[..], b""][usize::from(flags & 16 == 0)]);
            if flags & 2 != 0 {
                header.extend((crc32fast::hash(&header) as u16).to_le_bytes());
            }
            let bytes = [&header, &gzip(b"hello", 1)[FIXED_HEADER..]].concat();
            assert_eq!(any_pieces(&bytes), (b"hello".to_vec(), None), "{flags:#b}");
        }
    }

    #[test]
    fn a_damaged_header_is_an_error_at_its_place() {
        let with = |at: usize, byte: u8| {
            let mut member = full_header();
            member[at] = byte;
            error(&member)
        };
        assert_eq!(with(0, b'p'), (1, "byte 0 of a gzip header is 0x70, expected 0x1f".into()));
        assert_eq!(with(2, 9), (3, "byte 2 of a gzip header is 0x09, expected 0x08".into()));
        let reserved = "the flags of a gzip header are 0xde, expected no reserved bits";
        assert_eq!(with(3, 0xde), (4, reserved.into()));
        // Only the checksum of the header covers the time.
        let (place, message) = with(4, 1);
        assert_eq!(place, 32);
        assert!(message.starts_with("the checksum of the gzip header is 0x"), "{message}");
        let endless = [&[0x1f, 0x8b, 8, 1 << 3, 0, 0, 0, 0, 0, 0][..], &[b'x'; 70_000]].concat();
        let long = "a text in a gzip header has more than 65535 bytes";
        assert_eq!(error(&endless), (10 + 65_536, long.into()));
    }

    #[test]
    fn a_wrong_trailer_is_an_error_after_all_of_the_content() {
        let content = content(100_000, 1);
        let member = gzip(&content, 6);
        for (back, message) in [
            (8, "the checksum of the content is 0x"),
            (4, "the content has 100000 bytes modulo 2^32, expected 100001"),
        ] {
            let mut damaged = member.clone();
            damaged[member.len() - back] ^= 1;
            let (bytes, error) = any_pieces(&damaged);
            let (place, found) = error.expect("it is damaged");
            assert!(found.starts_with(message), "{found}");
            assert_eq!((place, bytes == content), (member.len() as u64, true));
        }
    }

    #[test]
    fn only_zeros_may_follow_the_zeros_after_the_last_member() {
        let member = gzip(b"hello", 6);
        let gap = [&member, &[0; 100][..], &member].concat();
        let why = "bytes that are not zeros after the zeros at its end";
        let error = Some((member.len() as u64 + 101, why.into()));
        assert_eq!(any_pieces(&gap), (b"hello".to_vec(), error));
        let other = any_pieces(&[&member, &b"other"[..]].concat());
        assert_eq!(other.0, b"hello");
        assert_eq!(other.1.expect("it is no member").0, member.len() as u64 + 1);
    }

    #[test]
    fn all_that_can_be_inflated_before_a_cut_is_returned() {
        let content = content(2_000, 1);
        let members = [full_header(), gzip(&content, 6)].concat();
        let first = full_header().len();
        let mut before = 0;
        for at in 0..members.len() {
            let (bytes, cut) = any_pieces(&members[..at]);
            assert!(bytes.len() >= before, "{at}");
            before = bytes.len();
            let Some((place, why)) = cut else {
                assert_eq!(at, first);
                continue;
            };
            assert_eq!(place, at as u64);
            assert!(why.starts_with("incomplete "), "{why}");
        }
        assert_eq!(before, 5 + content.len());
    }

    #[test]
    fn what_comes_before_damage_is_returned_however_large_it_is() {
        // Blocks without compression, then one of the type that does not exist: a flush ends a
        // block.
        for size in [1, WINDOW - 1, WINDOW, WINDOW + 1, 200_000] {
            let content = content(size, 3);
            let mut to = GzEncoder::new(Vec::new(), Compression::new(6));
            to.write_all(&content).expect("memory");
            to.flush().expect("memory");
            let mut damaged = to.get_ref().clone();
            let place = damaged.len() as u64 + 1;
            damaged.extend([0b110; 40]);
            let error = Some((place, "invalid deflate data".into()));
            assert!(any_pieces(&damaged) == (content, error), "{size}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_pieces_change_what_damaged_data_gives(
            sizes in proptest::collection::vec(0usize..70_000, 1..4),
            level in 0u32..10,
            seed: u64,
            damage in
                proptest::collection::vec((0.0f64..1.0, 0u8..5, proptest::num::u8::ANY), 0..4),
            pieces in proptest::collection::vec((1usize..200, 1usize..5000), 3),
        ) {
            let contents: Vec<_> = sizes.iter().map(|&size| content(size, seed)).collect();
            let mut bytes: Vec<u8> = contents.iter().flat_map(|it| gzip(it, level)).collect();
            for &(place, kind, byte) in &damage {
                let at = (place * bytes.len() as f64) as usize;
                match kind {
                    0 => bytes[at] = byte,
                    1 => bytes[at] ^= 1 << (byte % 8),
                    2 => bytes.insert(at, byte),
                    3 => drop(bytes.remove(at)),
                    _ => bytes.truncate(at.max(1)),
                }
            }
            let whole = inflate(&bytes, bytes.len(), 1 << 20);
            for &(piece, read) in &pieces {
                let split = inflate(&bytes, piece, read);
                proptest::prop_assert_eq!(&split.1, &whole.1);
                let lengths = (split.0.len(), whole.0.len());
                proptest::prop_assert!(split.0 == whole.0, "{lengths:?} bytes");
            }
            let mut library = Vec::new();
            let is_sound = MultiGzDecoder::new(&*bytes).read_to_end(&mut library).is_ok();
            proptest::prop_assert_eq!(is_sound, whole.1.is_none());
            proptest::prop_assert!(!is_sound || library == whole.0);
        }
    }
}
