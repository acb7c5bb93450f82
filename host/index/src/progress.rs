//! The progress of a build: what it has found so far, in a file. A build that was killed goes on
//! after the last object that the file has.
//!
//! The file begins with a line of text. A list of frames follows: each has a length and a
//! CRC-64/NVME, both in 8 bytes, little-endian, and the bytes. The first frame is JSON that says
//! what is built, the second one says which object was the first of all. Each further one is the
//! index of some objects that follow each other. A frame that is damaged or was not written to its
//! end ends the list.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crc_fast::CrcAlgorithm::Crc64Nvme;
use pipemill_source::s3::ListedObject;
use pipemill_source::{Compression, KnownObjects};
use pipemill_types::is_same_content;
use serde::{Deserialize, Serialize};

use crate::{Index, IndexedList};

/// The first bytes of the file.
const MAGIC: &[u8] = b"pipemill index progress 1\n";
/// Bytes before those of a frame.
const FRAME_HEAD: usize = 16;

/// What is built. Another build begins again.
#[derive(Debug, Serialize)]
pub struct BuildKey<'a> {
    /// Identifies the decoder.
    pub decoder_identity: String,
    /// The decoder's options.
    pub options: &'a [(String, String)],
    /// How the objects are compressed.
    pub compression: Compression,
    /// Whether errors are skipped.
    pub skips_errors: bool,
    /// Largest record in bytes.
    pub max_record: u64,
    /// Least distance of two places.
    pub distance: u64,
    /// The fields that are added.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub add_fields: &'a [String],
    /// The sources.
    pub sources: &'a [String],
    /// The number of the part that is read, and the number of parts.
    pub part: Option<(u32, u32)>,
}

/// The first object of all parts: the fields are learned from it.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FirstObject {
    pub(crate) name: String,
    pub(crate) identity: String,
}

/// The file of a build's progress. It is there once something was saved.
#[derive(Debug)]
pub struct Progress {
    path: PathBuf,
    /// The first frame.
    key: Vec<u8>,
    /// The locked file, if there is one.
    file: Option<File>,
    /// Whether the file has the first two frames.
    is_begun: bool,
    /// The indexes of the objects that were read before, in their order.
    done: Vec<Arc<Index>>,
}

impl Progress {
    /// The progress of the build with this key, in this file. What the file has of objects that
    /// are not at the start of the list any more is dropped; so is all of another build. The list
    /// is that of all parts, and is made if there is such a file.
    ///
    /// # Errors
    /// The file can't be read, another process uses it, or the objects can't be listed.
    pub fn open<E: From<io::Error>>(
        path: &Path,
        key: &BuildKey<'_>,
        list: impl FnOnce() -> Result<Vec<ListedObject>, E>,
    ) -> Result<Self, E> {
        let bytes_of_key = serde_json::to_vec(key).map_err(io::Error::from)?;
        let path = path.to_owned();
        let new = Self { path, key: bytes_of_key, file: None, is_begun: false, done: Vec::new() };
        let mut file = match OpenOptions::new().read(true).write(true).open(&new.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(new),
            Err(error) => return Err(error.into()),
        };
        file.try_lock().map_err(io::Error::from)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        if !bytes.starts_with(MAGIC) && !MAGIC.starts_with(&bytes) {
            return Err(io::Error::other("it is another kind of file").into());
        }
        let (done, end) = match begun(&bytes, &new.key) {
            Some((first, rest)) => done(rest, bytes.len(), &first, key.part, list()?),
            None => (Vec::new(), 0),
        };
        file.set_len(end)?;
        file.seek(SeekFrom::Start(end))?;
        Ok(Self { file: Some(file), is_begun: end > 0, done, ..new })
    }

