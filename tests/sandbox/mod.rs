//! What a host makes of a decoder that misbehaves, or is expensive to compile. The sandbox itself is tested
//! in host/decode/tests/sandbox.

mod compiling;
mod good_channel;
mod misdeeds;
