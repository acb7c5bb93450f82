//! The file of an index: Parquet, which pyarrow, DuckDB and others read.
//!
//! Right after Parquet's own first four bytes, the file has a seal, which other readers skip: the
//! text `pipemill`, and the CRC-64/NVME of the whole file with zeros in its place, in little-endian
//! order. A file without the seal, or with another checksum, is not parsed.

use std::fmt::Display;
use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::num::NonZero;
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use bytes::Bytes;
use crc_fast::CrcAlgorithm::Crc64Nvme;
use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

use crate::columns::{read_objects, schema, write_objects};
use crate::error::IndexError;
use crate::header::VERSIONS;
use crate::new_file::NewFile;
use crate::objects::SEGMENT;
use crate::{Header, Index, Objects};

/// The first bytes of a Parquet file.
const MAGIC: &[u8] = b"PAR1";
/// The first bytes of the seal.
const SEAL: &[u8] = b"pipemill";
/// Bytes of the seal.
const SEAL_BYTES: usize = 16;
/// The key of the facts about the index in the file's metadata.
const KEY: &str = "pipemill.index";

impl Index {
    /// Completes the facts about an index with its counts and its digest.
    pub(crate) fn new(mut header: Header, objects: Objects) -> Self {
        header.complete(&objects);
        Self { header, objects }
    }

    /// Writes the index to a file, as a whole or not at all: an older index stays until the new one
    /// is complete.
    ///
    /// # Errors
    /// The file can't be written.
    pub fn write(&self, path: &Path) -> Result<(), IndexError> {
        let failed = |error: io::Error| IndexError::io(path.display(), "can't be written", &error);
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        let mut file = NewFile::in_folder(folder).map_err(failed)?;
        self.write_to(file.file()).map_err(failed)?;
        file.replace(folder, path).map_err(failed)
    }

    fn write_to(&self, file: &mut File) -> io::Result<()> {
        self.write_unsealed(BufWriter::new(file.try_clone()?))?.flush()?;
        let checksum = checksum_of(file)?;
        file.seek(SeekFrom::Start(MAGIC.len() as u64))?;
        file.write_all(SEAL)?;
        file.write_all(&checksum.to_le_bytes())
    }

    /// The bytes of the index's file.
    pub(crate) fn to_bytes(&self) -> io::Result<Vec<u8>> {
        let mut bytes = self.write_unsealed(Vec::new())?;
        let checksum = crc_fast::checksum(Crc64Nvme, &bytes);
        let seal = [SEAL, &checksum.to_le_bytes()].concat();
        bytes[MAGIC.len()..MAGIC.len() + SEAL_BYTES].copy_from_slice(&seal);
        Ok(bytes)
    }

    /// Writes the file with zeros in place of the seal.
    fn write_unsealed<W: Write + Send>(&self, writer: W) -> io::Result<W> {
        let objects_only = self.header.objects_only;
        let schema = Arc::new(parse_message_type(schema(objects_only))?);
        let facts = KeyValue::new(KEY.to_owned(), serde_json::to_string(&self.header)?);
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_created_by("pipemill".to_owned())
            .set_key_value_metadata(Some(vec![facts]));
        let properties = Arc::new(properties.build());
        let mut writer = SerializedFileWriter::new(writer, schema, properties)?;
        writer.write_all(&[0; SEAL_BYTES])?;
        let count = self.objects.count();
        for from in (0..count).step_by(SEGMENT) {
            let range = from..count.min(from + SEGMENT);
            write_objects(writer.next_row_group()?, &self.objects, range, objects_only)?;
        }
        Ok(writer.into_inner()?)
    }

    /// Reads an index from a file.
    ///
    /// # Errors
    /// The file can't be read, is damaged, or is no index of this version.
    pub fn read(path: &Path) -> Result<Self, IndexError> {
        let name = path.display();
        let bytes =
            std::fs::read(path).map_err(|error| IndexError::io(name, "can't be read", &error))?;
        Self::of_bytes(&path.display(), bytes)
    }

