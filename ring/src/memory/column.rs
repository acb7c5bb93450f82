//! The columns of an index as bytes, and bytes as columns.

/// The bytes of a column, as they are written into an index.
pub(crate) fn column_bytes(column: &[u32]) -> &[u8] {
    // SAFETY: u32 has no padding, any byte is a valid u8, and the length is that of the slice.
    unsafe { std::slice::from_raw_parts(column.as_ptr().cast::<u8>(), size_of_val(column)) }
}

/// The column in these bytes. `None` if they are not aligned, or not a whole number of elements.
pub(crate) fn column(bytes: &[u8]) -> Option<&[u32]> {
    // SAFETY: every bit pattern is a valid u32.
    let (before, column, after) = unsafe { bytes.align_to::<u32>() };
    (before.is_empty() && after.is_empty()).then_some(column)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(align(64))]
    struct Aligned([u8; 64]);

    /// Under Miri, this also shows that no access is misaligned or outside.
    #[test]
    fn a_column_is_read_from_the_bytes_that_it_was_written_as() {
        let numbers: Vec<u32> = (0..9).map(|i| i * 0x0102_0304).collect();
        let mut memory = Aligned([0; 64]);
        memory.0[4..40].copy_from_slice(column_bytes(&numbers));
        for from in 0..64 {
            for bytes in 0..=64 - from {
                let read = column(&memory.0[from..from + bytes]);
                // An empty slice has no element that could be misaligned.
                let fits = bytes.is_multiple_of(4) && (from.is_multiple_of(4) || bytes == 0);
                assert_eq!(read.is_some(), fits, "{bytes} bytes from {from}");
                assert!(read.is_none_or(|read| read.len() == bytes / 4));
            }
        }
        assert_eq!(column(&memory.0[4..40]), Some(&numbers[..]));
        assert_eq!(column(column_bytes(&[])), Some(&[][..]));
    }
}
