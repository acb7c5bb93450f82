//! Log records with fields, through the `log` facade. The program decides where they are written.

use std::fmt::Arguments;

use log::Level;
use log::kv::{Source, ToValue, Value};

/// An empty list of fields.
pub const NO_FIELDS: [(&str, &str); 0] = [];

/// Logs a message with these fields.
pub fn log_with(level: Level, fields: &dyn Source, message: Arguments) {
    if level <= log::max_level() {
        let record = log::Record::builder()
            .level(level)
            .target("pipemill")
            .args(message)
            .key_values(&fields)
            .build();
        log::logger().log(&record);
    }
}

/// The value of a field that may be absent; an absent one has the empty value.
pub fn optional<'a, T: Into<Value<'a>>>(value: Option<T>) -> Value<'a> {
    value.map_or_else(|| ().to_value(), Into::into)
}
