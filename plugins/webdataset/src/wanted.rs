//! The option `fields`: the members of a sample that become fields, and how.

use pipemill_parsing::field_spec::{FieldSpec, FieldType, SpecOption, join_type_names};
use pipemill_parsing::json::{self, JsonField, JsonValues};
use pipemill_parsing::pointers::pointer_keys;
use pipemill_plugin::{Field, Options, Scalar};

use crate::array::Arrays;

/// Name of the field that has a sample's key, as in webdataset.
const KEY: &str = "__key__";

const FIELDS: SpecOption = SpecOption {
    name: "fields",
    example: "jpg;png,cls:int64,x.npy:float32[3,4],id=json/meta/id:int64,txt:utf8?",
    types: &[
        Scalar::Bytes,
        Scalar::Utf8,
        Scalar::Boolean,
        Scalar::Int8,
        Scalar::Int16,
        Scalar::Int32,
        Scalar::Int64,
        Scalar::Uint8,
        Scalar::Uint16,
        Scalar::Uint32,
        Scalar::Uint64,
        Scalar::Float16,
        Scalar::Float32,
        Scalar::Float64,
    ],
    logical_types: &[],
    sized_bytes: false,
    lists: true,
};

/// The types that a member of text can have.
const NUMBERS: &[Scalar] = &[Scalar::Int32, Scalar::Int64, Scalar::Float32, Scalar::Float64];

/// The fields of a sample.
#[derive(Debug)]
pub(crate) struct Wanted {
    /// Whether the first field is the key.
    pub(crate) key: bool,
    pub(crate) members: Vec<WantedMember>,
    /// The members that are JSON texts. A sample's texts are parsed before its fields are emitted.
    pub(crate) texts: Vec<JsonMember>,
}

/// A field that is a member, or a part of one.
#[derive(Debug)]
pub(crate) struct WantedMember {
    name: String,
    /// The extensions that the member may have, in lower case. The first one that the sample has is
    /// used.
    pub(crate) extensions: Vec<String>,
    pub(crate) form: Form,
    /// Whether a sample may lack the member or the value.
    pub(crate) optional: bool,
}

/// How a member becomes a field.
#[derive(Debug)]
pub(crate) enum Form {
    /// The bytes of the member.
    Bytes,
    /// The bytes of the member, which must be UTF-8.
    Utf8,
    /// A number that is written as text.
    Number(Scalar),
    /// An array of NumPy.
    Array(Arrays),
    /// A value of a JSON text: an index of [`Wanted::texts`], and the wanted value.
    Json(usize, JsonField),
}

/// A member that is a JSON text, and its values in the last sample that was parsed.
#[derive(Debug)]
pub(crate) struct JsonMember {
    pub(crate) extensions: Vec<String>,
    pub(crate) values: JsonValues,
}

/// A field spec, and the parts of its selector.
struct Selected {
    spec: FieldSpec,
    extensions: Vec<String>,
    /// For a value of a JSON text: the keys of its pointer.
    pointer: Option<Vec<String>>,
}

/// The form of the members of an extension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Text,
    Json,
    Npy,
}

impl Format {
    /// The format that the last part of an extension shows.
    fn of(extension: &str) -> Self {
        match extension.rsplit('.').next() {
            Some("json") => Self::Json,
            Some("npy") => Self::Npy,
            _ => Self::Text,
        }
    }
}

impl Wanted {
    /// The fields that the options name. An error is a message for the operator.
    pub(crate) fn new(options: &Options) -> Result<Self, String> {
        let text = options.get("fields").ok_or_else(|| {
            "which members of a sample are wanted must be said: set the option `fields`, as in \
             fields = \"jpg,cls:int64,json?\""
                .to_owned()
        })?;
        let specs = FIELDS.parse_with_bool_arrays(text)?;
        let specs = specs.into_iter().map(Selected::new).collect::<Result<Vec<_>, _>>()?;
        check_duplicates(&specs)?;
        let nan = options.is_on("nan");
        let texts = json_members(&specs, nan);
        let members = specs.iter().map(|selected| selected.member(&texts, nan));
        let members = members.collect::<Result<Vec<_>, _>>()?;
        let key = options.is_on("key");
        let selectors = specs.iter().map(|selected| &*selected.spec.selector);
        let named = members.iter().map(|one| &*one.name).zip(selectors);
        FIELDS.check_names(if key { &[KEY] } else { &[] }, named)?;
        Ok(Self { key, members, texts })
    }

    pub(crate) fn schema(&self) -> Vec<Field> {
        let key = self.key.then(|| Field::new(KEY, Scalar::Utf8));
        key.into_iter().chain(self.members.iter().map(WantedMember::field)).collect()
    }
}

/// Refuses an extension, or a value of a JSON text, that two specs have.
fn check_duplicates(specs: &[Selected]) -> Result<(), String> {
    let mut seen = Vec::new();
    for Selected { extensions, pointer, spec } in specs {
        for extension in extensions {
            if seen.contains(&(extension, pointer)) {
                let name = if pointer.is_some() { &spec.selector } else { extension };
                return Err(FIELDS.duplicate_selector(name));
            }
            seen.push((extension, pointer));
        }
    }
    Ok(())
}

/// The members that contain wanted values, each once. `nan` is the option of this name.
fn json_members(specs: &[Selected], nan: bool) -> Vec<JsonMember> {
    let mut all: Vec<(&[String], Vec<Vec<String>>)> = Vec::new();
    for Selected { extensions, pointer, .. } in specs {
        let Some(pointer) = pointer else { continue };
        match all.iter_mut().find(|(others, _)| others == extensions) {
            Some((_, pointers)) => pointers.push(pointer.clone()),
            None => all.push((extensions, vec![pointer.clone()])),
        }
    }
    let member = |(extensions, pointers): (&[String], Vec<_>)| JsonMember {
        extensions: extensions.to_vec(),
        values: JsonValues::new(&pointers).with_nan(nan),
    };
    all.into_iter().map(member).collect()
}

