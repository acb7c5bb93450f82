//! Options: declared by the decoder, set by the operator, checked by the host, read here.

use std::collections::BTreeMap;

/// What values an option takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OptionKind {
    /// Any text.
    String,
    /// `true` or `false`.
    Bool,
    /// A whole number, not negative.
    Int,
    /// One of these words.
    Choice(Vec<&'static str>),
}

/// An option that a decoder takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OptionSpec {
    /// Its name in the configuration.
    pub name: &'static str,
    /// What values it takes.
    pub kind: OptionKind,
    /// Its value where the operator sets none.
    pub default: Option<&'static str>,
    /// One line of help.
    pub help: &'static str,
}

impl OptionSpec {
    /// An option of any text.
    pub fn string(name: &'static str, default: Option<&'static str>, help: &'static str) -> Self {
        Self { name, kind: OptionKind::String, default, help }
    }
    /// An option that is on or off.
    pub fn bool(name: &'static str, default: bool, help: &'static str) -> Self {
        let default = Some(if default { "true" } else { "false" });
        Self { name, kind: OptionKind::Bool, default, help }
    }
    /// An option with a whole number.
    pub fn int(name: &'static str, default: Option<&'static str>, help: &'static str) -> Self {
        Self { name, kind: OptionKind::Int, default, help }
    }
    /// An option with one of a few words.
    pub fn choice(
        name: &'static str,
        words: &[&'static str],
        default: &'static str,
        help: &'static str,
    ) -> Self {
        Self { name, kind: OptionKind::Choice(words.to_vec()), default: Some(default), help }
    }
}

/// The options of a stream: the operator's values, then the defaults.
#[derive(Debug, Clone, Default)]
pub struct Options {
    values: BTreeMap<String, String>,
}

impl Options {
    /// Joins the operator's values with the defaults of `specs`, and refuses what those don't allow.
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
        Ok(Self { values })
    }

    /// The value of an option, if it has one.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }
    /// The value of an option, or the empty string.
    pub fn text(&self, name: &str) -> &str {
        self.get(name).unwrap_or("")
    }
    /// Whether an option is `true`.
    pub fn is_on(&self, name: &str) -> bool {
        self.get(name) == Some("true")
    }
    /// The number an option has, if any.
    pub fn int(&self, name: &str) -> Option<u64> {
        self.get(name).and_then(|value| value.parse().ok())
    }
}

fn check(spec: &OptionSpec, value: &str) -> Result<(), String> {
    let wants = match &spec.kind {
        OptionKind::String => return Ok(()),
        OptionKind::Bool if matches!(value, "true" | "false") => return Ok(()),
        OptionKind::Int if value.parse::<u64>().is_ok() => return Ok(()),
        OptionKind::Choice(words) if words.contains(&value) => return Ok(()),
        OptionKind::Bool => "true or false".to_owned(),
        OptionKind::Int => "a whole number".to_owned(),
        OptionKind::Choice(words) => format!("one of {}", words.join(", ")),
    };
    Err(format!("option `{}` takes {wants}, not {value:?}", spec.name))
}
