//! Reads the fields of one message, in the order in which they are written, and refuses invalid
//! ones.

use std::fmt;
use std::ops::Range;

use super::Pieces;

/// The encoding of a field's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WireType {
    /// An integer of one to ten bytes.
    Varint,
    /// Eight bytes.
    Fixed64,
    /// Bytes after their length: bytes, text, a message or packed numbers.
    Bytes,
    /// Four bytes.
    Fixed32,
}

/// One field of a message. Offsets count from the start of the reader's bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WireField {
    /// The field's number, from 1 to 2^29 - 1.
    pub number: u32,
    /// How the value is encoded.
    pub wire_type: WireType,
    /// The bytes of the value, without the length before them.
    pub value: Range<usize>,
    /// The start of the field, with its tag.
    pub at: usize,
}

impl WireField {
    /// The value of a field that must be bytes, text or a message.
    ///
    /// # Errors
    /// The field has another wire type.
    #[inline(always)]
    pub fn bytes(&self) -> Result<Range<usize>, WireError> {
        if self.wire_type != WireType::Bytes {
            return Err(self.wrong_wire_type(WireType::Bytes));
        }
        Ok(self.value.clone())
    }

    #[cold]
    pub(crate) fn wrong_wire_type(&self, expected: WireType) -> WireError {
        let (number, found) = (self.number, self.wire_type);
        WireError { at: self.at, kind: WireErrorKind::WrongWireType { number, expected, found } }
    }
}

/// The reason why a message can't be read. Its text completes "expected a message, found …".
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WireError {
    /// The start of the invalid bytes, counted from the start of the reader's bytes.
    pub at: usize,
    pub(crate) kind: WireErrorKind,
}

/// The kinds of errors. `left` is the number of remaining bytes of the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WireErrorKind {
    /// A varint of more than 64 bits.
    LongVarint,
    /// The message ends inside a varint.
    CutVarint,
    /// The message ends inside a fixed-size value.
    CutValue { wanted: usize, left: usize },
    /// A length that is larger than the rest of the message.
    Length { length: u64, left: usize },
    /// The end of a group that is not the innermost open one.
    GroupEnd(u64),
    /// The message ends inside a group.
    OpenGroup(u64),
    /// Groups nested deeper than [`MAX_GROUP_DEPTH`].
    DeepGroups,
    /// A wire type that protobuf does not have.
    UnknownWireType(u64),
    /// A field number that protobuf does not have.
    InvalidNumber(u64),
    /// A known field with the wrong wire type.
    WrongWireType { number: u32, expected: WireType, found: WireType },
    /// Packed numbers of `width` bytes whose length is not a multiple of that.
    OddLength { length: usize, width: usize },
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            WireErrorKind::LongVarint => write!(f, "a varint of more than 64 bits"),
            WireErrorKind::CutVarint => write!(f, "the end of its message inside a varint"),
            WireErrorKind::CutValue { wanted, left } => {
                write!(f, "a value of {wanted} bytes where {left} are left of its message")
            }
            WireErrorKind::Length { length, left } => {
                write!(f, "a length of {length} bytes where {left} are left of its message")
            }
            WireErrorKind::GroupEnd(number) => {
                write!(f, "the end of group {number}, which is not the last one that began")
            }
            WireErrorKind::OpenGroup(number) => {
                write!(f, "the end of its message inside group {number}")
            }
            WireErrorKind::DeepGroups => {
                write!(f, "groups inside of more than {MAX_GROUP_DEPTH} groups")
            }
            WireErrorKind::UnknownWireType(wire_type) => {
                write!(f, "wire type {wire_type}, which protobuf does not have")
            }
            WireErrorKind::InvalidNumber(number) => {
                write!(f, "field number {number}, which protobuf does not have")
            }
            WireErrorKind::WrongWireType { number, expected, found } => {
                write!(f, "field {number} as {found} where {expected} must stand")
            }
            WireErrorKind::OddLength { length, width } => {
                write!(f, "{length} bytes of packed numbers of {width} bytes each")
            }
        }
    }
}

impl fmt::Display for WireType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Varint => "a varint",
            Self::Fixed64 => "8 bytes",
            Self::Bytes => "bytes with a length",
            Self::Fixed32 => "4 bytes",
        })
    }
}

