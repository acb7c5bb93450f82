//! What may differ from what it was when a state was taken, because the user says so.

use serde::{Deserialize, Serialize};

/// What a user accepts. All that is not accepted has to be the same.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accepted {
    /// The objects: their list, and the content of the one that the state goes on in.
    pub objects: bool,
    /// The decoder: another plugin, or another version of it.
    pub decoder: bool,
    /// The decoder's options.
    pub options: bool,
    /// The fields of the records.
    pub schema: bool,
}

impl Accepted {
    /// The words for what can be accepted.
    pub const WORDS: [&str; 4] = ["objects", "decoder", "options", "schema"];

    /// What these words name.
    ///
    /// # Errors
    /// The text of the first word that names nothing, and the words that do.
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
