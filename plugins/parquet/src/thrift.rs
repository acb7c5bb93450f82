//! Reads Thrift's compact protocol, in which footers and page headers are written.

/// Largest nesting depth of values that are skipped.
const MAX_DEPTH: usize = 32;

/// The type of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    True,
    False,
    Byte,
    I16,
    I32,
    I64,
    Double,
    Binary,
    List,
    Set,
    Map,
    Struct,
    Uuid,
}

impl Kind {
    fn of(code: u8) -> Result<Self, Malformed> {
        Ok(match code {
            1 => Self::True,
            2 => Self::False,
            3 => Self::Byte,
            4 => Self::I16,
            5 => Self::I32,
            6 => Self::I64,
            7 => Self::Double,
            8 => Self::Binary,
            9 => Self::List,
            10 => Self::Set,
            11 => Self::Map,
            12 => Self::Struct,
            13 => Self::Uuid,
            _ => return Err(Malformed("a type of Thrift")),
        })
    }

    /// The number that [`of`](Self::of) reads.
    pub(crate) fn code(self) -> u8 {
        self as u8 + 1
    }
}

/// What was expected and not found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed(pub(crate) &'static str);

/// A position in bytes of the compact protocol.
#[derive(Debug)]
pub(crate) struct Thrift<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Thrift<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Number of bytes that were read.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    fn byte(&mut self) -> Result<u8, Malformed> {
        let byte = self.bytes.get(self.at).ok_or(Malformed("more bytes"))?;
        self.at += 1;
        Ok(*byte)
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let rest = &self.bytes[self.at..];
        let taken = rest.get(..count).ok_or(Malformed("more bytes"))?;
        self.at += count;
        Ok(taken)
    }

    fn varint(&mut self) -> Result<u64, Malformed> {
        let (value, size) = varint(&self.bytes[self.at..]).ok_or(Malformed("a varint"))?;
        self.at += size;
        Ok(value)
    }

    /// An integer of any width.
    pub(crate) fn int(&mut self, kind: Kind) -> Result<i64, Malformed> {
        match kind {
            Kind::Byte => Ok((self.byte()? as i8).into()),
            Kind::I16 | Kind::I32 | Kind::I64 => self.varint().map(zigzag),
            _ => Err(Malformed("an integer")),
        }
    }

    /// An integer of 32 bits.
    pub(crate) fn i32(&mut self, kind: Kind) -> Result<i32, Malformed> {
        i32::try_from(self.int(kind)?).map_err(|_| Malformed("an integer of 32 bits"))
    }

    pub(crate) fn bool(&mut self, kind: Kind) -> Result<bool, Malformed> {
        match kind {
            Kind::True => Ok(true),
            Kind::False => Ok(false),
            _ => Err(Malformed("a boolean")),
        }
    }

    pub(crate) fn binary(&mut self, kind: Kind) -> Result<&'a [u8], Malformed> {
        if kind != Kind::Binary {
            return Err(Malformed("bytes"));
        }
        let size = usize::try_from(self.varint()?).map_err(|_| Malformed("more bytes"))?;
        self.take(size)
    }

    pub(crate) fn text(&mut self, kind: Kind) -> Result<String, Malformed> {
        let bytes = self.binary(kind)?.to_vec();
        String::from_utf8(bytes).map_err(|_| Malformed("a name in UTF-8"))
    }

    /// Reads the fields of a struct. `read` gets the number and type of each field, and reads its
    /// value, or returns false: then the value is skipped.
    pub(crate) fn fields(
        &mut self,
        kind: Kind,
        mut read: impl FnMut(&mut Self, i16, Kind) -> Result<bool, Malformed>,
    ) -> Result<(), Malformed> {
        if kind != Kind::Struct {
            return Err(Malformed("a struct"));
        }
        let mut number = 0i16;
        loop {
            let Some((next, kind)) = self.field(number)? else { return Ok(()) };
            number = next;
            if !read(self, number, kind)? {
                self.skip(kind, 0)?;
            }
        }
    }

    /// The number and type of the next field; `None` at the end of a struct.
    fn field(&mut self, last: i16) -> Result<Option<(i16, Kind)>, Malformed> {
        let head = self.byte()?;
        if head == 0 {
            return Ok(None);
        }
        let number = match head >> 4 {
            0 => zigzag(self.varint()?),
            more => i64::from(last) + i64::from(more),
        };
        let number = i16::try_from(number).map_err(|_| Malformed("the number of a field"))?;
        Ok(Some((number, Kind::of(head & 0xf)?)))
    }

    /// Reads a list. `read` is called for each element.
    pub(crate) fn list(
        &mut self,
        kind: Kind,
        mut read: impl FnMut(&mut Self, Kind) -> Result<(), Malformed>,
    ) -> Result<(), Malformed> {
        if kind != Kind::List {
            return Err(Malformed("a list"));
        }
        let (count, kind) = self.list_head()?;
        for _ in 0..count {
            read(self, kind)?;
        }
        Ok(())
    }

    /// The length of a list, which is at most the number of bytes that are left, and its type.
    fn list_head(&mut self) -> Result<(usize, Kind), Malformed> {
        let head = self.byte()?;
        let count = match head >> 4 {
            15 => self.varint()?,
            few => few.into(),
        };
        let fits = count <= (self.bytes.len() - self.at) as u64;
        let count = usize::try_from(count).ok().filter(|_| fits);
        Ok((count.ok_or(Malformed("a shorter list"))?, Kind::of(head & 0xf)?))
    }

    fn skip(&mut self, kind: Kind, depth: usize) -> Result<(), Malformed> {
        if depth > MAX_DEPTH {
            return Err(Malformed("values that are not nested so deep"));
        }
        match kind {
            Kind::True | Kind::False => {}
            Kind::Byte => _ = self.byte()?,
            Kind::I16 | Kind::I32 | Kind::I64 => _ = self.varint()?,
            Kind::Double => _ = self.take(8)?,
            Kind::Uuid => _ = self.take(16)?,
            Kind::Binary => _ = self.binary(kind)?,
            Kind::List | Kind::Set => {
                let (count, kind) = self.list_head()?;
                for _ in 0..count {
                    self.skip_element(kind, depth)?;
                }
            }
            Kind::Map => {
                let count = self.varint()?;
                if count > 0 {
                    let kinds = self.byte()?;
                    let kinds = [Kind::of(kinds >> 4)?, Kind::of(kinds & 0xf)?];
                    for _ in 0..count {
                        self.skip_element(kinds[0], depth)?;
                        self.skip_element(kinds[1], depth)?;
                    }
                }
            }
            Kind::Struct => {
                let mut number = 0;
                while let Some((next, kind)) = self.field(number)? {
                    number = next;
                    self.skip(kind, depth + 1)?;
                }
            }
        }
        Ok(())
    }

    /// An element of a list or a map. A boolean takes a byte there.
    fn skip_element(&mut self, kind: Kind, depth: usize) -> Result<(), Malformed> {
        match kind {
            Kind::True | Kind::False => self.byte().map(|_| ()),
            kind => self.skip(kind, depth + 1),
        }
    }
}

