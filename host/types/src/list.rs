//! The value of a field that is a list of bytes or text: a table of offsets, then the elements.
//!
//! A list of n elements begins with n + 1 offsets, which are 32-bit little-endian integers and
//! count from the start of the value. Element i lies between offset i and offset i + 1. So the
//! first offset is 4 x (n + 1), and the last one is the length of the value.

/// The elements of a list's value. [`list_problem`] must have found nothing wrong with it.
pub fn list_elements(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    let offset = |at: usize| value.get(at..at + 4).map_or(0, read_u32) as usize;
    let count = (offset(0) / 4).saturating_sub(1);
    (0..count)
        .map(move |index| value.get(offset(4 * index)..offset(4 * index + 4)).unwrap_or_default())
}

/// What is wrong with the bytes of a list's value; `None` if nothing is.
pub fn list_problem(value: &[u8]) -> Option<String> {
    let size = value.len();
    let Some(first) = value.get(..4).map(read_u32) else {
        return Some(format!("has {size} bytes, fewer than the 4 of an empty list"));
    };
    if first < 4 || first % 4 != 0 || first as usize > size {
        return Some(format!("begins with the offset {first}, in a value of {size} bytes"));
    }
    let mut before = first;
    for offset in value[..first as usize].chunks_exact(4).map(read_u32) {
        if offset < before {
            return Some(format!("has the offset {offset} after the offset {before}"));
        }
        before = offset;
    }
    (before as usize != size).then(|| format!("ends at {before}, in a value of {size} bytes"))
}

fn read_u32(bytes: &[u8]) -> u32 {
    bytes.try_into().map_or(0, u32::from_le_bytes)
}
