//! A writer of RecordIO, one part or several.

/// Appends one part.
pub fn part(file: &mut Vec<u8>, cflag: u32, payload: &[u8]) {
    file.extend_from_slice(&0xced7_230a_u32.to_le_bytes());
    file.extend_from_slice(&(cflag << 29 | payload.len() as u32).to_le_bytes());
    file.extend_from_slice(payload);
    file.resize(file.len().next_multiple_of(4), b' ');
}

/// A file of records in one part each.
pub fn file(records: &[&[u8]]) -> Vec<u8> {
    let mut file = Vec::new();
    records.iter().for_each(|record| part(&mut file, 0, record));
    file
}
