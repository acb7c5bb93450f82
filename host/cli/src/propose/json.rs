//! Proposes fields by lines of JSON: one for each value of an object, and of the objects in it.

use serde_json::Value;

use super::is_plain;

/// Number of lines that are examined.
const MAX_LINES: u64 = 200;
/// Largest number of proposed fields: more are rarely wanted.
const MAX_FIELDS: usize = 64;
/// Largest depth of nested objects that are examined.
const MAX_DEPTH: usize = 4;

/// The facts about the values of lines.
#[derive(Debug, Default)]
pub(crate) struct JsonFields {
    lines: u64,
    /// Whether a line was not an object, or not JSON.
    has_others: bool,
    values: Vec<SeenValue>,
}

/// The values at one place of the lines.
#[derive(Debug)]
struct SeenValue {
    /// The keys that lead to it.
    keys: Vec<String>,
    /// Number of lines that have a value that is not null.
    count: u64,
    kind: ValueKind,
}

/// The type that all values at a place have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ValueKind {
    /// Only null was seen.
    Unknown,
    Bool,
    Int,
    Float,
    Text,
    /// Arrays of numbers; the size, if all have the same.
    Numbers {
        float: bool,
        size: Option<usize>,
    },
    /// Arrays of text.
    Texts,
    /// None of these, or values of several types.
    Other,
}

impl ValueKind {
    fn of(value: &Value) -> Self {
        match value {
            Value::Null => Self::Unknown,
            Value::Bool(_) => Self::Bool,
            Value::Number(number) if number.is_i64() => Self::Int,
            Value::Number(number) if number.is_f64() => Self::Float,
            Value::String(_) => Self::Text,
            Value::Array(values) if values.iter().all(Value::is_string) && !values.is_empty() => {
                Self::Texts
            }
            Value::Array(values) if values.iter().all(Value::is_number) => {
                let float = values.iter().any(|value| !value.is_i64());
                Self::Numbers { float, size: Some(values.len()) }
            }
            Value::Number(_) | Value::Array(_) | Value::Object(_) => Self::Other,
        }
    }

    /// The type of values of both types.
    fn with(self, other: Self) -> Self {
        use ValueKind::{Float, Int, Numbers, Texts, Unknown};
        match (self, other) {
            (one, other) if one == other => one,
            (Unknown, known) | (known, Unknown) => known,
            (Int, Float) | (Float, Int) => Float,
            (Numbers { float: one, size: first }, Numbers { float: other, size: second }) => {
                Numbers { float: one || other, size: first.filter(|_| first == second) }
            }
            // An empty array is one of text, too.
            (Texts, Numbers { size: Some(0), .. }) | (Numbers { size: Some(0), .. }, Texts) => {
                Texts
            }
            _ => Self::Other,
        }
    }

    /// The type in a field spec, after its colon.
    fn word(self) -> String {
        match self {
            Self::Bool => "bool".to_owned(),
            Self::Int => "int64".to_owned(),
            Self::Float => "float64".to_owned(),
            Self::Text => "utf8".to_owned(),
            Self::Texts => "utf8[]".to_owned(),
            Self::Numbers { float, size } => {
                let size = size.filter(|size| *size > 0).map_or(String::new(), |it| it.to_string());
                format!("{}[{size}]", if float { "float64" } else { "int64" })
            }
            Self::Unknown | Self::Other => "bytes".to_owned(),
        }
    }
}

impl JsonFields {
    /// Examines a line.
    pub(crate) fn add(&mut self, line: &[u8]) {
        if self.lines >= MAX_LINES {
            return;
        }
        self.lines += 1;
        match serde_json::from_slice(line) {
            Ok(Value::Object(object)) => self.add_object(&mut Vec::new(), &object),
            _ => self.has_others = true,
        }
    }

