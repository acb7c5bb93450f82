//! The option that says which keys of a map become fields, and as what:
//! `name=key:type[shape]?`, comma between them.

use pipemill_plugin::Scalar;

use crate::shape;
use crate::shape::{scalar, scalar_name};

/// One key that is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// What the field is called, where it is not called as the key is.
    pub name: Option<String>,
    /// The key.
    pub key: String,
    /// Type and shape, where they are said.
    pub form: Option<(Scalar, Vec<u32>)>,
    /// Whether records may be without it.
    pub optional: bool,
}

/// Reads the option called `option`. Types must be among `types`.
pub fn wanted(option: &str, text: &str, types: &[Scalar]) -> Result<Vec<Wanted>, String> {
    let words = split(text);
    let all: Result<Vec<_>, _> = words.map(|word| one(word.trim(), types)).collect();
    let all = all.map_err(|why| format!("option `{option}` {why}"))?;
    for (index, wanted) in all.iter().enumerate() {
        if all[..index].iter().any(|other| other.key == wanted.key) {
            return Err(format!("option `{option}` has `{}` twice", wanted.key));
        }
    }
    Ok(all)
}

/// Splits at the commas that do not stand in brackets.
fn split(text: &str) -> impl Iterator<Item = &str> {
    let mut inside = false;
    text.split(move |letter| {
        inside = (inside || letter == '[') && letter != ']';
        letter == ',' && !inside
    })
}

fn one(word: &str, types: &[Scalar]) -> Result<Wanted, String> {
    let (rest, optional) = match word.strip_suffix('?') {
        Some(rest) => (rest.trim_end(), true),
        None => (word, false),
    };
    let (rest, form) = match rest.rsplit_once(':') {
        Some((rest, text)) => (rest, Some(form(text.trim(), types)?)),
        None => (rest, None),
    };
    let (name, key) = match rest.split_once('=') {
        Some((name, key)) => (Some(name.trim().to_owned()), key.trim()),
        None => (None, rest.trim()),
    };
    if key.is_empty() || name.as_ref().is_some_and(String::is_empty) {
        return Err(format!("takes keys with a comma between them, as {EXAMPLE}, not {word:?}"));
    }
    if form.is_none() && key.contains('[') {
        return Err(format!("takes a shape behind a type, as {EXAMPLE}, not {word:?}"));
    }
    Ok(Wanted { name, key: key.to_owned(), form, optional })
}

const EXAMPLE: &str = "in \"image, weights:float32[10], x=values:float32[28,28]\"";

fn form(text: &str, types: &[Scalar]) -> Result<(Scalar, Vec<u32>), String> {
    let (name, shape) = match text.strip_suffix(']').and_then(|text| text.split_once('[')) {
        Some((name, inside)) => (name.trim(), shape::shape(inside)?),
        None => (text, Vec::new()),
    };
    let Some(scalar) = scalar(name).filter(|scalar| types.contains(scalar)) else {
        let known: Vec<_> = types.iter().map(|scalar| scalar_name(*scalar)).collect();
        return Err(format!("knows the types {}, not {name:?}", known.join(", ")));
    };
    if matches!(scalar, Scalar::Bytes | Scalar::Utf8) && !shape.is_empty() {
        return Err(format!("takes one value of type {name}, not a list as in {text:?}"));
    }
    Ok((scalar, shape))
}
