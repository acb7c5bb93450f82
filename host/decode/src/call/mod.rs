//! One decoder at work on one object.
//!
//! `stream` decodes an object with an `instance`, in the sandbox of a `store`; `window` puts chunks
//! into its memory without a copy, and `rest` lets it go on with one that it has kept. The decoder
//! calls `imports`: `declared_schema` receives its fields, `metadata` facts about the object,
//! `decompress` decompresses blocks for it, each an `open_block`. `decoded_records` checks the
//! records of a call and makes columns of them with `transpose`. `plan` asks a decoder which bytes
//! of an object it wants, `prepare` makes what the streams of a channel have in common, and `carry`
//! saves the state of a stream. `set_up` measures the work of a decoder before its first bytes.
//! `host_state` is the host's state of each instance, `trap` explains why a call has ended.

pub mod carry;
pub mod declared_schema;
pub mod decoded_records;
pub mod decompress;
pub mod host_state;
pub mod imports;
pub mod instance;
pub mod metadata;
pub mod open_block;
pub mod plan;
pub mod prepare;
pub mod rest;
pub mod set_up;
pub mod store;
pub mod stream;
pub mod transpose;
pub mod trap;
pub mod window;
