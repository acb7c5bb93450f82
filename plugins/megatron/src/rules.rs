//! What a record is, according to the options.

use pipemill_plugin::{Field, OptionSpec, Options, Scalar};

/// What a record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Records {
    /// A sequence.
    Sequences,
    /// A document: its sequences, one after the other.
    Documents,
    /// This many tokens, from one or more sequences.
    Tokens {
        length: u32,
        /// Whether the last tokens are left out if they are fewer. Otherwise they are an error.
        drop_tail: bool,
    },
}

/// The options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rules {
    pub(crate) records: Records,
}

impl Rules {
    pub(crate) fn options() -> Vec<OptionSpec> {
        vec![
            OptionSpec::choice(
                "records",
                &["sequence", "document"],
                "sequence",
                "what a record is: a sequence of the dataset, or a document, which is one or more \
                 sequences",
            ),
            OptionSpec::int(
                "length",
                None,
                "tokens of a record: all tokens of the dataset are cut into records of this many; \
                 `document` then has the document of each token",
            ),
            OptionSpec::choice(
                "tail",
                &["error", "drop"],
                "error",
                "what to do with tokens at the end of an object that are fewer than `length`",
            ),
        ]
    }

    pub(crate) fn of(options: &Options) -> Result<Self, String> {
        let is_of_documents = options.text("records") == "document";
        let drop_tail = options.text("tail") == "drop";
        let records = match options.int("length") {
            Some(length) => {
                let length = u32::try_from(length).ok().filter(|length| *length > 0);
                let length = length.ok_or_else(|| {
                    let given = options.text("length");
                    format!("option `length` takes a number from 1 to {}, not {given}", u32::MAX)
                })?;
                if is_of_documents {
                    return Err("option `records` has no meaning with `length`: a record is that \
                                many tokens"
                        .to_owned());
                }
                Records::Tokens { length, drop_tail }
            }
            None if drop_tail => {
                return Err("option `tail` has no meaning without `length`".to_owned());
            }
            None if is_of_documents => Records::Documents,
            None => Records::Sequences,
        };
        Ok(Self { records })
    }

    /// The fields of a record.
    pub(crate) fn fields(self, scalar: Scalar) -> Vec<Field> {
        let document = Field::new("document", Scalar::Uint64);
        let (length, document) = match self.records {
            Records::Tokens { length, .. } => (length, document.shaped([length])),
            // Any number.
            Records::Sequences | Records::Documents => (0, document),
        };
        vec![Field::new("tokens", scalar).shaped([length]).logical("tokens"), document]
    }
}
