//! NumPy's `.npy` format: its header, which says type and shape, and the arrays as fields of a
//! record. For decoders of arrays, alone or in archives.
//!
//! Follows `numpy.lib.format`. A header is a Python literal. It is parsed, never evaluated, and only
//! what `repr` writes is accepted.

mod dtype;
mod header;
mod literal;
mod records;

pub use dtype::{Dtype, ElementType, Member};
pub use header::{HeaderError, MAGIC, NpyHeader, ReadHeader, read_header};
pub use records::{ArrayBytes, ArrayError, ArrayLayout, ValueError, display_fields, read_whole};
