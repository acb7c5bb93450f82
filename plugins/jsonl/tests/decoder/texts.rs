//! Random JSON texts, in all syntax that JSON allows.

use proptest::prelude::*;

/// One of a few keys, so that pointers often match. Some are written with escapes.
fn key() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["a", "b", "\\u0061", "0", "", "a b", "\\u00e4", "ä", "\\\"", "a/b"])
        .prop_map(str::to_owned)
}

fn string() -> impl Strategy<Value = String> {
    let atom = prop_oneof![
        4 => "[ -!#-\\[\\]-~]{0,12}",
        1 => "\\\\[\"\\\\/bfnrt]",
        1 => "\\\\u[0-9a-cA-C][0-9a-fA-F]{3}",
        1 => Just("\\ud83d\\uDE00".to_owned()),
        1 => Just("ä€😀\u{7f}\u{2028}".to_owned()),
    ];
    prop::collection::vec(atom, 0..5).prop_map(|atoms| format!("\"{}\"", atoms.concat()))
}

fn number() -> impl Strategy<Value = String> {
    let any = "-?(0|[1-9][0-9]{0,17})(\\.[0-9]{1,12})?([eE][+-]?[0-9]{1,2})?";
    // serde_json reads the integer -0 as a float.
    any.prop_map(|text| if text == "-0" { "0".to_owned() } else { text })
}

fn blank() -> impl Strategy<Value = &'static str> {
    prop_oneof![6 => Just(""), 2 => Just(" "), 1 => Just("\t \r")]
}

/// A JSON text without a newline.
pub fn json() -> impl Strategy<Value = String> {
    let word = prop::sample::select(vec!["true", "false", "null"]).prop_map(str::to_owned);
    let leaf = prop_oneof![2 => number(), 2 => string(), 1 => word];
    let padded = |(before, text, after): (&str, String, &str)| [before, &text, after].concat();
    leaf.prop_recursive(4, 40, 6, move |inner| {
        let inner = (blank(), inner, blank()).prop_map(padded).boxed();
        let key = (blank(), key(), blank())
            .prop_map(|(before, key, after)| format!("{before}\"{key}\"{after}"));
        let member = (key, inner.clone()).prop_map(|(key, value)| format!("{key}:{value}"));
        prop_oneof![
            prop::collection::vec(inner, 0..5).prop_map(|items| format!("[{}]", items.join(","))),
            prop::collection::vec(number(), 0..6)
                .prop_map(|items| format!("[{}]", items.join(","))),
            prop::collection::vec(member, 0..6).prop_map(|all| format!("{{{}}}", all.join(","))),
        ]
    })
}

/// The text with some bytes replaced.
pub fn damaged(mut text: Vec<u8>, damage: &[(prop::sample::Index, u8)]) -> Vec<u8> {
    for (at, byte) in damage {
        if !text.is_empty() {
            let at = at.index(text.len());
            text[at] = *byte;
        }
    }
    text
}

/// Offsets, with bytes to write there, many of them with a meaning in JSON.
pub fn damage() -> impl Strategy<Value = Vec<(prop::sample::Index, u8)>> {
    let byte = prop_oneof![
        2 => prop::sample::select(b"\"\\{}[],:0159.eE+-truflsn \t\r\x00\x1f\x7f\xc3\xa4\xff".to_vec()),
        1 => any::<u8>(),
    ];
    prop::collection::vec((any::<prop::sample::Index>(), byte), 0..4)
}
