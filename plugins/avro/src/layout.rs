//! The layout of a record: the writer's schema as a flat list of steps, one for each value that
//! becomes a field or is skipped. It is made once for each file, so that reading a record does not
//! need the schema.

use std::collections::BTreeSet;

use pipemill_parsing::paths::WantedPath;
use pipemill_plugin::{Field, Scalar};

use crate::schema::{Kind, Logical, Schema, Type, TypeId};

/// Largest nesting depth of records.
const MAX_DEPTH: usize = 64;
/// Largest number of fields of a schema: the host's limit.
const MAX_FIELDS: usize = 65_536;
/// Largest number of bytes of names and symbols of all fields together. A named type can be used
/// often, so a small schema can have many.
const MAX_TEXT: usize = 16 << 20;
/// Largest number of fields that a message lists.
const MAX_LISTED: usize = 20;

/// The fields of a record, and how to read them.
#[derive(Debug)]
pub(crate) struct Layout {
    pub(crate) fields: Vec<Field>,
    pub(crate) steps: Vec<Step>,
    /// For messages: the name that each step's value has in the schema.
    pub(crate) names: Vec<String>,
    /// The types of the values that are skipped.
    pub(crate) schema: Schema,
    /// Bytes of output that a record takes, apart from its arrays: its spans, and its numbers.
    pub(crate) cost: usize,
}

/// A step of the layout of a record.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Step {
    pub(crate) union: Union,
    pub(crate) value: Value,
    /// The union that each item of an array is in, as Spark writes arrays whose items may be null.
    pub(crate) items: Union,
}

/// The union that a value is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Union {
    /// None.
    No,
    /// A union of this type alone.
    Single,
    /// A union with null as the branch of this number, 0 or 1.
    Null(u8),
}

/// How a value is read, and the field that it becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Value {
    /// No bytes: an absent field.
    Null,
    Boolean,
    /// An `int`, as int32.
    Int,
    /// An `int`, as int64.
    IntAsLong,
    /// A `long`, as int64.
    Long,
    /// This number of bytes, unchanged.
    Fixed(u32),
    Bytes,
    Text,
    /// A number below `symbols`, as an unsigned integer of `width` bytes.
    Enum {
        symbols: u32,
        width: u8,
    },
    /// An array of booleans.
    Booleans,
    /// An array of `int`, as int32.
    Ints,
    /// An array of `int`, as int64.
    IntsAsLongs,
    /// An array of `long`, as int64.
    Longs,
    /// An array of values of this number of bytes, unchanged.
    Fixeds(u32),
    /// An array of bytes.
    BytesList,
    /// An array of text.
    TextList,
    /// Skips this number of bytes.
    SkipBytes(u64),
    /// Skips an `int` or the number of a symbol.
    SkipInt,
    SkipLong,
    /// Skips bytes or text.
    SkipString,
    /// Skips a value of this type.
    Skip(TypeId),
}

impl Layout {
    /// The layout of a schema's records with the fields that are wanted; `None` for all. The error
    /// is a message for the operator: the schema is not supported, or does not fit the options.
    pub(crate) fn new(schema: Schema, wanted: Option<&[WantedPath]>) -> Result<Self, String> {
        let mut walk = Walk {
            schema: &schema,
            wanted,
            used: vec![false; wanted.map_or(0, <[_]>::len)],
            open: Vec::new(),
            visited: 0,
            text: 0,
            fields: Vec::new(),
            steps: Vec::new(),
            names: Vec::new(),
        };
        match &schema.get(schema.root).kind {
            Kind::Record { .. } => walk.record(schema.root, "", wanted.is_none())?,
            _ => walk.field("value".to_owned(), schema.root, wanted.is_none())?,
        }
        walk.check_found()?;
        let Walk { fields, steps, names, .. } = walk;
        if fields.is_empty() {
            return Err("the file's records have no fields".to_owned());
        }
        if schema.get(schema.root).size == Some(0) {
            let why = "the file's records have no bytes, so nothing tells whether they are there";
            return Err(why.to_owned());
        }
        check_names(&fields)?;
        let numbers = steps.iter().map(|step| step.value.number_bytes()).sum::<usize>();
        let cost = 8 * fields.len() + numbers;
        Ok(Self { fields, steps, names, schema, cost })
    }
}