/// Largest nesting depth of groups: protobuf's own limit.
const MAX_GROUP_DEPTH: usize = 100;

/// Reads the fields of a message. The message may be in several pieces.
#[derive(Debug, Clone)]
pub struct MessageReader<'a> {
    /// The bytes that all offsets count in.
    all: &'a [u8],
    /// `all` up to the end of the current piece.
    bytes: &'a [u8],
    /// The start of the next field.
    at: usize,
    /// The pieces after the current one.
    more: std::slice::Iter<'a, Range<usize>>,
}

impl<'a> MessageReader<'a> {
    /// A reader of the message in this range of `bytes`.
    #[inline(always)]
    pub fn new(bytes: &'a [u8], message: Range<usize>) -> Self {
        Self { all: bytes, bytes: &bytes[..message.end], at: message.start, more: [].iter() }
    }

    /// A reader of the message in these pieces of `bytes`.
    #[inline(always)]
    pub fn over(bytes: &'a [u8], message: &'a Pieces) -> Self {
        let (first, more) = message.parts();
        Self { more: more.iter(), ..Self::new(bytes, first) }
    }

    /// The next field; `None` at the end of the message.
    ///
    /// # Errors
    /// The next field is invalid. The reader can't continue then.
    #[inline(always)]
    #[allow(clippy::should_implement_trait, reason = "an error ends it, so it is no iterator")]
    pub fn next(&mut self) -> Result<Option<WireField>, WireError> {
        loop {
            while self.at >= self.bytes.len() {
                let Some(piece) = self.more.next() else { return Ok(None) };
                (self.at, self.bytes) = (piece.start, &self.all[..piece.end]);
            }
            let at = self.at;
            let (number, wire_type) = self.tag()?;
            // It is tested before the other wire types because almost all fields of our messages
            // have it.
            if wire_type == 2 {
                let length = self.length()?;
                return Ok(Some(self.field(number, WireType::Bytes, length, at)));
            }
            if wire_type != 3 {
                return self.next_number(number, wire_type, at).map(Some);
            }
            self.skip_group(number)?;
        }
    }

    /// Reads a field's tag: its number and its wire type.
    #[inline(always)]
    fn tag(&mut self) -> Result<(u64, u64), WireError> {
        let at = self.at;
        let tag = self.varint()?;
        let number = tag >> 3;
        if number == 0 || number >= 1 << 29 {
            return Err(WireError { at, kind: WireErrorKind::InvalidNumber(number) });
        }
        Ok((number, tag & 7))
    }

    /// Reads the length of a field. The message has that many bytes left.
    #[inline(always)]
    fn length(&mut self) -> Result<usize, WireError> {
        let from = self.at;
        let (length, left) = (self.varint()?, self.bytes.len() - self.at);
        if length > left as u64 {
            return Err(WireError { at: from, kind: WireErrorKind::Length { length, left } });
        }
        Ok(length as usize)
    }

    /// Skips the group with this number, after its tag. None of our messages has groups, so every
    /// group is an unknown field.
    #[cold]
    #[inline(never)]
    fn skip_group(&mut self, number: u64) -> Result<(), WireError> {
        let (mut open, mut depth) = ([number; MAX_GROUP_DEPTH], 1);
        while depth > 0 {
            let (at, last) = (self.at, open[depth - 1]);
            if at >= self.bytes.len() {
                return Err(WireError { at, kind: WireErrorKind::OpenGroup(last) });
            }
            match self.tag()? {
                (_, 2) => {
                    let length = self.length()?;
                    self.at += length;
                }
                (_, 3) if depth == MAX_GROUP_DEPTH => {
                    return Err(WireError { at, kind: WireErrorKind::DeepGroups });
                }
                (number, 3) => {
                    open[depth] = number;
                    depth += 1;
                }
                (number, 4) if number == last => depth -= 1,
                (number, wire_type) => {
                    self.next_number(number, wire_type, at)?;
                }
            }
        }
        Ok(())
    }

