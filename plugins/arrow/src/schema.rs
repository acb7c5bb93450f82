//! The schema of a stream: a tree of columns with their types.

use crate::flatbuffer::{Malformed, Table};

/// Largest nesting depth of columns.
const MAX_DEPTH: usize = 64;
/// Largest number of columns, with those inside of others. It bounds a tree whose branches share
/// their bytes.
const MAX_NODES: usize = 1 << 17;
/// Largest size of all names and other texts together.
const MAX_TEXT: usize = 8 << 20;
/// What a fact about a column counts as text.
const FACT: usize = 8;

/// A column, or what is inside of one.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) is_nullable: bool,
    pub(crate) kind: Kind,
    pub(crate) dictionary: Option<Dictionary>,
    pub(crate) children: Vec<Node>,
    /// The name of its extension type.
    pub(crate) extension: Option<String>,
}

/// The type of a column's values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    Null,
    Bool,
    Int {
        bits: i32,
        is_signed: bool,
    },
    /// Floating point: 0 is half, 1 single, 2 double.
    Float(i16),
    Bytes {
        is_wide: bool,
        is_text: bool,
    },
    View {
        is_text: bool,
    },
    FixedBytes(i32),
    Decimal {
        bits: i32,
        precision: i32,
        scale: i32,
    },
    /// Days, or milliseconds.
    Date {
        is_days: bool,
    },
    Time {
        unit: Unit,
        bits: i32,
    },
    /// The zone is empty if the time is not in UTC.
    Timestamp {
        unit: Unit,
        zone: String,
    },
    Duration(Unit),
    /// Months; days and milliseconds; months, days and nanoseconds.
    Interval(i16),
    List {
        is_wide: bool,
    },
    ListView {
        is_wide: bool,
    },
    FixedList(i32),
    Struct,
    Map,
    /// A union with this number of buffers of its own.
    Union {
        buffers: usize,
    },
    RunEnds,
    /// A type that is newer than this decoder.
    Other(u8),
}

/// A unit of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    Seconds,
    Millis,
    Micros,
    Nanos,
}

/// The values are indices into a dictionary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Dictionary {
    pub(crate) id: i64,
    pub(crate) bits: i32,
    pub(crate) is_signed: bool,
}

/// Why a schema can't be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SchemaError {
    /// The bytes are damaged.
    Bad(String),
    /// The decoder does not support it.
    Refused(String),
}

impl From<Malformed> for SchemaError {
    fn from(what: Malformed) -> Self {
        Self::Bad(format!("expected {} in the schema, found something else", what.0))
    }
}

impl Unit {
    fn of(number: i16) -> Result<Self, Malformed> {
        Ok(match number {
            0 => Self::Seconds,
            1 => Self::Millis,
            2 => Self::Micros,
            3 => Self::Nanos,
            _ => return Err(Malformed("a unit of time")),
        })
    }

    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Seconds => "s",
            Self::Millis => "ms",
            Self::Micros => "us",
            Self::Nanos => "ns",
        }
    }
}

/// The columns of a schema.
/// Before version 5 of the metadata, which has the number 4, unions had a validity.
pub(crate) fn read(schema: &Table, version: i16) -> Result<Vec<Node>, SchemaError> {
    if schema.i16(0, 0)? != 0 {
        return Err(SchemaError::Refused(
            "its numbers are big-endian, which is not supported; write it again on a machine that \
             is little-endian, as nearly all are"
                .to_owned(),
        ));
    }
    let mut reader = Reader { version, nodes: 0, text: 0 };
    reader.nodes(schema, 1, 0)
}

struct Reader {
    version: i16,
    /// Number of columns, and size of the texts, that were read.
    nodes: usize,
    text: usize,
}

impl Reader {
    /// The columns in a field of a table.
    fn nodes(&mut self, of: &Table, field: usize, depth: usize) -> Result<Vec<Node>, SchemaError> {
        if depth > MAX_DEPTH {
            return Err(SchemaError::Bad(format!("the schema has more than {MAX_DEPTH} levels")));
        }
        of.tables(field)?.map(|one| self.node(&one?, depth)).collect()
    }

