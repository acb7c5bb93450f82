//! The fields of a record: the columns of the schema that can be fields, and where a batch has
//! their values.

use pipemill_parsing::columns::{Found, IsField, select};
use pipemill_parsing::paths::WantedPath;
use pipemill_plugin::{Field, Scalar};

use crate::convert::Convert;
use crate::schema::{Kind, Node};

/// Most sizes of an array that a field has: the host's limit.
const MAX_SIZES: usize = 32;

/// A column that becomes a field.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Column {
    pub(crate) field: Field,
    /// Its path in the schema, for messages.
    pub(crate) path: String,
    /// The structs around it, the outermost first. Each may be absent.
    pub(crate) structs: Vec<Slot>,
    /// The lists around its values, the outermost first. All but the first have a fixed size.
    pub(crate) lists: Vec<List>,
    pub(crate) values: Leaf,
}

/// Where a batch has a column: the nodes, buffers and views before it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Slot {
    pub(crate) node: usize,
    pub(crate) buffer: usize,
    /// Columns of views, each of which has a number of buffers that only the batch tells.
    pub(crate) views: usize,
}

/// A list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct List {
    pub(crate) slot: Slot,
    pub(crate) form: ListForm,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListForm {
    /// The lists lie one after the other. Wide offsets have 64 bits.
    Offsets { is_wide: bool },
    /// Each list has its offset and size.
    View { is_wide: bool },
    /// Each has this number of elements.
    Fixed(usize),
}

/// Values that are no lists.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Leaf {
    pub(crate) slot: Slot,
    pub(crate) storage: Storage,
    pub(crate) convert: Convert,
    /// The dictionary to which the values refer.
    pub(crate) dictionary: Option<DictionaryRef>,
}

/// A dictionary that a column refers to. Its own values are the first column of its batches.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DictionaryRef {
    pub(crate) id: i64,
    pub(crate) is_signed: bool,
    pub(crate) values: Box<Leaf>,
    /// What a batch of the dictionary has.
    pub(crate) size: Slot,
}

/// How values are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Storage {
    /// They are all absent.
    None,
    Bits,
    /// This number of bytes.
    Fixed(usize),
    /// Between two offsets. Wide ones have 64 bits.
    Offsets {
        is_wide: bool,
    },
    /// Short ones in the view, long ones where the view says.
    Views,
}

/// The columns that become fields, and what a batch has in all.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Layout {
    pub(crate) columns: Vec<Column>,
    pub(crate) size: Slot,
}

impl Leaf {
    /// Whether any number of values takes no bytes.
    fn is_endless(&self) -> bool {
        self.dictionary.is_none() && matches!(self.storage, Storage::None | Storage::Fixed(0))
    }
}

impl IsField for Column {
    fn field(&self) -> &Field {
        &self.field
    }
    fn rename(&mut self, name: &str) {
        name.clone_into(&mut self.field.name);
    }
}

impl Layout {
    /// The layout of these columns, of which `wanted` are read. The error is a message for the
    /// operator.
    pub(crate) fn new(schema: &[Node], wanted: Option<&[WantedPath]>) -> Result<Self, String> {
        let mut walk = Walk { at: Slot::default(), found: Vec::new() };
        for node in schema {
            walk.node(node, "", &[], false)?;
        }
        Ok(Self { columns: select(&walk.found, wanted)?, size: walk.at })
    }
}

struct Walk {
    at: Slot,
    found: Vec<Found<Column>>,
}

impl Walk {
    /// Adds a column, or the columns of a struct.
    fn node(
        &mut self,
        node: &Node,
        around: &str,
        structs: &[Slot],
        is_nullable: bool,
    ) -> Result<(), String> {
        let path =
            if around.is_empty() { node.name.clone() } else { format!("{around}.{}", node.name) };
        let is_nullable = is_nullable || node.is_nullable;
        if node.kind == Kind::Struct && node.dictionary.is_none() && !node.children.is_empty() {
            let structs = [structs, &[self.at]].concat();
            self.at = own_size(self.at, node)?;
            return node
                .children
                .iter()
                .try_for_each(|child| self.node(child, &path, &structs, is_nullable));
        }
        let column = column(node, self.at).map(|column| {
            let mut field = Field { name: path.clone(), ..column.field };
            field.nullable = is_nullable || node.kind == Kind::Null;
            Column { field, path: path.clone(), structs: structs.to_vec(), ..column }
        });
        self.found.push((path, column));
        self.at = whole_size(self.at, node)?;
        Ok(())
    }
}

