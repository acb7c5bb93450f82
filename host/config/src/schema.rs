//! The JSON Schema of the file: `pipemill config schema` prints it for editors.
//!
//! It describes each value without regard to others. Rules that depend on several keys, such as the
//! number of slots for the credits, are checked only by `parse`. A schema accepts every file that
//! `parse` accepts.

use serde_json::{Map, Value, json};

use super::key::{Key, REQUIRED, Shape, Table, Unit};
use super::keys::{FOREVER, MIXED_CHANNELS, NAME_PATTERN, ROOT_TABLE, SOURCE_TABLE, WEIGHTS};
use super::{source, values};

/// The schema as JSON text.
pub fn schema() -> String {
    let mut schema = table(&ROOT_TABLE);
    schema["$schema"] = json!("http://json-schema.org/draft-07/schema#");
    schema["title"] = json!("pipemill.toml");
    schema["description"] = json!("The configuration of pipemill.");
    let variable = "A text with an environment variable, as in ${NAME} or ${NAME:-text}.";
    schema["definitions"] = json!({
        "variable": { "description": variable, "type": "string", "pattern": r"\$" },
    });
    format!("{schema:#}\n")
}

fn table(table: &Table) -> Value {
    let properties: Map<_, _> =
        table.keys().into_iter().map(|key| (key.name().to_owned(), described(key))).collect();
    let mut schema =
        json!({ "type": "object", "properties": properties, "additionalProperties": false });
    let required = table.keys().into_iter().filter(|key| key.default_text() == REQUIRED);
    let required: Vec<_> = required.map(Key::name).collect();
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    if std::ptr::eq(table, &SOURCE_TABLE) {
        let forms = source::forms()
            .map(|(kind, keys)| json!({ "required": [kind], "propertyNames": { "enum": keys } }));
        schema["oneOf"] = forms.collect();
    }
    schema
}

/// The values of a key, with its documentation and default.
fn described(key: &dyn Key) -> Value {
    let mut schema = value(key);
    let (doc, expected, default) = (without_links(key.doc()), key.expected(), key.default_text());
    schema["description"] = json!(format!("{doc}\n\nValue: {expected}. Default: {default}."));
    if let Some(default) = default.strip_prefix('`').and_then(|text| text.strip_suffix('`'))
        && let Ok(default) = serde_json::from_str::<Value>(default)
    {
        schema["default"] = default;
    }
    schema
}

fn value(key: &dyn Key) -> Value {
    match key.shape() {
        Shape::Number(Unit::Count, min, max) => {
            or_variable(json!({ "type": "integer", "minimum": min, "maximum": max }))
        }
        Shape::Number(Unit::Size, min, max) => text(&whole(&values::size_pattern(min, max))),
        Shape::Number(Unit::Time, min, max) => text(&whole(&values::time_pattern(min, max))),
        Shape::Number(Unit::TimeOrForever, min, max) => {
            text(&whole(&format!("{}|{FOREVER}", values::time_pattern(min, max))))
        }
        Shape::Words(words) => or_variable(json!({ "enum": words })),
        Shape::Flag => or_variable(json!({ "type": "boolean" })),
        Shape::True => or_variable(json!({ "const": true })),
        Shape::Text(pattern) => text(pattern),
        Shape::Texts(pattern, most) => {
            let mut list = json!({ "type": "array", "items": text(pattern), "minItems": 1 });
            if let Some(most) = most {
                list["maxItems"] = json!(most);
            }
            json!({ "anyOf": [text(pattern), list] })
        }
        Shape::NumbersAndTexts(pattern) => {
            let number = json!({ "type": "integer", "minimum": 0 });
            json!({ "type": "array", "items": { "anyOf": [number, text(pattern)] } })
        }
        Shape::Table(inner) => table(inner),
        Shape::Tables(inner) => json!({ "type": "array", "items": table(inner), "minItems": 1 }),
        Shape::Options => {
            let scalar = json!({ "type": ["string", "integer", "boolean"] });
            json!({ "type": "object", "additionalProperties": scalar })
        }
        Shape::Weights => weights(),
        Shape::Either(one, other) => json!({ "anyOf": [value(one), value(other)] }),
    }
}

fn weights() -> Value {
    let [least, most] = [WEIGHTS.0, WEIGHTS.1].map(|millionths| millionths as f64 / 1e6);
    json!({
        "type": "object",
        "propertyNames": { "pattern": NAME_PATTERN },
        "additionalProperties": { "type": "number", "minimum": least, "maximum": most },
        "minProperties": MIXED_CHANNELS.0,
        "maxProperties": MIXED_CHANNELS.1,
    })
}

fn text(pattern: &str) -> Value {
    or_variable(json!({ "type": "string", "pattern": pattern }))
}

/// Anchors a regular expression at both ends of the text.
fn whole(pattern: &str) -> String {
    format!("^(?:{pattern})$")
}

/// A value, or a text that contains a variable.
fn or_variable(schema: Value) -> Value {
    json!({ "anyOf": [schema, { "$ref": "#/definitions/variable" }] })
}

/// Markdown without its links: an editor shows it without the pages.
fn without_links(markdown: &str) -> String {
    let mut text = String::new();
    let mut rest = markdown;
    while let Some((before, after)) = rest.split_once("](") {
        let (open, target_end) = (before.rfind('['), after.find(')'));
        let (Some(open), Some(end)) = (open, target_end) else { break };
        text.extend([&before[..open], &before[open + 1..]]);
        rest = &after[end + 1..];
    }
    text + rest
}