impl Step {
    /// Whether the value does not become a field.
    #[inline(always)]
    pub(crate) fn is_skipped(&self) -> bool {
        use Value::{Skip, SkipBytes, SkipInt, SkipLong, SkipString};
        matches!(self.value, SkipBytes(_) | SkipInt | SkipLong | SkipString | Skip(_))
    }
}

impl Value {
    /// Number of bytes that one value takes in addition to its span; 0 if it is a part of the input
    /// or an array.
    fn number_bytes(self) -> usize {
        match self {
            Self::Int => 4,
            Self::IntAsLong | Self::Long => 8,
            Self::Enum { width, .. } => width.into(),
            _ => 0,
        }
    }
}

/// How a value is read, and the field that it becomes, without a name.
struct Form {
    value: Value,
    /// The union that each item of an array is in.
    items: Union,
    field: Field,
}

/// The state while a layout is made from a schema.
struct Walk<'a> {
    schema: &'a Schema,
    wanted: Option<&'a [WantedPath]>,
    /// Whether each of `wanted` was found.
    used: Vec<bool>,
    /// The records around the current field.
    open: Vec<TypeId>,
    visited: usize,
    /// Bytes of names and symbols so far.
    text: usize,
    fields: Vec<Field>,
    steps: Vec<Step>,
    names: Vec<String>,
}

