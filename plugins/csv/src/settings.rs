//! The options, read and checked.

use pipemill_plugin::{OptionSpec, Options, Scalar};

use crate::dialect::Dialect;

/// The record that a row becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Emit {
    /// One field per column.
    Fields,
    /// One field: the row unchanged.
    Row,
    /// One field: all columns as an array of float32.
    Dense,
}

/// Whether the first row is a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Header {
    No,
    Yes,
    /// The first rows show it.
    Auto,
}

/// The options of the stream. `specs` describes each of them.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) dialect: Dialect,
    /// Number of lines at the start of an object that are not rows.
    pub(crate) skip_rows: u64,
    pub(crate) header: Header,
    pub(crate) drop_repeated_header: bool,
    pub(crate) rename_duplicates: bool,
    pub(crate) names: Option<Vec<String>>,
    pub(crate) columns: Option<Vec<String>>,
    pub(crate) types: ColumnTypes,
    pub(crate) emit: Emit,
    pub(crate) label: Option<String>,
    pub(crate) empty_is_nan: bool,
    pub(crate) flexible: bool,
    /// Values that stand for an absent value.
    pub(crate) null: Vec<Vec<u8>>,
}

/// The types of the columns.
#[derive(Debug)]
pub(crate) struct ColumnTypes {
    /// The type of all columns that are not in `named`. If absent, the first rows show it.
    pub(crate) default: Option<Scalar>,
    /// Columns, by name or number, with their types.
    pub(crate) named: Vec<(String, Scalar)>,
}

/// The options that the operator may set.
pub(crate) fn specs() -> Vec<OptionSpec> {
    let (text, flag, choice) = (OptionSpec::string, OptionSpec::bool, OptionSpec::choice);
    vec![
        choice(
            "emit",
            &["fields", "row", "dense"],
            "fields",
            "the record of a row: one field per column; its bytes as one field `row`; its columns as \
             one field `x` of float32",
        ),
        choice(
            "header",
            &["false", "true", "auto"],
            "false",
            "the first row names the columns and is no record; auto: if the rows after it have other \
             types",
        ),
        flag(
            "drop_repeated_header",
            false,
            "drop later rows that are equal to the header, as in concatenated files",
        ),
        flag(
            "rename_duplicates",
            false,
            "a name that the header has again gets a number: a, a_1, a_2",
        ),
        OptionSpec::int(
            "skip_rows",
            Some("0"),
            "lines to skip at the start of each object, before the header",
        ),
        text(
            "names",
            None,
            "names of the columns, with commas between them; default: the header's, or f0, f1, …",
        ),
        text(
            "columns",
            None,
            "the columns to emit, in this order: names or numbers from 0, with commas between them; \
             default: all",
        ),
        text(
            "types",
            Some("utf8"),
            "bytes, utf8, boolean, int32, int64, float32, float64, or auto (by the first rows), for \
             all columns, or for one, as in \"float32,id:int64\"",
        ),
        text(
            "null",
            None,
            "values that mean that there is none, with commas between them; \"\" is empty text",
        ),
        text(
            "label",
            None,
            "with emit = \"dense\": this column becomes the field `y` and is not in `x`",
        ),
        choice(
            "empty",
            &["error", "nan"],
            "error",
            "with emit = \"dense\": whether an empty field is an error or NaN; nan also takes the words \
             of `null`",
        ),
        flag("flexible", false, "take rows with fewer or more fields than the first"),
        text("delimiter", Some(","), "separates fields: a byte, or \"tab\""),
        text("quote", Some("\""), "encloses fields that contain delimiters: a byte, or \"none\""),
        flag("double_quote", true, "two quotes in a quoted field mean one"),
        text("escape", Some("none"), "makes the next byte text: a byte, or \"none\""),
        text("comment", Some("none"), "starts a line that is no row: a byte, or \"none\""),
        flag("lone_cr", false, "a CR without LF also ends a row"),
        choice("decimal", &[".", ","], ".", "the point of numbers"),
    ]
}

impl Settings {
    pub(crate) fn new(options: &Options) -> Result<Self, String> {
        let settings = Self {
            dialect: dialect(options)?,
            skip_rows: options.int("skip_rows").unwrap_or(0),
            header: match options.text("header") {
                "true" => Header::Yes,
                "auto" => Header::Auto,
                _ => Header::No,
            },
            drop_repeated_header: options.is_on("drop_repeated_header"),
            rename_duplicates: options.is_on("rename_duplicates"),
            names: list(options, "names")?,
            columns: list(options, "columns")?,
            types: types(options.text("types"))?,
            emit: match options.text("emit") {
                "row" => Emit::Row,
                "dense" => Emit::Dense,
                _ => Emit::Fields,
            },
            label: options.get("label").map(str::to_owned),
            empty_is_nan: options.text("empty") == "nan",
            flexible: options.is_on("flexible"),
            null: words(options, "null").into_iter().map(String::into_bytes).collect(),
        };
        settings.check(options)?;
        Ok(settings)
    }

    /// Whether the first rows must show something that the options don't say.
    pub(crate) fn learns(&self) -> bool {
        self.header == Header::Auto || self.types.default.is_none()
    }

    /// Whether the columns of a row are known without a header and without the first row: from the
    /// options, or from the fields of earlier records.
    pub(crate) fn knows_columns(&self) -> bool {
        self.names.is_some()
            || match self.emit {
                Emit::Row => true,
                Emit::Fields => self.columns.is_none(),
                Emit::Dense => self.columns.is_none() && !self.flexible,
            }
    }

