//! The footer of a file: its schema, and where the pages of each column lie.

use crate::thrift::{Kind, Malformed, Thrift};

/// The first and the last bytes of a file.
pub(crate) const MAGIC: [u8; 4] = *b"PAR1";
/// The same of a file whose footer is encrypted.
pub(crate) const ENCRYPTED: [u8; 4] = *b"PARE";
/// The length of the footer, and the magic after it.
pub(crate) const TAIL: usize = 8;

/// What a footer says.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Footer {
    pub(crate) rows: i64,
    /// The nodes of the schema, each before its children.
    pub(crate) schema: Vec<Node>,
    pub(crate) groups: Vec<RowGroup>,
    pub(crate) is_encrypted: bool,
}

/// A node of the schema.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) name: String,
    /// The number of the type of a column's values.
    pub(crate) physical: Option<i32>,
    /// Bytes of each value, if the type has a fixed size.
    pub(crate) length: i32,
    /// 0 required, 1 optional, 2 repeated.
    pub(crate) repetition: i32,
    pub(crate) children: i32,
    pub(crate) converted: Option<i32>,
    pub(crate) logical: Option<Logical>,
    pub(crate) scale: i32,
    pub(crate) precision: i32,
}

/// A logical type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Logical {
    Text,
    Map,
    List,
    Decimal {
        scale: i32,
        precision: i32,
    },
    Date,
    Time(Unit),
    Timestamp {
        unit: Unit,
        is_utc: bool,
    },
    Integer {
        bits: i32,
        is_signed: bool,
    },
    Json,
    Bson,
    Uuid,
    Float16,
    Interval,
    /// All values are null, or the type is not known.
    Other,
}

/// The unit of a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    Millis,
    Micros,
    Nanos,
}

/// A group of rows: the chunks of its columns.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct RowGroup {
    pub(crate) rows: i64,
    pub(crate) chunks: Vec<Chunk>,
}

/// The pages of one column in a group of rows.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Chunk {
    pub(crate) is_elsewhere: bool,
    pub(crate) is_encrypted: bool,
    pub(crate) physical: i32,
    pub(crate) codec: i32,
    pub(crate) values: i64,
    pub(crate) size: i64,
    pub(crate) data: i64,
    pub(crate) dictionary: Option<i64>,
    /// The end of what the writer has stored of it between the pages and the footer: indexes of
    /// pages, a filter.
    pub(crate) extras_end: i64,
}

impl Footer {
    /// The first byte after all that the footer says the file has. What is between it and the
    /// footer is of no known use.
    pub(crate) fn end(&self) -> u64 {
        let chunks = self.groups.iter().flat_map(|group| &group.chunks);
        let end = |one: &Chunk| one.start().saturating_add(one.size).max(one.extras_end);
        u64::try_from(chunks.map(end).max().unwrap_or(0)).unwrap_or(0)
    }
}

impl Chunk {
    /// The offset of its first page.
    pub(crate) fn start(&self) -> i64 {
        // Some writers store 0 if there is no dictionary.
        self.dictionary.filter(|at| *at > 0).map_or(self.data, |at| at.min(self.data))
    }
}

