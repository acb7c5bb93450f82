//! A process dies, stops, or is where it should not be: consumers, the host, the command next to
//! it, a second host, another user. A failure of one channel stays in that channel.

mod apart;
mod attacked;
mod batches;
mod consumers_die;
mod crowd;
mod fitted_slots;
mod host_dies;
mod several;
mod socket;
mod tree_dies;

use pipemill_tests::test_dir::TestDir;

/// Records that start with their number, eight digits, and are about `size` bytes long.
pub fn numbered(count: usize, size: usize) -> Vec<Vec<u8>> {
    let record = |number: usize| {
        let mut record = format!("{number:08}").into_bytes();
        record.resize(record.len() + number % 7 + size, b'a' + (number % 26) as u8);
        record
    };
    (0..count).map(record).collect()
}

/// A channel of the smallest slots that reads a file of lines.
pub fn lines(place: &TestDir, name: &str, records: &[Vec<u8>], rest: &str) -> String {
    let file = place.write(&format!("{name}.txt"), records.join(&b'\n'));
    format!(
        "[[channel]]\nname = '{name}'\ndecoder = 'lines'\nsource = {{ file = {file:?}, epochs = 3 }}\n\
         {rest}\n[channel.ring]\nslots = 8\nslot_size = '64KiB'\n"
    )
}
