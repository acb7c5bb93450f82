//! Parses field specs, as in `id=/meta/id:int64, vec=/embedding:float32[128]?`: an option's list of
//! the fields that a record has. Each decoder defines what a selector means (`/meta/id` is a JSON
//! pointer).
//!
//! `docs/decoders.md` describes the syntax for operators.

mod shape;
mod types;

use pipemill_plugin::Scalar;

use shape::display_shaped;
pub use shape::{display_type, parse_sizes, shape_accepts};
use types::join_names;
pub use types::{element_size, join_type_names, scalar_from_name, type_name};

/// An option whose value is a list of field specs, and the rules that one decoder has for it.
#[derive(Debug, Clone, Copy)]
pub struct SpecOption<'a> {
    /// Name of the option.
    pub name: &'a str,
    /// A valid list, for messages.
    pub example: &'a str,
    /// The allowed types of a field.
    pub types: &'a [Scalar],
    /// The allowed types with a meaning.
    pub logical_types: &'a [LogicalType],
    /// Whether brackets are allowed after `bytes`; they then give the length in bytes.
    pub sized_bytes: bool,
    /// Whether brackets are allowed after `utf8`, and after `bytes` unless they are sized: a list.
    pub lists: bool,
}

/// A type word for values that have a meaning, as in `taken:timestamp`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogicalType {
    /// The word in a field spec.
    pub name: &'static str,
    /// Type of one element.
    pub scalar: Scalar,
    /// The meaning, in the words of the interface: `timestamp[ns]`.
    pub logical: &'static str,
}

/// One field spec: `name=selector:type[shape]?`. Only the selector is required.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldSpec {
    /// Name of the field, before the `=`.
    pub name: Option<String>,
    /// Selects the value in the input. It can be empty only if there is a name.
    pub selector: String,
    /// Type of the field, after the last `:`.
    pub field_type: Option<FieldType>,
    /// Whether a record may lack the value: the spec ends with `?`.
    pub optional: bool,
}

/// The type of a field: its scalar and its shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldType {
    /// Type of one element.
    pub scalar: Scalar,
    /// The sizes in brackets. At most one of them is 0, which means any size. Without brackets it
    /// is empty: one element. Empty brackets give `[0]`.
    pub shape: Vec<u32>,
    /// The type word, if it is one with a meaning.
    pub logical: Option<LogicalType>,
}

impl FieldType {
    /// The type as it is written in a field spec.
    #[must_use]
    pub fn display(&self) -> String {
        display_shaped(self.word(), &self.shape)
    }

    /// The type word, without the shape.
    #[must_use]
    pub fn word(&self) -> &'static str {
        self.logical.map_or_else(|| type_name(self.scalar), |word| word.name)
    }
}

