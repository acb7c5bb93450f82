//! The fields of one message, in the order in which they stand, and all that can be wrong with them.

use std::fmt;
use std::ops::Range;

use super::Pieces;

/// How the value of a field stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    /// A number of one to ten bytes.
    Varint,
    /// Eight bytes.
    Fixed64,
    /// So many bytes as are said before them: bytes, text, a message, numbers packed.
    Bytes,
    /// Four bytes.
    Fixed32,
}

/// One field as it stands in a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The field's number.
    pub number: u32,
    /// How its value stands.
    pub wire: Wire,
    /// Where its value lies, without a length before it.
    pub value: Range<usize>,
    /// Where it starts.
    pub at: usize,
}

impl Entry {
    /// The bytes of a value that must be bytes, text or a message.
    #[inline(always)]
    pub fn bytes(&self) -> Result<Range<usize>, Fault> {
        if self.wire != Wire::Bytes {
            return Err(self.wrong_wire(Wire::Bytes));
        }
        Ok(self.value.clone())
    }

    #[cold]
    pub(crate) fn wrong_wire(&self, expected: Wire) -> Fault {
        let (number, found) = (self.number, self.wire);
        Fault { at: self.at, what: What::WrongWire { number, expected, found } }
    }
}

/// A message that can't be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Where the thing stands that is wrong.
    pub at: usize,
    pub(crate) what: What,
}

/// What is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    LongVarint,
    CutVarint,
    CutValue { wanted: usize, left: usize },
    Length { length: u64, left: usize },
    Group(u64),
    NoWire(u64),
    NoNumber(u64),
    WrongWire { number: u32, expected: Wire, found: Wire },
    OddLength { length: usize, width: usize },
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.what {
            What::LongVarint => write!(f, "a varint of more than 64 bits"),
            What::CutVarint => write!(f, "the end of its message inside a varint"),
            What::CutValue { wanted, left } => {
                write!(f, "a value of {wanted} bytes where {left} are left of its message")
            }
            What::Length { length, left } => {
                write!(f, "a length of {length} bytes where {left} are left of its message")
            }
            What::Group(wire) => write!(f, "a group (wire type {wire})"),
            What::NoWire(wire) => write!(f, "wire type {wire}, which protobuf does not have"),
            What::NoNumber(number) => {
                write!(f, "field number {number}, which protobuf does not have")
            }
            What::WrongWire { number, expected, found } => {
                write!(f, "field {number} as {found} where {expected} must stand")
            }
            What::OddLength { length, width } => {
                write!(f, "{length} bytes of packed numbers of {width} bytes each")
            }
        }
    }
}

impl fmt::Display for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Varint => "a varint",
            Self::Fixed64 => "8 bytes",
            Self::Bytes => "bytes with a length",
            Self::Fixed32 => "4 bytes",
        })
    }
}

/// Reads a message, which may lie in pieces.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    all: &'a [u8],
    /// Those up to the end of the piece that is read.
    bytes: &'a [u8],
    at: usize,
    more: std::slice::Iter<'a, Range<usize>>,
}

impl<'a> Reader<'a> {
    /// Reads the message that lies at this place of `bytes`.
    #[inline(always)]
    pub fn new(bytes: &'a [u8], message: Range<usize>) -> Self {
        Self { all: bytes, bytes: &bytes[..message.end], at: message.start, more: [].iter() }
    }

    /// Reads the message that lies in these pieces of `bytes`.
    #[inline(always)]
    pub fn over(bytes: &'a [u8], message: &'a Pieces) -> Self {
        let (first, more) = message.parts();
        Self { more: more.iter(), ..Self::new(bytes, first) }
    }

    /// The next field, or none at the end of the message.
    #[inline(always)]
    #[allow(clippy::should_implement_trait, reason = "a fault ends it, so it is no iterator")]
    pub fn next(&mut self) -> Result<Option<Entry>, Fault> {
        while self.at >= self.bytes.len() {
            let Some(piece) = self.more.next() else { return Ok(None) };
            (self.at, self.bytes) = (piece.start, &self.all[..piece.end]);
        }
        let at = self.at;
        let tag = self.varint()?;
        let number = tag >> 3;
        if number == 0 || number >= 1 << 29 {
            return Err(Fault { at, what: What::NoNumber(number) });
        }
        // Nearly all that stands in the messages we read, so it gets no jump over a table.
        if tag & 7 == 2 {
            let from = self.at;
            let (length, left) = (self.varint()?, self.bytes.len() - self.at);
            if length > left as u64 {
                return Err(Fault { at: from, what: What::Length { length, left } });
            }
            return Ok(Some(self.entry(number, Wire::Bytes, length as usize, at)));
        }
        self.next_number(number, tag & 7, at).map(Some)
    }

    /// The field at `at`, whose tag was read, if it is a number.
    #[inline(never)]
    fn next_number(&mut self, number: u64, wire: u64, at: usize) -> Result<Entry, Fault> {
        let (wire, length) = match wire {
            0 => (Wire::Varint, varint(self.bytes, self.at)?.1 - self.at),
            1 => (Wire::Fixed64, 8),
            5 => (Wire::Fixed32, 4),
            3 | 4 => return Err(Fault { at, what: What::Group(wire) }),
            _ => return Err(Fault { at, what: What::NoWire(wire) }),
        };
        let left = self.bytes.len() - self.at;
        if length > left {
            return Err(Fault { at, what: What::CutValue { wanted: length, left } });
        }
        Ok(self.entry(number, wire, length, at))
    }

    #[inline(always)]
    fn entry(&mut self, number: u64, wire: Wire, length: usize, at: usize) -> Entry {
        let from = self.at;
        self.at += length;
        // Checked by the caller to be below 2^29.
        Entry { number: number as u32, wire, value: from..self.at, at }
    }

    #[inline(always)]
    fn varint(&mut self) -> Result<u64, Fault> {
        let (value, next) = varint(self.bytes, self.at)?;
        self.at = next;
        Ok(value)
    }
}

/// The varint at `at`, and where it ends.
#[inline(always)]
pub(crate) fn varint(bytes: &[u8], at: usize) -> Result<(u64, usize), Fault> {
    match bytes.get(at) {
        Some(byte) if *byte < 0x80 => Ok((u64::from(*byte), at + 1)),
        _ => long_varint(bytes, at),
    }
}

fn long_varint(bytes: &[u8], at: usize) -> Result<(u64, usize), Fault> {
    let mut value = 0;
    for (index, byte) in bytes[at..].iter().take(10).enumerate() {
        if index == 9 && *byte > 1 {
            break;
        }
        value |= u64::from(byte & 0x7f) << (7 * index);
        if *byte < 0x80 {
            return Ok((value, at + index + 1));
        }
    }
    let what = if bytes.len() - at < 10 { What::CutVarint } else { What::LongVarint };
    Err(Fault { at, what })
}