/// The slot after a node, without its children. The error is a message for the operator.
fn own_size(at: Slot, node: &Node) -> Result<Slot, String> {
    let (nodes, buffers, views) = match node.kind {
        _ if node.dictionary.is_some() => (1, 2, 0),
        Kind::Null | Kind::RunEnds => (1, 0, 0),
        Kind::Struct | Kind::FixedList(_) => (1, 1, 0),
        Kind::View { .. } => (1, 2, 1),
        Kind::Bytes { .. } | Kind::ListView { .. } => (1, 3, 0),
        Kind::Union { buffers } => (1, buffers, 0),
        Kind::Other(number) => {
            return Err(format!(
                "the column `{}` has a type that is not known here, with the number {number}; \
                 write the file again without it",
                node.name
            ));
        }
        _ => (1, 2, 0),
    };
    Ok(Slot { node: at.node + nodes, buffer: at.buffer + buffers, views: at.views + views })
}

/// The slot after a node and all that is inside of it.
fn whole_size(at: Slot, node: &Node) -> Result<Slot, String> {
    let at = own_size(at, node)?;
    match node.dictionary {
        Some(_) => Ok(at),
        None => node.children.iter().try_fold(at, whole_size),
    }
}

/// The column of a node that is no struct, without its name. The error says what it is, if it can't
/// be a field.
fn column(node: &Node, at: Slot) -> Result<Column, String> {
    let (mut lists, mut sizes) = (Vec::new(), Vec::new());
    let (mut element, mut slot) = (node, at);
    while element.dictionary.is_none() {
        let form = match element.kind {
            Kind::List { is_wide } => ListForm::Offsets { is_wide },
            Kind::ListView { is_wide } => ListForm::View { is_wide },
            Kind::FixedList(size) => ListForm::Fixed(usize::try_from(size).unwrap_or(0)),
            _ => break,
        };
        let ListForm::Fixed(size) = form else {
            if !lists.is_empty() {
                return Err("a list of lists".to_owned());
            }
            lists.push(List { slot, form });
            sizes.push(0);
            (element, slot) = inside(element, slot)?;
            continue;
        };
        lists.push(List { slot, form });
        sizes.push(u32::try_from(size).unwrap_or(u32::MAX));
        (element, slot) = inside(element, slot)?;
    }
    let (field, values) = leaf(element, slot)?;
    if lists.is_empty() {
        return Ok(Column { field, path: String::new(), structs: Vec::new(), lists, values });
    }
    let has_offsets = matches!(field.scalar, Scalar::Bytes | Scalar::Utf8);
    if values.is_endless() {
        return Err("a list of values without bytes".to_owned());
    }
    if lists.len() > 1 && sizes[1..].contains(&0) {
        return Err("a list of empty lists".to_owned());
    }
    if has_offsets && lists.len() > 1 {
        return Err("a list of lists of text or bytes".to_owned());
    }
    let shape = [&sizes[..], &field.shape].concat();
    if shape.len() > MAX_SIZES {
        return Err(format!("a list with more than {MAX_SIZES} sizes"));
    }
    // The interface has this word only for a single value.
    let logical = if field.logical == "uuid" { String::new() } else { field.logical.clone() };
    let field = Field { shape, logical, ..field };
    Ok(Column { field, path: String::new(), structs: Vec::new(), lists, values })
}

/// The element of a list, and its slot.
fn inside(list: &Node, slot: Slot) -> Result<(&Node, Slot), String> {
    match &list.children[..] {
        [element] => Ok((element, own_size(slot, list)?)),
        _ => Err("a list without a type".to_owned()),
    }
}