    fn add_object(&mut self, keys: &mut Vec<String>, object: &serde_json::Map<String, Value>) {
        for (key, value) in object {
            keys.push(key.clone());
            match value {
                Value::Object(inner) if keys.len() < MAX_DEPTH => self.add_object(keys, inner),
                value => self.add_value(keys, value),
            }
            keys.pop();
        }
    }

    fn add_value(&mut self, keys: &[String], value: &Value) {
        let (kind, count) = (ValueKind::of(value), u64::from(!value.is_null()));
        // One more than the limit shows that there are too many.
        let has_room = self.values.len() <= MAX_FIELDS;
        match self.values.iter_mut().find(|seen| seen.keys == keys) {
            Some(seen) => (seen.kind, seen.count) = (seen.kind.with(kind), seen.count + count),
            None if has_room => {
                self.values.push(SeenValue { keys: keys.to_vec(), count, kind });
            }
            None => {}
        }
    }

    /// The option `fields` for these lines; `None` if they are not all objects, or have too many
    /// values or keys that can't stand in it.
    pub(crate) fn proposal(&self) -> Option<String> {
        let is_fit = |seen: &SeenValue| seen.keys.iter().all(|key| is_plain(key));
        let fits = self.values.len() <= MAX_FIELDS && self.values.iter().all(is_fit);
        if self.has_others || self.values.is_empty() || !fits {
            return None;
        }
        let last = |seen: &SeenValue| seen.keys.last().cloned().unwrap_or_default();
        let names: Vec<_> = self.values.iter().map(last).collect();
        let field = |(seen, name): (&SeenValue, &String)| {
            let is_shared = names.iter().filter(|other| *other == name).count() > 1;
            // A null in an inner object can hide that it is missing in others, so the count
            // decides.
            let optional = if seen.count < self.lines { "?" } else { "" };
            let name = if is_shared { format!("{}=", seen.keys.join("_")) } else { String::new() };
            format!("{name}/{}:{}{optional}", seen.keys.join("/"), seen.kind.word())
        };
        let fields: Vec<_> = self.values.iter().zip(&names).map(field).collect();
        Some(fields.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::JsonFields;

    fn proposal(lines: &[&str]) -> Option<String> {
        let mut fields = JsonFields::default();
        lines.iter().for_each(|line| fields.add(line.as_bytes()));
        fields.proposal()
    }

    #[test]
    fn each_value_becomes_a_field_of_the_type_that_all_lines_have() {
        let lines = [
            r#"{"a": 1, "b": 0.5, "t": "x", "v": [1, 2], "w": [1], "s": ["k"], "o": {"k": true}}"#,
            r#"{"a": 2, "b": 7, "t": null, "v": [3, 4.5], "w": [], "s": [], "o": {"k": false}}"#,
        ];
        let fields = "/a:int64,/b:float64,/o/k:bool,/s:utf8[],/t:utf8?,/v:float64[2],/w:int64[]";
        let mut found: Vec<_> =
            proposal(&lines).expect("one").split(',').map(str::to_owned).collect();
        found.sort();
        assert_eq!(found.join(","), fields);
    }

    #[test]
    fn values_of_several_types_are_taken_as_written_and_equal_names_differ() {
        let lines = [r#"{"a": {"id": 1}, "b": {"id": "x"}}"#, r#"{"a": {"id": [[1]]}}"#];
        assert_eq!(proposal(&lines).as_deref(), Some("a_id=/a/id:bytes,b_id=/b/id:utf8?"));
    }

    #[test]
    fn what_can_not_stand_in_the_option_is_not_proposed() {
        assert_eq!(proposal(&[r#"{"a,b": 1}"#]), None);
        assert_eq!(proposal(&["[1]"]), None);
        assert_eq!(proposal(&["{}"]), None);
        assert_eq!(proposal(&[]), None);
        let many: Vec<_> = (0..70).map(|number| format!("\"k{number}\": 1")).collect();
        assert_eq!(proposal(&[&format!("{{{}}}", many.join(","))]), None);
    }
}
