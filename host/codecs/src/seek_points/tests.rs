//! Inflating from any seek point gives what inflating from the start gives after it; a wrong point
//! or a damaged object gives an error and no other bytes.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::process::{Command, Stdio};

use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};
use proptest::prelude::*;

use crate::seek_point::CHECKED_BYTES;
use crate::{
    Codec, GzipMembers, SeekPoint, SeekPoints, ZlibStreams, ZstdFrames, is_wrong_seek_point,
};

/// Distance of the points, which is the smallest.
const EVERY: u64 = 64 << 10;

/// The readers of this crate.
trait Reader: Read {
    fn collect(&mut self, points: &SeekPoints);
}

impl<R: BufRead> Reader for GzipMembers<R> {
    fn collect(&mut self, points: &SeekPoints) {
        self.set_seek_points(points);
    }
}

impl<R: BufRead> Reader for ZlibStreams<R> {
    fn collect(&mut self, points: &SeekPoints) {
        self.set_seek_points(points);
    }
}

impl<R: BufRead> Reader for ZstdFrames<R> {
    fn collect(&mut self, points: &SeekPoints) {
        self.set_seek_points(points);
    }
}

/// A reader of an object in pieces of `piece` bytes, from a point on.
fn reader<'a>(
    codec: Codec,
    bytes: &'a [u8],
    piece: usize,
    point: Option<&SeekPoint>,
) -> std::io::Result<Box<dyn Reader + 'a>> {
    let at = point.map_or(0, |point| point.compressed() as usize).min(bytes.len());
    let input = BufReader::with_capacity(piece, Waits { bytes: &bytes[at..], reads: 0 });
    Ok(match (codec, point) {
        (Codec::Gzip, None) => Box::new(GzipMembers::new(input)),
        (Codec::Gzip, Some(point)) => Box::new(GzipMembers::at(input, point)?),
        (Codec::Zlib, None) => Box::new(ZlibStreams::new(input)),
        (Codec::Zlib, Some(point)) => Box::new(ZlibStreams::at(input, point)?),
        (_, None) => Box::new(ZstdFrames::new(input)?),
        (_, Some(point)) => Box::new(ZstdFrames::at(input, point)?),
    })
}

/// An input of which each third read has no result.
struct Waits<'a> {
    bytes: &'a [u8],
    reads: usize,
}

impl Read for Waits<'_> {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        self.reads += 1;
        if self.reads.is_multiple_of(3) {
            return Err(ErrorKind::WouldBlock.into());
        }
        self.bytes.read(buf)
    }
}

