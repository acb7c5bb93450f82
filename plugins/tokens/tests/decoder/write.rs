//! Writes token files, including invalid ones.

/// Tokens of `width` bytes each, all different: the index of a token, and a byte that distinguishes
/// it from the others.
pub fn tokens(count: usize, width: usize) -> Vec<u8> {
    let token = |index: usize| (index as u64 * 0x9e37 + 1).to_le_bytes().into_iter().take(width);
    (0..count).flat_map(token).collect()
}

/// llm.c's header.
pub fn header(magic: i32, version: i32, count: i32) -> Vec<u8> {
    let mut header: Vec<u8> =
        [magic, version, count].iter().flat_map(|n| n.to_le_bytes()).collect();
    header.resize(1024, 0);
    header
}

/// A file of llm.c with GPT-2's tokens.
pub fn gpt2(count: usize) -> Vec<u8> {
    [header(20_240_520, 1, count as i32), tokens(count, 2)].concat()
}
