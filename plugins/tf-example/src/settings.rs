//! The option `features`, read and checked.

use pipemill_parsing::field_spec::{FieldType, SpecOption, join_type_names, type_name};
use pipemill_plugin::{Options, Scalar};

/// A feature that becomes a field.
#[derive(Debug, Clone)]
pub(crate) struct Feature {
    /// Name of the field.
    pub(crate) name: String,
    /// Key of the feature in the record.
    pub(crate) key: String,
    pub(crate) scalar: Scalar,
    pub(crate) shape: Vec<u32>,
    /// Whether a record may lack the feature.
    pub(crate) optional: bool,
}

const FEATURES: SpecOption = SpecOption {
    name: "features",
    example: "image:bytes, label:int64, weights:float32[10]",
    types: &[Scalar::Bytes, Scalar::Utf8, Scalar::Int64, Scalar::Float32],
    logical_types: &[],
    sized_bytes: false,
    lists: true,
};

/// The features that the operator wants. An error is a message for the operator.
pub(crate) fn features(options: &Options) -> Result<Vec<Feature>, String> {
    let text = options.text("features");
    if text.trim().is_empty() {
        return Err(format!(
            "option `features` is missing; write the features to read and as what, as in features = \
             {:?}; the types are {}",
            FEATURES.example,
            join_type_names(FEATURES.types, "and")
        ));
    }
    let mut features = Vec::new();
    for spec in FEATURES.parse(text)? {
        let FieldType { scalar, shape, .. } = FEATURES.required_type(&spec)?;
        if shape.len() > 1 && matches!(scalar, Scalar::Bytes | Scalar::Utf8) {
            return Err(format!(
                "option `features`: `{}` can't have several dimensions; a list of {} has one",
                spec.selector,
                type_name(scalar)
            ));
        }
        let name = spec.name.unwrap_or_else(|| spec.selector.clone());
        features.push(Feature { name, key: spec.selector, scalar, shape, optional: spec.optional });
    }
    FEATURES.check_names(&[], features.iter().map(|feature| (&*feature.name, &*feature.key)))?;
    Ok(features)
}
