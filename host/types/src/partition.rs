//! Fields that the names of folders have: `date` of `train/date=2024-01-01/part-0.parquet`, as
//! Hive, Spark, DuckDB and pyarrow write them.

use std::str::FromStr;
use std::sync::Arc;

use crate::{ErrorKind, Fault, Field, Scalar, printable};

/// The name of a folder's value that stands for no value.
const ABSENT_VALUE: &str = "__HIVE_DEFAULT_PARTITION__";

/// A field whose value is in the name of a folder, `NAME=VALUE`, of each object's path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    name: Arc<str>,
    scalar: Scalar,
}

impl Partition {
    /// The partition that is written `NAME=TYPE`. `None` if this is no such text, or if text can't
    /// be read as the type.
    pub fn from_word(word: &str) -> Option<Self> {
        let (name, scalar) = word.rsplit_once('=')?;
        let scalar = Scalar::from_word(scalar).filter(|scalar| bytes_of("0", *scalar).is_some())?;
        let is_name = !name.is_empty() && !name.contains(['=', '/', '\0']);
        is_name.then(|| Self { name: name.into(), scalar })
    }

    /// The text of [`from_word`](Self::from_word).
    pub fn word(&self) -> String {
        format!("{}={}", self.name, self.scalar.word())
    }

    /// Name of the field.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The field. A record may lack it.
    pub(crate) fn field(&self) -> Field {
        Field { nullable: true, ..Field::new(&*self.name, self.scalar, Vec::new()) }
    }

    /// The value that the records of an object with this name have, as the bytes of a field. `None`
    /// if they have none.
    ///
    /// # Errors
    /// No folder of the name has a value, more than one has, or the type does not allow it.
    pub fn value_of(&self, object: &str) -> Result<Option<Vec<u8>>, Fault> {
        let refused = |message, remedy| Err(Fault::new(ErrorKind::Refused, message, remedy));
        let name = printable(&self.name);
        let mut own = partitions_of(object).filter(|(key, _)| *key == self.name.as_bytes());
        let Some((_, value)) = own.next() else {
            let all: Vec<_> = partitions_of(object)
                .map(|(key, _)| format!("`{}`", printable(&String::from_utf8_lossy(&key))))
                .collect();
            let has = if all.is_empty() { "none".to_owned() } else { all.join(", ") };
            let message = format!(
                "no folder of its path is named `{name}=…`, which `add_fields` asks for; it has \
                 {has}"
            );
            let remedy =
                "read only objects in such folders, or leave the field out of `add_fields`";
            return refused(message, remedy);
        };
        if own.next().is_some() {
            let message = format!("two folders of its path are named `{name}=…`");
            return refused(message, "leave the field out of `add_fields`, or rename one folder");
        }
        if value == ABSENT_VALUE.as_bytes() {
            return Ok(None);
        }
        let parsed = std::str::from_utf8(&value).ok().and_then(|text| bytes_of(text, self.scalar));
        if let Some(bytes) = parsed {
            return Ok(Some(bytes));
        }
        let found = printable(&String::from_utf8_lossy(&value)).to_string();
        let scalar = self.scalar.word();
        let message = format!("its folder `{name}={found}`: expected {scalar}, found \"{found}\"");
        let remedy = if self.scalar == Scalar::Utf8 {
            "rename the folder: its value must be UTF-8"
        } else {
            "give the field another type in `add_fields`, such as utf8, or rename the folder"
        };
        refused(message, remedy)
    }
}

/// The keys and values of the folders in an object's name, in their order. What is written as `%`
/// with two hexadecimal digits is decoded.
fn partitions_of(object: &str) -> impl Iterator<Item = (Vec<u8>, Vec<u8>)> {
    let folders = object.rsplit_once('/').map_or("", |(folders, _)| folders);
    let pairs = folders.split('/').filter_map(|folder| folder.split_once('='));
    pairs.map(|(key, value)| (decoded(key), decoded(value))).filter(|(key, _)| !key.is_empty())
}

/// The text with each `%` and two hexadecimal digits replaced by the byte that they stand for.
fn decoded(text: &str) -> Vec<u8> {
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text.as_bytes());
    let digit = |byte: u8| char::from(byte).to_digit(16);
    while let [first, after @ ..] = rest {
        if let (b'%', [high, low, after @ ..]) = (first, after)
            && let (Some(high), Some(low)) = (digit(*high), digit(*low))
        {
            bytes.push((high * 16 + low) as u8);
            rest = after;
        } else {
            bytes.push(*first);
            rest = after;
        }
    }
    bytes
}

