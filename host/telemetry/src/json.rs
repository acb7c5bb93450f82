//! Formats a log message as a JSON object: time, level, text and fields.

use std::fmt::Display;
use std::time::SystemTime;

use log::Level;
use log::kv::{Error, Key, Source, Value, VisitSource, VisitValue};
use serde::Serializer as _;
use serde::ser::SerializeMap;

use pipemill_types::json::Escaping;

/// The object on one line, with a newline at its end.
pub(super) fn line(level: Level, message: &dyn Display, fields: &dyn Source) -> String {
    let object = || {
        let mut out = Vec::new();
        let mut serializer = serde_json::Serializer::with_formatter(&mut out, Escaping);
        let mut map = serializer.serialize_map(None)?;
        let now = humantime::format_rfc3339_millis(SystemTime::now());
        map.serialize_entry("time", &now.to_string())?;
        map.serialize_entry("level", level_word(level))?;
        map.serialize_entry("message", &message.to_string())?;
        // Fails if a field has no JSON form. Such a field is left out, but all types that are
        // logged have one.
        let _ = fields.visit(&mut Fields(&mut map));
        map.end()?;
        Ok::<_, serde_json::Error>(String::from_utf8_lossy(&out).into_owned())
    };
    // Writing text and numbers to memory can't fail.
    object().unwrap_or_default() + "\n"
}

/// The name of a level, in the log of either form.
pub(super) fn level_word(level: Level) -> &'static str {
    match level {
        Level::Error => "error",
        Level::Warn => "warn",
        Level::Info => "info",
        Level::Debug => "debug",
        Level::Trace => "trace",
    }
}

/// Writes fields as JSON's own types.
struct Fields<'a, M>(&'a mut M);

impl<'kvs, M: SerializeMap> VisitSource<'kvs> for Fields<'_, M> {
    fn visit_pair(&mut self, key: Key<'kvs>, value: Value<'kvs>) -> Result<(), Error> {
        value.visit(Field { map: self.0, key: key.as_str() })
    }
}

struct Field<'a, M> {
    map: &'a mut M,
    key: &'a str,
}

impl<M: SerializeMap> Field<'_, M> {
    fn entry(&mut self, value: &(impl serde::Serialize + ?Sized)) -> Result<(), Error> {
        self.map.serialize_entry(self.key, value).map_err(|_| Error::msg("it has no JSON"))
    }
}

impl<M: SerializeMap> VisitValue<'_> for Field<'_, M> {
    fn visit_any(&mut self, value: Value) -> Result<(), Error> {
        self.entry(&value.to_string())
    }

    /// A field without a value is left out.
    fn visit_null(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn visit_u64(&mut self, value: u64) -> Result<(), Error> {
        self.entry(&value)
    }

    fn visit_i64(&mut self, value: i64) -> Result<(), Error> {
        self.entry(&value)
    }

    fn visit_f64(&mut self, value: f64) -> Result<(), Error> {
        self.entry(&value)
    }

    fn visit_bool(&mut self, value: bool) -> Result<(), Error> {
        self.entry(&value)
    }

    fn visit_str(&mut self, value: &str) -> Result<(), Error> {
        self.entry(value)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use pipemill_channel::Failure;
    use pipemill_types::log::{NO_FIELDS, optional};
    use pipemill_types::{ErrorKind, Fault, Position};
    use serde_json::json;

    use super::*;

    /// The object of a message, checked to be one line. Its time is checked and removed.
    pub(crate) fn object(message: &str, fields: &dyn Source) -> serde_json::Value {
        let line = super::line(Level::Warn, &message, fields);
        assert_eq!(line.find('\n'), Some(line.len() - 1), "one line: {line:?}");
        let mut object: serde_json::Value = serde_json::from_str(&line).unwrap();
        let time = object["time"].take();
        let time = time.as_str().unwrap();
        assert!(time.len() == 24 && time.ends_with('Z'), "{time}");
        assert!(humantime::parse_rfc3339(time).unwrap() <= SystemTime::now());
        object.as_object_mut().unwrap().remove("time");
        object
    }

    #[test]
    fn a_message_with_control_characters_is_one_line() {
        let text = "a \"b\" \\ \n\r\u{1b}[1m\u{0}\u{2028}ä";
        assert_eq!(object(text, &NO_FIELDS), json!({"level": "warn", "message": text}));
    }

    #[test]
    fn fields_become_json_values_of_their_type() {
        let (epoch, host) = (3_u32, std::net::Ipv4Addr::LOCALHOST);
        let fields = [
            ("object", Value::from("a\nb")),
            ("epoch", epoch.into()),
            ("bytes", u64::MAX.into()),
            ("seconds", 0.5.into()),
            ("told", true.into()),
            ("record", optional(None::<u64>)),
            ("host", Value::from_display(&host)),
        ];
        assert_eq!(
            object("x", &fields),
            json!({"level": "warn", "message": "x", "object": "a\nb", "epoch": 3, "bytes": u64::MAX,
                   "seconds": 0.5, "told": true, "host": "127.0.0.1"})
        );
    }

    #[test]
    fn a_failure_has_its_position_as_fields() {
        let failure = Failure {
            fault: Fault::new(ErrorKind::Decode, "what", "remedy"),
            channel: "train".to_owned(),
            position: Position {
                epoch: 1,
                object: Some("a.csv".to_owned()),
                offset: Some(6),
                record: None,
            },
            decoder: "csv".to_owned(),
            bytes: vec![1],
            missing: false,
        };
        let both: [&dyn Source; 2] = [&failure, &("length", 7)];
        assert_eq!(
            object("x", &both),
            json!({"level": "warn", "message": "x", "channel": "train", "epoch": 1,
                   "object": "a.csv", "offset": 6, "decoder": "csv", "kind": "decode", "length": 7})
        );
    }
}