impl SpecOption<'_> {
    /// Parses the value of the option.
    ///
    /// # Errors
    /// The error is a message for the operator. It names the option and the invalid spec, or the
    /// selector that two specs have.
    pub fn parse(&self, text: &str) -> Result<Vec<FieldSpec>, String> {
        self.parse_list(text, false)
    }

    /// Like [`parse`](Self::parse), but `bool` may have brackets, too.
    ///
    /// # Errors
    /// The same as [`parse`](Self::parse).
    pub fn parse_with_bool_arrays(&self, text: &str) -> Result<Vec<FieldSpec>, String> {
        self.parse_list(text, true)
    }

    fn parse_list(&self, text: &str, bool_arrays: bool) -> Result<Vec<FieldSpec>, String> {
        let mut specs: Vec<FieldSpec> = Vec::new();
        for word in split(text) {
            let spec = self.parse_spec(text, word.trim(), bool_arrays)?;
            if specs.iter().any(|other| other.selector == spec.selector) {
                return Err(self.duplicate_selector(&spec.selector));
            }
            specs.push(spec);
        }
        Ok(specs)
    }

    /// The type of a spec, for a decoder that requires one.
    ///
    /// # Errors
    /// The error is a message for the operator, if the spec has no type.
    pub fn required_type(&self, spec: &FieldSpec) -> Result<FieldType, String> {
        spec.field_type.clone().ok_or_else(|| {
            let (name, selector) = (self.name, &spec.selector);
            format!(
                "option `{name}`: `{selector}` has no type; put one after it, as in {:?}; there are {}",
                self.example,
                self.type_names("and")
            )
        })
    }

    /// The names of all types of the option, separated by commas, with `last` before the last one.
    fn type_names(&self, last: &str) -> String {
        join_names(
            types::names(self.types).chain(self.logical_types.iter().map(|one| one.name)),
            last,
        )
    }

    /// Checks that all field names differ. `fields` are pairs of a name and a selector; `others`
    /// are the names of fields that do not come from this option.
    ///
    /// # Errors
    /// The error is a message for the operator that names the option and the field.
    pub fn check_names<'a>(
        &self,
        others: &[&str],
        fields: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<(), String> {
        let mut seen = others.to_vec();
        for (name, selector) in fields {
            if seen.contains(&name) {
                return Err(format!(
                    "option `{}`: there are two fields called `{name}`; put another name before one, \
                     as in \"other={selector}\"",
                    self.name
                ));
            }
            seen.push(name);
        }
        Ok(())
    }

    /// The error text for a selector that two specs have.
    #[must_use]
    pub fn duplicate_selector(&self, selector: &str) -> String {
        format!("option `{}` has `{selector}` twice", self.name)
    }

    fn parse_spec(&self, text: &str, word: &str, bool_arrays: bool) -> Result<FieldSpec, String> {
        let error = |why: String| format!("option `{}`, `{word}`: {why}", self.name);
        let (rest, optional) = match word.strip_suffix('?') {
            Some(rest) => (rest.trim_end(), true),
            None => (word, false),
        };
        let (rest, field_type) = match rest.rsplit_once(':') {
            Some((rest, text)) => {
                let field_type = self.parse_type(text.trim(), bool_arrays).map_err(error)?;
                (rest.trim_end(), Some(field_type))
            }
            None => (rest, None),
        };
        // A `=` after a slash belongs to the selector: it is part of a path.
        let (name, selector) = match rest.split_once('=') {
            Some((name, selector)) if !name.contains('/') => {
                (Some(name.trim().to_owned()), selector.trim_start())
            }
            _ => (None, rest),
        };
        let valid_name = name.as_ref().is_none_or(|name| !name.is_empty());
        if !valid_name || (selector.is_empty() && name.is_none()) {
            return Err(format!(
                "option `{}` takes fields with a comma between them, as in {:?}, not {text:?}",
                self.name, self.example
            ));
        }
        if field_type.is_none() && selector.contains('[') {
            return Err(error("brackets belong after a type, as in \"x:float32[10]\"".to_owned()));
        }
        Ok(FieldSpec { name, selector: selector.to_owned(), field_type, optional })
    }

    fn parse_type(&self, text: &str, bool_arrays: bool) -> Result<FieldType, String> {
        let (word, brackets) = match text.split_once('[') {
            Some((word, rest)) => (word.trim_end(), Some(rest)),
            None => (text, None),
        };
        let logical = self.logical_types.iter().find(|logical| logical.name == word).copied();
        let scalar = logical
            .map(|logical| logical.scalar)
            .or_else(|| scalar_from_name(word).filter(|scalar| self.types.contains(scalar)));
        let Some(scalar) = scalar else {
            return Err(format!("expected {}, found {word:?}", self.type_names("or")));
        };
        let Some(rest) = brackets else {
            return Ok(FieldType { scalar, shape: Vec::new(), logical });
        };
        let inside = rest.strip_suffix(']').ok_or("the bracket is not closed")?;
        let no_shape = match scalar {
            Scalar::Bytes => !self.sized_bytes && !self.lists,
            Scalar::Utf8 => !self.lists,
            Scalar::Boolean => !bool_arrays,
            _ => false,
        };
        if no_shape {
            return Err(format!("brackets are for numbers, not for {word}"));
        }
        Ok(FieldType { scalar, shape: shape::parse_shape(inside)?, logical })
    }
}

/// Splits at commas, but not at those inside brackets.
fn split(text: &str) -> impl Iterator<Item = &str> {
    let mut inside = false;
    text.split(move |letter| {
        inside = (inside || letter == '[') && letter != ']';
        letter == ',' && !inside
    })
}

#[cfg(test)]
mod tests {
    use pipemill_plugin::Scalar;

    use super::{FieldSpec, FieldType, LogicalType, SpecOption};

    const OPTION: SpecOption = SpecOption {
        name: "fields",
        example: "a,b:int64?",
        types: &[
            Scalar::Bytes,
            Scalar::Utf8,
            Scalar::Boolean,
            Scalar::Int32,
            Scalar::Int64,
            Scalar::Float32,
        ],
        logical_types: &[],
        sized_bytes: true,
        lists: false,
    };

    const TIMESTAMP: LogicalType =
        LogicalType { name: "timestamp", scalar: Scalar::Int64, logical: "timestamp[ns]" };

    fn spec(
        name: Option<&str>,
        selector: &str,
        field_type: Option<FieldType>,
        optional: bool,
    ) -> FieldSpec {
        let (name, selector) = (name.map(str::to_owned), selector.to_owned());
        FieldSpec { name, selector, field_type, optional }
    }

    fn field_type(scalar: Scalar, shape: &[u32]) -> Option<FieldType> {
        Some(FieldType { scalar, shape: shape.to_vec(), logical: None })
    }

    #[test]
    fn every_part_is_parsed() {
        let text = "jpg, id = /meta/id : int64 ,v=/e:float32[2, 3]?,/a=b/c:d:bytes[],w=:utf8, x ?,\
                    k[1,2]:bytes[7],r=rows:int32[0,4]";
        let wanted = [
            spec(None, "jpg", None, false),
            spec(Some("id"), "/meta/id", field_type(Scalar::Int64, &[]), false),
            spec(Some("v"), "/e", field_type(Scalar::Float32, &[2, 3]), true),
            spec(None, "/a=b/c:d", field_type(Scalar::Bytes, &[0]), false),
            spec(Some("w"), "", field_type(Scalar::Utf8, &[]), false),
            spec(None, "x", None, true),
            spec(None, "k[1,2]", field_type(Scalar::Bytes, &[7]), false),
            spec(Some("r"), "rows", field_type(Scalar::Int32, &[0, 4]), false),
        ];
        assert_eq!(OPTION.parse(text).expect("the list is valid"), wanted);
    }

