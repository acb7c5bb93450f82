//! The built-in decoders as WebAssembly modules. Their list is in `table.rs`, and their sources are
//! in `plugins/`. The build script compiles them.

#![forbid(unsafe_code)]

use pipemill_decode::Builtin;

/// Makes [`BUILTINS`] from the table and from the files that the build script wrote.
macro_rules! builtins {
    ($($name:literal, $version:literal, $about:literal;)*) => {
        /// The built-in decoders, in the order of `docs/decoders.md`.
        pub static BUILTINS: [Builtin; [$($name),*].len()] = [$(Builtin {
            name: $name,
            about: $about,
            records_version: $version,
            plans: matches!($name.as_bytes(), b"arrow" | b"megatron" | b"parquet"),
            wasm: include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".wasm")),
            code: include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".code.zst")),
        }),*];
    };
}

include!("table.rs");
