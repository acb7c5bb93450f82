//! Writes datasets as Megatron-LM does.

/// The documents of a dataset, each of which is a list of sequences.
pub type Documents = Vec<Vec<Vec<u16>>>;

/// The `.bin` and the `.idx` of documents of tokens of 2 bytes.
pub fn dataset(documents: &Documents) -> (Vec<u8>, Vec<u8>) {
    let sequences = || documents.iter().flatten();
    let mut index = b"MMIDIDX\0\0".to_vec();
    index.extend(1_u64.to_le_bytes());
    index.push(8);
    index.extend((sequences().count() as u64).to_le_bytes());
    index.extend((documents.len() as u64 + 1).to_le_bytes());
    index.extend(sequences().flat_map(|sequence| (sequence.len() as i32).to_le_bytes()));
    let mut pointer = 0_i64;
    for sequence in sequences() {
        index.extend(pointer.to_le_bytes());
        pointer += 2 * sequence.len() as i64;
    }
    let mut first = 0_i64;
    index.extend(first.to_le_bytes());
    for document in documents {
        first += document.len() as i64;
        index.extend(first.to_le_bytes());
    }
    (sequences().flatten().flat_map(|token| token.to_le_bytes()).collect(), index)
}
