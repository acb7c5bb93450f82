//! The option `fields`: which members of a sample become which fields.

use pipemill_parsing::field_spec::{Entry, List};
use pipemill_plugin::{Field, Options, Scalar};

/// The name of the field with a sample's key, as in webdataset.
const KEY: &str = "__key__";

/// How the option is written.
const LIST: List = List {
    option: "fields",
    example: "jpg;png,cls:utf8,meta.json?",
    types: &[Scalar::Bytes, Scalar::Utf8],
    long_bytes: false,
};

/// The fields of a sample.
#[derive(Debug)]
pub(crate) struct Wanted {
    /// Whether the key is the first one.
    pub(crate) key: bool,
    pub(crate) members: Vec<WantedMember>,
}

/// A field that is a member.
#[derive(Debug)]
pub(crate) struct WantedMember {
    name: String,
    /// Its extensions, in lower case; the first that the sample has counts.
    pub(crate) extensions: Vec<String>,
    pub(crate) utf8: bool,
    pub(crate) optional: bool,
}

impl Wanted {
    pub(crate) fn new(options: &Options) -> Result<Self, String> {
        let text = options.get("fields").ok_or_else(|| {
            "which members of a sample are wanted must be said: set the option `fields`, as in \
             fields = \"jpg,cls:utf8,json?\""
                .to_owned()
        })?;
        let entries = LIST.parse(text)?;
        let members = entries.iter().map(member).collect::<Result<Vec<_>, _>>()?;
        let all: Vec<_> = members.iter().flat_map(|member| &member.extensions).collect();
        if let Some((_, twice)) =
            all.iter().enumerate().find(|(index, one)| all[..*index].contains(one))
        {
            return Err(LIST.twice(twice));
        }
        let key = options.is_on("key");
        let named = members.iter().zip(&entries).map(|(one, entry)| (&*one.name, &*entry.what));
        LIST.distinct(if key { &[KEY] } else { &[] }, named)?;
        Ok(Self { key, members })
    }

    pub(crate) fn schema(&self) -> Vec<Field> {
        let key = self.key.then(|| Field::new(KEY, Scalar::Utf8));
        let members = self.members.iter().map(|member| {
            let scalar = if member.utf8 { Scalar::Utf8 } else { Scalar::Bytes };
            Field::new(member.name.clone(), scalar)
        });
        key.into_iter().chain(members).collect()
    }
}

fn member(entry: &Entry) -> Result<WantedMember, String> {
    let Entry { name, what, kind, optional } = entry;
    let extensions: Vec<_> = what
        .split(';')
        .map(str::trim)
        .map(|extension| extension.strip_prefix('.').unwrap_or(extension).to_lowercase())
        .collect();
    if extensions.iter().any(|extension| extension.is_empty() || extension.contains('/')) {
        return Err(format!(
            "option `fields` takes extensions, as in \"jpg;png,cls:utf8,meta.json\", not {what:?}"
        ));
    }
    let utf8 = kind.as_ref().is_some_and(|kind| kind.scalar == Scalar::Utf8);
    let name = name.clone().unwrap_or_else(|| extensions[0].clone());
    Ok(WantedMember { name, extensions, utf8, optional: *optional })
}
