//! Text from C, and text for C.

use std::ffi::{CStr, CString, OsStr, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::error::Error;

/// The bytes of a text from C. `None` if it is null.
fn bytes<'a>(text: *const c_char) -> Option<&'a [u8]> {
    if text.is_null() {
        return None;
    }
    // SAFETY: it is not null, and the header requires a text that ends with a zero byte and does
    // not change during the call. No caller keeps it for longer.
    Some(unsafe { CStr::from_ptr(text) }.to_bytes())
}

/// The text that C passes as the argument `name`. `None` if it is null.
pub(crate) fn optional<'a>(name: &str, text: *const c_char) -> Result<Option<&'a str>, Error> {
    bytes(text).map(str::from_utf8).transpose().map_err(|error| {
        Error::argument(format!(
            "{name}: expected text in UTF-8, which ends at byte {}",
            error.valid_up_to()
        ))
    })
}

/// The text that C passes as the argument `name`, which is required.
pub(crate) fn required<'a>(name: &str, text: *const c_char) -> Result<&'a str, Error> {
    optional(name, text)?.ok_or_else(|| Error::argument(format!("{name} is NULL; expected a text")))
}

/// A path from C. `None` if it is null.
pub(crate) fn path<'a>(text: *const c_char) -> Option<&'a Path> {
    bytes(text).map(|bytes| Path::new(OsStr::from_bytes(bytes)))
}

/// The text for C. A text ends at the first zero byte in C, so the character U+FFFD replaces each
/// of them.
pub(crate) fn for_c(text: &str) -> CString {
    CString::new(text.replace('\0', "\u{fffd}")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_text_is_an_error() {
        assert_eq!(required("channel", c"train".as_ptr()).ok(), Some("train"));
        let said = |result: Result<&str, Error>| result.unwrap_err().to_string();
        assert_eq!(said(required("channel", std::ptr::null())), "channel is NULL; expected a text");
        let text = required("channel", c"ab\xff".as_ptr());
        assert_eq!(said(text), "channel: expected text in UTF-8, which ends at byte 2");
        assert!(optional("tail", std::ptr::null()).unwrap().is_none());
        assert_eq!(path(c"a/\xff".as_ptr()), Some(Path::new(OsStr::from_bytes(b"a/\xff"))));
        assert_eq!(path(std::ptr::null()), None);
        assert_eq!(for_c("a\0b"), c"a\u{fffd}b".to_owned());
    }
}
