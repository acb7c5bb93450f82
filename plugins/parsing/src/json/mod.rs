//! Parses JSON texts strictly, and converts the values at given JSON pointers to fields of a record.
//! For decoders whose records have JSON in them.

mod arrays;
mod bytes16;
#[cfg(test)]
mod comparison;
mod convert;
mod fast_path;
mod key_cache;
mod parser;
mod syntax_error;
mod text;
mod values;
mod whole;

pub use convert::{FieldError, JsonField, SCALARS};
pub use parser::JsonValue;
pub use syntax_error::SyntaxError;
pub use values::{JsonValues, nan_option};
