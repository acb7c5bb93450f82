//! The differences from a state that the user accepts.

use serde::{Deserialize, Serialize};

/// The accepted differences. Everything else must be the same.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accepted {
    /// The objects: their list, and the content of the object in which the state continues.
    pub objects: bool,
    /// The decoder: another plugin, or another version of it.
    pub decoder: bool,
    /// The decoder's options.
    pub options: bool,
    /// The fields of the records.
    pub schema: bool,
}

impl Accepted {
    /// The words for the differences.
    pub const WORDS: [&str; 4] = ["objects", "decoder", "options", "schema"];

    /// The differences that these words name.
    ///
    /// # Errors
    /// The first unknown word, and the valid words.
    pub fn of_words<S: AsRef<str>>(words: &[S]) -> Result<Self, String> {
        let mut accepted = Self::default();
        for word in words {
            let word = word.as_ref();
            *accepted.field(word).ok_or_else(|| {
                let known = Self::WORDS.join(", ");
                format!("accept: expected words of {known}, found {word:?}")
            })? = true;
        }
        Ok(accepted)
    }

    /// Whether a difference in what this word names is accepted.
    pub fn has(mut self, word: &str) -> bool {
        self.field(word).is_some_and(|accepted| *accepted)
    }

    fn field(&mut self, word: &str) -> Option<&mut bool> {
        match word {
            "objects" => Some(&mut self.objects),
            "decoder" => Some(&mut self.decoder),
            "options" => Some(&mut self.options),
            "schema" => Some(&mut self.schema),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_word_accepts_what_it_names_and_nothing_else() {
        for word in Accepted::WORDS {
            let accepted = Accepted::of_words(&[word]).unwrap();
            for other in Accepted::WORDS {
                assert_eq!(accepted.has(other), word == other);
            }
        }
        let error = Accepted::of_words(&["objects", "batch"]).unwrap_err();
        assert!(error.contains("found \"batch\""), "{error}");
    }
}
