//! The positions of the inputs of a mix.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::BatchPosition;

/// The position of an input of a mix.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputPosition {
    /// Its channel's name.
    pub input: String,
    /// Whether it had reached its end in the mix's epoch: if so, `position` is the start of its
    /// next epoch.
    pub ended: bool,
    /// The position of its next record.
    #[serde(flatten)]
    pub position: BatchPosition,
}

/// The positions of all inputs of a mix, in the order of the mix; empty if the channel is not a
/// mix. Cheap to clone.
#[derive(Clone, Default)]
pub struct InputPositions(Option<Arc<Inner>>);

struct Inner {
    list: Vec<InputPosition>,
    json: OnceLock<String>,
}

impl InputPositions {
    /// The list as JSON. It is made on first use.
    pub fn json(&self) -> &str {
        let Some(inner) = &self.0 else { return "[]" };
        // It always has a form in JSON, because its keys are strings.
        inner.json.get_or_init(|| crate::json::to_string(&inner.list).unwrap_or_default())
    }

    /// Parses such a text.
    ///
    /// # Errors
    /// The text has another form.
    pub fn of_json(text: &str) -> serde_json::Result<Self> {
        serde_json::from_str(text)
    }
}

impl From<Vec<InputPosition>> for InputPositions {
    fn from(list: Vec<InputPosition>) -> Self {
        if list.is_empty() {
            return Self::default();
        }
        Self(Some(Arc::new(Inner { list, json: OnceLock::new() })))
    }
}

impl Deref for InputPositions {
    type Target = [InputPosition];

    fn deref(&self) -> &[InputPosition] {
        self.0.as_ref().map_or(&[], |inner| &inner.list)
    }
}

impl PartialEq for InputPositions {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for InputPositions {}

impl fmt::Debug for InputPositions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl Serialize for InputPositions {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl<'de> Deserialize<'de> for InputPositions {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Vec::deserialize(deserializer).map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ObjectIdentity;

    #[test]
    fn a_list_is_read_back() {
        let position = BatchPosition {
            object: "a\u{202e}\n".to_owned(),
            identity: ObjectIdentity::of("etag:\"x\"".to_owned()),
            first_record: u64::MAX,
            ..BatchPosition::of_epoch(3)
        };
        let one = |name: &str| InputPosition {
            input: name.to_owned(),
            ended: name == "b",
            position: position.clone(),
        };
        let list = InputPositions::from(vec![one("a"), one("b")]);
        assert_eq!(InputPositions::of_json(list.json()).unwrap(), list);
        let mix = BatchPosition { inputs: list, ..BatchPosition::default() };
        assert_eq!(mix.identity_text(), mix.inputs.json());
        let text = serde_json::to_string(&mix).unwrap();
        assert_eq!(serde_json::from_str::<BatchPosition>(&text).unwrap(), mix);
        assert_eq!(InputPositions::default().json(), "[]");
        assert!(InputPositions::of_json("{}").is_err());
    }
}
