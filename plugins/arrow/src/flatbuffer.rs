//! Reads flatbuffers, in which the metadata of messages is written. Nothing is allocated, and each
//! offset is checked where it is used: a table may refer to any place, also to itself.

use std::ops::Range;

/// Bytes of an offset or of a vector's length.
const WORD: usize = 4;

/// What was expected and not found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed(pub(crate) &'static str);

/// A table: its fields are found by their numbers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Table<'a> {
    bytes: &'a [u8],
    at: usize,
    /// The 16-bit offsets of the fields.
    fields: &'a [u8],
}

impl<'a> Table<'a> {
    /// The table that the buffer is for.
    pub(crate) fn root(bytes: &'a [u8]) -> Result<Self, Malformed> {
        Self::at(bytes, 0)
    }

    /// The table to which the offset at this place refers.
    fn at(bytes: &'a [u8], place: usize) -> Result<Self, Malformed> {
        let none = Malformed("a table");
        let at = referred(bytes, place)?;
        let back = i32::from_le_bytes(*chunk(bytes, at).ok_or(none)?);
        let vtable = usize::try_from(at as i64 - i64::from(back)).map_err(|_| none)?;
        let size = usize::from(u16::from_le_bytes(*chunk(bytes, vtable).ok_or(none)?));
        let fields = bytes.get(vtable..).and_then(|bytes| bytes.get(4..size)).ok_or(none)?;
        Ok(Self { bytes, at, fields })
    }

    /// The place of a field; `None` if it has its default value.
    fn field(&self, number: usize) -> Option<usize> {
        let offset = u16::from_le_bytes(*chunk(self.fields, 2 * number)?);
        (offset > 0).then(|| self.at + usize::from(offset))
    }

    fn scalar<const N: usize>(&self, number: usize) -> Result<Option<[u8; N]>, Malformed> {
        let Some(at) = self.field(number) else { return Ok(None) };
        chunk(self.bytes, at).copied().map(Some).ok_or(Malformed("a number"))
    }

    pub(crate) fn u8(&self, number: usize, default: u8) -> Result<u8, Malformed> {
        Ok(self.scalar(number)?.map_or(default, u8::from_le_bytes))
    }

    pub(crate) fn bool(&self, number: usize, default: bool) -> Result<bool, Malformed> {
        Ok(self.u8(number, u8::from(default))? != 0)
    }

    pub(crate) fn i16(&self, number: usize, default: i16) -> Result<i16, Malformed> {
        Ok(self.scalar(number)?.map_or(default, i16::from_le_bytes))
    }

    pub(crate) fn i32(&self, number: usize, default: i32) -> Result<i32, Malformed> {
        Ok(self.scalar(number)?.map_or(default, i32::from_le_bytes))
    }

    pub(crate) fn i64(&self, number: usize, default: i64) -> Result<i64, Malformed> {
        Ok(self.scalar(number)?.map_or(default, i64::from_le_bytes))
    }

    /// A table. `None` if the field is not there.
    pub(crate) fn table(&self, number: usize) -> Result<Option<Self>, Malformed> {
        self.field(number).map(|at| Self::at(self.bytes, at)).transpose()
    }

    /// The bytes of a vector of numbers or structs that have this size; none if it is not there.
    pub(crate) fn vector(&self, number: usize, size: usize) -> Result<&'a [u8], Malformed> {
        Ok(&self.bytes[self.elements(number, size)?])
    }

    /// The place of a field's number in the buffer; `None` if it has its default value.
    pub(crate) fn place(&self, number: usize) -> Option<usize> {
        self.field(number)
    }

    /// Where the elements of a vector are.
    pub(crate) fn elements(&self, number: usize, size: usize) -> Result<Range<usize>, Malformed> {
        let Some(place) = self.field(number) else { return Ok(0..0) };
        let at = referred(self.bytes, place)?;
        elements(self.bytes, at, size).ok_or(Malformed("a vector"))
    }

    /// Text. `None` if the field is not there.
    pub(crate) fn text(&self, number: usize) -> Result<Option<&'a str>, Malformed> {
        if self.field(number).is_none() {
            return Ok(None);
        }
        let text = std::str::from_utf8(self.vector(number, 1)?);
        text.map(Some).map_err(|_| Malformed("text in UTF-8"))
    }

    /// The tables of a vector; none if it is not there.
    pub(crate) fn tables(
        &self,
        number: usize,
    ) -> Result<impl Iterator<Item = Result<Self, Malformed>> + use<'a>, Malformed> {
        let (bytes, offsets) = (self.bytes, self.elements(number, WORD)?);
        Ok(offsets.step_by(WORD).map(move |place| Self::at(bytes, place)))
    }
}

/// The place to which the offset at `place` refers.
fn referred(bytes: &[u8], place: usize) -> Result<usize, Malformed> {
    let offset = u32::from_le_bytes(*chunk(bytes, place).ok_or(Malformed("an offset"))?);
    place.checked_add(offset as usize).ok_or(Malformed("an offset"))
}

/// Where the elements of the vector at this place are.
fn elements(bytes: &[u8], at: usize, size: usize) -> Option<Range<usize>> {
    let count = u32::from_le_bytes(*chunk(bytes, at)?) as usize;
    let start = at + WORD;
    let end = start.checked_add(count.checked_mul(size)?)?;
    (end <= bytes.len()).then_some(start..end)
}

fn chunk<const N: usize>(bytes: &[u8], at: usize) -> Option<&[u8; N]> {
    bytes.get(at..)?.first_chunk()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table with a number, a text, and a vector of one table, which is the table itself.
    fn buffer() -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend(16u32.to_le_bytes());
        // The fields' places, from 4 on.
        for word in [10u16, 16, 4, 8, 12, 0] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(12i32.to_le_bytes());
        bytes.extend(7i32.to_le_bytes());
        bytes.extend(8u32.to_le_bytes());
        bytes.extend(12u32.to_le_bytes());
        bytes.extend([&3u32.to_le_bytes()[..], b"abc\0"].concat());
        bytes.extend(1u32.to_le_bytes());
        bytes.extend((16u32.wrapping_sub(44)).to_le_bytes());
        bytes
    }

    #[test]
    fn fields_are_found_by_their_numbers() {
        let bytes = buffer();
        let table = Table::root(&bytes).expect("a table");
        assert_eq!(table.i32(0, 0), Ok(7));
        assert_eq!(table.text(1), Ok(Some("abc")));
        assert_eq!((table.i32(9, 5), table.text(9)), (Ok(5), Ok(None)));
        assert_eq!(table.tables(9).map(Iterator::count), Ok(0));
        // An offset has no sign, so no table is before its place.
        assert!(table.tables(2).expect("a vector").next().is_some_and(|table| table.is_err()));
    }

    #[test]
    fn no_bytes_lead_outside() {
        let bytes = buffer();
        for size in 0..bytes.len() {
            read(&bytes[..size]);
            for byte in [0, 1, 0x7f, 0x80, 0xff] {
                let mut bytes = bytes.clone();
                bytes[size] = byte;
                read(&bytes);
            }
        }
    }

    fn read(bytes: &[u8]) {
        let Ok(table) = Table::root(bytes) else { return };
        for number in [0, 1, 2, 3, 70_000] {
            let _ = (table.u8(number, 0), table.bool(number, false), table.i16(number, 0));
            let _ = (table.i32(number, 0), table.i64(number, 0), table.table(number).is_ok());
            let _ = (table.text(number), table.vector(number, 16));
            let _ = table.tables(number).map(Iterator::count);
        }
    }
}
