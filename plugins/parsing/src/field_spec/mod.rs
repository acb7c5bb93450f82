//! Lists of fields, as options have them: `id=/meta/id:int64, vec=/embedding:float32[128]?`. What such
//! an entry refers to in the input, and what of it must be said, is the decoder's to say.
//!
//! `docs/decoders.md` tells operators how a list is written.

mod shape;
mod types;

use pipemill_plugin::Scalar;

pub use shape::{dims, holds, shown};
pub use types::{name, scalar, some_of, width};

/// An option that holds such a list, and what of it is for this decoder.
#[derive(Debug, Clone, Copy)]
pub struct List<'a> {
    /// What the option is called.
    pub option: &'a str,
    /// A list as an operator may write it, for messages.
    pub example: &'a str,
    /// The types that a field can have.
    pub types: &'a [Scalar],
    /// Whether bytes can have brackets, too: then they are so long.
    pub long_bytes: bool,
}

/// An entry of a list: `name=what:kind[shape]?`. Only `what` must be there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// What stands before the `=`.
    pub name: Option<String>,
    /// What the field is made of. Empty only behind a name.
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
    /// The sizes in brackets, at most one of them 0, which stands for any. Empty without brackets: one
    /// element. Empty brackets are `[0]`.
    pub shape: Vec<u32>,
}

/// The name of a field, and what it is made of.
pub type Named<'a> = (&'a str, &'a str);

impl List<'_> {
    /// Reads the list.
    ///
    /// # Errors
    /// A text for the operator that names the option and the entry that can't be read, or what two
    /// fields would be made of.
    pub fn parse(&self, text: &str) -> Result<Vec<Entry>, String> {
        let mut entries: Vec<Entry> = Vec::new();
        for word in split(text) {
            let entry = self.entry(text, word.trim())?;
            if entries.iter().any(|other| other.what == entry.what) {
                return Err(self.twice(&entry.what));
            }
            entries.push(entry);
        }
        Ok(entries)
    }

    /// The type of an entry that must have one.
    ///
    /// # Errors
    /// A text for the operator, if it has none.
    pub fn kind_of(&self, entry: &Entry) -> Result<Kind, String> {
        entry.kind.clone().ok_or_else(|| {
            let (option, what) = (self.option, &entry.what);
            format!(
                "option `{option}`: `{what}` has no type; put one behind it, as in {:?}; there are {}",
                self.example,
                some_of(self.types, "and")
            )
        })
    }

    /// Refuses two fields of the same name, in this list or behind `others`.
    ///
    /// # Errors
    /// A text for the operator that names the option and the field.
    pub fn distinct<'a>(
        &self,
        others: &[&str],
        fields: impl IntoIterator<Item = Named<'a>>,
    ) -> Result<(), String> {
        let mut seen = others.to_vec();
        for (name, what) in fields {
            if seen.contains(&name) {
                return Err(format!(
                    "option `{}`: there are two fields called `{name}`; put another name before one, \
                     as in \"other={what}\"",
                    self.option
                ));
            }
            seen.push(name);
        }
        Ok(())
    }

    /// Says that two fields are made of the same.
    #[must_use]
    pub fn twice(&self, what: &str) -> String {
        format!("option `{}` has `{what}` twice", self.option)
    }

    fn entry(&self, text: &str, word: &str) -> Result<Entry, String> {
        let at = |why: String| format!("option `{}`, `{word}`: {why}", self.option);
        let (rest, optional) = match word.strip_suffix('?') {
            Some(rest) => (rest.trim_end(), true),
            None => (word, false),
        };
        let (rest, kind) = match rest.rsplit_once(':') {
            Some((rest, kind)) => (rest.trim_end(), Some(self.kind(kind.trim()).map_err(at)?)),
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
                "option `{}` takes fields with a comma between them, as in {:?}, not {text:?}",
                self.option, self.example
            ));
        }
        if kind.is_none() && what.contains('[') {
            return Err(at("brackets stand behind a type, as in \"x:float32[10]\"".to_owned()));
        }
        Ok(Entry { name, what: what.to_owned(), kind, optional })
    }

    fn kind(&self, text: &str) -> Result<Kind, String> {
        let (word, brackets) = match text.split_once('[') {
            Some((word, rest)) => (word.trim_end(), Some(rest)),
            None => (text, None),
        };
        let Some(scalar) = scalar(word).filter(|scalar| self.types.contains(scalar)) else {
            return Err(format!("expected {}, found {word:?}", some_of(self.types, "or")));
        };
        let Some(rest) = brackets else { return Ok(Kind { scalar, shape: Vec::new() }) };
        let inside = rest.strip_suffix(']').ok_or("the bracket is not closed")?;
        let one_only = match scalar {
            Scalar::Bytes => !self.long_bytes,
            Scalar::Utf8 | Scalar::Boolean => true,
            _ => false,
        };
        if one_only {
            return Err(format!("brackets are for numbers, not for {word}"));
        }
        Ok(Kind { scalar, shape: shape::shape(inside)? })
    }
}

