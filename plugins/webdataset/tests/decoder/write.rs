//! A writer of tar blocks by the definition in POSIX. It can also write invalid blocks.

pub const BLOCK: usize = 512;

/// A ustar header with its checksum.
pub fn header(name: &[u8], size: u64, kind: u8) -> [u8; BLOCK] {
    let mut block = [0; BLOCK];
    block[..name.len()].copy_from_slice(name);
    block[100..107].copy_from_slice(b"0000644");
    block[124..135].copy_from_slice(format!("{size:011o}").as_bytes());
    block[156] = kind;
    block[257..265].copy_from_slice(b"ustar\x0000");
    sum(&mut block);
    block
}

/// Sets the checksum.
pub fn sum(block: &mut [u8; BLOCK]) {
    block[148..156].fill(b' ');
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
}

/// A header with its data, padded to whole blocks.
pub fn entry(name: &[u8], data: &[u8], kind: u8) -> Vec<u8> {
    let mut bytes = header(name, data.len() as u64, kind).to_vec();
    bytes.extend_from_slice(data);
    bytes.resize(bytes.len().next_multiple_of(BLOCK), 0);
    bytes
}

pub fn file(name: &str, data: &[u8]) -> Vec<u8> {
    entry(name.as_bytes(), data, b'0')
}

/// Pax records for the next header.
pub fn pax(records: &[(&str, &str)]) -> Vec<u8> {
    entry(b"PaxHeaders/x", &pax_text(records), b'x')
}

pub fn pax_text(records: &[(&str, &str)]) -> Vec<u8> {
    let record = |(key, value): &(&str, &str)| {
        let rest = key.len() + value.len() + 3;
        let length = (1..).find(|n| rest + n.to_string().len() == *n).expect("some length fits");
        format!("{length} {key}={value}\n").into_bytes()
    };
    records.iter().flat_map(record).collect()
}

/// The end mark of an archive.
pub fn end() -> Vec<u8> {
    vec![0; 2 * BLOCK]
}

/// An array of NumPy. `descr` and `shape` are Python.
pub fn npy(descr: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    let text = format!("{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n");
    let length = (text.len() as u16).to_le_bytes();
    [b"\x93NUMPY\x01\0", &length[..], text.as_bytes(), data].concat()
}