impl Walk<'_> {
    /// The fields of a record. `path` is empty or ends with a dot. With `all`, all are wanted.
    fn record(&mut self, id: TypeId, path: &str, all: bool) -> Result<(), String> {
        let schema = self.schema;
        let Kind::Record { fields, .. } = &schema.get(id).kind else { return Ok(()) };
        self.open.push(id);
        for (name, of_field) in fields {
            self.field(format!("{path}{name}"), *of_field, all)?;
        }
        self.open.pop();
        Ok(())
    }

    /// One field, whose name is `path`.
    fn field(&mut self, path: String, id: TypeId, all: bool) -> Result<(), String> {
        self.visited += 1;
        if self.visited > MAX_FIELDS {
            return Err(format!("the file's records have more than {MAX_FIELDS} fields"));
        }
        self.count_text(path.len())?;
        let is_record = matches!(self.schema.get(id).kind, Kind::Record { .. });
        let mut name = None;
        let mut all = all;
        let mut inside = false;
        for (index, wanted) in self.wanted.unwrap_or_default().iter().enumerate() {
            if wanted.path == path {
                (all, self.used[index]) = (true, true);
                name.clone_from(&wanted.name);
            } else if let Some(rest) = wanted.path.strip_prefix(&path) {
                inside |= rest.starts_with('.');
            }
        }
        if is_record && (all || inside) {
            if name.is_some() {
                let why =
                    format!("`{path}` is a record, which gets no other name: name its fields");
                return Err(format!("option `fields`: {why}"));
            }
            if self.open.contains(&id) || self.open.len() >= MAX_DEPTH {
                return Err(self.unsupported(&path, id));
            }
            return self.record(id, &format!("{path}."), all);
        }
        if !all {
            let one = &self.schema.get(id).kind;
            if inside && matches!(one, Kind::Array(_) | Kind::Map(_) | Kind::Union(_)) {
                return Err(self.unsupported(&path, id));
            }
            self.skip(path, id);
            return Ok(());
        }
        let (union, inner) = self.union(id);
        let Some((union, Form { value, items, field })) = union.zip(self.form(inner)) else {
            return Err(self.unsupported(&path, id));
        };
        self.count_text(field.categories.iter().map(String::len).sum())?;
        let nullable = matches!(union, Union::Null(_)) || value == Value::Null;
        let field = Field { name: name.unwrap_or_else(|| path.clone()), nullable, ..field };
        self.fields.push(field);
        self.steps.push(Step { union, value, items });
        self.names.push(path);
        Ok(())
    }

    /// Adds names or symbols of this number of bytes.
    fn count_text(&mut self, bytes: usize) -> Result<(), String> {
        self.text += bytes;
        if self.text > MAX_TEXT {
            let why = "the names and symbols of the file's fields have more than 16 MiB";
            return Err(why.to_owned());
        }
        Ok(())
    }

    /// Skips a value. Skipped values of known sizes are one step.
    fn skip(&mut self, path: String, id: TypeId) {
        let (union, inner) = self.union(id);
        let inner = self.schema.get(inner);
        let (union, value) = match (union, inner.size, self.steps.last_mut()) {
            (Some(Union::No), Some(0), _) => return,
            (
                Some(Union::No),
                Some(more),
                Some(Step { union: Union::No, value: Value::SkipBytes(size), .. }),
            ) => {
                *size = size.saturating_add(more);
                return;
            }
            (Some(union), Some(size), _) => (union, Value::SkipBytes(size)),
            (Some(union), None, _) => match inner.kind {
                Kind::Int | Kind::Enum(_) => (union, Value::SkipInt),
                Kind::Long => (union, Value::SkipLong),
                Kind::Bytes | Kind::String => (union, Value::SkipString),
                _ => (Union::No, Value::Skip(id)),
            },
            (None, ..) => (Union::No, Value::Skip(id)),
        };
        self.steps.push(Step { union, value, items: Union::No });
        self.names.push(path);
    }

    /// The union that a type is, and the type in it. The union is `None` if it has several types.
    fn union(&self, id: TypeId) -> (Option<Union>, TypeId) {
        let Kind::Union(branches) = &self.schema.get(id).kind else { return (Some(Union::No), id) };
        let is_null = |id: TypeId| matches!(self.schema.get(id).kind, Kind::Null);
        match branches[..] {
            [one] => (Some(Union::Single), one),
            [first, second] => match (is_null(first), is_null(second)) {
                (true, false) => (Some(Union::Null(0)), second),
                (false, true) => (Some(Union::Null(1)), first),
                _ => (None, id),
            },
            _ => (None, id),
        }
    }

    /// How a value of this type is read, and the field that it becomes, without a name. `None` if
    /// it can't be a field.
    fn form(&self, id: TypeId) -> Option<Form> {
        let one = self.schema.get(id);
        let Kind::Array(item) = one.kind else {
            let (value, field) = scalar(one)?;
            return Some(Form { value, items: Union::No, field });
        };
        let (items, item) = self.union(item);
        let (items, (value, field)) = items.zip(scalar(self.schema.get(item)))?;
        let value = match value {
            Value::Boolean => Value::Booleans,
            Value::Int => Value::Ints,
            Value::IntAsLong => Value::IntsAsLongs,
            Value::Long => Value::Longs,
            Value::Fixed(0) => return None,
            Value::Fixed(size) => Value::Fixeds(size),
            Value::Bytes => Value::BytesList,
            Value::Text => Value::TextList,
            _ => return None,
        };
        // The size of an item of several bytes is the second dimension.
        let shape = [&[0], &field.shape[..]].concat();
        // The interface has this word only for a single value.
        let logical = if field.logical == "uuid" { String::new() } else { field.logical };
        Some(Form { value, items, field: Field { shape, logical, ..field } })
    }

    /// The error of a field that has no form.
    fn unsupported(&self, path: &str, id: TypeId) -> String {
        let mut what = self.schema.describe(id);
        if self.open.contains(&id) {
            what += " inside itself";
        } else if self.open.len() >= MAX_DEPTH {
            what += &format!(" inside {MAX_DEPTH} others");
        }
        if self.open.is_empty() {
            return format!(
                "the file's values are {what}, which can't be a field; see the documentation of the \
                 decoder avro for the types that can"
            );
        }
        let others = self.takeable();
        let others = match others.is_empty() {
            true => String::new(),
            false => format!(", as in fields = \"{}\"", others.join(",")),
        };
        format!(
            "the field `{path}` is {what}, which can't be a field of a record; leave it out by the \
             option `fields`{others}"
        )
    }

    /// Names of some fields that can be selected, for a message.
    fn takeable(&self) -> Vec<&str> {
        let Kind::Record { fields, .. } = &self.schema.get(self.schema.root).kind else {
            return Vec::new();
        };
        let can = |id: TypeId| {
            let (union, inner) = self.union(id);
            union.is_some() && self.form(inner).is_some()
        };
        let names = fields.iter().filter(|(_, id)| can(*id)).map(|(name, _)| name.as_str());
        names.take(MAX_LISTED).collect()
    }

    /// Checks that the schema has all fields that the operator names.
    fn check_found(&self) -> Result<(), String> {
        let Some(missing) = self.used.iter().position(|used| !used) else { return Ok(()) };
        let path = self.wanted.map_or("", |wanted| &wanted[missing].path);
        let (place, names) = match &self.schema.get(self.schema.root).kind {
            Kind::Record { fields, .. } => {
                ("the file's records", fields.iter().map(|(name, _)| name.as_str()).collect())
            }
            _ => ("a file without records", vec!["value"]),
        };
        let names: Vec<&str> = names;
        let more = if names.len() > MAX_LISTED { ", …" } else { "" };
        let listed = names[..names.len().min(MAX_LISTED)].join(", ");
        Err(format!("option `fields`: {place} have no field `{path}`; they have {listed}{more}"))
    }
}

