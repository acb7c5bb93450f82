//! The error of a text that is not JSON.

/// The text is not JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SyntaxError {
    /// The offset in the chunk at which the unexpected bytes start.
    pub(super) at: usize,
    /// Says what was expected there.
    pub(super) expected: &'static str,
}
