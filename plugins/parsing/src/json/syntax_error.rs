//! Why a text is not JSON, and where.

/// The text is not JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SyntaxError {
    /// The place in the chunk where the unexpected bytes start.
    pub(super) at: usize,
    /// Says what was expected there.
    pub(super) expected: &'static str,
}
