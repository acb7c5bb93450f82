//! `input/config/hyperparameters.json`: a flat object whose values are strings.

use std::collections::BTreeMap;

/// Parses the file's text.
///
/// # Errors
/// The text is not such an object; the error says what is wrong.
pub(super) fn hyperparameters(text: &str) -> Result<BTreeMap<String, String>, String> {
    serde_json::from_str(text)
        .map_err(|error| format!("expected an object whose values are strings: {error}"))
}
