//! The C library: the functions of `ring/include/pipemill.h`, which `cbindgen` makes of this crate.
//! Each is a thin cover of the Rust reader.
//!
//! Arguments of C are checked where that is possible: a null pointer is an error or gives nothing,
//! and so does text that is not UTF-8. References of these functions' arguments are what the header
//! asks for: null, or what another function of the library has returned and that was not given
//! back. No panic leaves a function: `guard` turns it into an error. So the only unsafe code is in
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

/// The version of the library, for example "0.1.0". It stays valid for ever.
#[unsafe(no_mangle)]
pub extern "C" fn pipemill_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}
