//! The options of a decoder: the decoder declares them, the operator sets them, the host checks
//! them.

use std::any::{Any, type_name};
use std::collections::BTreeMap;
use std::rc::Rc;

/// The values that an option accepts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OptionKind {
    /// Any text.
    String,
    /// `true` or `false`.
    Bool,
    /// An integer from 0 to 2^64 - 1.
    Int,
    /// One of these words.
    Choice(Vec<&'static str>),
    /// Words, separated by commas.
    List,
    /// The path of a file. The host reads the file and passes its content to
    /// [`Decoder::prepare`](crate::Decoder::prepare).
    File,
}

/// The declaration of an option.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OptionSpec {
    /// Name of the option in the configuration.
    pub name: &'static str,
    /// The values that it accepts.
    pub kind: OptionKind,
    /// The value if the operator sets none.
    pub default: Option<&'static str>,
    /// Whether the operator must set it. If so, it has no default.
    pub required: bool,
    /// One line of help for the operator.
    pub help: &'static str,
}

impl OptionSpec {
    /// An option that accepts any text.
    pub fn string(name: &'static str, default: Option<&'static str>, help: &'static str) -> Self {
        Self::new(name, OptionKind::String, default, help)
    }
    /// An option that is `true` or `false`.
    pub fn bool(name: &'static str, default: bool, help: &'static str) -> Self {
        let default = Some(if default { "true" } else { "false" });
        Self::new(name, OptionKind::Bool, default, help)
    }
    /// An option that accepts an integer from 0.
    pub fn int(name: &'static str, default: Option<&'static str>, help: &'static str) -> Self {
        Self::new(name, OptionKind::Int, default, help)
    }
    /// An option that accepts one of `words`.
    pub fn choice(
        name: &'static str,
        words: &[&'static str],
        default: &'static str,
        help: &'static str,
    ) -> Self {
        Self::new(name, OptionKind::Choice(words.to_vec()), Some(default), help)
    }
    /// An option that accepts words with commas between them.
    pub fn list(name: &'static str, default: Option<&'static str>, help: &'static str) -> Self {
        Self::new(name, OptionKind::List, default, help)
    }
    /// An option that accepts the path of a file: see
    /// [`Decoder::prepare`](crate::Decoder::prepare).
    pub fn file(name: &'static str, help: &'static str) -> Self {
        Self::new(name, OptionKind::File, None, help)
    }
    /// Not an option, but the name endings of this decoder's own objects, such as
    /// `".pstr,.pstring"`. They select the decoder for channels that name none, if the plugin is on
    /// the search path.
    pub fn endings(endings: &'static str) -> Self {
        Self::list("detect.endings", Some(endings), "endings of names that this decoder reads")
    }
    /// Not an option, but the first bytes of this decoder's own objects in hexadecimal, such as
    /// `"50535452"`. An object that begins with them is this decoder's; an object with an ending of
    /// [`endings`](Self::endings) that does not begin with them is refused.
    pub fn magic(bytes: &'static str) -> Self {
        Self::list("detect.magic", Some(bytes), "first bytes of what this decoder reads")
    }
    /// The same option, without a default: the operator must set it.
    pub fn required(mut self) -> Self {
        (self.default, self.required) = (None, true);
        self
    }

    fn new(
        name: &'static str,
        kind: OptionKind,
        default: Option<&'static str>,
        help: &'static str,
    ) -> Self {
        Self { name, kind, default, required: false, help }
    }
}

/// The options of a stream: the values that the operator set, and the defaults of the others.
#[derive(Debug, Clone, Default)]
pub struct Options {
    values: BTreeMap<String, String>,
    prepared: Option<Rc<dyn Any>>,
}

impl Options {
    /// Adds the defaults of `specs` to the values in `given`.
    ///
    /// # Errors
    /// The error is a message for the operator: an option is not declared, does not accept its
    /// value, or is missing.
    pub fn new(specs: &[OptionSpec], given: &[(String, String)]) -> Result<Self, String> {
        let mut values = BTreeMap::new();
        for spec in specs {
            if let Some(default) = spec.default {
                values.insert(spec.name.to_owned(), default.to_owned());
            }
        }
        for (name, value) in given {
            let Some(spec) = specs.iter().find(|spec| spec.name == name) else {
                let known: Vec<_> = specs.iter().map(|spec| spec.name).collect();
                return Err(format!("unknown option `{name}`; known are: {}", known.join(", ")));
            };
            check(spec, value)?;
            values.insert(name.clone(), value.clone());
        }
        match specs.iter().find(|spec| spec.required && !values.contains_key(spec.name)) {
            Some(spec) => Err(format!("option `{}` must be set: {}", spec.name, spec.help)),
            None => Ok(Self { values, prepared: None }),
        }
    }