/// What stands between the commas that are not in brackets.
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

    use super::{Entry, Kind, List};

    const ALL: List = List {
        option: "fields",
        example: "a,b:int64?",
        types: &[
            Scalar::Bytes,
            Scalar::Utf8,
            Scalar::Boolean,
            Scalar::Int32,
            Scalar::Int64,
            Scalar::Float32,
        ],
        long_bytes: true,
    };

    fn entry(name: Option<&str>, what: &str, kind: Option<Kind>, optional: bool) -> Entry {
        Entry { name: name.map(str::to_owned), what: what.to_owned(), kind, optional }
    }

    fn kind(scalar: Scalar, shape: &[u32]) -> Option<Kind> {
        Some(Kind { scalar, shape: shape.to_vec() })
    }

    #[test]
    fn all_parts() {
        let text = "jpg, id = /meta/id : int64 ,v=/e:float32[2, 3]?,/a=b/c:d:bytes[],w=:utf8, x ?,\
                    k[1,2]:bytes[7],r=rows:int32[0,4]";
        let wanted = [
            entry(None, "jpg", None, false),
            entry(Some("id"), "/meta/id", kind(Scalar::Int64, &[]), false),
            entry(Some("v"), "/e", kind(Scalar::Float32, &[2, 3]), true),
            entry(None, "/a=b/c:d", kind(Scalar::Bytes, &[0]), false),
            entry(Some("w"), "", kind(Scalar::Utf8, &[]), false),
            entry(None, "x", None, true),
            entry(None, "k[1,2]", kind(Scalar::Bytes, &[7]), false),
            entry(Some("r"), "rows", kind(Scalar::Int32, &[0, 4]), false),
        ];
        assert_eq!(ALL.parse(text).expect("well formed"), wanted);
    }

    #[test]
    fn refused() {
        let list = |text: &str| ALL.parse(text).expect_err("can't be");
        for text in ["", "a,,b", "a,", "=a", ":utf8", "?"] {
            let message = format!(
                "option `fields` takes fields with a comma between them, as in \"a,b:int64?\", not \
                 {text:?}"
            );
            assert_eq!(list(text), message);
        }
        let types = "expected bytes, utf8, bool, int32, int64 or float32, found";
        assert_eq!(list("a,b:float"), format!("option `fields`, `b:float`: {types} \"float\""));
        assert_eq!(
            list("b:float64[]"),
            format!("option `fields`, `b:float64[]`: {types} \"float64\"")
        );
        let closed = "option `fields`, `b:int32[3`: the bracket is not closed";
        assert_eq!(list("b:int32[3"), closed);
        let behind =
            "option `fields`, `a[3]`: brackets stand behind a type, as in \"x:float32[10]\"";
        assert_eq!(list("a[3]"), behind);
        for text in ["b:int32[-1]", "b:int32[2,]", "b:int32[2]]", "b:int32[x]"] {
            assert!(list(text).contains("expected numbers between brackets"), "{text}");
        }
        assert_eq!(list("a,x=a:utf8"), "option `fields` has `a` twice");
        for (text, word) in [("t:utf8[3]", "utf8"), ("t:bool[]", "bool")] {
            let message =
                format!("option `fields`, `{text}`: brackets are for numbers, not for {word}");
            assert_eq!(list(text), message);
        }
        let short = List { long_bytes: false, ..ALL };
        assert!(short.parse("b:bytes[3]").expect_err("can't be").ends_with("not for bytes"));
    }

    #[test]
    fn types_that_must_be_there() {
        let entries = ALL.parse("a:utf8,b").expect("well formed");
        assert_eq!(ALL.kind_of(&entries[0]).ok(), kind(Scalar::Utf8, &[]));
        let message = "option `fields`: `b` has no type; put one behind it, as in \"a,b:int64?\"; there \
                       are bytes, utf8, bool, int32, int64 and float32";
        assert_eq!(ALL.kind_of(&entries[1]), Err(message.to_owned()));
    }

    #[test]
    fn names() {
        assert_eq!(ALL.distinct(&["c"], [("a", "x"), ("b", "y")]), Ok(()));
        let message = |name: &str, what: &str| {
            Err(format!(
                "option `fields`: there are two fields called `{name}`; put another name before one, as \
                 in \"other={what}\""
            ))
        };
        assert_eq!(ALL.distinct(&[], [("a", "x"), ("b", "y"), ("a", "z")]), message("a", "z"));
        assert_eq!(ALL.distinct(&["b"], [("a", "x"), ("b", "y")]), message("b", "y"));
    }
}
