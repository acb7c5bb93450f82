//! The identity of an object's state and of its blocks: the address alone is never enough.

use sha2::{Digest as _, Sha256};

/// What identifies the bytes of an object.
pub(crate) struct ObjectState<'a> {
    /// The server: its URL, or Amazon's region.
    pub(crate) server: &'a str,
    pub(crate) bucket: &'a str,
    pub(crate) key: &'a str,
    /// The version that the address names.
    pub(crate) version: Option<&'a str>,
    /// The ETag without quotes.
    pub(crate) etag: &'a str,
    /// Stored size in bytes.
    pub(crate) size: u64,
    /// Whether its bytes are compared with the server's checksum: bytes that nobody compared are
    /// not taken by those who want that.
    pub(crate) verify: bool,
}

/// An object in one state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CachedObject {
    digest: [u8; 32],
    /// Stored size in bytes.
    pub(crate) size: u64,
}

impl CachedObject {
    pub(crate) fn new(state: &ObjectState) -> Self {
        let ObjectState { server, bucket, key, version, etag, size, verify } = state;
        let version = version.map_or_else(|| "-".to_owned(), |version| format!("={version}"));
        let mut digest = Sha256::new();
        // Each text follows its length, so that no two different states are the same bytes.
        for text in [server, bucket, key, &*version, etag] {
            digest.update((text.len() as u64).to_le_bytes());
            digest.update(text.as_bytes());
        }
        digest.update(size.to_le_bytes());
        digest.update([u8::from(*verify)]);
        Self { digest: digest.finalize().into(), size: *size }
    }

    /// The identity of a block, counted from 0.
    pub(crate) fn block(&self, number: u64) -> BlockId {
        let digest = Sha256::new().chain_update(self.digest).chain_update(number.to_le_bytes());
        BlockId(digest.finalize().into())
    }
}

/// Identifies a block of an object in one state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct BlockId(pub(super) [u8; 32]);

/// Number of characters of a block's file name.
const NAME_LENGTH: usize = 38;

impl BlockId {
    /// The number of its folder.
    pub(super) fn folder(self) -> u8 {
        self.0[0]
    }

    /// The name of its file in its folder. The file itself has the whole identity.
    pub(super) fn file_name(self) -> String {
        hex(&self.0[1..1 + NAME_LENGTH / 2])
    }

    /// What stands for its name in memory.
    pub(crate) fn name_key(self) -> NameKey {
        let (_, name) = self.0.split_at(1);
        NameKey(name.first_chunk().map_or(0, |first| u64::from_be_bytes(*first)))
    }

    /// A number for the lock of this block. Two blocks may have the same one.
    pub(super) fn lock_offset(self) -> i64 {
        let (first, _) = self.0.split_first_chunk().expect("it has 32 bytes");
        i64::from_le_bytes(*first) & i64::MAX >> 1
    }
}

/// The beginning of the name of a block. Two blocks have the same one only by an unlikely accident.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct NameKey(u64);

impl NameKey {
    /// That of a block's file.
    pub(super) fn of_name(name: &str) -> Option<Self> {
        u64::from_str_radix(name.get(..16)?, 16).ok().map(Self)
    }
}

/// Whether a file of this name is a block's.
pub(super) fn is_block_name(name: &str) -> bool {
    let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    name.len() == NAME_LENGTH && name.bytes().all(is_hex)
}

/// The name of a folder of blocks.
pub(super) fn folder_name(folder: u8) -> String {
    hex(&[folder])
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    const ONE: ObjectState<'static> = ObjectState {
        server: "http://a",
        bucket: "b",
        key: "k",
        version: None,
        etag: "e",
        size: 7,
        verify: true,
    };

    /// Each part of the state counts, and no part can be taken for another.
    #[test]
    fn another_state_has_other_blocks() {
        let states = [
            ONE,
            ObjectState { server: "http://ab", bucket: "", ..ONE },
            ObjectState { bucket: "bk", key: "", ..ONE },
            ObjectState { bucket: "c", ..ONE },
            ObjectState { key: "l", ..ONE },
            ObjectState { version: Some(""), ..ONE },
            ObjectState { version: Some("-"), ..ONE },
            ObjectState { etag: "f", ..ONE },
            ObjectState { size: 8, ..ONE },
            ObjectState { verify: false, ..ONE },
        ];
        let blocks = states.iter().flat_map(|state| {
            let object = CachedObject::new(state);
            [object.block(0), object.block(1)]
        });
        assert_eq!(blocks.collect::<HashSet<_>>().len(), 2 * states.len());
        let again = CachedObject::new(&ObjectState { ..ONE });
        assert_eq!(again.block(3), CachedObject::new(&ONE).block(3));
    }

    #[test]
    fn names_are_recognized() {
        let name = CachedObject::new(&ONE).block(0).file_name();
        assert!(is_block_name(&name), "{name}");
        assert_eq!(NameKey::of_name(&name), Some(CachedObject::new(&ONE).block(0).name_key()));
        for other in ["", "usage", &name[1..], &name.to_uppercase(), &format!("{name}0")] {
            assert!(!is_block_name(other), "{other}");
        }
    }
}
