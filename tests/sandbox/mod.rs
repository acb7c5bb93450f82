//! What a host makes of a decoder that misbehaves, or is expensive to compile. The sandbox itself
//! is tested in host/decode/tests/sandbox.

mod compiling;
mod good_channel;
mod misdeeds;
mod prepare;
mod saves;

use pipemill_tests::test_dir::TestDir;

/// A channel that is as it should be, and reads a FIFO.
fn good(place: &TestDir) -> String {
    let folder = place.folder();
    format!(
        "[[channel]]\nname = 'good'\ndecoder = 'lines'\nsource = {{ fifo = {folder:?}, epochs = 1 }}\n"
    )
}
