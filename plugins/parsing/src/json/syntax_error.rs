//! Why a text is not JSON, and where.

/// The text is not JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SyntaxError {
    /// Where in the chunk the unexpected bytes start.
    pub(super) at: usize,
    /// What was expected there.
    pub(super) expected: &'static str,
}
