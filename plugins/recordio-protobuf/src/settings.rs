//! The options, read and checked.

use pipemill_parsing::field_spec::{Kind, List};
use pipemill_parsing::framing::recordio::Framing;
use pipemill_plugin::{OptionSpec, Options, Scalar};

/// What the operator wants.
#[derive(Debug)]
pub(crate) struct Settings {
    /// The features, then the labels.
    pub(crate) columns: Vec<Column>,
    /// How many of them are features.
    pub(crate) features: usize,
    /// Whether sparse tensors are written out with their zeros.
    pub(crate) dense: bool,
    pub(crate) uid: bool,
    pub(crate) metadata: bool,
}

/// A feature or a label that becomes a field.
#[derive(Debug)]
pub(crate) struct Column {
    /// Option that it stands in.
    pub(crate) option: &'static str,
    /// What the field is called.
    pub(crate) name: String,
    pub(crate) key: String,
    /// Type and shape, if they are said and not to be learned.
    pub(crate) kind: Option<Kind>,
    /// Whether records may be without it.
    pub(crate) optional: bool,
    /// Nobody asked for it: it is a field if the first record has it.
    pub(crate) guessed: bool,
}

/// The key that the built-in algorithms use, for features as for labels.
const USUAL: &str = "values";

/// How such an option is written.
const fn list(option: &'static str) -> List<'static> {
    List {
        option,
        example: "values:float32[784], w=weight:float32?",
        types: &[Scalar::Bytes, Scalar::Int32, Scalar::Float32, Scalar::Float64],
        long_bytes: false,
    }
}

/// The options that the operator may set.
pub(crate) fn specs() -> Vec<OptionSpec> {
    vec![
        OptionSpec::string(
            "features",
            Some(USUAL),
            "keys of the features, as in \"values:float32[784], w=weight:float32?\"; types and \
             shapes that are not said are learned from the first record",
        ),
        OptionSpec::string(
            "label",
            None,
            "keys of the labels, likewise; else `values`, if the first record has it",
        ),
        OptionSpec::choice(
            "sparse",
            &["fields", "dense"],
            "fields",
            "what a sparse tensor becomes: fields of its keys, values and shape; or one field with \
             its zeros",
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
                let labels = self::columns("label", USUAL)?;
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
            list(option).distinct(&names, named.clone())?;
            names.extend(named.map(|(name, _)| name));
        }
        Ok(())
    }
}

fn columns(option: &'static str, text: &str) -> Result<Vec<Column>, String> {
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    let columns = list(option).parse(text)?.into_iter().map(|entry| {
        let usual = if entry.what == USUAL { option } else { &entry.what };
        Column {
            option,
            name: entry.name.unwrap_or_else(|| usual.to_owned()),
            key: entry.what,
            kind: entry.kind,
            optional: entry.optional,
            guessed: false,
        }
    });
    Ok(columns.collect())
}
