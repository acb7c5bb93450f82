//! Writes the values of Thrift's compact protocol that a footer has.

use crate::thrift::Kind;

/// Values in the compact protocol.
#[derive(Debug, Default)]
pub(crate) struct ThriftWriter {
    bytes: Vec<u8>,
    /// The number of the last field of each open struct.
    last: Vec<i16>,
}

impl ThriftWriter {
    /// The bytes of a struct, whose fields `write` writes in the order of their numbers.
    pub(crate) fn bytes_of(write: impl FnOnce(&mut Self)) -> Vec<u8> {
        let mut writer = Self::default();
        writer.fields(write);
        writer.bytes
    }

    /// A struct that is an element of a list.
    pub(crate) fn fields(&mut self, write: impl FnOnce(&mut Self)) {
        self.last.push(0);
        write(self);
        self.last.pop();
        self.bytes.push(0);
    }

    /// The head of a field. Fields are less than 16 numbers apart.
    fn head(&mut self, number: i16, kind: Kind) {
        if let Some(last) = self.last.last_mut() {
            let step = (number - *last) as u8;
            *last = number;
            self.bytes.push(step << 4 | kind.code());
        }
    }

    pub(crate) fn i32(&mut self, number: i16, value: i32) {
        self.head(number, Kind::I32);
        self.zigzag(value.into());
    }

    pub(crate) fn i64(&mut self, number: i16, value: i64) {
        self.head(number, Kind::I64);
        self.zigzag(value);
    }

    pub(crate) fn bool(&mut self, number: i16, value: bool) {
        self.head(number, if value { Kind::True } else { Kind::False });
    }

    pub(crate) fn binary(&mut self, number: i16, bytes: &[u8]) {
        self.head(number, Kind::Binary);
        self.varint(bytes.len() as u64);
        self.bytes.extend_from_slice(bytes);
    }

    pub(crate) fn part(&mut self, number: i16, write: impl FnOnce(&mut Self)) {
        self.head(number, Kind::Struct);
        self.fields(write);
    }

    pub(crate) fn list<T>(
        &mut self,
        number: i16,
        items: &[T],
        mut write: impl FnMut(&mut Self, &T),
    ) {
        self.head(number, Kind::List);
        self.bytes.push(0xf0 | Kind::Struct.code());
        self.varint(items.len() as u64);
        for item in items {
            self.fields(|writer| write(writer, item));
        }
    }

    fn zigzag(&mut self, value: i64) {
        self.varint((value << 1 ^ value >> 63) as u64);
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }
}