    /// The rest of a field that is a number. The field starts at `at`, and its tag was read.
    #[inline(never)]
    fn next_number(
        &mut self,
        number: u64,
        wire_type: u64,
        at: usize,
    ) -> Result<WireField, WireError> {
        let (wire_type, length) = match wire_type {
            0 => (WireType::Varint, varint(self.bytes, self.at)?.1 - self.at),
            1 => (WireType::Fixed64, 8),
            5 => (WireType::Fixed32, 4),
            4 => return Err(WireError { at, kind: WireErrorKind::GroupEnd(number) }),
            _ => return Err(WireError { at, kind: WireErrorKind::UnknownWireType(wire_type) }),
        };
        let left = self.bytes.len() - self.at;
        if length > left {
            return Err(WireError { at, kind: WireErrorKind::CutValue { wanted: length, left } });
        }
        Ok(self.field(number, wire_type, length, at))
    }

    /// The field whose value is the next `length` bytes. The reader continues after them.
    #[inline(always)]
    fn field(&mut self, number: u64, wire_type: WireType, length: usize, at: usize) -> WireField {
        let from = self.at;
        self.at += length;
        // The caller checked that it is below 2^29.
        WireField { number: number as u32, wire_type, value: from..self.at, at }
    }

    #[inline(always)]
    fn varint(&mut self) -> Result<u64, WireError> {
        let (value, next) = varint(self.bytes, self.at)?;
        self.at = next;
        Ok(value)
    }
}

/// The varint at `at`, and its end.
#[inline(always)]
pub(crate) fn varint(bytes: &[u8], at: usize) -> Result<(u64, usize), WireError> {
    match bytes.get(at) {
        Some(byte) if *byte < 0x80 => Ok((u64::from(*byte), at + 1)),
        _ => long_varint(bytes, at),
    }
}

fn long_varint(bytes: &[u8], at: usize) -> Result<(u64, usize), WireError> {
    let mut value = 0;
    for (index, byte) in bytes[at..].iter().take(10).enumerate() {
        // Nine bytes have 63 bits, so the tenth can hold only one.
        if index == 9 && *byte > 1 {
            break;
        }
        value |= u64::from(byte & 0x7f) << (7 * index);
        if *byte < 0x80 {
            return Ok((value, at + index + 1));
        }
    }
    let cut = bytes.len() - at < 10;
    let kind = if cut { WireErrorKind::CutVarint } else { WireErrorKind::LongVarint };
    Err(WireError { at, kind })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers of the fields before the end of the message or an error, and that error.
    fn numbers(message: &[u8]) -> (Vec<u32>, Option<WireErrorKind>) {
        let mut reader = MessageReader::new(message, 0..message.len());
        let mut numbers = Vec::new();
        loop {
            match reader.next() {
                Ok(Some(field)) => numbers.push(field.number),
                Ok(None) => return (numbers, None),
                Err(error) => return (numbers, Some(error.kind)),
            }
        }
    }

    #[test]
    fn groups_are_skipped_with_all_that_is_in_them() {
        // Field 1; group 2 with a varint, bytes, 8 bytes, 4 bytes, group 3 and its end; field 4.
        let message =
            b"\x08\x01\x13\x08\x96\x01\x12\x02\x14\x13\x0912345678\x0d1234\x1b\x1c\x14\x22\0";
        assert_eq!(numbers(message), (vec![1, 4], None));
        assert_eq!(numbers(b"\x13\x14\x13\x14\x08\x01"), (vec![1], None));
    }

    #[test]
    fn groups_that_do_not_end_as_they_began() {
        assert_eq!(numbers(b"\x08\x01\x13\x1c"), (vec![1], Some(WireErrorKind::GroupEnd(3))));
        assert_eq!(numbers(b"\x13\x1b\x1c"), (vec![], Some(WireErrorKind::OpenGroup(2))));
        assert_eq!(numbers(b"\x14"), (vec![], Some(WireErrorKind::GroupEnd(2))));
        let nested = |depth| [vec![0x13; depth], vec![0x14; depth]].concat();
        assert_eq!(numbers(&nested(MAX_GROUP_DEPTH)), (vec![], None));
        let deeper = numbers(&nested(MAX_GROUP_DEPTH + 1));
        assert_eq!(deeper, (vec![], Some(WireErrorKind::DeepGroups)));
    }
}
