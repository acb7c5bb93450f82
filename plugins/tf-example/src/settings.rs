//! The option `features`, read and checked.

use pipemill_plugin::{Options, Scalar};
use pipemill_protobuf::wanted;

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

const TYPES: [Scalar; 4] = [Scalar::Bytes, Scalar::Utf8, Scalar::Int64, Scalar::Float32];

const WRITE: &str = "write the features to read and as what, as in \
                     features = \"image:bytes, label:int64, weights:float32[10]\"; the types are \
                     bytes, utf8, int64 and float32";

/// The features that the operator wants. An error is for the operator.
pub(crate) fn features(options: &Options) -> Result<Vec<Feature>, String> {
    let text = options.text("features");
    if text.trim().is_empty() {
        return Err(format!("option `features` is missing; {WRITE}"));
    }
    let mut features: Vec<Feature> = Vec::new();
    for wanted in wanted("features", text, &TYPES)? {
        let (key, optional) = (wanted.key, wanted.optional);
        let Some((scalar, shape)) = wanted.form else {
            return Err(format!("option `features` has `{key}` without a type; {WRITE}"));
        };
        let name = wanted.name.unwrap_or_else(|| key.clone());
        if features.iter().any(|other| other.name == name) {
            return Err(format!(
                "option `features` has two fields called `{name}`; write another name before one, \
                 as in \"other={key}:…\""
            ));
        }
        features.push(Feature { name, key, scalar, shape, optional });
    }
    Ok(features)
}
