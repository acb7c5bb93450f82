//! The fields of a record: the columns of the schema that can be fields, and how they are read.

use pipemill_parsing::columns::{Found, IsField, select};
use pipemill_parsing::paths::WantedPath;
use pipemill_plugin::{Field, Scalar};

use crate::convert::Convert;
use crate::footer::{Logical, Node, Unit};

/// Largest nesting depth of groups.
const MAX_DEPTH: usize = 64;

/// A column that becomes a field.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Column {
    pub(crate) field: Field,
    /// Its path in the schema, for messages.
    pub(crate) path: String,
    /// Its number among all columns.
    pub(crate) number: usize,
    pub(crate) physical: Physical,
    pub(crate) convert: Convert,
    /// The definition level of a value that is there.
    pub(crate) present: u32,
    pub(crate) list: Option<List>,
}

impl Column {
    /// Bytes of each value of the field, or of each element of a list, if they have one size.
    pub(crate) fn element_size(&self) -> Option<usize> {
        self.convert.size(match self.physical {
            Physical::Boolean => Some(1),
            Physical::Fixed(size) => Some(size),
            Physical::Bytes => None,
        })
    }

    /// Bytes of each value of the field, if they have one size.
    pub(crate) fn size(&self) -> Option<usize> {
        self.element_size().filter(|_| self.list.is_none())
    }
}

/// The levels of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct List {
    /// The definition level of an empty list. One below it is absent.
    pub(crate) empty: u32,
    /// Whether its elements are bytes or text.
    pub(crate) has_offsets: bool,
}

/// How values are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Physical {
    Boolean,
    /// This number of bytes.
    Fixed(usize),
    Bytes,
}

/// The levels of the schema around a node.
#[derive(Debug, Clone, Copy)]
struct Around {
    definition: u32,
    depth: usize,
    /// The definition level of an empty list, inside of a list or a map.
    empty: Option<u32>,
}

impl Around {
    /// The levels inside of a repeated node, which these are around.
    fn repeated(self) -> Self {
        let empty = Some(self.definition);
        Self { definition: self.definition + 1, depth: self.depth + 1, empty }
    }
}

/// The columns that become fields, in the order of `wanted`, or of the schema.
pub(crate) fn columns(
    schema: &[Node],
    wanted: Option<&[WantedPath]>,
) -> Result<Vec<Column>, String> {
    let mut walk = Walk { schema, next: 1, leaves: 0, found: Vec::new() };
    let root = schema.first().ok_or("the file has no schema")?;
    for _ in 0..root.children.max(0) {
        walk.node("", Around { definition: 0, depth: 0, empty: None })?;
    }
    if walk.next != schema.len() {
        return Err("the nodes of the file's schema are no tree".to_owned());
    }
    select(&walk.found, wanted)
}

impl IsField for Column {
    fn field(&self) -> &Field {
        &self.field
    }
    fn rename(&mut self, name: &str) {
        name.clone_into(&mut self.field.name);
    }
}

struct Walk<'a> {
    schema: &'a [Node],
    /// The next node, and the number of columns before it.
    next: usize,
    leaves: usize,
    found: Vec<Found<Column>>,
}

impl<'a> Walk<'a> {
    /// Reads a node and all below it.
    fn node(&mut self, path: &str, around: Around) -> Result<(), String> {
        let node = self.take(around)?;
        let path =
            if path.is_empty() { node.name.clone() } else { format!("{path}.{}", node.name) };
        self.below(node, path, around)
    }

