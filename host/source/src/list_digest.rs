//! Digest of a list of objects: see [`ListIdentity`].

use crc_fast::CrcAlgorithm::Crc64Nvme;
use crc_fast::Digest;
use pipemill_types::ListIdentity;

/// Digests a list, object by object, in the order of the list.
#[derive(Clone)]
pub(super) struct ListDigest {
    objects: u64,
    contents: Digest,
    times: Digest,
    unordered: u64,
}

impl Default for ListDigest {
    fn default() -> Self {
        let digest = || Digest::new(Crc64Nvme);
        Self { objects: 0, contents: digest(), times: digest(), unordered: 0 }
    }
}

impl ListDigest {
    /// Adds an object by its name below the list's root and the identity of its content.
    pub(super) fn add(&mut self, name: &[u8], content: &[u8]) {
        self.objects += 1;
        // The lengths separate the name from the content.
        self.contents.update(&(name.len() as u64).to_le_bytes());
        self.contents.update(name);
        self.contents.update(&(content.len() as u64).to_le_bytes());
        self.contents.update(content);
    }

    /// Adds a file with its modification time.
    pub(super) fn add_file(&mut self, name: &[u8], size: u64, time: &[u8]) {
        let size = size.to_le_bytes();
        self.add(name, &size);
        self.times.update(time);
        self.times.update(b"\n");
        let mut one = Digest::new(Crc64Nvme);
        one.update(&size);
        one.update(time);
        self.unordered = self.unordered.wrapping_add(one.finalize());
    }

    /// Number of objects so far.
    pub(super) fn objects(&self) -> u64 {
        self.objects
    }

    /// The identity of the list so far.
    pub(super) fn identity(&self, is_whole: bool) -> ListIdentity {
        ListIdentity {
            objects: self.objects,
            is_whole,
            contents: self.contents.finalize(),
            times: self.times.finalize(),
            unordered: self.unordered,
        }
    }
}
