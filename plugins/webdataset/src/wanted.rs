//! The option `fields`: the members of a sample that become fields.

use pipemill_parsing::field_spec::{FieldSpec, SpecOption};
use pipemill_plugin::{Field, Options, Scalar};

/// Name of the field that has a sample's key, as in webdataset.
const KEY: &str = "__key__";

const FIELDS: SpecOption = SpecOption {
    name: "fields",
    example: "jpg;png,cls:utf8,meta.json?",
    types: &[Scalar::Bytes, Scalar::Utf8],
    logical_types: &[],
    sized_bytes: false,
    lists: false,
};

/// The fields of a sample.
#[derive(Debug)]
pub(crate) struct Wanted {
    /// Whether the first field is the key.
    pub(crate) key: bool,
    pub(crate) members: Vec<WantedMember>,
}

/// A field that is a member.
#[derive(Debug)]
pub(crate) struct WantedMember {
    name: String,
    /// The extensions that the member may have, in lower case. The first one that the sample has is
    /// used.
    pub(crate) extensions: Vec<String>,
    /// Whether the member must be UTF-8.
    pub(crate) utf8: bool,
    /// Whether a sample may lack the member.
    pub(crate) optional: bool,
}

impl Wanted {
    /// The fields that the options name. An error is a text for the operator.
    pub(crate) fn new(options: &Options) -> Result<Self, String> {
        let text = options.get("fields").ok_or_else(|| {
            "which members of a sample are wanted must be said: set the option `fields`, as in \
             fields = \"jpg,cls:utf8,json?\""
                .to_owned()
        })?;
        let specs = FIELDS.parse(text)?;
        let members = specs.iter().map(member).collect::<Result<Vec<_>, _>>()?;
        let all: Vec<_> = members.iter().flat_map(|member| &member.extensions).collect();
        if let Some((_, twice)) =
            all.iter().enumerate().find(|(index, one)| all[..*index].contains(one))
        {
            return Err(FIELDS.duplicate_selector(twice));
        }
        let key = options.is_on("key");
        let named = members.iter().zip(&specs).map(|(one, spec)| (&*one.name, &*spec.selector));
        FIELDS.check_names(if key { &[KEY] } else { &[] }, named)?;
        Ok(Self { key, members })
    }

    pub(crate) fn schema(&self) -> Vec<Field> {
        let key = self.key.then(|| Field::new(KEY, Scalar::Utf8));
        let members = self.members.iter().map(|member| {
            let scalar = if member.utf8 { Scalar::Utf8 } else { Scalar::Bytes };
            Field { nullable: member.optional, ..Field::new(member.name.clone(), scalar) }
        });
        key.into_iter().chain(members).collect()
    }
}

fn member(spec: &FieldSpec) -> Result<WantedMember, String> {
    let FieldSpec { name, selector, field_type, optional } = spec;
    let extensions: Vec<_> = selector
        .split(';')
        .map(str::trim)
        .map(|extension| extension.strip_prefix('.').unwrap_or(extension).to_lowercase())
        .collect();
    if extensions.iter().any(|extension| extension.is_empty() || extension.contains('/')) {
        return Err(format!(
            "option `fields` takes extensions, as in \"jpg;png,cls:utf8,meta.json\", not {selector:?}"
        ));
    }
    let utf8 = field_type.as_ref().is_some_and(|kind| kind.scalar == Scalar::Utf8);
    let name = name.clone().unwrap_or_else(|| extensions[0].clone());
    Ok(WantedMember { name, extensions, utf8, optional: *optional })
}
