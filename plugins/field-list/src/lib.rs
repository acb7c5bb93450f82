//! Lists of fields, as options have them: `id=/meta/id:int64, vec=/embedding:float32[128]?`. What such
//! an entry refers to in the input, and which types can come of it, is the decoder's to say.

use pipemill_plugin::Scalar;

/// An entry of a list: `name=what:kind[dims]?`. Only `what` must be there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// What stands before the `=`.
    pub name: Option<String>,
    /// What the field is made of.
    pub what: String,
    /// What stands behind the last `:`.
    pub kind: Option<Kind>,
    /// Whether it ends with `?`.
    pub optional: bool,
}

/// A type, and how many of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kind {
    /// The type of an element.
    pub scalar: Scalar,
    /// The numbers in brackets; `Some` of none where the brackets are empty.
    pub dims: Option<Vec<u32>>,
}

/// The names of all types, in the order in which messages list them.
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

/// Bytes of one element, for numbers and bool.
pub fn width(scalar: Scalar) -> Option<usize> {
    match scalar {
        Scalar::Bytes | Scalar::Utf8 => None,
        Scalar::Boolean => Some(1),
        Scalar::Int32 | Scalar::Float32 => Some(4),
        Scalar::Int64 | Scalar::Float64 => Some(8),
    }
}

/// Reads the list that `option` holds.
///
/// # Errors
/// A text for the operator that names the option and the entry that can't be read.
pub fn parse(option: &str, text: &str) -> Result<Vec<Entry>, String> {
    split(text).into_iter().map(|entry| self::entry(option, text, entry.trim())).collect()
}

/// Refuses two fields of the same name.
///
/// # Errors
/// A text for the operator that names the option and the field.
pub fn distinct<'a>(option: &str, names: impl Iterator<Item = &'a str>) -> Result<(), String> {
    let mut seen = Vec::new();
    for name in names {
        if seen.contains(&name) {
            return Err(format!(
                "option `{option}` has two fields called `{name}`; give one another name, as in \
                 \"other=…\""
            ));
        }
        seen.push(name);
    }
    Ok(())
}

/// The numbers of a shape, with commas between them. None of them can be 0.
///
/// # Errors
/// A text for the operator that names the option.
pub fn dims(option: &str, text: &str) -> Result<Vec<u32>, String> {
    let dim = |word: &str| word.trim().parse().ok().filter(|dim| *dim > 0);
    text.split(',').map(dim).collect::<Option<_>>().ok_or_else(|| {
        format!("option `{option}` takes sizes from 1 with a comma between them, not {text:?}")
    })
}

/// What stands between the commas that are not in brackets.
fn split(text: &str) -> Vec<&str> {
    let mut inside = false;
    text.split(|c| {
        match c {
            '[' => inside = true,
            ']' => inside = false,
            _ => {}
        }
        c == ',' && !inside
    })
    .collect()
}

fn entry(option: &str, text: &str, entry: &str) -> Result<Entry, String> {
    let (rest, optional) = match entry.strip_suffix('?') {
        Some(rest) => (rest.trim_end(), true),
        None => (entry, false),
    };
    let (rest, kind) = match rest.rsplit_once(':') {
        Some((rest, kind)) => (rest.trim_end(), Some(self::kind(option, entry, kind.trim())?)),
        None => (rest, None),
    };
    // A `=` behind a slash is a part of the path.
    let (name, what) = match rest.split_once('=') {
        Some((name, what)) if !name.contains('/') => {
            (Some(name.trim().to_owned()), what.trim_start())
        }
        _ => (None, rest),
    };
    let named_well = name.as_ref().is_none_or(|name| !name.is_empty());
    if !named_well || (what.is_empty() && name.is_none()) {
        return Err(format!(
            "option `{option}` takes fields with a comma between them, not {text:?}"
        ));
    }
    Ok(Entry { name, what: what.to_owned(), kind, optional })
}

fn kind(option: &str, entry: &str, text: &str) -> Result<Kind, String> {
    let (word, inside) = match text.split_once('[') {
        Some((word, rest)) => (word, Some(rest.strip_suffix(']'))),
        None => (text, None),
    };
    let Some(scalar) = scalar(word.trim_end()) else {
        let known: Vec<_> = SCALARS.iter().map(|(name, _)| *name).collect();
        return Err(format!(
            "option `{option}`, `{entry}`: there is no type {word:?}; there are {}",
            known.join(", ")
        ));
    };
    let dims = match inside {
        None => None,
        Some(Some(inside)) if inside.trim().is_empty() => Some(Vec::new()),
        Some(Some(inside)) => Some(self::dims(option, inside)?),
        Some(None) => {
            return Err(format!("option `{option}`, `{entry}`: the bracket is not closed"));
        }
    };
    Ok(Kind { scalar, dims })
}

#[cfg(test)]
mod tests {
    use pipemill_plugin::Scalar;

    use super::{Entry, Kind, SCALARS, dims, distinct, name, parse, scalar};

    fn entry(name: Option<&str>, what: &str, kind: Option<Kind>, optional: bool) -> Entry {
        Entry { name: name.map(str::to_owned), what: what.to_owned(), kind, optional }
    }

    fn kind(scalar: Scalar, dims: Option<&[u32]>) -> Option<Kind> {
        Some(Kind { scalar, dims: dims.map(<[u32]>::to_vec) })
    }

    #[test]
    fn all_parts() {
        let text = "jpg, id = /meta/id : int64 ,v=/e:float32[2,3]?,/a=b/c:d:bytes[],w=:utf8, x ?";
        let wanted = [
            entry(None, "jpg", None, false),
            entry(Some("id"), "/meta/id", kind(Scalar::Int64, None), false),
            entry(Some("v"), "/e", kind(Scalar::Float32, Some(&[2, 3])), true),
            entry(None, "/a=b/c:d", kind(Scalar::Bytes, Some(&[])), false),
            entry(Some("w"), "", kind(Scalar::Utf8, None), false),
            entry(None, "x", None, true),
        ];
        assert_eq!(parse("fields", text).expect("well formed"), wanted);
    }

    #[test]
    fn refused() {
        let list = |text: &str| parse("fields", text).expect_err("can't be");
        let no_list = |text: &str| {
            format!("option `fields` takes fields with a comma between them, not {text:?}")
        };
        for text in ["", "a,,b", "a,", "=a", ":utf8", "?"] {
            assert_eq!(list(text), no_list(text));
        }
        assert_eq!(
            list("a,b:float"),
            "option `fields`, `b:float`: there is no type \"float\"; there are bytes, utf8, bool, \
             int32, int64, float32, float64"
        );
        assert_eq!(list("b:int32[3"), "option `fields`, `b:int32[3`: the bracket is not closed");
        for text in ["b:int32[0]", "b:int32[-1]", "b:int32[2,]", "b:int32[2]]"] {
            assert!(list(text).starts_with("option `fields` takes sizes from 1"), "{text}");
        }
        assert_eq!(dims("shape", "28, 28"), Ok(vec![28, 28]));
        assert!(dims("shape", "").is_err());
    }

    #[test]
    fn names() {
        for (word, one) in SCALARS {
            assert_eq!((scalar(word), name(one)), (Some(one), word));
        }
        assert_eq!(distinct("fields", ["a", "b"].into_iter()), Ok(()));
        assert_eq!(
            distinct("fields", ["a", "b", "a"].into_iter()),
            Err("option `fields` has two fields called `a`; give one another name, as in \
                 \"other=…\""
                .to_owned())
        );
    }
}
