//! The types of fields, by the names that options and messages have for them.

use pipemill_plugin::Scalar;

/// All of them, in the order in which messages list them.
const SCALARS: [(&str, Scalar); 7] = [
    ("bytes", Scalar::Bytes),
    ("utf8", Scalar::Utf8),
    ("bool", Scalar::Boolean),
    ("int32", Scalar::Int32),
    ("int64", Scalar::Int64),
    ("float32", Scalar::Float32),
    ("float64", Scalar::Float64),
];

/// The type of this name.
pub fn scalar(name: &str) -> Option<Scalar> {
    SCALARS.iter().find(|(known, _)| *known == name).map(|(_, scalar)| *scalar)
}

/// The name of a type, as options and messages have it.
pub fn name(scalar: Scalar) -> &'static str {
    // The list is complete: a test goes through it.
    SCALARS.iter().find(|(_, known)| *known == scalar).map_or("", |(name, _)| *name)
}

/// The names of these types, with `last` (an "and" or an "or") before the last of them.
pub fn some_of(types: &[Scalar], last: &str) -> String {
    let names = SCALARS.iter().filter(|(_, scalar)| types.contains(scalar)).map(|(name, _)| *name);
    let names: Vec<_> = names.collect();
    match names.as_slice() {
        [all @ .., one] if !all.is_empty() => format!("{} {last} {one}", all.join(", ")),
        names => names.concat(),
    }
}

/// Bytes of one element, for numbers and bool.
pub fn width(scalar: Scalar) -> Option<usize> {
    match scalar {
        Scalar::Bytes | Scalar::Utf8 => None,
        Scalar::Boolean => Some(1),
        Scalar::Int32 | Scalar::Float32 => Some(4),
        Scalar::Int64 | Scalar::Float64 => Some(8),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for (word, one) in SCALARS {
            assert_eq!((scalar(word), name(one)), (Some(one), word));
        }
        assert_eq!(scalar("float"), None);
        let types = [Scalar::Float32, Scalar::Bytes, Scalar::Int32];
        assert_eq!(some_of(&types, "or"), "bytes, int32 or float32");
        assert_eq!(some_of(&types[..1], "or"), "float32");
    }
}
