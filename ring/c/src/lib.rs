//! The C library: the functions of `ring/include/pipemill.h`, which `cbindgen` makes from this
//! crate. Each is a thin wrapper of the Rust reader.
//!
//! Arguments from C are checked if that is possible: a null pointer is an error or returns nothing,
//! and so does text that is not UTF-8. The references in these functions' arguments must be what
//! the header requires: null, or the result of another function of the library that was not freed.
//! No panic leaves a function: `guard` converts it to an error. So the only unsafe code is in
//! `text`, which reads text at an address, and in `schema`, whose pointers stay within one
//! allocation.

// The header has the functions in this order.
mod reader;

mod batch;

mod error;

mod guard;
mod options;
mod schema;
mod text;

use std::ffi::c_char;

/// The version of the library, for example "0.1.0". It is valid for ever.
#[unsafe(no_mangle)]
pub extern "C" fn pipemill_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}