    /// Goes on to the next node.
    fn take(&mut self, around: Around) -> Result<&'a Node, String> {
        let node =
            self.schema.get(self.next).ok_or("the nodes of the file's schema are no tree")?;
        if around.depth > MAX_DEPTH {
            return Err(format!("the file's schema has more than {MAX_DEPTH} levels"));
        }
        self.next += 1;
        Ok(node)
    }

    /// Reads all below a node, whose fields are called after this path.
    fn below(&mut self, node: &Node, path: String, around: Around) -> Result<(), String> {
        let inside = match node.repetition {
            2 if around.empty.is_some() => {
                return self.refused(node, path, around, "a list inside of a list");
            }
            2 => around.repeated(),
            optional => Around {
                definition: around.definition + u32::from(optional != 0),
                depth: around.depth + 1,
                ..around
            },
        };
        if node.children <= 0 {
            let column = leaf(node, inside.definition, inside.empty);
            // A list is absent if it or a group around it is. One that is no group of its own can't
            // be.
            let is_nullable = inside.empty.unwrap_or(inside.definition) > 0;
            let column = column.map(|column| column.called(&path, self.leaves, is_nullable));
            self.found.push((path, column));
            self.leaves += 1;
            return Ok(());
        }
        match node.meaning() {
            Some(Logical::List) => self.list(node, path, inside),
            Some(Logical::Map) => self.map(node, path, inside),
            _ => {
                for _ in 0..node.children {
                    self.node(&path, inside)?;
                }
                Ok(())
            }
        }
    }

    /// A group that is a list: a repeated node, with the element in it or itself the element. The
    /// path of the list is that of its element.
    fn list(&mut self, node: &Node, path: String, around: Around) -> Result<(), String> {
        if around.empty.is_some() {
            return self.refused(node, path, around, "a list inside of a list");
        }
        let repeated = self.schema.get(self.next).filter(|_| node.children == 1);
        let Some(repeated) = repeated.filter(|one| one.repetition == 2) else {
            return self.refused(node, path, around, "a list of another form");
        };
        let only = self.schema.get(self.next + 1);
        self.next += 1;
        if is_element(repeated, &node.name, only) {
            return self.below(repeated, path, around);
        }
        let inside = around.repeated();
        let element = self.take(inside)?;
        self.below(element, path, inside)
    }

    /// A group that is a map: a repeated group of keys and values, which become a list each.
    fn map(&mut self, node: &Node, path: String, around: Around) -> Result<(), String> {
        if around.empty.is_some() {
            return self.refused(node, path, around, "a map inside of a list");
        }
        let pairs = self.schema.get(self.next).filter(|_| node.children == 1);
        let is_pairs = |one: &&Node| one.repetition == 2 && matches!(one.children, 1 | 2);
        let Some(pairs) = pairs.filter(is_pairs) else {
            return self.refused(node, path, around, "a map of another form");
        };
        self.next += 1;
        let inside = around.repeated();
        // Writers have called the two in several ways.
        for name in ["key", "value"].iter().take(pairs.children as usize) {
            let one = self.take(inside)?;
            self.below(one, format!("{path}.{name}"), inside)?;
        }
        Ok(())
    }

    /// Goes past the nodes below one that can't be a field.
    fn refused(
        &mut self,
        node: &Node,
        path: String,
        around: Around,
        what: &str,
    ) -> Result<(), String> {
        let before = self.found.len();
        if node.children <= 0 {
            self.leaves += 1;
        }
        let inside = Around { depth: around.depth + 1, ..around };
        for _ in 0..node.children {
            self.node(&path, inside)?;
        }
        self.found.truncate(before);
        self.found.push((path, Err(what.to_owned())));
        Ok(())
    }
}

/// Whether the repeated node of a list of this name is its element, and not a group around it.
/// `only` is the node after it. These are the rules of the format's document.
fn is_element(repeated: &Node, list: &str, only: Option<&Node>) -> bool {
    repeated.children != 1
        || repeated.name == "array"
        || repeated.name.strip_suffix("_tuple") == Some(list)
        || matches!(repeated.meaning(), Some(Logical::List | Logical::Map))
        || only.is_some_and(|only| only.repetition == 2)
}

impl Column {
    fn called(self, path: &str, number: usize, is_nullable: bool) -> Self {
        let field = Field { name: path.to_owned(), nullable: is_nullable, ..self.field };
        Self { field, path: path.to_owned(), number, ..self }
    }
}

/// A column of values with this definition level, or of lists, where an empty one has the level
/// `empty`. The error says what it is, if it can't be a field.
fn leaf(node: &Node, present: u32, empty: Option<u32>) -> Result<Column, String> {
    let length = usize::try_from(node.length).unwrap_or(0);
    let physical = match node.physical {
        Some(0) => Physical::Boolean,
        Some(1 | 4) => Physical::Fixed(4),
        Some(2 | 5) => Physical::Fixed(8),
        Some(3) => Physical::Fixed(12),
        Some(6) => Physical::Bytes,
        Some(7) if length > 0 && node.length < i32::MAX => Physical::Fixed(length),
        Some(other) => return Err(format!("of type {other} with {} bytes", node.length)),
        None => return Err("a group without columns".to_owned()),
    };
    let (field, convert) = form(node, length);
    let has_offsets = matches!(field.scalar, Scalar::Bytes | Scalar::Utf8);
    let list = empty.map(|empty| List { empty, has_offsets });
    let field = match list {
        None => field,
        Some(_) => {
            // The interface has this word only for a single value.
            let logical =
                if field.logical == "uuid" { String::new() } else { field.logical.clone() };
            let shape = [&[0], &field.shape[..]].concat();
            Field { shape, logical, ..field }
        }
    };
    let (path, number) = (String::new(), 0);
    Ok(Column { field, path, number, physical, convert, present, list })
}

