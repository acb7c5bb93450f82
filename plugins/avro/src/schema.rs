//! A writer's schema: its JSON as a graph of types. Names are resolved, so a type that contains
//! itself is a cycle in the graph.

use std::collections::{BTreeMap, BTreeSet};

use pipemill_parsing::json_tree::Json;

/// Number of a type in its [`Schema`].
pub(crate) type TypeId = usize;

/// The types of a schema.
#[derive(Debug)]
pub(crate) struct Schema {
    types: Vec<Type>,
    /// The type of a whole record.
    pub(crate) root: TypeId,
}

/// A type.
#[derive(Debug)]
pub(crate) struct Type {
    pub(crate) kind: Kind,
    /// The meaning of the values, if the schema says it.
    pub(crate) logical: Option<Logical>,
    /// Size of every value in bytes, if all have the same. Values of a size of 0 take no bytes.
    pub(crate) size: Option<u64>,
}

/// The kind of a type, as the specification of Avro names it.
#[derive(Debug)]
pub(crate) enum Kind {
    Null,
    Boolean,
    Int,
    Long,
    Float,
    Double,
    Bytes,
    String,
    Fixed,
    /// Its symbols.
    Enum(Vec<String>),
    /// The type of its items.
    Array(TypeId),
    /// The type of its values.
    Map(TypeId),
    /// Its branches.
    Union(Vec<TypeId>),
    Record {
        name: String,
        fields: Vec<(String, TypeId)>,
    },
}

/// A logical type, with the attributes that some of them have.
#[derive(Debug)]
pub(crate) struct Logical {
    pub(crate) name: String,
    pub(crate) precision: Option<u64>,
    pub(crate) scale: Option<u64>,
}

impl Schema {
    /// Parses a schema.
    ///
    /// # Errors
    /// The error is a text that says what is wrong with it.
    pub(crate) fn parse(text: &[u8]) -> Result<Self, String> {
        let json = Json::parse(text)?;
        let mut parser = Parser { types: Vec::new(), names: BTreeMap::new() };
        let root = parser.any(&json, "")?;
        Ok(Self { types: parser.types, root })
    }

    /// A type by its number.
    #[inline(always)]
    pub(crate) fn get(&self, id: TypeId) -> &Type {
        &self.types[id]
    }

    /// A type for messages. Its parts are named one level deep.
    pub(crate) fn describe(&self, id: TypeId) -> String {
        let name = |id: &TypeId| self.get(*id).kind.word();
        match &self.get(id).kind {
            Kind::Array(items) => format!("an array of {}", name(items)),
            Kind::Map(values) => format!("a map of {}", name(values)),
            Kind::Union(branches) => {
                let names: Vec<_> = branches.iter().map(name).collect();
                format!("a union of {}", names.join(", "))
            }
            Kind::Record { name, .. } => format!("a record `{name}`"),
            other => other.word().to_owned(),
        }
    }
}

impl Kind {
    /// The word for this kind in a schema.
    fn word(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Boolean => "boolean",
            Self::Int => "int",
            Self::Long => "long",
            Self::Float => "float",
            Self::Double => "double",
            Self::Bytes => "bytes",
            Self::String => "string",
            Self::Fixed => "fixed",
            Self::Enum(_) => "enum",
            Self::Array(_) => "array",
            Self::Map(_) => "map",
            Self::Union(_) => "union",
            Self::Record { .. } => "record",
        }
    }

    /// The primitive kind of this name, and the size of its values if all have the same.
    fn primitive(word: &str) -> Option<(Self, Option<u64>)> {
        Some(match word {
            "null" => (Self::Null, Some(0)),
            "boolean" => (Self::Boolean, Some(1)),
            "int" => (Self::Int, None),
            "long" => (Self::Long, None),
            "float" => (Self::Float, Some(4)),
            "double" => (Self::Double, Some(8)),
            "bytes" => (Self::Bytes, None),
            "string" => (Self::String, None),
            _ => return None,
        })
    }
}

/// The part that was parsed so far.
struct Parser {
    types: Vec<Type>,
    /// The types that have a name, by their full names.
    names: BTreeMap<String, TypeId>,
}

impl Parser {
    fn add(&mut self, kind: Kind, size: Option<u64>, logical: Option<Logical>) -> TypeId {
        self.types.push(Type { kind, logical, size });
        self.types.len() - 1
    }

    /// Any schema. Names without a namespace are in `namespace`.
    fn any(&mut self, json: &Json, namespace: &str) -> Result<TypeId, String> {
        match json {
            Json::Text(name) => self.named(name, namespace),
            Json::List(branches) => self.union(branches, namespace),
            Json::Object(_) => self.object(json, namespace),
            Json::Number(_) | Json::Other => {
                Err("expected a type, found a number, a boolean or null".to_owned())
            }
        }
    }

