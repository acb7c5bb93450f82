//! Input files. They are made once, and are then in the page cache.

use std::fs;
use std::io::{BufWriter, Read, Write};
use std::path::PathBuf;

use anyhow::Result;

use crate::report::BenchPaths;

/// The approximate size of an input file, in bytes.
pub const SIZE: usize = 256 << 20;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Format {
    TfRecord,
    RecordIo,
    Csv,
    /// CSV of numbers without a header.
    Numbers,
    JsonLines,
}

impl Format {
    pub fn decoder(self) -> &'static str {
        match self {
            Self::TfRecord => "tfrecord",
            Self::RecordIo => "recordio",
            Self::Csv | Self::Numbers => "csv",
            Self::JsonLines => "jsonl",
        }
    }

    /// The word for it in the names of files.
    fn word(self) -> &'static str {
        if self == Self::Numbers { "numbers" } else { self.decoder() }
    }
}

/// A file with records of `record` bytes. It is read once, so that it is in the page cache.
pub fn file(paths: &BenchPaths, format: Format, record: usize) -> Result<PathBuf> {
    file_of_size(paths, format, record, SIZE)
}

/// The same, of about this size in bytes.
pub fn file_of_size(
    paths: &BenchPaths,
    format: Format,
    record: usize,
    size: usize,
) -> Result<PathBuf> {
    let mebibytes = size >> 20;
    let path = paths.dir.join(format!("{}-{record}-{mebibytes}MiB.data", format.word()));
    if !path.exists() {
        let part = path.with_extension("part");
        let mut out = BufWriter::with_capacity(1 << 20, fs::File::create(&part)?);
        let mut written = 0;
        let mut random = Random(42);
        while written < size {
            written += write_record(&mut out, format, record, &mut random)?;
        }
        out.flush()?;
        fs::rename(part, &path)?;
    }
    std::io::copy(&mut fs::File::open(&path)?, &mut std::io::sink())?;
    Ok(path)
}

/// The bytes of the whole file.
pub fn bytes(path: &PathBuf) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    fs::File::open(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn write_record(
    out: &mut impl Write,
    format: Format,
    record: usize,
    random: &mut Random,
) -> Result<usize> {
    match format {
        Format::TfRecord => {
            let payload = random.bytes(record);
            let length = (record as u64).to_le_bytes();
            out.write_all(&length)?;
            out.write_all(&masked(&length))?;
            out.write_all(&payload)?;
            out.write_all(&masked(&payload))?;
            Ok(record + 16)
        }
        Format::RecordIo => {
            let pad = record.next_multiple_of(4) - record;
            out.write_all(&0xced7_230a_u32.to_le_bytes())?;
            out.write_all(&(record as u32).to_le_bytes())?;
            out.write_all(&random.bytes(record))?;
            out.write_all(&[0; 3][..pad])?;
            Ok(record + pad + 8)
        }
        Format::Csv => {
            // Eight fields with about 100 bytes together. Two are quoted, one has a delimiter in
            // it.
            let n = random.next();
            let row = format!(
                "{},{:.6},\"name {}, {}\",{},{:.4},\"{:016x}\",{},{}\n",
                n % 1_000_000,
                (n % 7919) as f64 / 7.0,
                n % 9973,
                n % 17,
                n % 255,
                (n % 104_729) as f64 / 13.0,
                n,
                n >> 40,
                "abcdefghijklmnopqrst",
            );
            out.write_all(row.as_bytes())?;
            Ok(row.len())
        }
        Format::Numbers => {
            let row: Vec<_> = (0..record / 8).map(|_| random.number().to_string()).collect();
            let row = row.join(",") + "\n";
            out.write_all(row.as_bytes())?;
            Ok(row.len())
        }
        Format::JsonLines => {
            // Six keys, of which three are long texts.
            let n = random.next();
            let line = format!(
                "{{\"id\": {}, \"title\": \"item {:016x}\", \"score\": {:.4}, \
                 \"text\": \"{}\", \"tags\": [\"a\", \"b{}\"], \"lang\": \"en\"}}\n",
                n % 1_000_000,
                n,
                (n % 104_729) as f64 / 13.0,
                "the quick brown fox jumps over the lazy dog ".repeat(record / 50),
                n % 17,
            );
            out.write_all(line.as_bytes())?;
            Ok(line.len())
        }
    }
}

fn masked(bytes: &[u8]) -> [u8; 4] {
    crc_fast::crc32_iscsi(bytes).rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes()
}

/// A xorshift generator: it gives the same data in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
    /// A number of a few digits.
    fn number(&mut self) -> f64 {
        (self.next() % 2_000_000) as f64 / 1000.0 - 1000.0
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(count + 8);
        while bytes.len() < count {
            bytes.extend_from_slice(&self.next().to_le_bytes());
        }
        bytes.truncate(count);
        bytes
    }
}
