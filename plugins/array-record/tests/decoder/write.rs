//! A writer of Riegeli/records and ArrayRecord by their documents. It can also write invalid files.

use std::io::Write as _;

use highway::{HighwayHash as _, HighwayHasher, Key};

const BLOCK: usize = 1 << 16;
const BLOCK_HEADER: usize = 24;
/// The number by which a postscript is known.
pub const MAGIC: u64 = 0x7193_0e70_4fda_e05e;

/// The compressions: their bytes in a chunk.
pub const CODECS: [u8; 4] = [0, b'b', b'z', b's'];

pub fn hash(bytes: &[u8]) -> [u8; 8] {
    let word = |text: &[u8; 8]| u64::from_le_bytes(*text);
    let (one, two) = (word(b"Riegeli/"), word(b"records\n"));
    HighwayHasher::new(Key([one, two, one, two])).hash64(bytes).to_le_bytes()
}

pub fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

/// A file that grows.
#[derive(Debug, Clone, Default)]
pub struct File {
    pub bytes: Vec<u8>,
    /// Where each chunk begins.
    pub chunks: Vec<usize>,
    /// The number of records of each chunk.
    pub records: Vec<usize>,
}

impl File {
    /// A file with its signature.
    pub fn new() -> Self {
        let mut file = Self::default();
        file.chunk(b's', &[], 0, 0);
        file
    }

    /// Adds a chunk.
    pub fn chunk(&mut self, kind: u8, data: &[u8], records: usize, values: usize) {
        let mut header = Vec::new();
        header.extend((data.len() as u64).to_le_bytes());
        header.extend(hash(data));
        header.push(kind);
        header.extend(&(records as u64).to_le_bytes()[..7]);
        header.extend((values as u64).to_le_bytes());
        let own = [&hash(&header)[..], &header, data].concat();
        let begin = self.bytes.len();
        self.chunks.push(begin);
        self.records.push(records);
        // Where it ends is found by writing it: its bytes, then padding.
        let is_inside = |place: usize| (1..=BLOCK_HEADER).contains(&(place % BLOCK));
        let mut headers = Vec::new();
        let mut put = |file: &mut Vec<u8>, byte: u8| {
            if file.len().is_multiple_of(BLOCK) {
                headers.push(file.len());
                file.extend([0; BLOCK_HEADER]);
            }
            file.push(byte);
        };
        own.iter().for_each(|byte| put(&mut self.bytes, *byte));
        let place = begin + records;
        let place = if is_inside(place) { place - place % BLOCK + BLOCK_HEADER + 1 } else { place };
        while self.bytes.len() < place {
            put(&mut self.bytes, 0);
        }
        let end = self.bytes.len();
        for block in headers {
            let [previous, next] = [block - begin, end - block].map(|it| (it as u64).to_le_bytes());
            let fields = [previous, next].concat();
            let header = [&hash(&fields)[..], &fields].concat();
            self.bytes[block..block + BLOCK_HEADER].copy_from_slice(&header);
        }
    }

    /// Adds a chunk of records.
    pub fn records(&mut self, codec: u8, records: &[Vec<u8>]) {
        let sizes: Vec<_> = records.iter().flat_map(|one| varint(one.len() as u64)).collect();
        let values = records.concat();
        self.chunk(b'r', &simple(codec, &sizes, &values), records.len(), values.len());
    }

    /// Adds padding, so that the next chunk begins this many bytes before the end of a block.
    pub fn pad(&mut self, before_end: usize) {
        let in_block = self.bytes.len() % BLOCK;
        let has_header = in_block == 0 || in_block + 40 > BLOCK;
        let at = self.bytes.len() + 40 + if has_header { BLOCK_HEADER } else { 0 };
        let until = at.next_multiple_of(BLOCK);
        let size = (until - at).saturating_sub(before_end);
        self.chunk(b'p', &vec![0; size], 0, 0);
    }

    /// Adds the footer and the postscript of an ArrayRecord file.
    pub fn finish(&mut self, codec: u8) {
        let footer = self.footer();
        let place = self.bytes.len();
        self.records(codec, &footer);
        self.pad(0);
        let message = [vec![0x08], varint(place as u64), vec![0x10], varint(MAGIC)].concat();
        self.records(0, &vec![message; 3]);
        self.pad(0);
    }

    /// The records of a footer.
    pub fn footer(&self) -> Vec<Vec<u8>> {
        let chunks = self.chunks.iter().zip(&self.records).filter(|(_, records)| **records > 0);
        let entry = |(place, records): (&usize, &usize)| {
            let field = |tag: u8, value: usize| [vec![tag], varint(value as u64)].concat();
            [field(0x08, *place), field(0x10, 0), field(0x18, *records)].concat()
        };
        let entries: Vec<_> = chunks.map(entry).collect();
        let all: usize = self.records.iter().sum();
        let description = [
            vec![0x08, 1, 0x10],
            varint(entries.len() as u64),
            vec![0x18],
            varint(all as u64),
            vec![0x22, 12],
            b"group_size:3".to_vec(),
        ];
        let description = description.concat();
        let first = [vec![0x0a], varint(description.len() as u64), description].concat();
        [vec![first], entries].concat()
    }
}

/// The data of a chunk.
pub fn simple(codec: u8, sizes: &[u8], values: &[u8]) -> Vec<u8> {
    let sizes = compress(codec, sizes);
    [vec![codec], varint(sizes.len() as u64), sizes, compress(codec, values)].concat()
}

fn compress(codec: u8, bytes: &[u8]) -> Vec<u8> {
    let compressed = match codec {
        b'b' => {
            let mut writer = brotli::CompressorWriter::new(Vec::new(), 4096, 3, 20);
            writer.write_all(bytes).expect("it compresses");
            writer.into_inner()
        }
        b'z' => zstd::bulk::compress(bytes, 3).expect("it compresses"),
        b's' => snap::raw::Encoder::new().compress_vec(bytes).expect("it compresses"),
        _ => return bytes.to_vec(),
    };
    [varint(bytes.len() as u64), compressed].concat()
}
