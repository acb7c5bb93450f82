//! Comparison with serde_json: the same texts are valid, and pointers find the same values.

use std::collections::HashMap;

use pipemill_jsonl::Jsonl;
use pipemill_plugin::testing::{Setup, assert_any_split};
use proptest::prelude::*;
use serde_json::value::RawValue;
use serde_json::{Number, Value};

use crate::texts::{damage, damaged, json};

const POINTERS: [&str; 12] =
    ["", "/a", "/b", "/0", "/1", "/a/b", "/a/0", "/ä", "/a/a/a", "/0/a", "/\"", "/a~1b"];
const KINDS: [&str; 9] =
    ["bytes", "utf8", "bool", "int32", "int64", "float32", "float64", "float64[]", "int64[2]"];

/// The text of the value that a pointer finds. serde_json rounds numbers when it makes a `Value`,
/// which no longer tells whether one is an integer.
fn text_at<'a>(line: &'a str, pointer: &str) -> Option<&'a str> {
    let mut text: &RawValue = serde_json::from_str(line).expect("valid JSON");
    for name in pointer.split('/').skip(1) {
        let name = name.replace("~1", "/").replace("~0", "~");
        let values = serde_json::from_str::<Vec<&RawValue>>(text.get());
        text = match (values, name.parse::<usize>()) {
            (Ok(values), Ok(index)) => *values.get(index)?,
            _ => serde_json::from_str::<HashMap<String, &RawValue>>(text.get()).ok()?.get(&name)?,
        };
    }
    Some(text.get().trim())
}

