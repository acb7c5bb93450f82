//! Lets the linker merge functions whose machine code is the same, which makes the release binary
//! 2 MB smaller.
//!
//! Rust does not guarantee unique addresses of functions: the compiler may merge them, too. The C
//! code in the binary (zstd, ring) does not compare addresses of functions. Only `rust-lld` is
//! known to take the option; it is the default linker for this target.
#![allow(clippy::disallowed_macros, reason = "cargo reads the output")]

use std::env;

const TARGET: &str = "x86_64-unknown-linux-gnu";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|found| found == value);
    // The builder may have chosen another linker.
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    let other_linker = env::var_os("RUSTC_LINKER").is_some() || flags.contains("ld");
    if is("PROFILE", "release") && is("TARGET", TARGET) && !other_linker {
        println!("cargo::rustc-link-arg-bins=-Wl,--icf=all");
    }
}
