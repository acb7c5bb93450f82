//! Corrects the checksums in an input. A fuzzer can't guess them, and without them decoders stop at
//! a record's first bytes.

use highway::{HighwayHash as _, HighwayHasher, Key};

use crate::reference::tfrecord::masked;

/// Corrects the checksums of TFRecord's frames, up to the first length that is out of range.
pub(super) fn tfrecord(input: &mut [u8]) {
    let mut at = 0;
    while let Some(header) = input.get(at..at + 12) {
        let length = u64::from_le_bytes(std::array::from_fn(|i| header[i]));
        let crc = masked(&header[..8]);
        input[at + 8..at + 12].copy_from_slice(&crc.to_le_bytes());
        let Some(end) =
            usize::try_from(length).ok().and_then(|length| (at + 12).checked_add(length))
        else {
            return;
        };
        let Some(crc) = input.get(at + 12..end).map(masked) else { return };
        let Some(to) = input.get_mut(end..end + 4) else { return };
        to.copy_from_slice(&crc.to_le_bytes());
        at = end + 4;
    }
}

/// Corrects the hashes of a Riegeli file's chunks, up to one that ends after the input or in a later
/// block. A header gets its own hash, and that of the data after it.
pub(super) fn riegeli(input: &mut [u8]) {
    const BLOCK: usize = 1 << 16;
    const HEADER: usize = 40;
    const KEY: [u64; 2] = [u64::from_le_bytes(*b"Riegeli/"), u64::from_le_bytes(*b"records\n")];
    let hash = |bytes: &[u8]| {
        let hasher = HighwayHasher::new(Key([KEY[0], KEY[1], KEY[0], KEY[1]]));
        hasher.hash64(bytes).to_le_bytes()
    };
    // After the header of the first block.
    let mut at = 24;
    while let Some(header) = input.get(at..at + HEADER) {
        let number = |from: usize| u64::from_le_bytes(std::array::from_fn(|i| header[from + i]));
        let begin = if at == 24 { 0 } else { at };
        let from = at + HEADER;
        let end = usize::try_from(number(8)).ok().and_then(|size| from.checked_add(size));
        let padded = usize::try_from(number(24) >> 8).ok().and_then(|it| begin.checked_add(it));
        let (Some(end), Some(padded)) = (end, padded) else { return };
        let Some(data) = input.get(from..end).filter(|_| end.max(padded) < BLOCK).map(hash) else {
            return;
        };
        input[at + 16..at + 24].copy_from_slice(&data);
        let own = hash(&input[at + 8..from]);
        input[at..at + 8].copy_from_slice(&own);
        at = end.max(padded);
    }
}

/// Corrects the table of an MDS shard: the description of its columns begins after it, and ends
/// where the first sample begins. The places of samples grow, and the last one is the end.
pub(super) fn mds(input: &mut [u8]) {
    let Some(from) = input.windows(2).position(|pair| pair == b"{\"") else { return };
    let Some(json) = input[from..].iter().position(|byte| *byte == b'}') else { return };
    let samples = (from / 4).saturating_sub(2);
    if samples == 0 || !from.is_multiple_of(4) {
        return;
    }
    let (first, end) = ((from + json + 1) as u32, input.len() as u32);
    input[..4].copy_from_slice(&(samples as u32).to_le_bytes());
    let mut least = first;
    for sample in 0..=samples {
        let at = 4 + 4 * sample;
        let left = (samples - sample) as u32;
        let most = end.saturating_sub(left).max(least);
        let found = u32::from_le_bytes(std::array::from_fn(|i| input[at + i]));
        let place = match sample {
            0 => first,
            _ if sample == samples => most,
            _ => found.clamp(least, most),
        };
        input[at..at + 4].copy_from_slice(&place.to_le_bytes());
        least = place.saturating_add(1);
    }
}

/// Corrects the checksums of tar headers: of all blocks that have the magic `ustar`.
pub(super) fn tar(input: &mut [u8]) {
    for block in input.as_chunks_mut::<512>().0 {
        if block[257..262] == *b"ustar" {
            block[148..156].fill(b' ');
            let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
            block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        }
    }
}
