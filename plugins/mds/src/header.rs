//! The header of a shard: a table of its samples, and JSON that describes its columns.
//!
//! ```text
//! uint32       N, the number of samples
//! uint32[N+1]  the byte at which each sample begins, and at the end the size of the shard
//! JSON         up to the first sample: version, format, names, encodings and sizes of columns
//! ```
//!
//! All numbers are little-endian. The source is `streaming/base/format/mds/writer.py` of
//! <https://github.com/mosaicml/streaming>.

use pipemill_parsing::json_tree::Json;
use pipemill_parsing::paths::WantedPath;
use pipemill_parsing::shown;
use pipemill_plugin::{DecodeError, Field};

use crate::columns::Columns;

/// Bytes that tell the size of the header: the number of samples, and where the first one begins.
pub(crate) const FIRST: usize = 8;
/// The shortest JSON.
const MIN_JSON: u64 = 2;
/// Largest size of a header in bytes, unless `max_record` is more.
const MAX_HEADER: u64 = 1 << 20;
/// The version of the format that is known.
const VERSION: u64 = 2;

/// A header.
#[derive(Debug)]
pub(crate) struct Header {
    /// Where each sample begins, and the end of the last one: they grow.
    places: Vec<u32>,
    columns: Columns,
}

/// The size of the header, if its first bytes are in the chunk.
pub(crate) fn size(chunk: &[u8], max_record: u64) -> Result<Option<usize>, DecodeError> {
    let Some((count, rest)) = chunk.split_first_chunk() else { return Ok(None) };
    let Some(first) = rest.first_chunk() else { return Ok(None) };
    let (count, first) = (u32::from_le_bytes(*count), u32::from_le_bytes(*first));
    let json = FIRST as u64 + 4 * u64::from(count);
    let most = max_record.max(MAX_HEADER);
    if u64::from(first) < json + MIN_JSON {
        let found = shown(&chunk[..FIRST], "");
        return Err(DecodeError::fatal(
            0,
            format!(
                "expected an MDS shard, which begins with the number of its samples and the place of \
                 the first one, found {found}; index.json and other files beside the shards are \
                 not read: name the shards, as in `*.mds`"
            ),
        ));
    }
    if u64::from(first) > most {
        return Err(DecodeError::refused(
            0,
            format!(
                "the table of the shard's {count} samples and the description of its columns have \
                 {first} bytes, more than {most}; raise max_record"
            ),
        ));
    }
    Ok(Some(first as usize))
}

/// The shard ends inside of its header, or right after it.
pub(crate) fn cut_short(found: usize, size: Option<usize>) -> DecodeError {
    let size = size.unwrap_or(FIRST);
    DecodeError::fatal(
        0,
        format!(
            "expected an MDS shard of at least {size} bytes, found its end after {found}; it is cut \
             short"
        ),
    )
}

impl Header {
    /// Reads a whole header.
    pub(crate) fn read(bytes: &[u8], wanted: Option<&[WantedPath]>) -> Result<Self, DecodeError> {
        let damaged = |why: String| DecodeError::fatal(0, why);
        let (count, table) = bytes.split_first_chunk().unwrap_or((&[0; 4], &[]));
        let samples = u32::from_le_bytes(*count) as usize;
        let numbers = table.as_chunks().0.iter().take(samples + 1);
        let places: Vec<_> = numbers.map(|place| u32::from_le_bytes(*place)).collect();
        let mut pairs = places.windows(2).enumerate();
        if let Some((sample, pair)) = pairs.find(|(_, pair)| pair[0] >= pair[1]) {
            let at = FIRST + 4 * sample;
            return Err(damaged(format!(
                "expected the end of sample {sample} after its start, byte {}, found {} at byte {at} \
                 of the shard's table; it is damaged",
                pair[0], pair[1]
            )));
        }
        let from = FIRST + 4 * samples;
        let json = Json::parse(bytes.get(from..).unwrap_or_default()).map_err(|why| {
            damaged(format!("the description of the shard's columns, at byte {from}: {why}"))
        })?;
        let found = json.get("format").and_then(Json::as_text).unwrap_or_default();
        let version = json.get("version").and_then(Json::as_number).unwrap_or_default();
        if (found, version) != ("mds", VERSION) {
            return Err(damaged(format!(
                "expected the format `mds` of version {VERSION} in the description at byte {from}, \
                 found `{}` of version {version}",
                found.escape_debug()
            )));
        }
        let columns = Columns::read(&json, wanted)?;
        Ok(Self { places, columns })
    }

    /// Bytes of the header.
    pub(crate) fn size(&self) -> u32 {
        self.places.first().copied().unwrap_or(0)
    }

    /// Number of samples.
    pub(crate) fn samples(&self) -> usize {
        self.places.len().saturating_sub(1)
    }

    /// Bytes of the shard.
    pub(crate) fn end(&self) -> u32 {
        self.places.last().copied().unwrap_or(0)
    }

    /// Bytes of the sample with this number.
    pub(crate) fn sample(&self, number: usize) -> Option<u32> {
        let pair = self.places.get(number..)?.first_chunk::<2>()?;
        Some(pair[1] - pair[0])
    }

    /// The number of the sample that begins at this byte of the shard. If none does, the shard ended
    /// there, inside of a sample that was skipped: then it is that of no sample.
    pub(crate) fn sample_at(&self, place: u64) -> usize {
        let place = u32::try_from(place).unwrap_or(u32::MAX);
        self.places.binary_search(&place).unwrap_or(self.samples())
    }

    pub(crate) fn columns(&self) -> &Columns {
        &self.columns
    }

    pub(crate) fn fields(&self) -> &[Field] {
        self.columns.fields()
    }
}
