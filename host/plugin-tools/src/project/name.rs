//! The rules for a decoder's name: it must be valid as the name of a file, of a crate, and in a
//! configuration.

use super::language::Language;

/// Length of the longest name, in bytes.
const MAX_NAME_BYTES: usize = 64;

/// Words that can't be the name of a Rust crate.
const RUST_WORDS: [&str; 56] = [
    "abstract",
    "alloc",
    "as",
    "async",
    "await",
    "become",
    "box",
    "break",
    "const",
    "continue",
    "core",
    "crate",
    "do",
    "dyn",
    "else",
    "enum",
    "extern",
    "false",
    "final",
    "fn",
    "for",
    "gen",
    "if",
    "impl",
    "in",
    "let",
    "loop",
    "macro",
    "match",
    "mod",
    "move",
    "mut",
    "override",
    "priv",
    "pub",
    "ref",
    "return",
    "self",
    "static",
    "std",
    "struct",
    "super",
    "test",
    "trait",
    "true",
    "try",
    "type",
    "typeof",
    "unsafe",
    "unsized",
    "use",
    "virtual",
    "where",
    "while",
    "yield",
    "pipemill-plugin",
];

/// The reason why a decoder in this language can't have this name, and which names are possible;
/// `None` if it can.
pub fn refusal_of_name(name: &str, language: Language) -> Option<String> {
    let good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
    if !name.starts_with(|c: char| c.is_ascii_lowercase())
        || !name.chars().all(good)
        || name.len() > MAX_NAME_BYTES
    {
        return Some(format!(
            "a decoder can't be called {name:?}: a name begins with a letter and has lower-case \
             letters, digits, `-` and `_`, {MAX_NAME_BYTES} at the most, as in `my-format`"
        ));
    }
    if language == Language::Rust && RUST_WORDS.contains(&name) {
        return Some(format!(
            "a crate can't be called `{name}`, which means something in Rust; `{name}-format` will \
             do"
        ));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_rules_of_files_and_crates() {
        for good in ["a", "npy", "my-format", "v2_1"] {
            assert_eq!(refusal_of_name(good, Language::Rust), None);
        }
        let long = "a".repeat(MAX_NAME_BYTES + 1);
        for bad in ["", "Npy", "7z", "-a", "a b", "a.b", "ä", &long] {
            assert!(refusal_of_name(bad, Language::C).is_some(), "{bad:?}");
        }
        assert_eq!(refusal_of_name("type", Language::C), None);
        assert!(refusal_of_name("type", Language::Rust).is_some());
    }
}