impl Selected {
    fn new(spec: FieldSpec) -> Result<Self, String> {
        let (extensions, pointer) = match spec.selector.find('/') {
            Some(slash) => (&spec.selector[..slash], Some(&spec.selector[slash..])),
            None => (&*spec.selector, None),
        };
        let extensions: Vec<_> = extensions
            .split(';')
            .map(str::trim)
            .map(|extension| extension.strip_prefix('.').unwrap_or(extension).to_lowercase())
            .collect();
        let is_json = extensions.iter().all(|extension| Format::of(extension) == Format::Json);
        let pointer = pointer.map(|pointer| pointer_keys(pointer).filter(|_| is_json));
        if extensions.iter().any(String::is_empty) || pointer == Some(None) {
            return Err(format!(
                "option `fields` takes extensions, as in \"jpg;png,cls:int64,meta.json\", and after one of \
                 JSON also a JSON pointer, as in \"meta.json/size/0:int64\", not {:?}",
                spec.selector
            ));
        }
        let as_it_is = |one: &FieldType| {
            matches!(one.scalar, Scalar::Bytes | Scalar::Utf8) && one.shape.is_empty()
        };
        let has_value = is_json && spec.field_type.as_ref().is_some_and(|one| !as_it_is(one));
        // A value that is not text or bytes may also be the whole text.
        let pointer = pointer.flatten().or_else(|| has_value.then(Vec::new));
        Ok(Self { spec, extensions, pointer })
    }

    /// The field of this spec.
    fn member(&self, texts: &[JsonMember], nan: bool) -> Result<WantedMember, String> {
        let Self { spec, extensions, pointer } = self;
        let FieldSpec { name, selector, optional, .. } = spec;
        let own = match pointer {
            Some(keys) if !keys.is_empty() => keys.last(),
            _ => extensions.first(),
        };
        let name = name.as_ref().or(own).filter(|name| !name.is_empty()).ok_or_else(|| {
            format!(
                "option `fields`: `{selector}` gives no name; put one before it, as in \
                 \"name={selector}\""
            )
        })?;
        let form = match self.form(name, texts)? {
            Form::Json(text, field) => Form::Json(text, field.with_nan(nan)),
            form => form,
        };
        Ok(WantedMember {
            name: name.clone(),
            extensions: extensions.clone(),
            form,
            optional: *optional,
        })
    }

    fn form(&self, name: &str, texts: &[JsonMember]) -> Result<Form, String> {
        let selector = &self.spec.selector;
        let refuse = |types: &[Scalar], what: &str| {
            let types = join_type_names(types, "and");
            Err(format!("option `fields`: `{selector}` is {what}, for which there are {types}"))
        };
        if let Some(keys) = &self.pointer {
            let field_type = FIELDS.required_type(&self.spec)?;
            if !json::SCALARS.contains(&field_type.scalar) {
                return refuse(json::SCALARS, "a value of JSON");
            }
            let has = |text: &JsonMember| text.extensions == self.extensions;
            // Each spec with a pointer is in one of them.
            let index = texts.iter().position(has).unwrap_or_default();
            let node = texts[index].values.node(keys);
            let (selector, optional) = (selector.clone(), self.spec.optional);
            let field = JsonField::new(name.to_owned(), selector, &field_type, optional, node)?;
            return Ok(Form::Json(index, field));
        }
        let Some(field_type) = &self.spec.field_type else { return Ok(Form::Bytes) };
        match (field_type.scalar, &field_type.shape[..]) {
            (Scalar::Bytes, []) => return Ok(Form::Bytes),
            (Scalar::Utf8, []) => return Ok(Form::Utf8),
            (Scalar::Bytes | Scalar::Utf8, _) => {
                return Err(format!(
                    "option `fields`: `{selector}` is one text; lists of text are in members of JSON"
                ));
            }
            _ => {}
        }
        let formats: Vec<_> = self.extensions.iter().map(|one| Format::of(one)).collect();
        if formats.iter().all(|format| *format == Format::Npy) {
            return Ok(Form::Array(Arrays::new(field_type.clone())));
        }
        if !formats.iter().all(|format| *format == Format::Text) {
            return Err(format!(
                "option `fields`: `{selector}` has extensions of several formats; those of one field must be \
                 all json, all npy, or all others"
            ));
        }
        if !NUMBERS.contains(&field_type.scalar) {
            let others = [&[Scalar::Bytes, Scalar::Utf8], NUMBERS].concat();
            return refuse(&others, "text");
        }
        if !field_type.shape.is_empty() {
            return Err(format!(
                "option `fields`: `{selector}` is text, which is one number; arrays are in members of the \
                 extensions npy and json"
            ));
        }
        Ok(Form::Number(field_type.scalar))
    }
}

impl WantedMember {
    fn field(&self) -> Field {
        let name = &*self.name;
        let field = match &self.form {
            Form::Bytes => Field::bytes(name),
            Form::Utf8 => Field::utf8(name),
            Form::Number(scalar) => Field::new(name, *scalar),
            Form::Array(Arrays { field_type: FieldType { scalar, shape, .. }, .. }) => {
                Field::new(name, *scalar).shaped(&**shape)
            }
            Form::Json(_, field) => field.field(),
        };
        Field { nullable: self.optional, ..field }
    }
}
