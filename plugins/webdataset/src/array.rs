//! Members that are arrays of NumPy: the data of an array, without its header, is a field.
//!
//! Arrays of a field usually have the same header in every sample. So the last header is kept: a
//! member that starts with the same bytes and has the same length is not parsed again.

use std::ops::Range;

use pipemill_parsing::field_spec::FieldType;
use pipemill_parsing::npy::{ArrayBytes, ArrayError, ArrayLayout, ValueError, read_whole};
use pipemill_plugin::Records;

/// The arrays of a field.
#[derive(Debug)]
pub(crate) struct Arrays {
    /// Their required type.
    pub(crate) field_type: FieldType,
    /// The last one that was sound.
    last: Option<LastArray>,
}

#[derive(Debug)]
struct LastArray {
    /// The bytes of its header.
    header: Vec<u8>,
    /// Size of the member in bytes.
    size: usize,
    layout: ArrayLayout,
}

impl Arrays {
    pub(crate) fn new(field_type: FieldType) -> Self {
        Self { field_type, last: None }
    }

    /// Emits the array in this range of the chunk.
    ///
    /// # Errors
    /// The error says what was expected and what was found.
    pub(crate) fn emit(
        &mut self,
        chunk: &[u8],
        range: Range<usize>,
        out: &mut Records,
    ) -> Result<(), String> {
        let bytes = &chunk[range.clone()];
        let array = match self.last.take() {
            Some(last) if last.size == bytes.len() && bytes.starts_with(&last.header) => last,
            _ => self.read(bytes)?,
        };
        let start = range.start + array.header.len();
        let added = array.layout.add_fields(ArrayBytes::Chunk(chunk), start, out);
        self.last = Some(array);
        added.map_err(|ValueError { at, found, .. }| {
            format!("expected booleans, 0 or 1, found {found} at byte {at} of the data")
        })
    }

    /// Reads the header of an array, and compares it with the type.
    #[inline(never)]
    fn read(&self, bytes: &[u8]) -> Result<LastArray, String> {
        let (header, layout) = read_whole(bytes, "").map_err(|error| match error {
            ArrayError::Damaged(why) | ArrayError::Unsupported(why) => why,
        })?;
        header.check_type(&layout, &self.field_type)?;
        Ok(LastArray { header: bytes[..header.size].to_vec(), size: bytes.len(), layout })
    }
}