/// How a value that is not an array is read, and the field that it becomes, without a name.
fn scalar(one: &Type) -> Option<(Value, Field)> {
    let number = |value, scalar| (value, Field::new("", scalar));
    let logical = one.logical.as_ref().map(|logical| logical.name.as_str());
    // The interface's word; if there is none, the consumer gets Avro's word.
    let mut word = "";
    let (value, field) = match &one.kind {
        Kind::Null => (Value::Null, Field::bytes("")),
        Kind::Boolean => number(Value::Boolean, Scalar::Boolean),
        Kind::Int if logical == Some("time-millis") => {
            word = "time[ms]";
            number(Value::IntAsLong, Scalar::Int64)
        }
        Kind::Int => {
            word = if logical == Some("date") { "date" } else { "" };
            number(Value::Int, Scalar::Int32)
        }
        Kind::Long => {
            word = match logical.map(|word| word.strip_prefix("local-").unwrap_or(word)) {
                Some("time-micros") => "time[us]",
                Some("timestamp-millis") => "timestamp[ms]",
                Some("timestamp-micros") => "timestamp[us]",
                Some("timestamp-nanos") => "timestamp[ns]",
                _ => "",
            };
            number(Value::Long, Scalar::Int64)
        }
        Kind::Float => number(Value::Fixed(4), Scalar::Float32),
        Kind::Double => number(Value::Fixed(8), Scalar::Float64),
        Kind::Bytes => (Value::Bytes, Field::bytes("")),
        Kind::String => (Value::Text, Field::utf8("")),
        Kind::Fixed => {
            let size = u32::try_from(one.size?).ok().filter(|size| *size < 1 << 31)?;
            if logical == Some("uuid") && size == 16 {
                word = "uuid";
            }
            // A size of 0 in a shape stands for any size.
            let field = match size {
                0 => Field::bytes(""),
                size => Field::new("", Scalar::Uint8).shaped([size]),
            };
            (Value::Fixed(size), field)
        }
        Kind::Enum(symbols) => {
            let count = u32::try_from(symbols.len()).ok()?;
            let (width, scalar) = match count {
                0..=0x100 => (1, Scalar::Uint8),
                0x101..=0x1_0000 => (2, Scalar::Uint16),
                _ => (4, Scalar::Uint32),
            };
            let field = Field::new("", scalar).categories(symbols.clone());
            (Value::Enum { symbols: count, width }, field)
        }
        Kind::Array(_) | Kind::Map(_) | Kind::Union(_) | Kind::Record { .. } => return None,
    };
    let field = field.logical(word);
    Some((value, one.logical.as_ref().map_or(field.clone(), |logical| with_facts(field, logical))))
}

/// Adds the facts of the logical type to the field, unless the interface's word expresses them.
fn with_facts(field: Field, logical: &Logical) -> Field {
    let Logical { name, precision, scale } = logical;
    if !field.logical.is_empty() && !name.starts_with("local-") {
        return field;
    }
    let mut field = field.metadata("avro.logicalType", name);
    for (key, number) in [("avro.precision", precision), ("avro.scale", scale)] {
        if let Some(number) = number {
            field = field.metadata(key, number.to_string());
        }
    }
    field
}

/// Checks that all names differ.
fn check_names(fields: &[Field]) -> Result<(), String> {
    // A set, as elsewhere: a sort would be the largest function of the decoder.
    let mut names = BTreeSet::new();
    match fields.iter().find(|field| !names.insert(field.name.as_str())) {
        Some(Field { name, .. }) => {
            Err(format!("two fields are called `{name}`; see the option `fields`"))
        }
        None => Ok(()),
    }
}
