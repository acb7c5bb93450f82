//! The case that a decoder's target reads from the fuzzer's bytes: first [`HEADER`] bytes with the
//! choices, then the options as text if the choices ask for it, then the input of the decoder.

use pipemill_plugin::testing::Setup;

use super::compressed::decompress;

/// Useful options: names and values.
pub(super) type Preset = &'static [(&'static str, &'static str)];

/// Number of bytes before the input: the preset, flags, and four bytes that determine the sizes of
/// the pieces.
const HEADER: usize = 6;
/// The smallest value of `max_record` is shorter than most records, the largest is the default.
const MAX_RECORDS: [u64; 4] = [64 << 20, 700, 64 << 10, 9];
/// Flag: correct the checksums in the input.
const MEND: u8 = 1 << 3;
/// Largest number of pieces; the rest then comes at once. It keeps a run short.
const MAX_PIECES: usize = 300;

/// One case.
#[derive(Debug)]
pub(super) struct Case {
    /// How to open the decoder. `skip` is not set: the check decodes with and without it.
    pub(super) setup: Setup,
    /// Flags for the target.
    pub(super) flags: u8,
    /// Sizes of the pieces in which the input comes.
    pub(super) pieces: Vec<usize>,
    /// The bytes to decode.
    pub(super) input: Vec<u8>,
}

impl Case {
    /// Reads a case. Missing bytes of the header are zero.
    pub(super) fn new(bytes: &[u8], presets: &[Preset]) -> Self {
        let mut header = [0; HEADER];
        let (head, mut input) = bytes.split_at(bytes.len().min(HEADER));
        header[..head.len()].copy_from_slice(head);
        let [preset, flags, pieces @ ..] = header;
        let options = match presets.get(usize::from(preset) % (presets.len() + 1)) {
            Some(preset) => {
                preset.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
            }
            None => options(&mut input),
        };
        let max_record = MAX_RECORDS[usize::from(flags >> 1 & 3)];
        let setup = Setup { options, max_record, ..Setup::new(&[]) };
        Self { setup, flags, pieces: sizes(pieces, input.len()), input: input.to_vec() }
    }

    /// The same case, for a decoder that makes its host decompress.
    pub(super) fn decompressing(self) -> Self {
        Self { setup: self.setup.decompressing(decompress), ..self }
    }

    /// The same case. If the flags say so, the input's checksums are corrected: a fuzzer can't
    /// guess them.
    pub(super) fn mended(mut self, mend: fn(&mut [u8])) -> Self {
        if self.flags & MEND != 0 {
            mend(&mut self.input);
        }
        self
    }
}

/// Takes options from the start of the input: `name=value`, each ended by LF, all ended by NUL.
fn options(input: &mut &[u8]) -> Vec<(String, String)> {
    let end = input.iter().position(|byte| *byte == 0).unwrap_or(input.len());
    let text = String::from_utf8_lossy(&input[..end]).into_owned();
    *input = input.get(end + 1..).unwrap_or_default();
    let pair = |line: &str| line.split_once('=').map(|(name, value)| (name.into(), value.into()));
    text.lines().filter_map(pair).collect()
}

/// Sizes of pieces, which the seed determines: all of one size, or of sizes up to a largest one.
fn sizes(seed: [u8; 4], length: usize) -> Vec<usize> {
    let [kind, largest, _, _] = seed;
    let largest = usize::from(largest) + 1;
    let mut state = u32::from_le_bytes(seed) | 1;
    let next = || {
        // xorshift32
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        if kind & 1 == 0 { largest } else { 1 + state as usize % largest }
    };
    std::iter::repeat_with(next).take(length.min(MAX_PIECES)).collect()
}