    #[test]
    fn lists_and_logical_types() {
        let option = SpecOption {
            types: &[Scalar::Utf8, Scalar::Bytes],
            logical_types: &[TIMESTAMP],
            sized_bytes: false,
            lists: true,
            ..OPTION
        };
        let specs = option.parse("a:utf8[], b:bytes[2], t:timestamp?, u:timestamp[]");
        let types: Vec<_> = specs
            .expect("the list is valid")
            .into_iter()
            .flat_map(|spec| spec.field_type)
            .collect();
        let timestamps = |shape: &[u32]| FieldType {
            scalar: Scalar::Int64,
            shape: shape.to_vec(),
            logical: Some(TIMESTAMP),
        };
        assert_eq!(
            types[..2],
            [field_type(Scalar::Utf8, &[0]), field_type(Scalar::Bytes, &[2])].map(Option::unwrap)
        );
        assert_eq!(types[2..], [timestamps(&[]), timestamps(&[0])]);
        let words: Vec<_> = types.iter().map(FieldType::display).collect();
        assert_eq!(words, ["utf8[]", "bytes[2]", "timestamp", "timestamp[]"]);
        let error = option.parse("a:time").expect_err("there is no such type");
        assert_eq!(
            error,
            "option `fields`, `a:time`: expected bytes, utf8 or timestamp, found \"time\""
        );
        assert!(OPTION.parse("t:timestamp").is_err());
    }

    #[test]
    fn invalid_lists_are_refused() {
        let error = |text: &str| OPTION.parse(text).expect_err("the list is not valid");
        for text in ["", "a,,b", "a,", "=a", ":utf8", "?"] {
            let message = format!(
                "option `fields` takes fields with a comma between them, as in \"a,b:int64?\", not \
                 {text:?}"
            );
            assert_eq!(error(text), message);
        }
        let types = "expected bytes, utf8, bool, int32, int64 or float32, found";
        assert_eq!(error("a,b:float"), format!("option `fields`, `b:float`: {types} \"float\""));
        assert_eq!(
            error("b:float64[]"),
            format!("option `fields`, `b:float64[]`: {types} \"float64\"")
        );
        let not_closed = "option `fields`, `b:int32[3`: the bracket is not closed";
        assert_eq!(error("b:int32[3"), not_closed);
        let no_type =
            "option `fields`, `a[3]`: brackets belong after a type, as in \"x:float32[10]\"";
        assert_eq!(error("a[3]"), no_type);
        for text in ["b:int32[-1]", "b:int32[2,]", "b:int32[2]]", "b:int32[x]"] {
            assert!(error(text).contains("expected numbers between brackets"), "{text}");
        }
        assert_eq!(error("a,x=a:utf8"), "option `fields` has `a` twice");
        for (text, word) in [("t:utf8[3]", "utf8"), ("t:bool[]", "bool")] {
            let message =
                format!("option `fields`, `{text}`: brackets are for numbers, not for {word}");
            assert_eq!(error(text), message);
        }
        let bools = OPTION.parse_with_bool_arrays("t:bool[2,2]").expect("the list is valid");
        assert_eq!(bools[0].field_type, field_type(Scalar::Boolean, &[2, 2]));
        assert!(OPTION.parse_with_bool_arrays("t:utf8[3]").is_err());
        let unsized_bytes = SpecOption { sized_bytes: false, ..OPTION };
        let error = unsized_bytes.parse("b:bytes[3]").expect_err("brackets are not allowed");
        assert!(error.ends_with("not for bytes"), "{error}");
    }

    #[test]
    fn a_missing_type_is_refused() {
        let specs = OPTION.parse("a:utf8,b").expect("the list is valid");
        assert_eq!(OPTION.required_type(&specs[0]).ok(), field_type(Scalar::Utf8, &[]));
        let message = "option `fields`: `b` has no type; put one after it, as in \"a,b:int64?\"; there \
                       are bytes, utf8, bool, int32, int64 and float32";
        assert_eq!(OPTION.required_type(&specs[1]), Err(message.to_owned()));
    }

    #[test]
    fn duplicate_names_are_refused() {
        assert_eq!(OPTION.check_names(&["c"], [("a", "x"), ("b", "y")]), Ok(()));
        let message = |name: &str, selector: &str| {
            Err(format!(
                "option `fields`: there are two fields called `{name}`; put another name before one, as \
                 in \"other={selector}\""
            ))
        };
        let three = [("a", "x"), ("b", "y"), ("a", "z")];
        assert_eq!(OPTION.check_names(&[], three), message("a", "z"));
        assert_eq!(OPTION.check_names(&["b"], [("a", "x"), ("b", "y")]), message("b", "y"));
    }
}
