//! What a decoder may be called: a name that is good for a file, for a crate and in a configuration.

use super::Language;

/// Longest name, in bytes.
const LONGEST: usize = 64;

/// Words that can't be the name of a crate that is used by its name.
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

/// Why a decoder can't be called so, and how it can; `None` if it can.
pub fn refusal_of_name(name: &str, language: Language) -> Option<String> {
    let good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
    if !name.starts_with(|c: char| c.is_ascii_lowercase())
        || !name.chars().all(good)
        || name.len() > LONGEST
    {
        return Some(format!(
            "a decoder can't be called {name:?}: a name begins with a letter and has lower-case letters, \
             digits, `-` and `_`, {LONGEST} at the most, as in `my-format`"
        ));
    }
    if language == Language::Rust && RUST_WORDS.contains(&name) {
        return Some(format!(
            "a crate can't be called `{name}`, which means something in Rust; `{name}-format` will do"
        ));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for good in ["a", "npy", "my-format", "v2_1"] {
            assert_eq!(refusal_of_name(good, Language::Rust), None);
        }
        let long = "a".repeat(LONGEST + 1);
        for bad in ["", "Npy", "7z", "-a", "a b", "a.b", "ä", &long] {
            assert!(refusal_of_name(bad, Language::C).is_some(), "{bad:?}");
        }
        assert_eq!(refusal_of_name("type", Language::C), None);
        assert!(refusal_of_name("type", Language::Rust).is_some());
    }
}
