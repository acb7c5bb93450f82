//! The options, read and checked.

use pipemill_parsing::field_spec::{FieldType, SpecOption};
use pipemill_parsing::framing::recordio::Framing;
use pipemill_plugin::{OptionSpec, Options, Scalar};

/// The options of the stream.
#[derive(Debug)]
pub(crate) struct Settings {
    /// The features, then the labels.
    pub(crate) columns: Vec<Column>,
    /// Number of features in `columns`.
    pub(crate) features: usize,
    /// Whether a sparse tensor becomes one array with its zeros.
    pub(crate) dense: bool,
    /// Whether the field `uid` is wanted.
    pub(crate) uid: bool,
    /// Whether the field `metadata` is wanted.
    pub(crate) metadata: bool,
}

/// A feature or a label that becomes a field.
#[derive(Debug)]
pub(crate) struct Column {
    /// The option that names it: `features` or `label`.
    pub(crate) option: &'static str,
    /// Name of the field.
    pub(crate) name: String,
    /// Key of the value in the record.
    pub(crate) key: String,
    /// Type and shape. `None`: they are learned from the first record.
    pub(crate) field_type: Option<FieldType>,
    /// Whether a record may lack the value.
    pub(crate) optional: bool,
    /// Whether the column is only a default: it becomes a field if the first record has it.
    pub(crate) guessed: bool,
}

/// The key that the built-in algorithms use, for features and for labels.
const DEFAULT_KEY: &str = "values";

/// The option with this name, `features` or `label`.
const fn spec_option(name: &'static str) -> SpecOption<'static> {
    SpecOption {
        name,
        example: "values:float32[784], w=weight:float32?",
        types: &[Scalar::Bytes, Scalar::Int32, Scalar::Float32, Scalar::Float64],
        logical_types: &[],
        sized_bytes: false,
        lists: false,
    }
}

/// The options that the operator may set.
pub(crate) fn specs() -> Vec<OptionSpec> {
    vec![
        OptionSpec::string(
            "features",
            Some(DEFAULT_KEY),
            "keys of the features, as in \"values:float32[784], w=weight:float32?\"; types and \
             shapes that are not given are learned from the first record",
        ),
        OptionSpec::string(
            "label",
            None,
            "keys of the labels, as for features; default: `values`, if the first record has it",
        ),
        OptionSpec::choice(
            "sparse",
            &["fields", "dense"],
            "fields",
            "the fields of a sparse tensor: its keys, values and shape; or one array with its zeros",
        ),
        OptionSpec::bool("uid", false, "a field `uid`: the record's uid, absent if it has none"),
        OptionSpec::bool(
            "metadata",
            false,
            "a field `metadata`: the record's metadata, absent if it has none",
        ),
        Framing::option(),
    ]
}

impl Settings {
    pub(crate) fn new(options: &Options) -> Result<Self, String> {
        let mut columns = columns("features", options.text("features"))?;
        let features = columns.len();
        match options.get("label") {
            Some("") => {}
            Some(label) => columns.extend(self::columns("label", label)?),
            None => {
                let labels = self::columns("label", DEFAULT_KEY)?;
                columns.extend(labels.into_iter().map(|label| Column { guessed: true, ..label }));
            }
        }
        let settings = Self {
            columns,
            features,
            dense: options.text("sparse") == "dense",
            uid: options.is_on("uid"),
            metadata: options.is_on("metadata"),
        };
        settings.check_names()?;
        Ok(settings)
    }

    fn check_names(&self) -> Result<(), String> {
        if self.columns.is_empty() && !self.uid && !self.metadata {
            return Err("options `features` and `label` leave no field; name a key in one".into());
        }
        let mut names = Vec::new();
        names.extend(self.uid.then_some("uid"));
        names.extend(self.metadata.then_some("metadata"));
        let (features, labels) = self.columns.split_at(self.features);
        for (option, columns) in [("features", features), ("label", labels)] {
            let named = columns.iter().map(|column| (&*column.name, &*column.key));
            spec_option(option).check_names(&names, named.clone())?;
            names.extend(named.map(|(name, _)| name));
        }
        Ok(())
    }
}

fn columns(option: &'static str, text: &str) -> Result<Vec<Column>, String> {
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    let columns = spec_option(option).parse(text)?.into_iter().map(|spec| {
        let name = if spec.selector == DEFAULT_KEY { option } else { &spec.selector };
        Column {
            option,
            name: spec.name.unwrap_or_else(|| name.to_owned()),
            key: spec.selector,
            field_type: spec.field_type,
            optional: spec.optional,
            guessed: false,
        }
    });
    Ok(columns.collect())
}
