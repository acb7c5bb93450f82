//! Random pieces and random damage.

use fastrand::Rng;

/// Random sizes of pieces: up to 199 of them, small or large ones.
pub(super) fn random_pieces(rng: &mut Rng, size: usize) -> Vec<usize> {
    let largest = match rng.u8(0..4) {
        0 => 4,
        1 => 64,
        2 => 4 << 10,
        _ => size.max(1),
    };
    let count = rng.usize(0..200);
    (0..count).map(|_| rng.usize(1..=largest)).collect()
}

/// The input with one to four random damages.
pub(super) fn damage(rng: &mut Rng, input: &[u8]) -> Vec<u8> {
    let mut bytes = input.to_vec();
    for _ in 0..rng.usize(1..=4) {
        if bytes.is_empty() {
            bytes.push(rng.u8(..));
            continue;
        }
        let at = rng.usize(0..bytes.len());
        let to = (at + rng.usize(1..=16)).min(bytes.len());
        match rng.u8(0..7) {
            0 => bytes[at] ^= 1 << rng.u8(0..8),
            1 => bytes[at] = rng.u8(..),
            2 => bytes[at..to].fill(if rng.bool() { 0xff } else { 0 }),
            3 => drop(bytes.drain(at..to)),
            4 => bytes.insert(at, rng.u8(..)),
            5 => {
                let again = bytes[at..to].to_vec();
                bytes.splice(at..at, again);
            }
            _ => bytes.truncate(at),
        }
    }
    bytes
}
