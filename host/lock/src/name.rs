//! The names and versions that plugins can have: they stand in configurations, on command lines and
//! in messages, so they have no characters that mean something there.

use std::fmt;

/// Largest length of a name and of a version in bytes.
const MAX_BYTES: usize = 64;
/// A text with this ending is a path, wherever a decoder is named.
const PATH_ENDING: &str = ".wasm";

/// The name of a plugin in a lock file: a name, and a version if the plugin's file has one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PluginName {
    name: String,
    /// Empty if the plugin has none.
    version: String,
}

impl PluginName {
    /// Checks a name and a version. An empty version stands for none.
    ///
    /// # Errors
    /// The name or the version has other characters than those of the rule, is too long, or would
    /// be read as a path. The error says what the rule is.
    pub fn new(name: &str, version: &str) -> Result<Self, String> {
        check("name", name, "._-")?;
        if !version.is_empty() {
            check("version", version, ".+_-")?;
        }
        Ok(Self { name: name.to_owned(), version: version.to_owned() })
    }

    /// The name without its version.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The version; empty if the plugin has none.
    pub fn version(&self) -> &str {
        &self.version
    }
}

/// `name@version`, or `name` if it has no version: the form in which a configuration names it.
impl fmt::Display for PluginName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.version.as_str() {
            "" => f.write_str(&self.name),
            version => write!(f, "{}@{version}", self.name),
        }
    }
}

/// What a person asks for: a name, and perhaps one version of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WantedPlugin<'a> {
    name: &'a str,
    version: Option<&'a str>,
}

impl<'a> WantedPlugin<'a> {
    /// The decoder of this text. `None` if the text is a path.
    pub fn of(text: &'a str) -> Option<Self> {
        if text.contains('/') || text.ends_with(PATH_ENDING) {
            return None;
        }
        let (name, version) = match text.split_once('@') {
            Some((name, version)) => (name, Some(version)),
            None => (text, None),
        };
        Some(Self { name, version })
    }

    /// The name without its version.
    pub fn name(&self) -> &'a str {
        self.name
    }

    /// Whether it asks for one version.
    pub fn has_version(&self) -> bool {
        self.version.is_some()
    }

    /// Whether this plugin is one that it asks for.
    pub fn fits(&self, plugin: &PluginName) -> bool {
        plugin.name == self.name && self.version.is_none_or(|version| plugin.version == version)
    }
}

/// Checks a name or a version.
fn check(what: &str, text: &str, marks: &str) -> Result<(), String> {
    let is_good = |c: char| c.is_ascii_alphanumeric() || marks.contains(c);
    let begins_well = text.starts_with(|c: char| c.is_ascii_alphanumeric());
    if begins_well
        && text.len() <= MAX_BYTES
        && text.chars().all(is_good)
        && !text.ends_with(PATH_ENDING)
    {
        return Ok(());
    }
    let shown = pipemill_types::printable(text);
    let marks: Vec<_> = marks.chars().map(|c| format!("`{c}`")).collect();
    Err(format!(
        "the {what} `{shown}` is not possible: a {what} has 1 to {MAX_BYTES} letters, digits, {}, \
         begins with a letter or digit, and does not end with {PATH_ENDING}",
        marks.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_have_no_characters_that_mean_something_else() {
        for (name, version) in [("a", ""), ("my-format_2.x", "1.2.3-rc.1+build_7"), ("9", "0")] {
            assert!(PluginName::new(name, version).is_ok(), "{name} {version}");
        }
        let long = "x".repeat(65);
        for name in
            ["", "a b", "a/b", "../x", ".a", "-a", "a@1", "a.wasm", "é", "a\n", "$a", &*long]
        {
            let why = PluginName::new(name, "1").expect_err(name);
            assert!(why.contains("the name `") && !why.contains('\n'), "{why}");
        }
        for version in ["1 2", "1@2", "/", "v1.wasm", "1\u{1b}", "$", "-1"] {
            assert!(PluginName::new("a", version).is_err(), "{version}");
        }
    }

    proptest! {
        #[test]
        fn a_plugin_is_found_by_what_is_shown_of_it(
            name in "[a-z0-9][a-z0-9._-]{0,20}", version in "([0-9][0-9a-z.+_-]{0,20})?",
        ) {
            if let Ok(plugin) = PluginName::new(&name, &version) {
                let shown = plugin.to_string();
                let wanted = WantedPlugin::of(&shown).expect("no path");
                prop_assert!(wanted.fits(&plugin));
                prop_assert!(WantedPlugin::of(&name).expect("no path").fits(&plugin));
                prop_assert_eq!(wanted.has_version(), !version.is_empty());
            }
        }
    }
}
