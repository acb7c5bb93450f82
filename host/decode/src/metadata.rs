//! Facts about an object that a decoder tells the consumers: keys and values.

use std::collections::BTreeMap;

use pipemill_types::Fault;

/// Bytes that the keys and values of a stream may have together.
const MAX_METADATA_BYTES: usize = 65_536;

/// The facts of a stream, sorted by key.
#[derive(Debug, Default)]
pub(super) struct Metadata {
    facts: BTreeMap<String, String>,
    bytes: usize,
}

impl Metadata {
    /// Sets a fact, or replaces it.
    ///
    /// # Errors
    /// The facts have more than 65,536 bytes.
    pub(super) fn set(&mut self, key: &str, value: &str) -> Result<(), Fault> {
        let size = key.len() + value.len();
        let before = self.facts.get(key).map_or(0, |value| key.len() + value.len());
        let bytes = self.bytes - before + size;
        if bytes > MAX_METADATA_BYTES {
            return Err(Fault::contract(format!(
                "set {bytes} bytes of metadata; a stream may have {MAX_METADATA_BYTES}"
            )));
        }
        self.bytes = bytes;
        self.facts.insert(key.to_owned(), value.to_owned());
        Ok(())
    }

    /// The facts, sorted by key.
    pub(super) fn facts(&self) -> &BTreeMap<String, String> {
        &self.facts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fact_that_is_replaced_does_not_count_twice() {
        let mut metadata = Metadata::default();
        for _ in 0..3 {
            metadata.set("key", &"x".repeat(MAX_METADATA_BYTES - 3)).unwrap();
        }
        assert!(metadata.set("k", "").is_err());
        metadata.set("key", "").unwrap();
        metadata.set("k", "").unwrap();
        assert_eq!(metadata.facts().len(), 2);
    }
}