    /// Reads an index from the bytes of a file of this name.
    pub(crate) fn of_bytes(name: &dyn Display, bytes: Vec<u8>) -> Result<Self, IndexError> {
        let bytes = unsealed(name, bytes)?;
        let damaged = |error: ParquetError| {
            let message = format!("its checksum is right, but it is no index: {error}");
            IndexError::new(name, message, "make it again")
        };
        let reader = SerializedFileReader::new(bytes).map_err(damaged)?;
        let header = header(name, &reader)?;
        let objects = read_groups(&reader, header.objects_only).map_err(damaged)?;
        Ok(Self { header, objects })
    }
}

/// The objects of all row groups, which several threads read.
fn read_groups(
    reader: &SerializedFileReader<Bytes>,
    objects_only: bool,
) -> Result<Objects, ParquetError> {
    let groups = reader.num_row_groups();
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    let next = AtomicUsize::new(0);
    let read = || {
        let mut read = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= groups {
                return Ok::<_, ParquetError>(read);
            }
            let mut objects = Objects::default();
            read_objects(&*reader.get_row_group(number)?, &mut objects, objects_only)?;
            read.push((number, objects));
        }
    };
    let mut parts: Vec<(usize, Objects)> = thread::scope(|scope| {
        let others: Vec<_> = (1..cores.min(groups)).map(|_| scope.spawn(read)).collect();
        let mut parts = read()?;
        for other in others {
            // A panic of a thread continues here.
            parts.extend(other.join().unwrap_or_else(|panic| resume_unwind(panic))?);
        }
        Ok::<_, ParquetError>(parts)
    })?;
    parts.sort_by_key(|(number, _)| *number);
    Ok(Objects::joined(parts.into_iter().map(|(_, objects)| objects).collect()))
}

/// The facts about the index, from the file's metadata.
fn header(path: &dyn Display, reader: &SerializedFileReader<Bytes>) -> Result<Header, IndexError> {
    let pairs = reader.metadata().file_metadata().key_value_metadata();
    let facts = pairs.and_then(|pairs| pairs.iter().find(|pair| pair.key == KEY)?.value.as_ref());
    let facts = facts.ok_or_else(|| {
        let message = format!("its metadata has no `{KEY}`");
        IndexError::new(path, message, "make it again")
    })?;
    #[derive(serde::Deserialize)]
    struct Version {
        version: u32,
    }
    let wrong = |error: serde_json::Error| {
        IndexError::new(path, format!("its `{KEY}` has another form: {error}"), "make it again")
    };
    let Version { version } = serde_json::from_str(facts).map_err(wrong)?;
    if !VERSIONS.contains(&version) {
        let (first, last) = VERSIONS.into_inner();
        let message =
            format!("its format has version {version}, and this pipemill reads {first} and {last}");
        return Err(IndexError::new(path, message, "make it again with this pipemill"));
    }
    serde_json::from_str(facts).map_err(wrong)
}

/// The checksum of the file, in which the seal is still zero.
fn checksum_of(file: &mut File) -> io::Result<u64> {
    file.rewind()?;
    let mut digest = crc_fast::Digest::new(Crc64Nvme);
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(digest.finalize()),
            count => digest.update(&buffer[..count]),
        }
    }
}

/// Checks the seal.
fn unsealed(path: &dyn Display, bytes: Vec<u8>) -> Result<Bytes, IndexError> {
    let sealed = bytes.strip_prefix(MAGIC).and_then(|rest| rest.strip_prefix(SEAL));
    let Some(expected) = sealed.and_then(|rest| rest.first_chunk::<8>()) else {
        let message = "is no index: it does not begin as one";
        let remedy = "name a file that `pipemill index` has made";
        return Err(IndexError::new(path, message, remedy));
    };
    let expected = u64::from_le_bytes(*expected);
    let mut digest = crc_fast::Digest::new(Crc64Nvme);
    digest.update(MAGIC);
    digest.update(&[0; SEAL_BYTES]);
    digest.update(&bytes[MAGIC.len() + SEAL_BYTES..]);
    let found = digest.finalize();
    if found == expected {
        return Ok(bytes.into());
    }
    let message = format!(
        "is damaged or was cut short: its {} bytes have the checksum {found:016x}, and it was \
         written with {expected:016x}",
        bytes.len()
    );
    Err(IndexError::new(path, message, "make it again, or copy it again"))
}
