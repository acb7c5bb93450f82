//! The header of a file: a magic, a map of metadata, and the sync marker that ends each block.

use std::ops::Range;

use crate::reader::{Problem, Reader, Stop};

/// The first bytes of a file.
pub(crate) const MAGIC: [u8; 4] = *b"Obj\x01";

/// The bytes after each block, by which the next one is found after damage.
pub(crate) type Sync = [u8; 16];

/// Size of a [`Sync`] in bytes.
pub(crate) const SYNC: usize = 16;

/// Whether these bytes are the marker, even if some of them are damaged: half of them are equal.
/// Markers are random, so other bytes are not that similar.
#[inline(always)]
pub(crate) fn was_sync(sync: &Sync, found: &Sync) -> bool {
    let same = |at: usize| u8::from(sync[at] == found[at]);
    (0..SYNC).map(same).sum::<u8>() as usize >= SYNC / 2
}

/// Start of the first marker in these bytes, damaged or not.
pub(crate) fn find_sync(sync: &Sync, bytes: &[u8]) -> Option<usize> {
    let is_marker = |found: &[u8]| found.first_chunk().is_some_and(|found| was_sync(sync, found));
    bytes.windows(SYNC).position(is_marker)
}

/// A header. Positions count from the start of its bytes.
#[derive(Debug)]
pub(crate) struct Header {
    /// The writer's schema, in JSON.
    pub(crate) schema: Range<usize>,
    /// Name of the codec; `None` if the header has none.
    pub(crate) codec: Option<Range<usize>>,
    pub(crate) sync: Sync,
    /// Start of the first block.
    pub(crate) end: usize,
}

/// The reason why a header was not read.
#[derive(Debug)]
pub(crate) enum HeaderError {
    /// It has at least this many bytes.
    Cut(usize),
    /// It is invalid. The text says why.
    Invalid(String),
}

impl Header {
    /// Reads the header at the start of `bytes`. It may have at most `max` bytes.
    pub(crate) fn read(bytes: &[u8], max: usize) -> Result<Self, HeaderError> {
        let Some(magic) = bytes.first_chunk::<4>() else {
            return Err(HeaderError::Cut(MAGIC.len()));
        };
        if *magic != MAGIC {
            return Err(HeaderError::Invalid(format!(
                "expected an Avro file, which starts with \"Obj\\x01\", found \"{}\"",
                magic.escape_ascii()
            )));
        }
        let mut reader = Reader::new(bytes, MAGIC.len(), max);
        read_after_magic(&mut reader)
            .map_err(|stop| match stop {
                Stop::Cut(end) => HeaderError::Cut(end),
                Stop::Bad { problem: Problem::Limit, .. } => HeaderError::Invalid(format!(
                    "the file's header is damaged, or has more than {max} bytes; raise max_record if \
                     headers may be that large"
                )),
                Stop::Bad { at, problem } => {
                    HeaderError::Invalid(format!("the file's header, at +{at}: {problem}"))
                }
            })?
            .ok_or_else(|| HeaderError::Invalid("the file's header has no `avro.schema`".to_owned()))
    }
}

/// Reads the part after the magic. `None` if there is no schema.
fn read_after_magic(reader: &mut Reader) -> Result<Option<Header>, Stop> {
    let (mut schema, mut codec) = (None, None);
    while let Some(items) = reader.items()? {
        for _ in 0..items.count {
            let (key, value) = (reader.string()?, reader.string()?);
            match &reader.bytes()[key] {
                b"avro.schema" => schema = Some(value),
                b"avro.codec" => codec = Some(value),
                _ => {}
            }
        }
        reader.end_items(&items)?;
    }
    let sync = reader.take(SYNC as u64)?;
    let mut marker = [0; SYNC];
    marker.copy_from_slice(&reader.bytes()[sync]);
    let end = reader.at();
    Ok(schema.map(|schema| Header { schema, codec, sync: marker, end }))
}
