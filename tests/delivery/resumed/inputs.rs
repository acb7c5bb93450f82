//! Inputs of several formats, whose records tell where they belong.

use fastrand::Rng;
use highway::{HighwayHash as _, HighwayHasher, Key};
use pipemill_tests::inputs::{gzip, recordio, tfrecord, zstd};

/// How the bytes of an input's objects are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    None,
    Gzip,
    Zstd,
}

impl Compression {
    pub fn word(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        }
    }

    /// In several members or frames, one after the other.
    fn compress(self, random: &mut Rng, bytes: &[u8]) -> Vec<u8> {
        let at = random.usize(..=bytes.len());
        let (start, rest) = bytes.split_at(at);
        match self {
            Self::None => bytes.to_vec(),
            Self::Gzip => [gzip(start), gzip(rest)].concat(),
            Self::Zstd => [zstd(start), zstd(rest)].concat(),
        }
    }
}

/// The objects of one input, as they are stored.
pub struct Input {
    pub name: &'static str,
    pub decoder: &'static str,
    /// As in a configuration, without brackets.
    pub options: &'static str,
    pub compression: Compression,
    pub objects: Vec<Vec<u8>>,
    /// The number of records of each object.
    pub counts: Vec<usize>,
    /// The most records that an object has.
    pub records: usize,
}

impl std::fmt::Debug for Input {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let sizes: Vec<_> = self.objects.iter().map(Vec::len).collect();
        let Self { decoder, options, compression, .. } = self;
        write!(f, "{decoder} {{ {options} }}, {compression:?}, objects of {sizes:?} bytes")
    }
}

/// A decoder, its options, and what writes an object of these payloads.
type Format = (&'static str, &'static str, fn(&[Vec<u8>]) -> Vec<u8>);

const FORMATS: [Format; 13] = [
    ("lines", "", lines),
    ("tfrecord", "", tfrecord),
    ("recordio", "", recordio),
    ("length-prefixed", "prefix = \"u32le\"", length_prefixed),
    ("jsonl", "fields = \"/n:int64,/text:utf8\"", jsonl),
    ("csv", "header = true, types = \"id:int64,word:utf8\"", csv_with_header),
    ("csv", "types = \"auto\"", csv),
    ("csv", "emit = \"dense\"", csv),
    ("fixed", "fields = \"a:int32,b:bytes[5]\"", fixed),
    ("npy", "", npy),
    ("mds", "", mds),
    ("array-record", "", array_record),
    ("avro", "", avro),
];

impl Input {
    pub fn new(random: &mut Rng, name: &'static str) -> Self {
        let format = FORMATS[random.usize(..FORMATS.len())];
        Self::of(random, name, format)
    }

    /// Another one whose records have the same fields.
    pub fn like(&self, random: &mut Rng, name: &'static str) -> Self {
        let is_own = |format: &&Format| (format.0, format.1) == (self.decoder, self.options);
        let format = FORMATS.iter().find(is_own).expect("it is one of them");
        Self::of(random, name, *format)
    }

    fn of(random: &mut Rng, name: &'static str, (decoder, options, write): Format) -> Self {
        let compression = match random.u8(..4) {
            0 => Compression::Gzip,
            1 => Compression::Zstd,
            _ => Compression::None,
        };
        let largest = if random.u8(..8) == 0 { 9_000 } else { random.usize(1..200) };
        // That of avro is large enough.
        let count = if decoder == "avro" { 1 } else { random.usize(1..5) };
        let (mut number, mut counts) = (0, Vec::new());
        let objects = (0..count).map(|_| {
            let records = if random.u8(..8) == 0 { 0 } else { random.usize(1..50) };
            counts.push(if decoder == "avro" { 400 } else { records });
            let payloads: Vec<_> = (0..records)
                .map(|_| {
                    number += 1;
                    payload(random, number, largest)
                })
                .collect();
            let bytes = write(&payloads);
            compression.compress(random, &bytes)
        });
        let objects = objects.collect();
        let records = counts.iter().copied().max().unwrap_or(0);
        Self { name, decoder, options, compression, objects, counts, records }
    }
}

/// The number, and letters after it.
fn payload(random: &mut Rng, number: u32, largest: usize) -> Vec<u8> {
    let mut payload = format!("{number} ").into_bytes();
    payload.extend((0..random.usize(..largest)).map(|_| random.u8(b'a'..=b'z')));
    payload
}

/// The number that a payload begins with, and the rest.
fn parts(payload: &[u8]) -> (&str, &str) {
    let text = std::str::from_utf8(payload).expect("ASCII");
    text.split_once(' ').expect("a number and letters")
}

fn text(payloads: &[Vec<u8>], line: impl Fn(&str, &str) -> String) -> Vec<u8> {
    let lines = payloads.iter().map(|payload| {
        let (number, letters) = parts(payload);
        line(number, letters)
    });
    lines.collect::<String>().into_bytes()
}

fn lines(payloads: &[Vec<u8>]) -> Vec<u8> {
    text(payloads, |number, letters| format!("{number} {letters}\n"))
}

fn jsonl(payloads: &[Vec<u8>]) -> Vec<u8> {
    text(payloads, |number, letters| format!("{{\"n\": {number}, \"text\": \"{letters}\"}}\n"))
}