    /// The path of the file.
    pub(crate) fn file(&self) -> std::path::Display<'_> {
        self.path.display()
    }

    /// The indexes of the objects that were read before, in their order.
    pub fn done(&self) -> &[Arc<Index>] {
        &self.done
    }

    /// Saves the index of the objects that follow those of before.
    pub(crate) fn save(&mut self, index: &Index, first: &FirstObject) -> io::Result<()> {
        if self.file.is_none() {
            let mut options = OpenOptions::new();
            let file = options.read(true).write(true).create(true).truncate(false);
            let file = file.open(&self.path)?;
            file.try_lock()?;
            if file.metadata()?.len() > 0 {
                return Err(io::Error::other("another command has begun it"));
            }
            self.file = Some(file);
        }
        if !self.is_begun {
            let key = std::mem::take(&mut self.key);
            if let Some(file) = &mut self.file {
                file.write_all(MAGIC)?;
            }
            self.append(&key)?;
            self.append(&serde_json::to_vec(first)?)?;
            self.is_begun = true;
        }
        self.append(&index.to_bytes()?)
    }

    /// Removes the file: the index is complete.
    ///
    /// # Errors
    /// It can't be removed.
    pub fn remove(self) -> io::Result<()> {
        match self.file {
            Some(_) => std::fs::remove_file(self.path),
            None => Ok(()),
        }
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        let checksum = crc_fast::checksum(Crc64Nvme, bytes);
        let head = [(bytes.len() as u64).to_le_bytes(), checksum.to_le_bytes()].concat();
        file.write_all(&[&head, bytes].concat())
    }
}

/// The first object of all, and the further frames, if the file is of the build with this key.
fn begun<'a>(bytes: &'a [u8], key: &[u8]) -> Option<(FirstObject, &'a [u8])> {
    let mut rest = bytes.strip_prefix(MAGIC)?;
    frame(&mut rest).filter(|first| *first == key)?;
    Some((serde_json::from_slice(frame(&mut rest)?).ok()?, rest))
}

/// The indexes of these frames whose objects are at the start of the list, and the end of the last
/// one in the file, which has `size` bytes.
fn done(
    mut rest: &[u8],
    size: usize,
    first: &FirstObject,
    part: Option<(u32, u32)>,
    list: Vec<ListedObject>,
) -> (Vec<Arc<Index>>, u64) {
    let mut done = Vec::new();
    let is_first = |listed: &ListedObject| {
        listed.name == first.name && is_same_content(&listed.identity, &first.identity)
    };
    if !list.first().is_some_and(is_first) {
        return (done, 0);
    }
    let is_own = |(number, _): &(u64, ListedObject)| {
        part.is_none_or(|(index, count)| number % u64::from(count.max(1)) == u64::from(index))
    };
    let own: Vec<_> = (0..).zip(list).filter(is_own).map(|(_, object)| object).collect();
    let (mut left, mut end) = (own.as_slice(), size - rest.len());
    while let Some(bytes) = frame(&mut rest) {
        let Ok(index) = Index::of_bytes(&"progress", bytes.to_vec()) else { break };
        let index = Arc::new(index);
        let Some(after) = begins_with(left, &index) else { break };
        left = after;
        done.push(index);
        end = size - rest.len();
    }
    (done, end as u64)
}

/// The next frame. `None` if there is none, or only a part of one.
fn frame<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (head, after) = rest.split_at_checked(FRAME_HEAD)?;
    let number = |at: usize| Some(u64::from_le_bytes(*head.get(at..)?.first_chunk()?));
    let (length, checksum) = (usize::try_from(number(0)?).ok()?, number(8)?);
    let (bytes, after) = after.split_at_checked(length)?;
    if crc_fast::checksum(Crc64Nvme, bytes) != checksum {
        return None;
    }
    *rest = after;
    Some(bytes)
}

/// The list after the objects of this index, if it begins with them.
fn begins_with<'a>(list: &'a [ListedObject], index: &Arc<Index>) -> Option<&'a [ListedObject]> {
    let known = IndexedList::new(index.clone(), None);
    let (begin, after) = list.split_at_checked(index.objects.count())?;
    let is_same = |(number, listed): (u64, &ListedObject)| {
        known.get(number).is_some_and(|known| {
            known.name == listed.name && is_same_content(&known.identity, &listed.identity)
        })
    };
    (0..).zip(begin).all(is_same).then_some(after)
}