    /// The same options, with what [`Decoder::prepare`](crate::Decoder::prepare) has made.
    pub(crate) fn and_prepared(self, prepared: Rc<dyn Any>) -> Self {
        Self { prepared: Some(prepared), ..self }
    }

    /// What [`Decoder::prepare`](crate::Decoder::prepare) has made.
    ///
    /// # Panics
    /// It makes a value of another type, or [`Decoder::prepares`](crate::Decoder::prepares) is
    /// `false`.
    pub fn prepared<T: 'static>(&self) -> Rc<T> {
        let prepared = self.prepared.clone().and_then(|made| made.downcast().ok());
        prepared.unwrap_or_else(|| panic!("`prepare` has made no {}", type_name::<T>()))
    }

    /// The options of a decoder inside of this one: those of these that it has, and `set` over them.
    ///
    /// # Errors
    /// The same as [`new`](Self::new).
    pub(crate) fn for_inner(
        &self,
        specs: &[OptionSpec],
        set: Vec<(&'static str, String)>,
    ) -> Result<Self, String> {
        let is_set = |name: &str| set.iter().any(|(other, _)| *other == name);
        let is_known = |name: &str| specs.iter().any(|spec| spec.name == name);
        let own = self.values.iter().filter(|(name, _)| is_known(name) && !is_set(name));
        let mut values: Vec<_> = own.map(|(name, value)| (name.clone(), value.clone())).collect();
        values.extend(set.into_iter().map(|(name, value)| (name.to_owned(), value)));
        Ok(Self { prepared: self.prepared.clone(), ..Self::new(specs, &values)? })
    }

    /// The value of an option; `None` if it was not set and has no default.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }
    /// The value of an option; the empty string if it has none.
    pub fn text(&self, name: &str) -> &str {
        self.get(name).unwrap_or("")
    }
    /// The words of an option; none if it has no value.
    pub fn list(&self, name: &str) -> Vec<&str> {
        let words = self.get(name).into_iter().flat_map(|value| value.split(','));
        words.map(str::trim).filter(|word| !word.is_empty()).collect()
    }
    /// Whether an option is `true`.
    pub fn is_on(&self, name: &str) -> bool {
        self.get(name) == Some("true")
    }
    /// The value of an option as a number; `None` if it has no value, or one that is not a number.
    pub fn int(&self, name: &str) -> Option<u64> {
        self.get(name).and_then(|value| value.parse().ok())
    }
}

fn check(spec: &OptionSpec, value: &str) -> Result<(), String> {
    let wants = match &spec.kind {
        OptionKind::String => return Ok(()),
        OptionKind::File if !value.is_empty() => return Ok(()),
        OptionKind::Bool if matches!(value, "true" | "false") => return Ok(()),
        OptionKind::Int if value.parse::<u64>().is_ok() => return Ok(()),
        OptionKind::Choice(words) if words.contains(&value) => return Ok(()),
        OptionKind::List if value.split(',').all(|word| !word.trim().is_empty()) => return Ok(()),
        OptionKind::Bool => "true or false".to_owned(),
        OptionKind::Int => "a whole number".to_owned(),
        OptionKind::Choice(words) => format!("one of {}", words.join(", ")),
        OptionKind::File => "the path of a file".to_owned(),
        OptionKind::List => "words with commas between them".to_owned(),
    };
    Err(format!("option `{}` takes {wants}, not {value:?}", spec.name))
}

/// The content of files that the operator has named in options of the kind [`OptionKind::File`].
#[derive(Debug, Clone, Copy, Default)]
pub struct OptionFiles<'a> {
    files: &'a [(String, Vec<u8>)],
}

impl<'a> OptionFiles<'a> {
    /// These files: the names of their options, and their content.
    pub fn new(files: &'a [(String, Vec<u8>)]) -> Self {
        Self { files }
    }

    /// The content of the file that the option `name` names; `None` if it is not set, or if the host
    /// passes no files because it knows only an earlier version of the interface.
    pub fn get(&self, name: &str) -> Option<&'a [u8]> {
        self.files.iter().find(|(other, _)| other == name).map(|(_, bytes)| bytes.as_slice())
    }
}