/// The field of a column's values, without a name, and how they are converted.
fn form(node: &Node, length: usize) -> (Field, Convert) {
    let new = |scalar| Field::new("", scalar);
    let meaning = node.meaning();
    let (field, convert) = match (node.physical, meaning) {
        (Some(0), _) => (new(Scalar::Boolean), Convert::Same),
        (Some(1 | 2), Some(Logical::Decimal { scale, precision })) => {
            return decimal(scale, precision, true);
        }
        (Some(6 | 7), Some(Logical::Decimal { scale, precision })) => {
            return decimal(scale, precision, false);
        }
        (Some(1), Some(Logical::Integer { bits, is_signed })) => of_int32(bits, is_signed),
        (Some(1), Some(Logical::Date)) => (new(Scalar::Int32).logical("date"), Convert::Same),
        (Some(1), Some(Logical::Time(Unit::Millis))) => {
            (new(Scalar::Int64).logical("time[ms]"), Convert::Widen)
        }
        (Some(1), _) => (new(Scalar::Int32), Convert::Same),
        (Some(2), Some(Logical::Integer { is_signed: false, .. })) => {
            (new(Scalar::Uint64), Convert::Same)
        }
        (Some(2), Some(Logical::Time(unit))) => {
            (new(Scalar::Int64).logical(format!("time[{}]", word(unit))), Convert::Same)
        }
        (Some(2), Some(Logical::Timestamp { unit, is_utc })) => {
            let field = new(Scalar::Int64).logical(format!("timestamp[{}]", word(unit)));
            // The time of a clock on some wall.
            let local = |field: Field| field.metadata("parquet.isAdjustedToUTC", "false");
            (if is_utc { field } else { local(field) }, Convert::Same)
        }
        (Some(2), _) => (new(Scalar::Int64), Convert::Same),
        (Some(3), _) => (new(Scalar::Int64).logical("timestamp[ns]"), Convert::Int96),
        (Some(4), _) => (new(Scalar::Float32), Convert::Same),
        (Some(5), _) => (new(Scalar::Float64), Convert::Same),
        (Some(7), Some(Logical::Float16)) if length == 2 => (new(Scalar::Float16), Convert::Same),
        (Some(7), Some(Logical::Uuid)) if length == 16 => {
            (new(Scalar::Uint8).shaped([16]).logical("uuid"), Convert::Same)
        }
        (Some(7), _) => (new(Scalar::Uint8).shaped([length as u32]), Convert::Same),
        (_, Some(Logical::Text)) => (Field::utf8(""), Convert::Text),
        (_, Some(Logical::Json)) => (Field::utf8("").logical("json"), Convert::Text),
        _ => (Field::bytes(""), Convert::Same),
    };
    let fact = match meaning {
        Some(Logical::Bson) => "BSON",
        Some(Logical::Interval) => "INTERVAL",
        _ => return (field, convert),
    };
    (field.metadata("parquet.logicalType", fact), convert)
}

fn of_int32(bits: i32, is_signed: bool) -> (Field, Convert) {
    let (scalar, bytes) = match (bits, is_signed) {
        (8, true) => (Scalar::Int8, 1),
        (16, true) => (Scalar::Int16, 2),
        (8, false) => (Scalar::Uint8, 1),
        (16, false) => (Scalar::Uint16, 2),
        (_, true) => (Scalar::Int32, 4),
        (_, false) => (Scalar::Uint32, 4),
    };
    let convert = if bytes == 4 { Convert::Same } else { Convert::Narrow { bytes, is_signed } };
    (Field::new("", scalar), convert)
}

/// A decimal number becomes text, with all of its digits.
fn decimal(scale: i32, precision: i32, is_little_endian: bool) -> (Field, Convert) {
    let field = Field::utf8("").logical("decimal");
    let field = field.metadata("parquet.precision", precision.to_string());
    let field = field.metadata("parquet.scale", scale.to_string());
    // The specification allows 0 to the precision, which fits.
    let scale = u32::try_from(scale).unwrap_or(0).min(1 << 16);
    (field, Convert::Decimal { scale, is_little_endian })
}

fn word(unit: Unit) -> &'static str {
    match unit {
        Unit::Millis => "ms",
        Unit::Micros => "us",
        Unit::Nanos => "ns",
    }
}
