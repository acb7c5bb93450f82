//! The companions of an object: objects that lie in its folder, and that its decoder is shown
//! together with it. Their names follow from the object's name: see [`CompanionRule`].

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::printable;

/// Where a companion lies: an object whose name ends with `object` has the companion whose name
/// ends with `companion` in place of it. `.bin` and `.idx`: the companion of `a.bin` is `a.idx`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompanionRule {
    /// The end of the object's name.
    pub object: String,
    /// The end of its companion's name.
    pub companion: String,
}

/// The rules for the companions of a decoder's objects, in their order. Each object has a companion
/// by each rule. There may be none. Cheap to clone.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<CompanionRule>", into = "Vec<CompanionRule>")]
pub struct Companions(Option<Arc<[CompanionRule]>>);

/// Most companions of an object.
pub const MAX_COMPANIONS: usize = 4;
/// Longest end of a name, in bytes.
const MAX_END_BYTES: usize = 64;

impl Companions {
    /// These rules, if each of them can name nothing but other objects in the object's folder.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn new(rules: Vec<CompanionRule>) -> Result<Self, String> {
        if rules.len() > MAX_COMPANIONS {
            let count = rules.len();
            return Err(format!(
                "wants {count} companions of an object; {MAX_COMPANIONS} are possible"
            ));
        }
        for CompanionRule { object, companion } in &rules {
            for end in [object, companion] {
                check_end(end)?;
            }
            let is_end_of_another = rules.iter().any(|other| {
                other.object.ends_with(companion.as_str()) || companion.ends_with(&other.object)
            });
            if is_end_of_another {
                return Err(format!(
                    "wants companions whose names end with {companion:?}, of objects whose names \
                     end with {object:?}: a name can't tell which of them it is of"
                ));
            }
        }
        let ends = || rules.iter().map(|rule| &rule.companion).enumerate();
        let is_twice = |(at, end): (usize, &String)| {
            ends().any(|(other, found)| other != at && found.ends_with(end.as_str()))
        };
        if let Some((_, end)) = ends().find(|end| is_twice(*end)) {
            return Err(format!("wants several companions whose names end with {end:?}"));
        }
        Ok(Self((!rules.is_empty()).then(|| rules.into())))
    }

    /// The rules.
    pub fn rules(&self) -> &[CompanionRule] {
        self.0.as_deref().unwrap_or_default()
    }

    /// Whether objects have no companions.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// The names of the companions of an object, in the order of the rules.
    ///
    /// # Errors
    /// The rule by which the object has no companion.
    pub fn of(&self, object: &[u8]) -> Result<Vec<Vec<u8>>, &CompanionRule> {
        let name = |rule| renamed(object, rule_ends(rule)).ok_or(rule);
        self.rules().iter().map(name).collect()
    }

    /// The name of the object whose companion has this name. `None` if the name is of no companion.
    pub fn object_of(&self, companion: &[u8]) -> Option<Vec<u8>> {
        self.rules().iter().find_map(|rule| {
            let (object, end) = rule_ends(rule);
            renamed(companion, (end, object))
        })
    }
}

impl TryFrom<Vec<CompanionRule>> for Companions {
    type Error = String;

    fn try_from(rules: Vec<CompanionRule>) -> Result<Self, String> {
        Self::new(rules)
    }
}

impl From<Companions> for Vec<CompanionRule> {
    fn from(companions: Companions) -> Self {
        companions.rules().to_vec()
    }
}

impl fmt::Display for CompanionRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` in place of `{}`", printable(&self.companion), printable(&self.object))
    }
}

fn rule_ends(rule: &CompanionRule) -> (&[u8], &[u8]) {
    (rule.object.as_bytes(), rule.companion.as_bytes())
}

/// The name with another end. `None` if it has not the end, or if nothing of it is left before it.
fn renamed(name: &[u8], (end, other): (&[u8], &[u8])) -> Option<Vec<u8>> {
    let stem = name.strip_suffix(end)?;
    if matches!(stem, [] | [.., b'/']) {
        return None;
    }
    Some([stem, other].concat())
}

/// Checks the end of a name. With it, a name stays in its folder: it has no `/`, and something
/// before the end, so that it is none of the names `.` and `..`.
fn check_end(end: &str) -> Result<(), String> {
    let is_name = |end: &str| {
        (1..=MAX_END_BYTES).contains(&end.len())
            && !end.contains(|letter: char| letter == '/' || letter.is_control())
            && end.contains(|letter: char| letter != '.')
    };
    if is_name(end) {
        return Ok(());
    }
    let end: String = end.chars().take(MAX_END_BYTES).collect();
    Err(format!(
        "wants companions by the end `{}` of a name; expected 1 to {MAX_END_BYTES} bytes without \
         `/`, not only dots",
        printable(&end)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(pairs: &[(&str, &str)]) -> Result<Companions, String> {
        let rule = |(object, companion): &(&str, &str)| CompanionRule {
            object: (*object).to_owned(),
            companion: (*companion).to_owned(),
        };
        Companions::new(pairs.iter().map(rule).collect())
    }

    #[test]
    fn a_companion_lies_beside_its_object() {
        let companions = rules(&[(".bin", ".idx"), (".bin", "-more.json")]).unwrap();
        for (object, expected) in [
            ("a.bin", Some(["a.idx", "a-more.json"])),
            ("d/a.bin", Some(["d/a.idx", "d/a-more.json"])),
            ("s3://b/p/a.b.bin", Some(["s3://b/p/a.b.idx", "s3://b/p/a.b-more.json"])),
            ("a.bin.gz", None),
            ("a.idx", None),
            (".bin", None),
            ("d/.bin", None),
        ] {
            let found = companions.of(object.as_bytes()).ok();
            let expected =
                expected.map(|names| names.map(|name| name.as_bytes().to_vec()).to_vec());
            assert_eq!(found, expected, "{object}");
            for companion in expected.into_iter().flatten() {
                assert_eq!(companions.object_of(&companion), Some(object.as_bytes().to_vec()));
            }
        }
        assert_eq!(companions.object_of(b"a.bin"), None);
        assert_eq!(companions.object_of(b".idx"), None);
        assert!(rules(&[]).unwrap().is_empty());
    }

    #[test]
    fn a_rule_that_could_name_something_else_is_refused() {
        let long = "x".repeat(65);
        for (pairs, text) in [
            (&[(".bin", "/../x")][..], "without `/`"),
            (&[(".bin", "..")], "not only dots"),
            (&[("", ".idx")], "1 to 64 bytes"),
            (&[(".bin", "")], "1 to 64 bytes"),
            (&[(".bin", long.as_str())], "1 to 64 bytes"),
            (&[(".bin", "\0")], "without `/`"),
            (&[(".bin", ".bin")], "can't tell"),
            (&[(".bin", ".x.bin")], "can't tell"),
            (&[(".x.bin", ".bin")], "can't tell"),
            (&[(".bin", ".a"), (".idx", ".x.bin")], "can't tell"),
            (&[(".bin", ".idx"), (".dat", ".idx")], "several companions"),
            (
                &[(".bin", ".1"), (".bin", ".2"), (".bin", ".3"), (".bin", ".4"), (".bin", ".5")],
                "5 companions",
            ),
        ] {
            let why = rules(pairs).expect_err("it is refused");
            assert!(why.contains(text), "{why}");
        }
    }
}