    /// Refuses combinations of options that have no meaning.
    fn check(&self, options: &Options) -> Result<(), String> {
        for (name, set) in [
            ("drop_repeated_header", self.drop_repeated_header),
            ("rename_duplicates", self.rename_duplicates),
        ] {
            if set && self.header == Header::No {
                return Err(format!("option `{name}` needs header = true"));
            }
        }
        let untyped = matches!(options.text("types"), "utf8" | "bytes");
        let meaningless = match self.emit {
            Emit::Row => [
                ("names", self.names.is_some()),
                ("columns", self.columns.is_some()),
                ("types", !untyped),
                ("label", self.label.is_some()),
                ("empty", self.empty_is_nan),
                ("flexible", self.flexible),
                ("null", !self.null.is_empty()),
                ("decimal", self.dialect.decimal_comma),
            ]
            .to_vec(),
            Emit::Dense => {
                vec![("types", !untyped), ("null", !self.null.is_empty() && !self.empty_is_nan)]
            }
            Emit::Fields => vec![("label", self.label.is_some()), ("empty", self.empty_is_nan)],
        };
        match meaningless.iter().find(|(_, set)| *set) {
            Some((name, _)) if self.emit == Emit::Dense && *name == "null" => {
                Err("option `null` needs empty = \"nan\" with emit = \"dense\"".to_owned())
            }
            Some((name, _)) => Err(format!(
                "option `{name}` has no meaning with emit = {:?}",
                options.text("emit")
            )),
            None => Ok(()),
        }
    }
}

fn dialect(options: &Options) -> Result<Dialect, String> {
    let dialect = Dialect {
        delimiter: byte(options, "delimiter")?.ok_or_else(|| no_byte(options, "delimiter"))?,
        quote: byte(options, "quote")?,
        escape: byte(options, "escape")?,
        double_quote: options.is_on("double_quote"),
        comment: byte(options, "comment")?,
        lone_cr: options.is_on("lone_cr"),
        decimal_comma: options.text("decimal") == ",",
        text_after_quote: options.text("emit") == "row",
    };
    let used = [
        ("delimiter", Some(dialect.delimiter)),
        ("quote", dialect.quote),
        ("escape", dialect.escape),
        ("comment", dialect.comment),
    ];
    for (i, (name, value)) in used.iter().enumerate() {
        let same = used[..i].iter().find(|(_, other)| value.is_some() && other == value);
        if let Some((other, _)) = same {
            return Err(format!(
                "options `{other}` and `{name}` are the same byte; they must differ"
            ));
        }
    }
    Ok(dialect)
}

/// The byte that an option names; `None` for "none".
fn byte(options: &Options, name: &str) -> Result<Option<u8>, String> {
    match (options.text(name), options.text(name).as_bytes()) {
        ("none", _) => Ok(None),
        ("tab" | "\\t", _) => Ok(Some(b'\t')),
        (_, [byte]) if !matches!(byte, b'\r' | b'\n') => Ok(Some(*byte)),
        _ => Err(no_byte(options, name)),
    }
}

fn no_byte(options: &Options, name: &str) -> String {
    let words = if name == "delimiter" { ", or \"tab\"" } else { ", \"tab\" or \"none\"" };
    let value = options.text(name);
    format!("option `{name}` takes one byte of ASCII that is no line end{words}, not {value:?}")
}

/// The words of an option that is a list; one of them may be empty.
fn words(options: &Options, name: &str) -> Vec<String> {
    let Some(text) = options.get(name) else { return Vec::new() };
    text.split(',').map(|word| word.trim().to_owned()).collect()
}

/// The names of an option that is a list; `None` if the option is not set.
fn list(options: &Options, name: &str) -> Result<Option<Vec<String>>, String> {
    let Some(text) = options.get(name) else { return Ok(None) };
    let words = words(options, name);
    if words.iter().any(String::is_empty) {
        return Err(format!("option `{name}` takes names with a comma between them, not {text:?}"));
    }
    for (i, word) in words.iter().enumerate() {
        if words[..i].contains(word) {
            return Err(format!("option `{name}` has `{word}` twice"));
        }
    }
    Ok(Some(words))
}

fn types(text: &str) -> Result<ColumnTypes, String> {
    let mut types = ColumnTypes { default: Some(Scalar::Utf8), named: Vec::new() };
    let mut of_all = None;
    for word in text.split(',').map(str::trim) {
        if let Some((column, name)) = word.rsplit_once(':') {
            let column = column.trim();
            if types.named.iter().any(|(named, _)| named == column) {
                return Err(format!("option `types` has column `{column}` twice"));
            }
            types.named.push((column.to_owned(), scalar(name.trim())?));
            continue;
        }
        types.default = if word == "auto" { None } else { Some(scalar(word)?) };
        if let Some(before) = of_all.replace(word) {
            return Err(format!(
                "option `types` has two types for all columns, {before} and {word}; the type of one \
                 column follows its name or number, as in \"float32,id:int64\" or \"0:int64\""
            ));
        }
    }
    Ok(types)
}

fn scalar(name: &str) -> Result<Scalar, String> {
    Ok(match name {
        "bytes" => Scalar::Bytes,
        "utf8" => Scalar::Utf8,
        "boolean" => Scalar::Boolean,
        "int32" => Scalar::Int32,
        "int64" => Scalar::Int64,
        "float32" => Scalar::Float32,
        "float64" => Scalar::Float64,
        _ => {
            return Err(format!(
                "option `types` knows bytes, utf8, boolean, int32, int64, float32, float64, and auto \
                 for all columns, not {name:?}"
            ));
        }
    })
}