/// The integer that a number's text represents. It may have a fraction of zeros or an exponent.
fn integer(text: &str) -> Option<i64> {
    serde_json::from_str::<Number>(text).ok()?;
    let (sign, text) = text.strip_prefix('-').map_or((1, text), |text| (-1, text));
    let (digits, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let digits = [whole, fraction].concat();
    let significant = digits.trim_end_matches('0');
    let zeros = digits.len() - significant.len();
    let significant = significant.trim_start_matches('0');
    if significant.is_empty() {
        return Some(0);
    }
    let scale = exponent.parse::<i64>().ok()? - fraction.len() as i64 + zeros as i64;
    let power = 10i128.checked_pow(u32::try_from(scale).ok()?)?;
    let value = significant.parse::<i128>().ok()?.checked_mul(power)?;
    i64::try_from(value * sign).ok()
}

/// The integers of an array's text.
fn integers(text: &str) -> Option<Vec<i64>> {
    let values = serde_json::from_str::<Vec<&RawValue>>(text).ok()?;
    values.iter().map(|value| integer(value.get())).collect()
}

/// The floats of an array.
fn floats(value: &Value) -> Option<Vec<f64>> {
    value.as_array()?.iter().map(Value::as_f64).collect()
}

/// The expected field: absent, these bytes, or an error.
fn wanted(
    kind: &str,
    optional: bool,
    value: Option<&Value>,
    text: &str,
) -> Result<Option<Vec<u8>>, ()> {
    match value {
        None | Some(Value::Null) if optional => return Ok(None),
        None => return Err(()),
        _ => {}
    }
    let value = value.expect("checked above");
    let bytes = match kind {
        "utf8" => value.as_str().map(|text| text.as_bytes().to_vec()),
        "bool" => value.as_bool().map(|on| vec![u8::from(on)]),
        "int32" => {
            integer(text).and_then(|n| i32::try_from(n).ok()).map(|n| n.to_le_bytes().into())
        }
        "int64" => integer(text).map(|n| n.to_le_bytes().into()),
        "float64" => value.as_f64().map(|n| n.to_le_bytes().into()),
        "float32" => {
            value.as_f64().filter(|n| (*n as f32).is_finite()).map(|n| n.to_le_bytes().into())
        }
        "float64[]" => floats(value).map(|all| all.iter().flat_map(|n| n.to_le_bytes()).collect()),
        "int64[2]" => integers(text)
            .filter(|all| all.len() == 2)
            .map(|all| all.iter().flat_map(|n| n.to_le_bytes()).collect()),
        _ => Some(Vec::new()),
    };
    bytes.map(Some).ok_or(())
}

/// Whether two fields are the same. Floats may differ by one step, because serde_json's are not
/// always the nearest; `pipemill_parsing::numbers` has its own tests.
fn same_field(kind: &str, found: &[u8], wanted: &[u8], value: &Value) -> bool {
    let floats = |bytes: &[u8]| {
        let (words, rest) = bytes.as_chunks();
        assert!(rest.is_empty());
        words.iter().map(|word| f64::from_le_bytes(*word)).collect::<Vec<_>>()
    };
    let near = |a: f64, b: f64| (a - b).abs() <= b.abs() * 1e-15;
    match kind {
        "bytes" => serde_json::from_slice::<Value>(found).is_ok_and(|found| found == *value),
        "float64" | "float64[]" => {
            let (found, wanted) = (floats(found), floats(wanted));
            found.len() == wanted.len() && found.iter().zip(&wanted).all(|(a, b)| near(*a, *b))
        }
        "float32" => {
            let (found, wanted) =
                (f32::from_le_bytes(found.try_into().expect("four")), floats(wanted)[0]);
            (f64::from(found) - wanted).abs() <= wanted.abs() * 1e-7 + 1e-44
        }
        _ => found == wanted,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn same_values(
        lines in prop::collection::vec(json(), 1..6),
        pointer in prop::sample::select(&POINTERS[..]),
        kind in prop::sample::select(&KINDS[..]),
        optional: bool,
        pieces in prop::collection::vec(1usize..60, 0..20),
    ) {
        let field = format!("v={pointer}:{kind}{}", if optional { "?" } else { "" });
        let setup = Setup::new(&[("fields", &field)]).skipping();
        let outcome = assert_any_split::<Jsonl>(&setup, lines.join("\n").as_bytes(), &pieces);
        let (mut records, mut bad, mut at) = (outcome.records.iter(), Vec::new(), 0);
        for line in &lines {
            let value: Value = serde_json::from_str(line).expect("valid JSON");
            let value = value.pointer(pointer);
            let text = text_at(line, pointer);
            prop_assert_eq!(value.is_some(), text.is_some(), "{}", line);
            match wanted(kind, optional, value, text.unwrap_or_default()) {
                Err(()) => bad.push(at),
                Ok(wanted) => {
                    let found = &records.next().expect("a record")[0];
                    let same = match (found, &wanted) {
                        (Some(a), Some(b)) => same_field(kind, a, b, value.expect("present")),
                        (a, b) => a.is_none() && b.is_none(),
                    };
                    prop_assert!(same, "{line}: found {found:?}, wanted {wanted:?}");
                }
            }
            at += line.len() as u64 + 1;
        }
        prop_assert_eq!(records.next(), None);
        prop_assert_eq!(outcome.errors.iter().map(|(at, ..)| *at).collect::<Vec<_>>(), bad);
    }

    #[test]
    fn same_texts_are_valid(text in json(), damage in damage()) {
        let mut text = damaged(text.into_bytes(), &damage);
        text.retain(|byte| *byte != b'\n');
        let blank = text.iter().all(|byte| b" \t\r".contains(byte));
        let theirs = serde_json::from_slice::<Value>(&text);
        // serde_json refuses numbers that are too large for f64. For the decoder they are valid
        // JSON.
        let too_large = |error: &serde_json::Error| error.to_string().contains("out of range");
        prop_assume!(!blank && !text.starts_with(b"\xef\xbb\xbf"));
        prop_assume!(!theirs.as_ref().is_err_and(too_large));
        let outcome = assert_any_split::<Jsonl>(&Setup::new(&[]), &text, &[7, 5, 3]);
        prop_assert_eq!(outcome.errors.is_empty(), theirs.is_ok(), "{:?}, {:?}", outcome.errors, theirs);
        prop_assert_eq!(outcome.records.len(), usize::from(theirs.is_ok()));
    }
}
