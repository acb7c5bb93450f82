//! Rows of a table that are emitted together, field by field.

/// Bytes of values, and of the host's index of them, that are emitted together. Consumers get columns
/// of so many bytes without a copy: they fit into a slot of 4 MiB.
pub const BLOCK_BYTES: usize = 3 << 20;
/// Most rows that are emitted together.
pub const MOST_ROWS: usize = 1 << 16;
/// Bytes that the host's index has for each value.
pub const INDEX_BYTES: usize = 8;

/// The number of rows to emit together if they should have `bytes` bytes, and each has this number
/// of bytes of values and index.
pub fn rows_together(bytes: usize, of_row: usize) -> usize {
    (bytes / of_row.max(1)).clamp(1, MOST_ROWS)
}

/// Whether the values that end at these places are text. The check of all bytes at once is faster
/// than one of each value.
pub fn are_text(bytes: &[u8], ends: impl IntoIterator<Item = usize>) -> bool {
    std::str::from_utf8(bytes).is_ok_and(|text| {
        ends.into_iter().fold(true, |all_are, end| all_are & text.is_char_boundary(end))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_not_cut_inside_of_a_character() {
        assert!(are_text("aä".as_bytes(), [0, 1, 1, 3]));
        assert!(!are_text("aä".as_bytes(), [2, 3]));
        assert!(!are_text(b"a\xff", [1, 2]));
        assert!(!are_text(b"a", [2]));
    }

    #[test]
    fn there_is_a_row_at_least() {
        assert_eq!(rows_together(BLOCK_BYTES, usize::MAX), 1);
        assert_eq!(rows_together(BLOCK_BYTES, 0), MOST_ROWS);
        assert_eq!(rows_together(1000, 10), 100);
    }
}
