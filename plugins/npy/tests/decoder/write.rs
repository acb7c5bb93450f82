//! A writer of .npy by the definition of the format. It can also write invalid files.

/// A header of version 1.0 with this text, without padding.
pub fn header(text: &str) -> Vec<u8> {
    let mut file = b"\x93NUMPY\x01\0".to_vec();
    file.extend_from_slice(&(text.len() as u16).to_le_bytes());
    file.extend_from_slice(text.as_bytes());
    file
}

/// The text of a header. `descr` and `shape` are Python.
pub fn dict(descr: &str, shape: &str) -> String {
    format!("{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n")
}

/// An array. `descr` and `shape` are Python.
pub fn array(descr: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    [header(&dict(descr, shape)), data.to_vec()].concat()
}