/// A number of 7 bits a byte, the lowest first, and the number of its bytes. `None` if the bytes end
/// before it, or it has more than 64 bits.
pub(crate) fn varint(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut value = 0u64;
    for (at, byte) in bytes.iter().take(10).enumerate() {
        let bits = u64::from(byte & 0x7f);
        if at == 9 && bits > 1 {
            return None;
        }
        value |= bits << (7 * at);
        if byte & 0x80 == 0 {
            return Some((value, at + 1));
        }
    }
    None
}

/// The signed number that is stored with its sign in the lowest bit.
pub(crate) fn zigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_they_are_defined() {
        assert_eq!(varint(&[0xac, 0x02]), Some((300, 2)));
        assert_eq!(varint(&[0xff; 9]), None);
        assert_eq!(
            varint(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]),
            Some((u64::MAX, 10))
        );
        assert_eq!(varint(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2]), None);
        assert_eq!([0, 1, 2, 3].map(zigzag), [0, -1, 1, -2]);
        assert_eq!(zigzag(u64::MAX), i64::MIN);
    }

    #[test]
    fn what_is_not_read_is_skipped() {
        // Field 1 is a list of two structs, field 3 a map, field 4 the number 5.
        let bytes = [
            0x19, 0x2c, 0x15, 0x02, 0x00, 0x15, 0x04, 0x00, 0x2b, 0x01, 0x81, 0x01, b'k', 0x01,
            0x15, 0x0a, 0x00,
        ];
        let (mut thrift, mut found) = (Thrift::new(&bytes), None);
        let read = thrift.fields(Kind::Struct, |thrift, number, kind| {
            Ok(match number {
                4 => {
                    found = Some(thrift.i32(kind)?);
                    true
                }
                _ => false,
            })
        });
        assert_eq!((read, found, thrift.at()), (Ok(()), Some(5), bytes.len()));
    }

    #[test]
    fn no_bytes_make_it_panic_or_run_for_ever() {
        let mut seed = 1u32;
        for _ in 0..20_000 {
            let bytes: Vec<u8> = (0..24)
                .map(|_| {
                    seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    (seed >> 24) as u8
                })
                .collect();
            let _ = Thrift::new(&bytes).fields(Kind::Struct, |_, _, _| Ok(false));
        }
    }
}
