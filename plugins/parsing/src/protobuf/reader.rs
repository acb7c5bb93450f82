//! Reads the fields of one message, in the order in which they are written, and refuses what is not
//! valid.

use std::fmt;
use std::ops::Range;

use super::Pieces;

/// How the value of a field is encoded.
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
    /// Where the field starts, with its tag.
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

/// Why a message can't be read. Its text completes "expected a message, found …".
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WireError {
    /// Where the invalid bytes start, counted from the start of the reader's bytes.
    pub at: usize,
    pub(crate) kind: WireErrorKind,
}

/// The kinds of errors. A `left` is how many bytes the message still has.
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
    /// The start or the end of a group.
    Group(u64),
    /// A wire type that protobuf does not have.
    UnknownWireType(u64),
    /// A field number that protobuf does not have.
    InvalidNumber(u64),
    /// A known field with another wire type than its own.
    WrongWireType { number: u32, expected: WireType, found: WireType },
    /// Packed numbers of `width` bytes whose length is no multiple of that.
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
            WireErrorKind::Group(wire_type) => write!(f, "a group (wire type {wire_type})"),
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

/// Reads the fields of a message. The message may be in several pieces.
#[derive(Debug, Clone)]
pub struct MessageReader<'a> {
    /// The bytes that all offsets count in.
    all: &'a [u8],
    /// `all` up to the end of the current piece.
    bytes: &'a [u8],
    /// Where the next field starts.
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
    /// The next field is not valid. The reader can't go on then.
    #[inline(always)]
    #[allow(clippy::should_implement_trait, reason = "an error ends it, so it is no iterator")]
    pub fn next(&mut self) -> Result<Option<WireField>, WireError> {
        while self.at >= self.bytes.len() {
            let Some(piece) = self.more.next() else { return Ok(None) };
            (self.at, self.bytes) = (piece.start, &self.all[..piece.end]);
        }
        let at = self.at;
        let tag = self.varint()?;
        let number = tag >> 3;
        if number == 0 || number >= 1 << 29 {
            return Err(WireError { at, kind: WireErrorKind::InvalidNumber(number) });
        }
        // Tested before the other wire types because nearly all fields of our messages have it.
        if tag & 7 == 2 {
            let from = self.at;
            let (length, left) = (self.varint()?, self.bytes.len() - self.at);
            if length > left as u64 {
                return Err(WireError { at: from, kind: WireErrorKind::Length { length, left } });
            }
            return Ok(Some(self.field(number, WireType::Bytes, length as usize, at)));
        }
        self.next_number(number, tag & 7, at).map(Some)
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
            3 | 4 => return Err(WireError { at, kind: WireErrorKind::Group(wire_type) }),
            _ => return Err(WireError { at, kind: WireErrorKind::UnknownWireType(wire_type) }),
        };
        let left = self.bytes.len() - self.at;
        if length > left {
            return Err(WireError { at, kind: WireErrorKind::CutValue { wanted: length, left } });
        }
        Ok(self.field(number, wire_type, length, at))
    }

    /// The field whose value is the next `length` bytes. The reader then goes on after them.
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

/// The varint at `at`, and where it ends.
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
