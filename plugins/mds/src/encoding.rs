//! How the values of a column are written, by the name of its encoding.
//!
//! The source is `streaming/base/format/mds/encodings.py` of
//! <https://github.com/mosaicml/streaming>.

use pipemill_plugin::{Field, Scalar};

/// How a value of a column becomes one of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// The same bytes.
    Bytes,
    /// The same bytes, which must be UTF-8.
    Text,
    /// The same bytes, of which there must be this many.
    Fixed(usize),
    /// The elements of this size, after their shape.
    Array { item: usize },
    /// The shape before these elements.
    Shape { item: usize },
    /// A list, of which this many bytes are skipped: its length, the sizes of its elements, and the
    /// elements.
    List { skip: usize },
}

/// The types that elements of arrays have.
const ITEMS: [Scalar; 11] = [
    Scalar::Uint8,
    Scalar::Int8,
    Scalar::Uint16,
    Scalar::Int16,
    Scalar::Float16,
    Scalar::Uint32,
    Scalar::Int32,
    Scalar::Float32,
    Scalar::Uint64,
    Scalar::Int64,
    Scalar::Float64,
];

/// The key of the encoding in the metadata of a field that does not say it all.
const KEY: &str = "mds.encoding";

/// The field of an encoding, without a name, and the form of its values. The error says what such a
/// column is, which can't be a field.
pub(crate) fn encoding(text: &str) -> Result<(Field, Form), String> {
    let (bytes, utf8) = (Field::bytes(""), Field::utf8(""));
    Ok(match text {
        "bytes" => (bytes, Form::Bytes),
        "jpeg" | "png" => (bytes.logical("image").metadata(KEY, text), Form::Bytes),
        "pil" => (bytes.metadata(KEY, text), Form::Bytes),
        "str" => (utf8, Form::Text),
        "json" => (utf8.logical("json"), Form::Text),
        "str_int" | "str_float" | "str_decimal" => (utf8.metadata(KEY, text), Form::Text),
        "int" => number(Scalar::Int64),
        "list[jpeg]" | "list[png]" | "list[pil]" => {
            (bytes.list().metadata(KEY, text), Form::List { skip: 4 })
        }
        "jpeg_array" | "jpegarray" => (bytes.list().metadata(KEY, text), Form::List { skip: 0 }),
        "pkl" => return Err("of Python objects (encoding `pkl`)".to_owned()),
        "ndarray" => {
            return Err("of arrays, each with a type of its own (encoding `ndarray`)".to_owned());
        }
        _ => match text.strip_prefix("ndarray:") {
            Some(array) => of_array(array).ok_or_else(|| unknown(text))?,
            None => number(item(text).ok_or_else(|| unknown(text))?),
        },
    })
}

fn unknown(text: &str) -> String {
    format!("of the unknown encoding `{}`", text.escape_debug())
}

fn number(scalar: Scalar) -> (Field, Form) {
    (Field::new("", scalar), Form::Fixed(scalar.size()))
}

fn item(word: &str) -> Option<Scalar> {
    Scalar::from_word(word).filter(|scalar| ITEMS.contains(scalar))
}

/// An array of one type: `float32`, or with its shape `float32:2,3`.
fn of_array(text: &str) -> Option<(Field, Form)> {
    let Some((word, shape)) = text.split_once(':') else {
        let scalar = item(text)?;
        return Some((Field::new("", scalar).list(), Form::Array { item: scalar.size() }));
    };
    let scalar = item(word)?;
    let sizes = shape.split(',').map(|size| size.parse().ok().filter(|size| *size > 0));
    let shape: Vec<u32> = sizes.collect::<Option<_>>()?;
    let bytes = shape.iter().try_fold(scalar.size() as u32, |all, size| all.checked_mul(*size))?;
    Some((Field::new("", scalar).shaped(shape), Form::Fixed(bytes as usize)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_have_a_type_and_may_have_a_shape() {
        let (field, form) = encoding("ndarray:float16:2,3").unwrap();
        assert_eq!((field.scalar, field.shape), (Scalar::Float16, vec![2, 3]));
        assert_eq!(form, Form::Fixed(12));
        let (field, form) = encoding("ndarray:int64").unwrap();
        assert_eq!((field.scalar, field.shape), (Scalar::Int64, vec![0]));
        assert_eq!(form, Form::Array { item: 8 });
        for bad in [
            "ndarray:",
            "ndarray:text",
            "ndarray:bytes:3",
            "ndarray:int8:",
            "ndarray:int8:0",
            "ndarray:int8:2,",
            "ndarray:int8:-1",
            "ndarray:int8:65536,65536",
            "ndarray:int8:2:3",
            "boolean",
            "bfloat16",
            "list[bytes]",
            "",
        ] {
            let said = encoding(bad).unwrap_err();
            assert!(said.contains(&format!("unknown encoding `{bad}`")), "{said}");
        }
    }
}
