//! Facts about an object that a decoder reports: keys and values. Consumers get them, except for
//! those whose keys begin with `pipemill.`: they are for the host.

use std::collections::BTreeMap;

use pipemill_types::{Fault, printable};

/// Largest total size in bytes of the keys and values of a stream.
const MAX_METADATA_BYTES: usize = 65_536;
/// Number of characters of a key or a value that a message shows.
const MAX_SHOWN: usize = 100;

/// Prefix of the keys for the host.
const HOST_PREFIX: &str = "pipemill.";
/// The key of the value that says where decoding can restart.
const RESTART: &str = "pipemill.restart";

/// The facts of a stream, sorted by key.
#[derive(Debug, Default)]
pub(crate) struct Metadata {
    facts: BTreeMap<String, String>,
    bytes: usize,
    /// The value of `pipemill.restart`: a number of bytes from the object's start.
    restart: Option<u64>,
}

impl Metadata {
    /// Whether a fact with this key is for the host. Such facts change while records are emitted.
    pub(crate) fn is_for_host(key: &str) -> bool {
        key.starts_with(HOST_PREFIX)
    }

    /// Receives a fact for the host.
    ///
    /// # Errors
    /// The host does not know the key, or the value is not valid for it.
    pub(crate) fn set_for_host(&mut self, key: &str, value: &str) -> Result<(), Fault> {
        if key != RESTART {
            return Err(Fault::contract(format!(
                "set the metadata `{:.MAX_SHOWN$}`; keys that begin with `{HOST_PREFIX}` are for \
                 the host, and it knows only `{RESTART}`",
                printable(key)
            )));
        }
        let is_number = value.bytes().all(|byte| byte.is_ascii_digit());
        self.restart = match value.parse() {
            Ok(bytes) if is_number => Some(bytes),
            _ if value.is_empty() => None,
            _ => {
                return Err(Fault::contract(format!(
                    "set the metadata `{RESTART}` to `{:.MAX_SHOWN$}`; expected a number of bytes \
                     in decimal digits, or an empty value",
                    printable(value)
                )));
            }
        };
        Ok(())
    }

    /// Whether the decoder has set any.
    pub(crate) fn is_set(&self) -> bool {
        self.restart.is_some() || !self.facts.is_empty()
    }

    /// The value of `pipemill.restart`.
    pub(crate) fn restart(&self) -> Option<u64> {
        self.restart
    }

    /// Sets or replaces a fact.
    ///
    /// # Errors
    /// The facts have more than 65,536 bytes.
    pub(crate) fn set(&mut self, key: &str, value: &str) -> Result<(), Fault> {
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
    pub(crate) fn facts(&self) -> &BTreeMap<String, String> {
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
    #[test]
    fn restart_is_a_number_or_nothing() {
        let mut metadata = Metadata::default();
        let mut set = |value| {
            let refused = metadata.set_for_host(RESTART, value).err();
            (metadata.restart(), refused.map(|fault| fault.message))
        };
        assert_eq!(set("0"), (Some(0), None));
        assert_eq!(set("18446744073709551615"), (Some(u64::MAX), None));
        for wrong in ["18446744073709551616", "+1", "-1", " 1", "1k", "٣"] {
            let (_, message) = set(wrong);
            assert!(message.unwrap().contains(&format!("to `{wrong}`; expected a number")));
        }
        assert_eq!(set(""), (None, None));
    }

    #[test]
    fn other_keys_for_the_host_are_refused() {
        let mut metadata = Metadata::default();
        assert!(Metadata::is_for_host("pipemill.resume"));
        assert!(!Metadata::is_for_host("pipemills"));
        let message = metadata.set_for_host("pipemill.resume", "0").unwrap_err().message;
        assert!(message.contains("`pipemill.resume`"), "{message}");
        assert!(message.contains("it knows only `pipemill.restart`"), "{message}");
    }
}
