//! When to try a fast path again after it has met a row that it can't read.

/// Number of rows to read without the fast path. The number doubles each time, so that a file of
/// such rows is not read twice.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Backoff {
    /// After the fast path has read at least this many rows, the next backoff is one row again.
    reset_after: u64,
    /// Rows left until the fast path is tried again.
    rows_left: u32,
    /// The value that `rows_left` had at the start.
    length: u32,
}

impl Backoff {
    const MAX_LENGTH: u32 = 256;

    pub(crate) fn new(reset_after: u64) -> Self {
        Self { reset_after, rows_left: 0, length: 0 }
    }

    /// Starts a backoff after the fast path has read `rows` rows.
    pub(crate) fn start(&mut self, rows: u64) {
        let length = if rows >= self.reset_after { 1 } else { self.length * 2 };
        self.length = length.clamp(1, Self::MAX_LENGTH);
        self.rows_left = self.length;
    }

    /// Counts a row that was read without the fast path.
    #[inline(always)]
    pub(crate) fn row(&mut self) {
        self.rows_left = self.rows_left.saturating_sub(1);
    }

    /// Whether to try the fast path before the next row.
    #[inline(always)]
    pub(crate) fn is_over(&self) -> bool {
        self.rows_left == 0
    }
}