/// The bytes of a field of this type with the value that a text says. `None` if it says none.
fn bytes_of(text: &str, scalar: Scalar) -> Option<Vec<u8>> {
    /// A number that is written without a plus.
    fn number<T: FromStr>(text: &str) -> Option<T> {
        if text.starts_with('+') { None } else { text.parse().ok() }
    }
    Some(match scalar {
        Scalar::Utf8 => text.into(),
        Scalar::Boolean => match text {
            "true" | "True" | "TRUE" | "1" => vec![1],
            "false" | "False" | "FALSE" | "0" => vec![0],
            _ => return None,
        },
        Scalar::Int8 => number::<i8>(text)?.to_le_bytes().into(),
        Scalar::Int16 => number::<i16>(text)?.to_le_bytes().into(),
        Scalar::Int32 => number::<i32>(text)?.to_le_bytes().into(),
        Scalar::Int64 => number::<i64>(text)?.to_le_bytes().into(),
        Scalar::Uint8 => number::<u8>(text)?.to_le_bytes().into(),
        Scalar::Uint16 => number::<u16>(text)?.to_le_bytes().into(),
        Scalar::Uint32 => number::<u32>(text)?.to_le_bytes().into(),
        Scalar::Uint64 => number::<u64>(text)?.to_le_bytes().into(),
        Scalar::Float32 => number::<f32>(text)?.to_le_bytes().into(),
        Scalar::Float64 => number::<f64>(text)?.to_le_bytes().into(),
        Scalar::Bytes | Scalar::Float16 | Scalar::Bfloat16 => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(word: &str, object: &str) -> Result<Option<Vec<u8>>, String> {
        let partition = Partition::from_word(word).expect("it is one");
        assert_eq!(partition.word(), word);
        partition.value_of(object).map_err(|fault| fault.message)
    }

    #[test]
    fn a_value_is_that_of_the_folder() {
        let object = "s3://data/train/date=2024-01-01/n=-7/a b%2Fc=x%20y%3D%zz/part=1.csv";
        let text = |text: &str| Ok(Some(text.as_bytes().to_vec()));
        assert_eq!(value("date=utf8", object), text("2024-01-01"));
        assert_eq!(value("n=int16", object), Ok(Some(vec![0xf9, 0xff])));
        assert_eq!(value("n=utf8", object), text("-7"));
        assert_eq!(value("k=utf8", "/k=a=b/0"), text("a=b"));
        assert_eq!(value("k=utf8", "/k=/0"), text(""));
        assert_eq!(value("ü=utf8", "%C3%bc=%e2%82%AC/0"), text("€"));
        assert_eq!(value("k=int32", "k=__HIVE_DEFAULT_PARTITION__/0"), Ok(None));
        assert_eq!(value("k=boolean", "k=True/0"), Ok(Some(vec![1])));
        assert_eq!(value("k=float64", "k=1e3/0"), Ok(Some(1000f64.to_le_bytes().into())));
        assert_eq!(value("k=uint8", "k=007/0"), Ok(Some(vec![7])));
    }

    #[test]
    fn a_path_without_the_value_is_refused() {
        let lacks = "no folder of its path is named `part=…`, which `add_fields` asks for; it has";
        assert_eq!(value("part=utf8", "a=1/b=2/part=1"), Err(format!("{lacks} `a`, `b`")));
        assert_eq!(value("part=utf8", "part=1"), Err(format!("{lacks} none")));
        let twice = "two folders of its path are named `k=…`";
        assert_eq!(value("k=utf8", "k=1/x/k=1/0"), Err(twice.to_owned()));
        for (word, text) in [
            ("int32", "2147483648"),
            ("int32", "x"),
            ("uint8", "-1"),
            ("int8", "+1"),
            ("int64", ""),
            ("float32", "1,5"),
            ("boolean", "2"),
        ] {
            let wrong = format!("its folder `k={text}`: expected {word}, found \"{text}\"");
            assert_eq!(value(&format!("k={word}"), &format!("k={text}/0")), Err(wrong));
        }
        let wrong = "its folder `k=\u{fffd}`: expected utf8, found \"\u{fffd}\"";
        assert_eq!(value("k=utf8", "k=%ff/0"), Err(wrong.to_owned()));
    }

    #[test]
    fn a_word_names_a_field_and_a_type_of_values_in_text() {
        for word in
            ["", "k", "=utf8", "k=", "k=bytes", "k=float16", "k=text", "a=b=utf8", "a/b=utf8"]
        {
            assert_eq!(Partition::from_word(word), None, "{word}");
        }
    }
}
