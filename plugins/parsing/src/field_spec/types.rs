//! The names that options and messages use for the types of fields.

use pipemill_plugin::Scalar;

/// Every type with its name, in the order in which messages list them.
const SCALARS: [(&str, Scalar); 15] = [
    ("bytes", Scalar::Bytes),
    ("utf8", Scalar::Utf8),
    ("bool", Scalar::Boolean),
    ("int8", Scalar::Int8),
    ("int16", Scalar::Int16),
    ("int32", Scalar::Int32),
    ("int64", Scalar::Int64),
    ("uint8", Scalar::Uint8),
    ("uint16", Scalar::Uint16),
    ("uint32", Scalar::Uint32),
    ("uint64", Scalar::Uint64),
    ("float16", Scalar::Float16),
    ("bfloat16", Scalar::Bfloat16),
    ("float32", Scalar::Float32),
    ("float64", Scalar::Float64),
];

/// The type with this name.
pub fn scalar_from_name(name: &str) -> Option<Scalar> {
    SCALARS.iter().find(|(known, _)| *known == name).map(|(_, scalar)| *scalar)
}

/// The name of a type in options and messages.
pub fn type_name(scalar: Scalar) -> &'static str {
    // The list has every type, so the default is never used.
    SCALARS.iter().find(|(_, known)| *known == scalar).map_or("", |(name, _)| *name)
}

/// The names of these types, separated by commas, with `last` ("and" or "or") before the last one.
pub fn join_type_names(types: &[Scalar], last: &str) -> String {
    join_names(names(types), last)
}

/// The names of these types, in the order in which messages list them.
pub(super) fn names(types: &[Scalar]) -> impl Iterator<Item = &'static str> {
    SCALARS.iter().filter(|(_, scalar)| types.contains(scalar)).map(|(name, _)| *name)
}

/// These names, separated by commas, with `last` before the last one.
pub(super) fn join_names<'a>(names: impl Iterator<Item = &'a str>, last: &str) -> String {
    let names: Vec<_> = names.collect();
    match names.as_slice() {
        [all @ .., one] if !all.is_empty() => format!("{} {last} {one}", all.join(", ")),
        names => names.concat(),
    }
}

/// Size of one element in bytes; `None` for `bytes` and `utf8`.
pub fn element_size(scalar: Scalar) -> Option<usize> {
    match scalar {
        Scalar::Bytes | Scalar::Utf8 => None,
        number => Some(number.size()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for (word, one) in SCALARS {
            assert_eq!((scalar_from_name(word), type_name(one)), (Some(one), word));
        }
        assert_eq!(scalar_from_name("float"), None);
        let types = [Scalar::Float32, Scalar::Bytes, Scalar::Int32];
        assert_eq!(join_type_names(&types, "or"), "bytes, int32 or float32");
        assert_eq!(join_type_names(&types[..1], "or"), "float32");
    }
}