/// The field of values that are no lists, and how they are read.
fn leaf(node: &Node, slot: Slot) -> Result<(Field, Leaf), String> {
    if let Some(dictionary) = node.dictionary {
        let plain = Node { dictionary: None, ..node.clone() };
        let (field, values) = leaf(&plain, Slot::default())?;
        if values.is_endless() {
            return Err("a dictionary of values without bytes".to_owned());
        }
        let size = whole_size(Slot::default(), &plain)?;
        let reference = DictionaryRef {
            id: dictionary.id,
            is_signed: dictionary.is_signed,
            values: Box::new(values),
            size,
        };
        let storage = Storage::Fixed(dictionary.bits as usize / 8);
        let convert = Convert::Same;
        return Ok((field, Leaf { slot, storage, convert, dictionary: Some(reference) }));
    }
    let new = |scalar| Field::new("", scalar);
    let is = |name: &str| node.extension.as_deref() == Some(name);
    let same = |field, bits: i32| (field, Storage::Fixed(bits as usize / 8), Convert::Same);
    let (field, storage, convert) = match &node.kind {
        Kind::Null => (Field::bytes(""), Storage::None, Convert::Same),
        Kind::Bool => (new(Scalar::Boolean), Storage::Bits, Convert::Same),
        Kind::Int { bits, is_signed } => same(new(integer(*bits, *is_signed)), *bits),
        Kind::Float(0) => same(new(Scalar::Float16), 16),
        Kind::Float(1) => same(new(Scalar::Float32), 32),
        Kind::Float(_) => same(new(Scalar::Float64), 64),
        Kind::Bytes { is_wide, is_text } => {
            let (field, convert) = text(*is_text, is("arrow.json"));
            (field, Storage::Offsets { is_wide: *is_wide }, convert)
        }
        Kind::View { is_text } => {
            let (field, convert) = text(*is_text, is("arrow.json"));
            (field, Storage::Views, convert)
        }
        Kind::FixedBytes(0) => (Field::bytes(""), Storage::Fixed(0), Convert::Same),
        Kind::FixedBytes(size) => {
            let field = new(Scalar::Uint8).shaped([*size as u32]);
            let is_uuid = *size == 16 && is("arrow.uuid");
            let field = if is_uuid { field.logical("uuid") } else { field };
            (field, Storage::Fixed(*size as usize), Convert::Same)
        }
        Kind::Decimal { bits, precision, scale } => {
            let field = Field::utf8("").logical("decimal");
            let field = field.metadata("arrow.precision", precision.to_string());
            let field = field.metadata("arrow.scale", scale.to_string());
            let scale = (*scale).clamp(-MAX_SCALE, MAX_SCALE);
            (field, Storage::Fixed(*bits as usize / 8), Convert::Decimal { scale })
        }
        Kind::Date { is_days: true } => same(new(Scalar::Int32).logical("date"), 32),
        Kind::Date { is_days: false } => {
            (new(Scalar::Int32).logical("date"), Storage::Fixed(8), Convert::Days)
        }
        Kind::Time { unit, bits } => {
            let field = new(Scalar::Int64).logical(format!("time[{}]", unit.word()));
            let convert = if *bits == 32 { Convert::Widen } else { Convert::Same };
            (field, Storage::Fixed(*bits as usize / 8), convert)
        }
        Kind::Timestamp { unit, zone } => {
            let field = new(Scalar::Int64).logical(format!("timestamp[{}]", unit.word()));
            let field = match zone.as_str() {
                // The time of a clock on some wall.
                "" => field.metadata("arrow.isAdjustedToUTC", "false"),
                "UTC" => field,
                zone => field.metadata("arrow.timezone", zone),
            };
            same(field, 64)
        }
        Kind::Duration(unit) => {
            same(new(Scalar::Int64).logical(format!("duration[{}]", unit.word())), 64)
        }
        Kind::Interval(0) => same(interval(new(Scalar::Int32), "YEAR_MONTH"), 32),
        Kind::Interval(1) => same(interval(new(Scalar::Int32).shaped([2]), "DAY_TIME"), 64),
        Kind::Interval(_) => same(interval(new(Scalar::Uint8).shaped([16]), "MONTH_DAY_NANO"), 128),
        Kind::List { .. } | Kind::ListView { .. } | Kind::FixedList(_) => {
            return Err("a dictionary of lists".to_owned());
        }
        Kind::Struct => return Err("a list or dictionary of structs".to_owned()),
        Kind::Map => return Err("a map".to_owned()),
        Kind::Union { .. } => return Err("a union".to_owned()),
        Kind::RunEnds => return Err("run-end encoded".to_owned()),
        Kind::Other(number) => return Err(format!("of type {number}")),
    };
    Ok((field, Leaf { slot, storage, convert, dictionary: None }))
}

/// Largest number of digits after the point. The specification allows a few less than 80.
const MAX_SCALE: i32 = 1 << 10;

fn text(is_text: bool, is_json: bool) -> (Field, Convert) {
    match (is_text, is_json) {
        (true, true) => (Field::utf8("").logical("json"), Convert::Text),
        (true, false) => (Field::utf8(""), Convert::Text),
        (false, _) => (Field::bytes(""), Convert::Same),
    }
}

fn interval(field: Field, unit: &str) -> Field {
    field.metadata("arrow.interval", unit)
}

fn integer(bits: i32, is_signed: bool) -> Scalar {
    match (bits, is_signed) {
        (8, true) => Scalar::Int8,
        (16, true) => Scalar::Int16,
        (32, true) => Scalar::Int32,
        (_, true) => Scalar::Int64,
        (8, false) => Scalar::Uint8,
        (16, false) => Scalar::Uint16,
        (32, false) => Scalar::Uint32,
        (_, false) => Scalar::Uint64,
    }
}
