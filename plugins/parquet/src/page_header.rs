//! The header before each page.

use crate::thrift::{Kind, Malformed, Thrift};

/// What a header says of its page.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct PageHeader {
    pub(crate) form: PageForm,
    /// Bytes of the page as it is stored, and as it is used.
    pub(crate) stored: i32,
    pub(crate) size: i32,
    pub(crate) crc: Option<i32>,
    pub(crate) values: i32,
    pub(crate) encoding: i32,
}

/// The kinds of pages.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PageForm {
    /// Levels and values are compressed together.
    Data {
        definition: i32,
        repetition: i32,
    },
    /// Only the values are compressed. The levels have these lengths.
    Data2 {
        definition: i32,
        repetition: i32,
        is_compressed: bool,
    },
    Dictionary,
    /// To be skipped.
    #[default]
    Other,
}

impl PageHeader {
    /// Reads a header. Also returns its length.
    pub(crate) fn read(bytes: &[u8]) -> Result<(Self, usize), Malformed> {
        let (mut header, mut kind_of_page) = (Self::default(), None);
        let mut thrift = Thrift::new(bytes);
        thrift.fields(Kind::Struct, |thrift, number, kind| {
            match number {
                1 => kind_of_page = Some(thrift.i32(kind)?),
                2 => header.size = thrift.i32(kind)?,
                3 => header.stored = thrift.i32(kind)?,
                4 => header.crc = Some(thrift.i32(kind)?),
                5 => header.read_data(thrift, kind)?,
                7 => header.read_dictionary(thrift, kind)?,
                8 => header.read_data2(thrift, kind)?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        let is_as_it_says = match (kind_of_page, header.form) {
            (Some(0), form) => matches!(form, PageForm::Data { .. }),
            (Some(2), form) => form == PageForm::Dictionary,
            (Some(3), form) => matches!(form, PageForm::Data2 { .. }),
            (Some(_), form) => form == PageForm::Other,
            (None, _) => false,
        };
        if !is_as_it_says || header.stored < 0 || header.size < 0 || header.values < 0 {
            return Err(Malformed("the header of a page"));
        }
        Ok((header, thrift.at()))
    }

    fn read_data(&mut self, thrift: &mut Thrift, kind: Kind) -> Result<(), Malformed> {
        let (mut definition, mut repetition) = (0, 0);
        thrift.fields(kind, |thrift, number, kind| {
            match number {
                1 => self.values = thrift.i32(kind)?,
                2 => self.encoding = thrift.i32(kind)?,
                3 => definition = thrift.i32(kind)?,
                4 => repetition = thrift.i32(kind)?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        self.form = PageForm::Data { definition, repetition };
        Ok(())
    }

    fn read_data2(&mut self, thrift: &mut Thrift, kind: Kind) -> Result<(), Malformed> {
        let (mut definition, mut repetition, mut is_compressed) = (0, 0, true);
        thrift.fields(kind, |thrift, number, kind| {
            match number {
                1 => self.values = thrift.i32(kind)?,
                4 => self.encoding = thrift.i32(kind)?,
                5 => definition = thrift.i32(kind)?,
                6 => repetition = thrift.i32(kind)?,
                7 => is_compressed = thrift.bool(kind)?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        if definition < 0 || repetition < 0 {
            return Err(Malformed("the header of a page"));
        }
        self.form = PageForm::Data2 { definition, repetition, is_compressed };
        Ok(())
    }

    fn read_dictionary(&mut self, thrift: &mut Thrift, kind: Kind) -> Result<(), Malformed> {
        self.form = PageForm::Dictionary;
        thrift.fields(kind, |thrift, number, kind| {
            match number {
                1 => self.values = thrift.i32(kind)?,
                2 => self.encoding = thrift.i32(kind)?,
                _ => return Ok(false),
            }
            Ok(true)
        })
    }
}
