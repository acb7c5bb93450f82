//! Named pipes and their writers: slow ones, dead ones, late ones, and those that are left early.

mod ends;
mod feed;
mod waits;
mod writers;

use std::fs::File;
use std::io::Write;
use std::path::Path;

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use pipemill_tests::test_dir::TestDir;

/// A channel that reads the FIFOs of a folder. `more`: further keys of its source.
fn channel(place: &TestDir, name: &str, decoder: &str, more: &str) -> String {
    let folder = place.folder();
    format!(
        "[[channel]]\nname = '{name}'\ndecoder = '{decoder}'\nsource = {{ fifo = {folder:?}{more} }}\n\
         [channel.ring]\nslots = 8\nslot_size = '64KiB'\n"
    )
}

/// Writes an epoch as the platform's agent does: makes the FIFO, waits for its reader, writes, closes.
fn epoch(fifo: &Path, bytes: &[u8]) {
    mkfifo(fifo, Mode::S_IRUSR | Mode::S_IWUSR).expect("its folder is there");
    File::options()
        .write(true)
        .open(fifo)
        .and_then(|mut pipe| pipe.write_all(bytes))
        .expect("it is read");
    std::fs::remove_file(fifo).expect("it is ours");
}

/// Payloads of different sizes, among them empty ones and one that is larger than a slot.
fn payloads() -> Vec<Vec<u8>> {
    let mut payloads: Vec<_> =
        (0..60u8).map(|n| vec![n; usize::from(n) * usize::from(n) % 97]).collect();
    payloads.push((0..200_000u32).flat_map(u32::to_le_bytes).collect());
    payloads.push(b"last".to_vec());
    payloads
}
