//! Why a text is not JSON, and where.

/// The text is not JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SyntaxError {
    /// Where in the chunk the unexpected bytes start.
    pub(crate) at: usize,
    /// What was expected there.
    pub(crate) expected: &'static str,
}
