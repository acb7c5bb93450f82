//! The option `features`, read and checked.

use pipemill_parsing::field_spec::{Kind, List, some_of};
use pipemill_plugin::{Options, Scalar};

/// A feature that becomes a field.
#[derive(Debug, Clone)]
pub(crate) struct Feature {
    /// What the field is called.
    pub(crate) name: String,
    pub(crate) key: String,
    pub(crate) scalar: Scalar,
    pub(crate) shape: Vec<u32>,
    pub(crate) optional: bool,
}

/// How the option is written.
const LIST: List = List {
    option: "features",
    example: "image:bytes, label:int64, weights:float32[10]",
    types: &[Scalar::Bytes, Scalar::Utf8, Scalar::Int64, Scalar::Float32],
    long_bytes: false,
};

/// The features that the operator wants. An error is for the operator.
pub(crate) fn features(options: &Options) -> Result<Vec<Feature>, String> {
    let text = options.text("features");
    if text.trim().is_empty() {
        return Err(format!(
            "option `features` is missing; write the features to read and as what, as in features = \
             {:?}; the types are {}",
            LIST.example,
            some_of(LIST.types, "and")
        ));
    }
    let mut features = Vec::new();
    for entry in LIST.parse(text)? {
        let Kind { scalar, shape } = LIST.kind_of(&entry)?;
        let name = entry.name.unwrap_or_else(|| entry.what.clone());
        features.push(Feature { name, key: entry.what, scalar, shape, optional: entry.optional });
    }
    LIST.distinct(&[], features.iter().map(|feature| (&*feature.name, &*feature.key)))?;
    Ok(features)
}