/// All bytes up to the end or the error.
fn read(reader: std::io::Result<Box<dyn Reader + '_>>, size: usize) -> (Vec<u8>, Option<Failure>) {
    let mut reader = match reader {
        Ok(reader) => reader,
        Err(why) => return (Vec::new(), Some(Failure::of(&why))),
    };
    let (mut all, mut buf) = (Vec::new(), vec![0; size]);
    loop {
        match reader.read(&mut buf) {
            Ok(0) => return (all, None),
            Ok(count) => all.extend_from_slice(&buf[..count]),
            Err(why) if why.kind() == ErrorKind::WouldBlock => {}
            Err(why) => {
                reader.read(&mut buf).expect_err("an error stays one");
                return (all, Some(Failure::of(&why)));
            }
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
struct Failure {
    is_wrong_point: bool,
    text: String,
}

impl Failure {
    fn of(why: &std::io::Error) -> Self {
        Self { is_wrong_point: is_wrong_seek_point(why), text: why.to_string() }
    }
}

/// Inflates from the start. Returns the bytes, the error, and the points.
fn whole(
    codec: Codec,
    bytes: &[u8],
    piece: usize,
    size: usize,
) -> (Vec<u8>, Option<Failure>, Vec<SeekPoint>) {
    let points = SeekPoints::every(EVERY, usize::MAX);
    let mut from_start = reader(codec, bytes, piece, None);
    if let Ok(reader) = &mut from_start {
        reader.collect(&points);
    }
    let (all, error) = read(from_start, size);
    (all, error, points.all().iter().map(|point| (**point).clone()).collect())
}

/// Content of a kind: zeros, random bytes, text, or several of them.
fn content(kind: u8, size: usize, seed: u64) -> Vec<u8> {
    let mut random = seed | 1;
    let mut next = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    let mut bytes = Vec::with_capacity(size + 40);
    while bytes.len() < size {
        match if kind < 3 { kind } else { (bytes.len() >> 14) as u8 % 3 } {
            0 => bytes.extend([0; 40]),
            1 => bytes.extend(next().to_le_bytes()),
            _ => {
                let word = next();
                // Words repeat, at any distance.
                bytes.extend((0..3 + word % 9).map(|at| b'a' + (word >> 32 >> (at % 4)) as u8 % 8));
                bytes.push(b' ');
            }
        }
    }
    bytes.truncate(size);
    bytes
}

/// How one member, stream or frame is written.
#[derive(Debug, Clone, Copy)]
struct Member {
    kind: u8,
    size: usize,
    level: u32,
    /// Bytes after which the writer flushes, which ends a block.
    flush: Option<usize>,
    /// A part without content before it, where the format has one.
    empty: bool,
}

impl Member {
    fn content(&self, seed: u64) -> Vec<u8> {
        content(self.kind, self.size, seed)
    }

    fn write(&self, codec: Codec, seed: u64) -> Vec<u8> {
        let content = self.content(seed);
        let pieces = content.chunks(self.flush.unwrap_or(usize::MAX).max(500));
        let level = Compression::new(self.level);
        let mut to = Vec::new();
        match codec {
            Codec::Gzip => {
                if self.empty {
                    to = GzEncoder::new(to, level).finish().expect("memory");
                }
                let mut to = GzEncoder::new(to, level);
                pieces.for_each(|piece| {
                    to.write_all(piece).and_then(|()| to.flush()).expect("memory")
                });
                to.finish().expect("memory")
            }
            Codec::Zlib => {
                if self.empty {
                    to = ZlibEncoder::new(to, level).finish().expect("memory");
                }
                let mut to = ZlibEncoder::new(to, level);
                pieces.for_each(|piece| {
                    to.write_all(piece).and_then(|()| to.flush()).expect("memory")
                });
                to.finish().expect("memory")
            }
            _ => {
                if self.empty {
                    // A skippable frame.
                    to.extend(b"\x53\x2a\x4d\x18\x05\0\0\0hello");
                }
                let mut to = zstd::Encoder::new(to, self.level as i32).expect("memory");
                // As the program `zstd` does. Without it, other damage is not found by anybody.
                to.include_checksum(true).expect("it is an option");
                to.write_all(&content).and_then(|()| to.finish()).expect("memory")
            }
        }
    }
}

fn member() -> impl Strategy<Value = Member> {
    let size = prop_oneof![0usize..3, 1usize..70_000, 200_000usize..400_000];
    (0u8..4, size, 0u32..10, prop::option::of(500usize..100_000), any::<bool>())
        .prop_map(|(kind, size, level, flush, empty)| Member { kind, size, level, flush, empty })
}

fn codec() -> impl Strategy<Value = Codec> {
    prop_oneof![Just(Codec::Gzip), Just(Codec::Zlib), Just(Codec::Zstd)]
}

fn write(codec: Codec, members: &[Member], seed: u64) -> (Vec<u8>, Vec<u8>) {
    let bytes = members.iter().flat_map(|it| it.write(codec, seed)).collect();
    (bytes, members.iter().flat_map(|it| it.content(seed)).collect())
}

/// Checks each point of an object that is sound.
fn check_all_points(codec: Codec, bytes: &[u8], content: &[u8], pieces: [usize; 3], size: usize) {
    let [piece, other, third] = pieces;
    let (all, error, points) = whole(codec, bytes, piece, size);
    assert!(error.is_none() && all == content, "{error:?}");
    let (_, _, same) = whole(codec, bytes, other, 10_000);
    assert!(points == same, "the pieces make other points");
    let mut last = 0;
    for point in points {
        assert!(point.inflated() >= last + EVERY && point.inflated() < content.len() as u64);
        last = point.inflated();
        let point = SeekPoint::from_bytes(&point.to_bytes()).expect("it was just written");
        let rest = read(reader(codec, bytes, third, Some(&point)), size);
        assert_eq!(rest.1, None);
        assert!(rest.0 == content[last as usize..], "from {last}");
    }
}

#[test]
fn what_gzip_and_zlib_write_is_read_from_any_point() {
    for kind in 0..4 {
        let text = content(kind, 1_500_000, 7);
        for level in ["-1", "-6", "-9"] {
            let mut gzip = Command::new("gzip")
                .args([level, "-c"])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .expect("gzip is installed");
            let mut to = gzip.stdin.take().expect("it is piped");
            let input = text.clone();
            let writer = std::thread::spawn(move || to.write_all(&input));
            let bytes = gzip.wait_with_output().expect("it runs").stdout;
            writer.join().expect("it does not panic").expect("gzip reads all");
            check_all_points(Codec::Gzip, &bytes, &text, [4096, 77, 1 << 17], 100_000);
            // Several members, with padding.
            let twice = [&bytes[..], &bytes, &[0; 700]].concat();
            let text = text.repeat(2);
            check_all_points(Codec::Gzip, &twice, &text, [1 << 17, 5000, 333], 50_000);
        }
    }
}

/// Members of at most 64 KiB, as bgzip writes them, need no window.
#[test]
fn small_members_need_no_window() {
    let text = content(2, 1_000_000, 3);
    let bytes: Vec<u8> = text
        .chunks(65_280)
        .flat_map(|piece| {
            let mut to = GzEncoder::new(Vec::new(), Compression::new(6));
            to.write_all(piece).and_then(|()| to.finish()).expect("memory")
        })
        .collect();
    check_all_points(Codec::Gzip, &bytes, &text, [100, 4096, 1 << 17], 9999);
}

#[test]
fn the_memory_of_points_is_bounded() {
    let text = content(2, 4_000_000, 3);
    let mut to = GzEncoder::new(Vec::new(), Compression::new(6));
    let bytes = to.write_all(&text).and_then(|()| to.finish()).expect("memory");
    let points = SeekPoints::every(EVERY, 200_000);
    let mut from_start = reader(Codec::Gzip, &bytes, 4096, None).expect("memory");
    from_start.collect(&points);
    read(Ok(from_start), 1 << 16);
    assert!(points.memory() <= 200_000, "{}", points.memory());
    let all: Vec<u64> = points.all().iter().map(|point| point.inflated()).collect();
    assert!(all.len() >= 3 && *all.last().expect("there are some") > 3_000_000, "{all:?}");
    for point in points.all() {
        let rest = read(reader(Codec::Gzip, &bytes, 4096, Some(&point)), 4096);
        assert!(rest == (text[point.inflated() as usize..].to_vec(), None));
    }
    assert_eq!(points.before(all[0] - 1), None);
    assert_eq!(points.before(all[1]).expect("there is one").inflated(), all[1]);
    assert_eq!(points.before(all[1] - 1).expect("there is one").inflated(), all[0]);
}

/// A window of other bytes, which deflate can't know.
#[test]
fn another_window_is_an_error_before_the_first_byte() {
    for codec in [Codec::Gzip, Codec::Zlib] {
        let member = Member { kind: 2, size: 600_000, level: 6, flush: Some(70_000), empty: false };
        let (bytes, _) = write(codec, &[member], 3);
        let (_, _, points) = whole(codec, &bytes, 4096, 4096);
        assert!(points.iter().any(SeekPoint::has_window));
        for point in points {
            let mut wrong = point.clone();
            let block = wrong.block.as_mut().expect("there is one member");
            let mut window = vec![0; block.window_len as usize];
            block.restore_window(&mut window).expect("it is right");
            window.rotate_left(1);
            block.window = zstd::bulk::compress(&window, 1).expect("memory").into();
            let (none, error) = read(reader(codec, &bytes, 4096, Some(&wrong)), 4096);
            // The block may have no reference to before the point.
            if let Some(error) = error {
                assert!(none.is_empty() && error.is_wrong_point, "{error:?}");
            } else {
                assert!(none.len() as u64 == member.size as u64 - point.inflated());
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn inflating_from_any_point_gives_the_rest(
        codec in codec(),
        members in prop::collection::vec(member(), 1..6),
        seed: u64,
        pieces in prop::array::uniform3(prop_oneof![1usize..20, 20usize..5000, Just(1 << 17)]),
        size in prop_oneof![1usize..300, 300usize..200_000],
    ) {
        let (bytes, content) = write(codec, &members, seed);
        check_all_points(codec, &bytes, &content, pieces, size);
    }

    /// Damage after a point gives the same bytes and the same error as the object from its start,
    /// if all before the point is sound; but no byte at all if it is in the first ones.
    #[test]
    fn damage_gives_an_error_and_no_other_bytes(
        codec in codec(),
        members in prop::collection::vec(member(), 1..4),
        seed: u64,
        damage in prop::collection::vec((any::<prop::sample::Index>(), 0u8..5, any::<u8>()), 0..3),
        shift in prop_oneof![3 => Just(0i64), 1 => -9i64..9],
        pieces in prop::array::uniform2(1usize..5000),
    ) {
        let (bytes, content) = write(codec, &members, seed);
        let (_, _, points) = whole(codec, &bytes, pieces[0], 4096);
        let mut damaged = bytes.clone();
        for (at, kind, byte) in damage {
            let at = at.index(damaged.len());
            match kind {
                0 => damaged[at] = byte,
                1 => damaged[at] ^= 1 << (byte % 8),
                2 => damaged.insert(at, byte),
                3 => drop(damaged.remove(at)),
                _ => damaged.truncate(at.max(1)),
            }
        }
        for mut point in points {
            let (from, at) = (point.inflated() as usize, point.compressed() as usize);
            let mixed = [&bytes[..at], damaged.get(at..).unwrap_or_default()].concat();
            let (all, all_error, _) = whole(codec, &mixed, pieces[0], 4096);
            point.compressed = point.compressed.saturating_add_signed(shift);
            let (rest, error) = read(reader(codec, &damaged, pieces[1], Some(&point)), 4096);
            if error.as_ref().is_some_and(|error| error.is_wrong_point) {
                let is_other = all_error.is_some() || all != content;
                prop_assert!(rest.is_empty() && (shift != 0 || is_other), "{error:?}");
            } else if shift == 0 {
                prop_assert!(rest == all[from..], "{} {}", rest.len(), all.len() - from);
                prop_assert_eq!(all_error, error);
            } else {
                let first = content.len().min(from + CHECKED_BYTES);
                prop_assert!(rest.starts_with(&content[from..first]));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20))]

    /// The point of one object is not one of another.
    #[test]
    fn a_point_of_another_object_is_an_error(
        codec in codec(),
        member in member(),
        seeds in any::<[u64; 2]>(),
    ) {
        let members = [Member { size: member.size + 100_000, kind: 2, ..member }; 2];
        let (bytes, _) = write(codec, &members, seeds[0]);
        let (_, _, points) = whole(codec, &bytes, 4096, 4096);
        let (other, _) = write(codec, &members, seeds[1] ^ seeds[0] ^ 2);
        prop_assume!(other != bytes);
        for point in points {
            let (rest, error) = read(reader(codec, &other, 4096, Some(&point)), 4096);
            let error = error.expect("its content is another one");
            prop_assert!(rest.is_empty() && error.is_wrong_point, "{error:?}");
        }
    }
}
