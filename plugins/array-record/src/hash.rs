//! The hash that protects headers and data: HighwayHash of 64 bits.

use highway::{HighwayHash as _, HighwayHasher, Key};

/// The key of Riegeli: `Riegeli/records\n`, twice.
const KEY: Key = Key([
    u64::from_le_bytes(*b"Riegeli/"),
    u64::from_le_bytes(*b"records\n"),
    u64::from_le_bytes(*b"Riegeli/"),
    u64::from_le_bytes(*b"records\n"),
]);

/// The hash of these bytes, one after the other.
pub(crate) fn hash<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> u64 {
    let mut hasher = HighwayHasher::new(KEY);
    pieces.into_iter().for_each(|piece| hasher.append(piece));
    hasher.finalize64()
}
