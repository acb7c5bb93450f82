//! Write a decoder for pipemill: implement [`Decoder`], name the type in [`export!`], build for
//! `wasm32-unknown-unknown`. You need no knowledge of the interface and no unsafe code.
//!
//! ```
//! use pipemill_plugin::{DecodeError, Decoder, Field, Options, Progress, Records, StreamInfo};
//!
//! /// Records of four bytes each.
//! struct Quads;
//!
//! impl Decoder for Quads {
//!     fn open(_: &Options, _: &StreamInfo) -> Result<Self, String> {
//!         Ok(Quads)
//!     }
//!     fn schema(&self) -> Option<Vec<Field>> {
//!         Some(vec![Field::bytes("quad")])
//!     }
//!     fn decode(&mut self, chunk: &[u8], _end: bool, out: &mut Records) -> Result<Progress, DecodeError> {
//!         let whole = chunk.len() / 4 * 4;
//!         for at in (0..whole).step_by(4) {
//!             out.span(at, at..at + 4);
//!         }
//!         Ok(Progress::consumed(whole).and_wants(4))
//!     }
//! }
//!
//! pipemill_plugin::export!(Quads);
//! ```
//!
//! The same type also runs natively, so a decoder is tested like any other code: see [`testing`].

mod columns;
mod contract;
mod field;
mod host;
mod map;
mod options;
mod plan;
mod records;
pub mod testing;

#[doc(hidden)]
pub mod guest;

pub use columns::{COLUMN_ALIGN, ColumnBytes, ColumnValues};
pub use contract::{DecodeError, Decoder, Progress, Restart, Resume, Resync, StreamInfo};
pub use field::{Field, Scalar};
pub use host::{Codec, Host, Level};
pub use map::{InnerRecord, Map, MapRecords, Tap, TapAll, TapRecords};
pub use options::{OptionFiles, OptionKind, OptionSpec, Options};
pub use plan::{Companion, Next, Part, Piece, PlanRange};
pub use records::{Block, Records, pack, unpack};

#[doc(hidden)]
#[allow(
    missing_docs,
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    rustdoc::broken_intra_doc_links
)]
pub mod bindings;

/// Makes a [`Decoder`] the decoder of this plugin. It has an effect only for WebAssembly, so that
/// the same crate can be a library for tests.
#[macro_export]
macro_rules! export {
    ($decoder:ty) => {
        #[cfg(target_arch = "wasm32")]
        const _: () = {
            use $crate::bindings::exports::pipemill::{decoder0_1_0, decoder0_2_0, decoder0_3_0};

            struct Plugin;
            impl decoder0_1_0::decoder::Guest for Plugin {
                type Stream = $crate::guest::Stream<$decoder>;
                fn options() -> Vec<decoder0_1_0::decoder::OptionSpec> {
                    $crate::guest::options::<$decoder>()
                }
            }
            impl decoder0_2_0::window::Guest for Plugin {
                fn set_aside(bytes: u32) -> u32 {
                    $crate::guest::set_aside(bytes)
                }
                fn decode(
                    stream: decoder0_1_0::decoder::StreamBorrow<'_>,
                    at: u32,
                    length: u32,
                    end: bool,
                ) -> Result<decoder0_1_0::decoder::Progress, decoder0_1_0::decoder::DecodeError>
                {
                    let stream: &$crate::guest::Stream<$decoder> = stream.get();
                    // SAFETY: the host passes the chunk's address in the window, and does not
                    // change it before the call returns.
                    unsafe { stream.decode_in_window(at, length, end) }
                }
            }
            impl decoder0_3_0::rest::Guest for Plugin {
                fn decode(
                    stream: decoder0_1_0::decoder::StreamBorrow<'_>,
                    end: bool,
                ) -> Result<decoder0_1_0::decoder::Progress, decoder0_1_0::decoder::DecodeError>
                {
                    stream.get::<$crate::guest::Stream<$decoder>>().decode_rest(end)
                }
            }
            impl decoder0_3_0::plan::Guest for Plugin {
                fn plans() -> bool {
                    <$decoder as $crate::Decoder>::plans()
                }
                fn companions(
                    options: Vec<(String, String)>,
                ) -> Result<Vec<decoder0_3_0::plan::Companion>, String> {
                    $crate::guest::companions::<$decoder>(&options)
                }
                fn step(
                    options: Vec<(String, String)>,
                    info: decoder0_1_0::decoder::StreamInfo,
                    seen: Vec<decoder0_3_0::plan::Piece>,
                ) -> Result<decoder0_3_0::plan::Next, String> {
                    $crate::guest::step::<$decoder>(&options, info, seen)
                }
            }
            impl decoder0_3_0::preparing::Guest for Plugin {
                fn prepares() -> bool {
                    <$decoder as $crate::Decoder>::prepares()
                }
                fn prepare(
                    options: Vec<(String, String)>,
                    files: Vec<(String, Vec<u8>)>,
                ) -> Result<(), String> {
                    $crate::guest::prepare::<$decoder>(&options, &files)
                }
            }
            impl decoder0_3_0::carry::Guest for Plugin {
                fn carries() -> bool {
                    <$decoder as $crate::Decoder>::carries()
                }
                fn save(stream: decoder0_1_0::decoder::StreamBorrow<'_>) -> Option<Vec<u8>> {
                    let stream: &$crate::guest::Stream<$decoder> = stream.get();
                    stream.save()
                }
                fn load(
                    options: Vec<(String, String)>,
                    info: decoder0_1_0::decoder::StreamInfo,
                    saved: Vec<u8>,
                ) -> Result<decoder0_1_0::decoder::Stream, String> {
                    $crate::guest::load::<$decoder>(&options, info, &saved)
                }
            }
    $crate::bindings::export!(Plugin with_types_in $crate::bindings);
        };
    };
}
