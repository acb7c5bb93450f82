//! `input/config/hyperparameters.json`: a flat object whose values are strings.

use std::collections::BTreeMap;

/// Reads the file's text.
pub(super) fn hyperparameters(text: &str) -> Result<BTreeMap<String, String>, String> {
    serde_json::from_str(text)
        .map_err(|error| format!("expected an object whose values are strings: {error}"))
}
