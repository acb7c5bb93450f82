//! A member of an archive: its header, with its position in the chunk.

use std::ops::Range;

use pipemill_parsing::npy::{HeaderError, NpyHeader, ReadHeader, read_header};

use crate::zip::{DEFLATED, Descriptor, LocalHeader, Read, STORED, Sizes, method_name};

/// A member whose header is in the chunk.
#[derive(Debug)]
pub(crate) struct Member {
    /// The start of its header in the chunk.
    pub(crate) at: usize,
    /// The start of its data in the chunk.
    pub(crate) data: usize,
    /// Its name, for messages and comparison. Names that are not UTF-8 lose some characters.
    pub(crate) name: String,
    pub(crate) header: LocalHeader,
}

/// The reason why a wanted member can't be read.
pub(crate) enum MemberError {
    /// It is damaged.
    Damaged(String),
    /// It is not supported.
    Refused(String),
}

/// The size of a member's data.
pub(crate) enum DataSize {
    /// This number of bytes.
    Known(u64),
    /// At least `need` bytes from the start of the data must be there.
    Cut { need: usize },
}

impl Member {
    /// The member with this header, which is at `at` in the chunk.
    pub(crate) fn new(chunk: &[u8], at: usize, header: LocalHeader) -> Self {
        let name = &chunk[at + LocalHeader::NAME..][..header.name];
        let name = String::from_utf8_lossy(name).into_owned();
        Self { at, data: at + header.size, name, header }
    }

    /// The name of the array that it is, if it is one.
    pub(crate) fn array(&self) -> Option<&str> {
        self.name.strip_suffix(".npy")
    }

    pub(crate) fn is_stored(&self) -> bool {
        self.header.method == STORED
    }

    pub(crate) fn sizes(&self) -> Sizes {
        self.header.sizes
    }

    pub(crate) fn descriptor(&self) -> Option<Descriptor> {
        self.header.descriptor
    }

    /// The range of its data in the chunk, of which this size is known.
    pub(crate) fn range(&self, size: u64) -> Range<usize> {
        // The value fits: the caller checked that the data is in the chunk, or not longer than
        // max_record.
        self.data..self.data + size as usize
    }

    /// Checks that a wanted member can be read.
    pub(crate) fn check_form(&self) -> Result<(), MemberError> {
        if self.header.encrypted {
            return Err(MemberError::Refused("expected data that is not encrypted".to_owned()));
        }
        if !matches!(self.header.method, STORED | DEFLATED) {
            return Err(MemberError::Refused(format!(
                "expected data that is stored or deflated, found {}",
                method_name(self.header.method)
            )));
        }
        let Sizes { compressed, plain, .. } = self.sizes();
        if self.is_stored() && compressed != plain {
            return Err(MemberError::Damaged(format!(
                "expected stored data to have one size, found {compressed} and {plain} bytes"
            )));
        }
        Ok(())
    }

    /// The size of the data in the archive. If the header does not contain it, it follows from the
    /// array's own header.
    pub(crate) fn data_size(&self, chunk: &[u8]) -> Result<DataSize, MemberError> {
        if !self.header.is_streamed() {
            return Ok(DataSize::Known(self.sizes().compressed));
        }
        if !self.is_stored() {
            return Err(MemberError::Refused(
                "expected its size before its data, found it after deflated data, whose end can't be \
                 seen: it was written to a pipe; write it to a file, or with np.savez, without \
                 compression"
                    .to_owned(),
            ));
        }
        if self.array().is_none() {
            return Err(MemberError::Refused(
                "expected its size before its data, found it after data that is no array; write the \
                 archive to a file, not to a pipe"
                    .to_owned(),
            ));
        }
        let header =
            match read_header(&chunk[self.data.min(chunk.len())..]).map_err(header_error)? {
                ReadHeader::Whole(header) => header,
                ReadHeader::Cut { need } => return Ok(DataSize::Cut { need }),
            };
        match whole_size(&header) {
            Some(size) => Ok(DataSize::Known(size)),
            None => Err(MemberError::Refused(
                "expected its size before its data, found it after Python objects, whose end can't be \
                 seen; write the archive to a file, not to a pipe"
                    .to_owned(),
            )),
        }
    }
}

/// Bytes of an array with its header; `None` if it has Python objects.
pub(crate) fn whole_size(header: &NpyHeader) -> Option<u64> {
    // Both are below 2^63.
    header.data.map(|data| data + header.size as u64)
}

/// The header of an array is not valid.
pub(crate) fn header_error(error: HeaderError) -> MemberError {
    match error {
        HeaderError::Damaged(why) => MemberError::Damaged(why),
        HeaderError::Version(why) => MemberError::Refused(why),
    }
}

/// The bytes after the data of a member: the descriptor, if there is one, and a byte after it.
pub(crate) enum Tail {
    /// The size of the descriptor, and the checksum and sizes of the member.
    Whole(usize, Sizes),
    /// At least `need` bytes after the data must be there.
    Cut { need: usize },
}

/// Reads the bytes after the data of a member. The byte after them must be there, so that the error
/// has a position if the input ends after this member.
pub(crate) fn read_tail(bytes: &[u8], descriptor: Option<Descriptor>, sizes: Sizes) -> Tail {
    let (size, sizes) = match descriptor.map(|descriptor| descriptor.read(bytes)) {
        None => (0, sizes),
        Some(Read::Whole(read)) => read,
        Some(Read::Cut { need }) => return Tail::Cut { need },
    };
    if bytes.len() > size { Tail::Whole(size, sizes) } else { Tail::Cut { need: size + 1 } }
}