    /// A primitive type, or one that was defined before.
    fn named(&mut self, name: &str, namespace: &str) -> Result<TypeId, String> {
        if let Some((kind, size)) = Kind::primitive(name) {
            return Ok(self.add(kind, size, None));
        }
        let known = self.names.get(&full_name(name, namespace)).or_else(|| self.names.get(name));
        known.copied().ok_or_else(|| format!("there is no type `{name}`"))
    }

    fn union(&mut self, branches: &[Json], namespace: &str) -> Result<TypeId, String> {
        if branches.is_empty() {
            return Err("a union has no branches".to_owned());
        }
        let branches: Vec<_> =
            branches.iter().map(|branch| self.any(branch, namespace)).collect::<Result<_, _>>()?;
        Ok(self.add(Kind::Union(branches), None, None))
    }

    fn object(&mut self, object: &Json, namespace: &str) -> Result<TypeId, String> {
        let word = match object.get("type") {
            Some(Json::Text(word)) => word.as_str(),
            Some(inner) => return self.any(inner, namespace),
            None => return Err("a type has no `type`".to_owned()),
        };
        let logical = logical(object);
        match word {
            "record" | "error" => self.record(object, namespace),
            "enum" => {
                let symbols = list(object, "symbols")?;
                let symbols: Option<Vec<_>> =
                    symbols.iter().map(|one| one.as_text().map(str::to_owned)).collect();
                let symbols = symbols.filter(|symbols| !symbols.is_empty());
                let symbols = symbols.ok_or("an enum has no symbols, or one that is no text")?;
                let id = self.add(Kind::Enum(symbols), None, logical);
                self.define(object, namespace, id).map(|_| id)
            }
            "fixed" => {
                let size = object.get("size").and_then(Json::as_number);
                let size = size.ok_or("a fixed has no `size`, or one that is no number")?;
                let id = self.add(Kind::Fixed, Some(size), logical);
                self.define(object, namespace, id).map(|_| id)
            }
            "array" => {
                let items =
                    self.any(object.get("items").ok_or("an array has no `items`")?, namespace)?;
                Ok(self.add(Kind::Array(items), None, None))
            }
            "map" => {
                let values =
                    self.any(object.get("values").ok_or("a map has no `values`")?, namespace)?;
                Ok(self.add(Kind::Map(values), None, None))
            }
            word => match Kind::primitive(word) {
                Some((kind, size)) => Ok(self.add(kind, size, logical)),
                None => self.named(word, namespace),
            },
        }
    }

    fn record(&mut self, object: &Json, namespace: &str) -> Result<TypeId, String> {
        // It is defined before its fields, which may contain it.
        let empty = Kind::Record { name: String::new(), fields: Vec::new() };
        let id = self.add(empty, None, None);
        let name = self.define(object, namespace, id)?;
        let namespace = name.rsplit_once('.').map_or("", |(namespace, _)| namespace);
        let (mut fields, mut known) = (Vec::new(), BTreeSet::new());
        let mut size = Some(0u64);
        for field in list(object, "fields")? {
            let field_name = field.get("name").and_then(Json::as_text);
            let field_name =
                field_name.ok_or_else(|| format!("a field of the record `{name}` has no name"))?;
            if !known.insert(field_name) {
                return Err(format!("the record `{name}` has two fields `{field_name}`"));
            }
            let json = field.get("type").ok_or_else(|| {
                format!("the field `{field_name}` of the record `{name}` has no type")
            })?;
            let of_field = self.any(json, namespace)?;
            size = size.zip(self.types[of_field].size).map(|(all, one)| all.saturating_add(one));
            fields.push((field_name.to_owned(), of_field));
        }
        self.types[id] = Type { kind: Kind::Record { name, fields }, logical: None, size };
        Ok(id)
    }

    /// Gives a type its name. Returns the full name.
    fn define(&mut self, object: &Json, namespace: &str, id: TypeId) -> Result<String, String> {
        let name = object.get("name").and_then(Json::as_text).ok_or("a named type has no name")?;
        let own = object.get("namespace").and_then(Json::as_text).unwrap_or(namespace);
        let name = full_name(name, own);
        match self.names.insert(name.clone(), id) {
            Some(_) => Err(format!("the type `{name}` is defined twice")),
            None => Ok(name),
        }
    }
}

/// A name with its namespace. A name with a dot has it already.
fn full_name(name: &str, namespace: &str) -> String {
    if namespace.is_empty() || name.contains('.') {
        name.to_owned()
    } else {
        format!("{namespace}.{name}")
    }
}

fn list<'a>(object: &'a Json, key: &str) -> Result<&'a [Json], String> {
    let list = object.get(key).and_then(Json::as_list);
    list.ok_or_else(|| format!("expected a list `{key}` in a type"))
}

fn logical(object: &Json) -> Option<Logical> {
    let number = |key| object.get(key).and_then(Json::as_number);
    let name = object.get("logicalType").and_then(Json::as_text)?.to_owned();
    Some(Logical { name, precision: number("precision"), scale: number("scale") })
}