fn csv_with_header(payloads: &[Vec<u8>]) -> Vec<u8> {
    let rows = text(payloads, |number, letters| format!("{number},\"{letters}\n\"\n"));
    [&b"id,word\n"[..], &rows].concat()
}

/// Three columns of numbers.
fn csv(payloads: &[Vec<u8>]) -> Vec<u8> {
    text(payloads, |number, letters| format!("{number},{}.5,-{number}\n", letters.len()))
}

fn length_prefixed(payloads: &[Vec<u8>]) -> Vec<u8> {
    let record = |payload: &Vec<u8>| [&(payload.len() as u32).to_le_bytes(), &payload[..]].concat();
    payloads.iter().flat_map(record).collect()
}

/// Records of nine bytes.
fn fixed(payloads: &[Vec<u8>]) -> Vec<u8> {
    let record = |payload: &Vec<u8>| {
        let mut record = payload.clone();
        record.resize(9, b'.');
        record
    };
    payloads.iter().flat_map(record).collect()
}

/// A matrix of three columns.
fn npy(payloads: &[Vec<u8>]) -> Vec<u8> {
    let rows = payloads.len();
    let mut header =
        format!("{{'descr': '<i4', 'fortran_order': False, 'shape': ({rows}, 3), }}").into_bytes();
    header.resize((10 + header.len() + 1).next_multiple_of(64) - 11, b' ');
    header.push(b'\n');
    let length = (header.len() as u16).to_le_bytes();
    let value = |payload: &Vec<u8>| {
        let (number, letters) = parts(payload);
        [number.parse().expect("a number"), letters.len() as i32, -1].map(i32::to_le_bytes).concat()
    };
    let values = payloads.iter().flat_map(value).collect();
    [b"\x93NUMPY\x01\x00".to_vec(), length.to_vec(), header, values].concat()
}

/// A shard of a number and a text.
fn mds(payloads: &[Vec<u8>]) -> Vec<u8> {
    let description = "{\"version\":2,\"format\":\"mds\",\"column_names\":[\"n\",\"text\"],\
                       \"column_encodings\":[\"int\",\"str\"],\"column_sizes\":[8,null]}";
    let sample = |payload: &Vec<u8>| {
        let (number, letters) = parts(payload);
        let number: i64 = number.parse().expect("a number");
        let size = (letters.len() as u32).to_le_bytes();
        [&size[..], &number.to_le_bytes(), letters.as_bytes()].concat()
    };
    let samples: Vec<_> = payloads.iter().map(sample).collect();
    let mut place = (8 + 4 * samples.len() + description.len()) as u32;
    let mut table = [(samples.len() as u32).to_le_bytes(), place.to_le_bytes()].concat();
    for sample in &samples {
        place += sample.len() as u32;
        table.extend(place.to_le_bytes());
    }
    [&table[..], description.as_bytes(), &samples.concat()].concat()
}

/// A file of Riegeli, in groups of three.
fn array_record(payloads: &[Vec<u8>]) -> Vec<u8> {
    const BLOCK: usize = 1 << 16;
    let word = |text: &[u8; 8]| u64::from_le_bytes(*text);
    let (one, two) = (word(b"Riegeli/"), word(b"records\n"));
    let hash =
        |bytes: &[u8]| HighwayHasher::new(Key([one, two, one, two])).hash64(bytes).to_le_bytes();
    let varint = |size: usize| match size {
        0..0x80 => vec![size as u8],
        _ => vec![size as u8 | 0x80, (size >> 7) as u8],
    };
    let groups = payloads.chunks(3).map(|group| {
        let sizes: Vec<_> = group.iter().flat_map(|one| varint(one.len())).collect();
        let values = group.concat();
        let data = [&[0], &varint(sizes.len())[..], &sizes, &values].concat();
        (b'r', data, group.len() as u64, values.len() as u64)
    });
    let mut file = Vec::new();
    for (kind, data, records, values) in [(b's', Vec::new(), 0, 0)].into_iter().chain(groups) {
        let header = [
            &(data.len() as u64).to_le_bytes()[..],
            &hash(&data),
            &(records << 8 | u64::from(kind)).to_le_bytes(),
            &values.to_le_bytes(),
        ];
        let header = header.concat();
        let chunk = [&hash(&header)[..], &header, &data].concat();
        let (begin, mut headers) = (file.len(), Vec::new());
        for byte in chunk {
            if file.len().is_multiple_of(BLOCK) {
                headers.push(file.len());
                file.resize(file.len() + 24, 0);
            }
            file.push(byte);
        }
        for block in headers {
            let places = [block - begin, file.len() - block].map(|it| (it as u64).to_le_bytes());
            let places = places.concat();
            file[block..block + 8].copy_from_slice(&hash(&places));
            file[block + 8..block + 24].copy_from_slice(&places);
        }
    }
    file
}

/// Not the payloads, but 400 blocks of one record each.
fn avro(_: &[Vec<u8>]) -> Vec<u8> {
    let file = "/../plugins/avro/tests/fixtures/many-blocks.avro";
    std::fs::read(format!("{}{file}", env!("CARGO_MANIFEST_DIR"))).expect("a file of its tests")
}