    fn node(&mut self, field: &Table, depth: usize) -> Result<Node, SchemaError> {
        self.nodes += 1;
        let name = field.text(0)?.unwrap_or_default();
        self.text += name.len();
        if self.nodes > MAX_NODES || self.text > MAX_TEXT {
            return Err(SchemaError::Bad(format!(
                "the schema has more than {MAX_NODES} columns, or {MAX_TEXT} bytes of names"
            )));
        }
        let dictionary = field.table(4)?.map(|one| dictionary(&one)).transpose()?;
        let mut extension = None;
        for fact in field.tables(6)? {
            let fact = fact?;
            self.text += FACT;
            // Other values may be any bytes.
            if fact.vector(0, 1)? == b"ARROW:extension:name" {
                extension = fact.text(1)?.map(str::to_owned);
            }
        }
        Ok(Node {
            name: name.to_owned(),
            is_nullable: field.bool(1, false)?,
            kind: kind(self.version, field.u8(2, 0)?, field.table(3)?)?,
            dictionary,
            children: self.nodes(field, 5, depth + 1)?,
            extension,
        })
    }
}

fn dictionary(encoding: &Table) -> Result<Dictionary, Malformed> {
    // Indices are signed integers of 32 bits unless the table says what they are.
    let (bits, is_signed) = match encoding.table(1)? {
        Some(int) => (int.i32(0, 0)?, int.bool(1, false)?),
        None => (32, true),
    };
    if !matches!(bits, 8 | 16 | 32 | 64) {
        return Err(Malformed("an index of 8, 16, 32 or 64 bits"));
    }
    Ok(Dictionary { id: encoding.i64(0, 0)?, bits, is_signed })
}

/// The type of this number.
fn kind(version: i16, number: u8, table: Option<Table>) -> Result<Kind, Malformed> {
    let table = table.ok_or(Malformed("the type of a column"))?;
    Ok(match number {
        1 => Kind::Null,
        2 => match table.i32(0, 0)? {
            bits @ (8 | 16 | 32 | 64) => Kind::Int { bits, is_signed: table.bool(1, false)? },
            _ => return Err(Malformed("an integer of 8, 16, 32 or 64 bits")),
        },
        3 => match table.i16(0, 0)? {
            precision @ 0..=2 => Kind::Float(precision),
            _ => return Err(Malformed("a precision of floating point")),
        },
        4 => Kind::Bytes { is_wide: false, is_text: false },
        5 => Kind::Bytes { is_wide: false, is_text: true },
        6 => Kind::Bool,
        7 => match table.i32(2, 128)? {
            bits @ (32 | 64 | 128 | 256) => {
                Kind::Decimal { bits, precision: table.i32(0, 0)?, scale: table.i32(1, 0)? }
            }
            _ => return Err(Malformed("a decimal of 32, 64, 128 or 256 bits")),
        },
        8 => match table.i16(0, 1)? {
            unit @ 0..=1 => Kind::Date { is_days: unit == 0 },
            _ => return Err(Malformed("a unit of dates")),
        },
        9 => match (Unit::of(table.i16(0, 1)?)?, table.i32(1, 32)?) {
            (unit @ (Unit::Seconds | Unit::Millis), bits @ 32)
            | (unit @ (Unit::Micros | Unit::Nanos), bits @ 64) => Kind::Time { unit, bits },
            _ => return Err(Malformed("a time of 32 or 64 bits")),
        },
        10 => Kind::Timestamp {
            unit: Unit::of(table.i16(0, 0)?)?,
            zone: table.text(1)?.unwrap_or_default().to_owned(),
        },
        11 => match table.i16(0, 0)? {
            unit @ 0..=2 => Kind::Interval(unit),
            _ => return Err(Malformed("a unit of intervals")),
        },
        12 => Kind::List { is_wide: false },
        13 => Kind::Struct,
        14 => {
            let is_dense = table.i16(0, 0)? == 1;
            Kind::Union { buffers: 1 + usize::from(is_dense) + usize::from(version < 4) }
        }
        15 => match table.i32(0, 0)? {
            size @ 0.. => Kind::FixedBytes(size),
            _ => return Err(Malformed("a size of bytes")),
        },
        16 => match table.i32(0, 0)? {
            size @ 0.. => Kind::FixedList(size),
            _ => return Err(Malformed("a size of a list")),
        },
        17 => Kind::Map,
        18 => Kind::Duration(Unit::of(table.i16(0, 1)?)?),
        19 => Kind::Bytes { is_wide: true, is_text: false },
        20 => Kind::Bytes { is_wide: true, is_text: true },
        21 => Kind::List { is_wide: true },
        22 => Kind::RunEnds,
        23 => Kind::View { is_text: false },
        24 => Kind::View { is_text: true },
        25 => Kind::ListView { is_wide: false },
        26 => Kind::ListView { is_wide: true },
        other => Kind::Other(other),
    })
}
