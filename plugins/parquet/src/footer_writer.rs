//! Writes a footer, as [`Footer::read`] reads it: what a part of a plan has to know of it.

use crate::footer::{Chunk, Footer, Logical, Node, RowGroup, Unit};
use crate::thrift_writer::ThriftWriter;

impl Footer {
    pub(crate) fn bytes(&self) -> Vec<u8> {
        ThriftWriter::bytes_of(|writer| {
            writer.list(2, &self.schema, |writer, node| node.write(writer));
            writer.i64(3, self.rows);
            writer.list(4, &self.groups, |writer, group| group.write(writer));
        })
    }
}

impl Node {
    fn write(&self, writer: &mut ThriftWriter) {
        if let Some(physical) = self.physical {
            writer.i32(1, physical);
        }
        writer.i32(2, self.length);
        writer.i32(3, self.repetition);
        writer.binary(4, self.name.as_bytes());
        writer.i32(5, self.children);
        if let Some(converted) = self.converted {
            writer.i32(6, converted);
        }
        writer.i32(7, self.scale);
        writer.i32(8, self.precision);
        if let Some(logical) = self.logical {
            writer.part(10, |writer| logical.write(writer));
        }
    }
}

impl Logical {
    fn write(self, writer: &mut ThriftWriter) {
        let empty = |_: &mut ThriftWriter| {};
        match self {
            Self::Text => writer.part(1, empty),
            Self::Map => writer.part(2, empty),
            Self::List => writer.part(3, empty),
            Self::Decimal { scale, precision } => writer.part(5, |writer| {
                writer.i32(1, scale);
                writer.i32(2, precision);
            }),
            Self::Date => writer.part(6, empty),
            Self::Time(unit) => writer.part(7, |writer| unit.write(writer)),
            Self::Timestamp { unit, is_utc } => writer.part(8, |writer| {
                writer.bool(1, is_utc);
                unit.write(writer);
            }),
            Self::Integer { bits, is_signed } => writer.part(10, |writer| {
                writer.i32(1, bits);
                writer.bool(2, is_signed);
            }),
            Self::Other | Self::Interval => writer.part(11, empty),
            Self::Json => writer.part(12, empty),
            Self::Bson => writer.part(13, empty),
            Self::Uuid => writer.part(14, empty),
            Self::Float16 => writer.part(15, empty),
        }
    }
}

impl Unit {
    fn write(self, writer: &mut ThriftWriter) {
        let number = match self {
            Self::Millis => 1,
            Self::Micros => 2,
            Self::Nanos => 3,
        };
        writer.part(2, |writer| writer.part(number, |_| {}));
    }
}

impl RowGroup {
    fn write(&self, writer: &mut ThriftWriter) {
        writer.list(1, &self.chunks, |writer, chunk| chunk.write(writer));
        writer.i64(3, self.rows);
    }
}

impl Chunk {
    fn write(&self, writer: &mut ThriftWriter) {
        if self.is_elsewhere {
            writer.binary(1, b"elsewhere");
        }
        writer.part(3, |writer| {
            writer.i32(1, self.physical);
            writer.i32(4, self.codec);
            writer.i64(5, self.values);
            writer.i64(7, self.size);
            writer.i64(9, self.data);
            if let Some(dictionary) = self.dictionary {
                writer.i64(11, dictionary);
            }
        });
        if self.is_encrypted {
            writer.part(8, |_| {});
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::option;
    use proptest::prelude::*;

    use super::*;

    fn unit() -> impl Strategy<Value = Unit> {
        prop_oneof![Just(Unit::Millis), Just(Unit::Micros), Just(Unit::Nanos)]
    }

    fn logical() -> impl Strategy<Value = Logical> {
        prop_oneof![
            Just(Logical::Text),
            Just(Logical::Map),
            Just(Logical::List),
            Just(Logical::Date),
            Just(Logical::Json),
            Just(Logical::Bson),
            Just(Logical::Uuid),
            Just(Logical::Float16),
            Just(Logical::Other),
            unit().prop_map(Logical::Time),
            (unit(), any::<bool>()).prop_map(|(unit, is_utc)| Logical::Timestamp { unit, is_utc }),
            (any::<i8>(), any::<bool>())
                .prop_map(|(bits, is_signed)| Logical::Integer { bits: bits.into(), is_signed }),
            (any::<i32>(), any::<i32>())
                .prop_map(|(scale, precision)| Logical::Decimal { scale, precision }),
        ]
    }

    fn node() -> impl Strategy<Value = Node> {
        let numbers = (option::of(any::<i32>()), any::<[i32; 5]>(), option::of(any::<i32>()));
        (".{0,9}", numbers, option::of(logical())).prop_map(
            |(
                name,
                (physical, [length, repetition, children, scale, precision], converted),
                logical,
            )| {
                Node {
                    name,
                    physical,
                    length,
                    repetition,
                    children,
                    converted,
                    logical,
                    scale,
                    precision,
                }
            },
        )
    }

    fn chunk() -> impl Strategy<Value = Chunk> {
        (any::<[bool; 2]>(), any::<[i32; 2]>(), any::<[i64; 3]>(), option::of(any::<i64>()))
            .prop_map(
                |(
                    [is_elsewhere, is_encrypted],
                    [physical, codec],
                    [values, size, data],
                    dictionary,
                )| {
                    Chunk {
                        is_elsewhere,
                        is_encrypted,
                        physical,
                        codec,
                        values,
                        size,
                        data,
                        dictionary,
                        extras_end: 0,
                    }
                },
            )
    }

    proptest! {
        #[test]
        fn a_written_footer_is_read_back(
            schema in vec(node(), 0..20),
            groups in vec((any::<i64>(), vec(chunk(), 0..20)), 0..3),
            rows: i64,
        ) {
            let group = |(rows, chunks)| RowGroup { rows, chunks };
            let groups = groups.into_iter().map(group).collect();
            let footer = Footer { rows, schema, groups, is_encrypted: false };
            prop_assert_eq!(Footer::read(&footer.bytes(), 0), Ok(footer));
        }
    }
}