impl Footer {
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut footer = Self::default();
        Thrift::new(bytes).fields(Kind::Struct, |thrift, number, kind| {
            match number {
                2 => thrift.list(kind, |thrift, kind| {
                    footer.schema.push(Node::read(thrift, kind)?);
                    Ok(())
                })?,
                3 => footer.rows = thrift.int(kind)?,
                4 => thrift.list(kind, |thrift, kind| {
                    footer.groups.push(RowGroup::read(thrift, kind)?);
                    Ok(())
                })?,
                8 => {
                    footer.is_encrypted = true;
                    return Ok(false);
                }
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(footer)
    }
}

impl Node {
    fn read(thrift: &mut Thrift, kind: Kind) -> Result<Self, Malformed> {
        let mut node = Self::default();
        thrift.fields(kind, |thrift, number, kind| {
            match number {
                1 => node.physical = Some(thrift.i32(kind)?),
                2 => node.length = thrift.i32(kind)?,
                3 => node.repetition = thrift.i32(kind)?,
                4 => node.name = thrift.text(kind)?,
                5 => node.children = thrift.i32(kind)?,
                6 => node.converted = Some(thrift.i32(kind)?),
                7 => node.scale = thrift.i32(kind)?,
                8 => node.precision = thrift.i32(kind)?,
                10 => node.logical = Logical::read(thrift, kind)?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(node)
    }

    /// Its logical type, in whichever of the two ways it is written.
    pub(crate) fn meaning(&self) -> Option<Logical> {
        if self.logical.is_some() {
            return self.logical;
        }
        let integer = |bits, is_signed| Logical::Integer { bits, is_signed };
        let timestamp = |unit| Logical::Timestamp { unit, is_utc: true };
        Some(match self.converted? {
            0 | 4 => Logical::Text,
            1 | 2 => Logical::Map,
            3 => Logical::List,
            5 => Logical::Decimal { scale: self.scale, precision: self.precision },
            6 => Logical::Date,
            7 => Logical::Time(Unit::Millis),
            8 => Logical::Time(Unit::Micros),
            9 => timestamp(Unit::Millis),
            10 => timestamp(Unit::Micros),
            11 => integer(8, false),
            12 => integer(16, false),
            13 => integer(32, false),
            14 => integer(64, false),
            15 => integer(8, true),
            16 => integer(16, true),
            17 => integer(32, true),
            18 => integer(64, true),
            19 => Logical::Json,
            20 => Logical::Bson,
            21 => Logical::Interval,
            _ => Logical::Other,
        })
    }
}

impl Logical {
    /// Reads the union of logical types. `None` if it is empty.
    fn read(thrift: &mut Thrift, kind: Kind) -> Result<Option<Self>, Malformed> {
        let mut found = None;
        thrift.fields(kind, |thrift, number, kind| {
            let facts = Facts::read(thrift, kind)?;
            let unit = facts.unit.unwrap_or(Unit::Millis);
            found = Some(match number {
                1 | 4 => Self::Text,
                2 => Self::Map,
                3 => Self::List,
                5 => Self::Decimal { scale: facts.first, precision: facts.second },
                6 => Self::Date,
                7 => Self::Time(unit),
                8 => Self::Timestamp { unit, is_utc: facts.flag.unwrap_or(true) },
                10 => Self::Integer { bits: facts.first, is_signed: facts.flag.unwrap_or(true) },
                12 => Self::Json,
                13 => Self::Bson,
                14 => Self::Uuid,
                15 => Self::Float16,
                _ => Self::Other,
            });
            Ok(true)
        })?;
        Ok(found)
    }
}

/// What the struct of a logical type may hold.
#[derive(Default)]
struct Facts {
    first: i32,
    second: i32,
    flag: Option<bool>,
    unit: Option<Unit>,
}

impl Facts {
    fn read(thrift: &mut Thrift, kind: Kind) -> Result<Self, Malformed> {
        let mut facts = Self::default();
        thrift.fields(kind, |thrift, number, kind| {
            match (number, kind) {
                (_, Kind::True | Kind::False) => facts.flag = Some(thrift.bool(kind)?),
                (1, Kind::Byte | Kind::I16 | Kind::I32) => facts.first = thrift.i32(kind)?,
                (2, Kind::Byte | Kind::I16 | Kind::I32) => facts.second = thrift.i32(kind)?,
                (2, Kind::Struct) => thrift.fields(kind, |_, number, _| {
                    facts.unit = match number {
                        1 => Some(Unit::Millis),
                        2 => Some(Unit::Micros),
                        3 => Some(Unit::Nanos),
                        _ => return Err(Malformed("a unit of time")),
                    };
                    Ok(false)
                })?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(facts)
    }
}

impl RowGroup {
    fn read(thrift: &mut Thrift, kind: Kind) -> Result<Self, Malformed> {
        let mut group = Self::default();
        thrift.fields(kind, |thrift, number, kind| {
            match number {
                1 => thrift.list(kind, |thrift, kind| {
                    group.chunks.push(Chunk::read(thrift, kind)?);
                    Ok(())
                })?,
                3 => group.rows = thrift.int(kind)?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(group)
    }
}

impl Chunk {
    fn read(thrift: &mut Thrift, kind: Kind) -> Result<Self, Malformed> {
        let mut chunk = Self::default();
        let (mut at, mut size) = ([0i64; 3], [0i64; 3]);
        thrift.fields(kind, |thrift, number, kind| {
            match number {
                1 => chunk.is_elsewhere = !thrift.binary(kind)?.is_empty(),
                3 => [at[2], size[2]] = chunk.read_metadata(thrift, kind)?,
                4 => at[0] = thrift.int(kind)?,
                5 => size[0] = thrift.int(kind)?,
                6 => at[1] = thrift.int(kind)?,
                7 => size[1] = thrift.int(kind)?,
                8 => {
                    chunk.is_encrypted = true;
                    return Ok(false);
                }
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        let ends = at.iter().zip(size).map(|(at, size)| at.saturating_add(size));
        chunk.extras_end = ends.max().unwrap_or(0);
        Ok(chunk)
    }

    /// Returns the place and the size of its filter, if it has one.
    fn read_metadata(&mut self, thrift: &mut Thrift, kind: Kind) -> Result<[i64; 2], Malformed> {
        let mut filter = [0i64; 2];
        thrift.fields(kind, |thrift, number, kind| {
            match number {
                1 => self.physical = thrift.i32(kind)?,
                4 => self.codec = thrift.i32(kind)?,
                5 => self.values = thrift.int(kind)?,
                7 => self.size = thrift.int(kind)?,
                9 => self.data = thrift.int(kind)?,
                11 => self.dictionary = Some(thrift.int(kind)?),
                14 => filter[0] = thrift.int(kind)?,
                15 => filter[1] = thrift.int(kind)?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(filter)
    }
}
