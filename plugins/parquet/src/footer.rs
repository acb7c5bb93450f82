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

impl Footer {
    /// Adds what a writer has not counted to the sizes of columns: up to the next column, or the
    /// footer, which begins at `end`.
    fn lengthen(&mut self, end: u64) {
        /// The most bytes that the header of a dictionary has.
        const MOST: i64 = 100;
        let chunks = || self.groups.iter().flat_map(|group| &group.chunks);
        let mut starts: Vec<_> = chunks().map(Chunk::start).collect();
        starts.push(i64::try_from(end).unwrap_or(i64::MAX));
        starts.sort_unstable();
        for chunk in self.groups.iter_mut().flat_map(|group| &mut group.chunks) {
            let chunk_end = chunk.start().saturating_add(chunk.size);
            let next = starts[starts.partition_point(|start| *start < chunk_end)..].first();
            let more = next.map_or(0, |next| next.saturating_sub(chunk_end)).min(MOST);
            chunk.size = chunk.size.saturating_add(more);
        }
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
    /// Reads a footer, which begins at byte `at` of its file.
    pub(crate) fn read(bytes: &[u8], at: u64) -> Result<Self, Malformed> {
        let (mut footer, mut is_short) = (Self::default(), false);
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
                6 if kind == Kind::Binary => {
                    is_short = has_short_sizes(thrift.binary(kind)?);
                }
                8 => {
                    footer.is_encrypted = true;
                    return Ok(false);
                }
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        if is_short {
            footer.lengthen(at);
        }
        Ok(footer)
    }
}

/// Whether this writer has left out the headers of dictionaries when it counted the bytes of
/// columns: parquet-mr before version 1.2.9, or without one.
fn has_short_sizes(writer: &[u8]) -> bool {
    let Some(rest) = writer.strip_prefix(b"parquet-mr") else { return false };
    let version = rest.strip_prefix(b" version ").unwrap_or_default();
    let number = |word: &[u8]| str::from_utf8(word).ok()?.parse().ok();
    let mut numbers = version.split(|byte| !byte.is_ascii_digit()).map_while(number);
    let mut next = || numbers.next().unwrap_or(0_u32);
    [next(), next(), next()] < [1, 2, 9]
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
                // Dremio has something else there.
                14 if kind == Kind::I64 => filter[0] = thrift.int(kind)?,
                15 if kind == Kind::I32 => filter[1] = thrift.int(kind)?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(filter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::thrift_writer::ThriftWriter;

    #[test]
    fn writers_that_count_too_few_bytes_are_known_by_their_version() {
        for (writer, is_short) in [
            ("parquet-mr", true),
            ("parquet-mr version 1.2.8 (build 1)", true),
            ("parquet-mr version 1.0.0-t-592", true),
            ("parquet-mr version 1.2.9", false),
            ("parquet-mr version 1.12.0-201812210311", false),
            ("parquet-cpp-arrow version 1.0.0", false),
            ("impala version 1.0", false),
        ] {
            assert_eq!(has_short_sizes(writer.as_bytes()), is_short, "{writer}");
        }
    }

    #[test]
    fn a_field_of_another_type_is_skipped() {
        let bytes = ThriftWriter::bytes_of(|writer| {
            writer.list(4, &[()], |writer, ()| {
                writer.list(1, &[()], |writer, ()| {
                    writer.part(3, |writer| {
                        writer.i64(7, 9);
                        // Where the size of a filter may stand, Dremio has a list.
                        writer.list(15, &[()], |writer, ()| writer.i32(1, 2));
                    });
                });
            });
            writer.i64(6, 1);
        });
        let footer = Footer::read(&bytes, 100).expect("it is sound");
        assert_eq!(footer.groups[0].chunks[0], Chunk { size: 9, ..Chunk::default() });
    }

    #[test]
    fn sizes_grow_up_to_the_next_column_or_the_footer() {
        let chunk = |data, size| Chunk { data, size, ..Chunk::default() };
        let group = |chunks| RowGroup { rows: 1, chunks };
        let mut footer = Footer {
            groups: vec![group(vec![chunk(4, 50), chunk(70, 30)]), group(vec![chunk(100, 500)])],
            ..Footer::default()
        };
        footer.lengthen(630);
        let chunks = footer.groups.iter().flat_map(|group| &group.chunks);
        let sizes: Vec<_> = chunks.map(|chunk| chunk.size).collect();
        assert_eq!(sizes, [66, 30, 530]);
        footer.lengthen(900);
        assert_eq!(footer.groups[1].chunks[0].size, 630);
    }
}
