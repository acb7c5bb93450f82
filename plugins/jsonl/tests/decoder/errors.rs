//! Lines that are refused: the message, and that decoding continues at the next line.

use pipemill_plugin::testing::Setup;

use crate::outcome;

/// The error message for a bad line between two good ones.
fn message_for(options: &[(&str, &str)], good: &str, bad: &[u8]) -> String {
    let text = [good.as_bytes(), b"\n", bad, b"\n", good.as_bytes()].concat();
    let (records, errors) = outcome(&Setup::new(options).skipping(), &text);
    assert_eq!(records.len(), 2, "{}", bad.escape_ascii());
    let [(at, length, message)] = &errors[..] else { panic!("{errors:?}") };
    assert_eq!((*at, *length), (good.len() as u64 + 1, bad.len() as u64 + 1));
    let (records, errors) = outcome(&Setup::new(options), &text);
    assert_eq!((records.len(), errors), (1, vec![(*at, 0, message.clone())]));
    message.clone()
}

/// The message for a line that is not JSON, without its end.
fn syntax_message(line: &[u8]) -> String {
    let message = message_for(&[], "{}", line);
    assert_eq!(message, message_for(&[("fields", "/a:utf8?")], "{}", line));
    message.strip_suffix("; the line is not JSON").expect("the message has this part").to_owned()
}

#[test]
fn lines_that_are_not_json() {
    let cases: [(&[u8], &str); 26] = [
        (b"{", "expected a key in quotes, found the end of the line at +1"),
        (b"{\"a\" 1}", "expected `:` after the key, found `1}` at +5"),
        (b"{\"a\":1 \"b\":2}", "expected `,` or `}` after the value, found `\\\"b\\\":2}` at +7"),
        (b"{\"a\":1,}", "expected a key in quotes, found `}` at +7"),
        (b"[1,]", "expected a value, found `]` at +3"),
        (b"[1", "expected `,` or `]` after the value, found the end of the line at +2"),
        (b"1 2", "expected nothing after the value, found `2` at +2"),
        (
            b"NaN",
            "expected a value (JSON has no NaN and no Infinity; nan = true takes them), found \
             `NaN` at +0",
        ),
        (
            b"[-Infinity]",
            "expected a value (JSON has no NaN and no Infinity; nan = true takes them), found \
             `Infinity]` at +2",
        ),
        (b"-NaN", "expected a digit, found `NaN` at +1"),
        (b"[-]", "expected a digit, found `]` at +2"),
        (b"nul", "expected a value, found `nul` at +0"),
        (b"'a'", "expected a value, found `\\'a\\'` at +0"),
        (b"+1", "expected a value, found `+1` at +0"),
        (b"01", "expected nothing after the value, found `1` at +1"),
        (b"1.", "expected a digit after the dot, found the end of the line at +2"),
        (b".5", "expected a value, found `.5` at +0"),
        (b"1e+", "expected a digit in the exponent, found the end of the line at +3"),
        (
            b"\"a",
            "expected `\"` or characters other than control ones, found the end of the line at +2",
        ),
        (
            b"\"a\tb\"",
            "expected `\"` or characters other than control ones, found `\\tb\\\"` at +2",
        ),
        (b"\"\\x\"", "expected an escape that JSON has, found `\\\\x\\\"` at +1"),
        (
            b"\"\\u12g4\"",
            "expected four hexadecimal digits after `\\u`, found `\\\\u12g4\\\"` at +1",
        ),
        (b"\"\\ud83d\"", "expected surrogates in pairs, found `\\\\ud83d\\\"` at +1"),
        (
            b"\"\\ude00\\ud83d\"",
            "expected surrogates in pairs, found `\\\\ude00\\\\ud83d\\\"` at +1",
        ),
        (
            b"\"\\ud83d\\u0041\"",
            "expected surrogates in pairs, found `\\\\ud83d\\\\u0041\\\"` at +1",
        ),
        (b"[\"a\xffb\"]", "expected UTF-8, found `\\xffb\\\"]` at +3"),
    ];
    for (line, message) in cases {
        assert_eq!(syntax_message(line), message);
    }
    // A key is checked like any other string.
    assert_eq!(
        syntax_message(b"{\"\\ud800\":1}"),
        "expected surrogates in pairs, found `\\\\ud800\\\":1}` at +2"
    );
    assert_eq!(
        syntax_message("\u{feff}1".as_bytes()),
        "expected a value, found `\\xef\\xbb\\xbf1` at +0"
    );
}

#[test]
fn values_that_are_nested_too_deep() {
    let deep = |depth: usize| ["[".repeat(depth), "]".repeat(depth)].concat();
    let (records, errors) = outcome(&Setup::new(&[]), deep(128).as_bytes());
    assert_eq!((records.len(), errors.len()), (1, 0));
    for depth in [129, 1000] {
        let message = syntax_message(deep(depth).as_bytes());
        let start = "expected no more than 128 arrays and objects inside of each other, found `[";
        assert!(message.starts_with(start) && message.ends_with("at +128"), "{message}");
    }
}

#[test]
fn values_of_another_type() {
    let said = |field: &str, good: &str, bad: &str| {
        message_for(&[("fields", field)], good, bad.as_bytes())
    };
    let one = "{\"a\":1}";
    assert_eq!(
        said("/a:int32", one, "{\"b\":1}"),
        "field `a` at \"/a\": expected int32, found no such value; mark it with `?` if lines may \
         lack it"
    );
    assert_eq!(
        said("n=/a:int32", one, "{\"a\": null}"),
        "field `n` at \"/a\": expected int32, found null at +6; mark it with `?` if lines may lack it"
    );
    assert_eq!(
        said("/a:int32", one, "{\"a\": 2147483648}"),
        "field `a` at \"/a\": expected int32, found `2147483648` at +6, which is out of its range"
    );
    for (field, bad, found) in [
        ("/a:int32", "1.5", "`1.5` at +5"),
        ("/a:int64", "1e-2", "`1e-2` at +5"),
        ("/a:int32", "2147483648.0", "`2147483648.0` at +5, which is out of its range"),
        ("/a:int64", "1e19", "`1e19` at +5, which is out of its range"),
        ("/a:int64", "\"1\"", "`\\\"1\\\"` at +5"),
        ("/a:float32", "[1]", "`[1]` at +5"),
        ("/a:float64", "true", "`true` at +5"),
        (
            "/a:int64",
            "9223372036854775808",
            "`9223372036854775808` at +5, which is out of its range",
        ),
        ("/a:float32", "1e39", "`1e39` at +5, which is out of its range"),
        ("/a:float64", "-1e309", "`-1e309` at +5, which is out of its range"),
    ] {
        let kind = field.split_once(':').expect("the spec has a type").1;
        let wanted = format!("field `a` at \"/a\": expected {kind}, found {found}");
        assert_eq!(said(field, one, &format!("{{\"a\":{bad}}}")), wanted);
        // Optional fields are checked, too.
        assert_eq!(said(&format!("{field}?"), one, &format!("{{\"a\":{bad}}}")), wanted);
    }
    assert!(said("/a:utf8", "{\"a\":\"\"}", one).ends_with("expected utf8, found `1` at +5"));
    assert!(said("/a:bool", "{\"a\":true}", one).ends_with("expected bool, found `1` at +5"));
}

#[test]
fn arrays_with_other_elements() {
    let said = |field: &str, bad: &str| {
        let good = if field.contains("utf8") { r#"[["x"]]"# } else { "[[1,2]]" };
        let message = message_for(&[("fields", field)], good, format!("[{bad}]").as_bytes());
        message.strip_prefix("field `v` at \"/0\": ").expect("the message has this part").to_owned()
    };
    assert_eq!(
        said("v=/0:int32[2]", "[1]"),
        "expected int32[2], found 1 numbers; set fields to \"/0:int32[]\" if they may be any number"
    );
    assert_eq!(said("v=/0:int32[]", "[1,\"2\"]"), "expected int32[], found `\\\"2\\\"` at +4");
    assert_eq!(
        said("v=/0:int32[]", "[1, null ]"),
        "expected int32[], found null in the array at +5; only an array of floats can have NaN for \
         it, with nan = true"
    );
    assert_eq!(
        said("v=/0:float32[]", "[null]"),
        "expected float32[], found null in the array at +2; nan = true takes it as NaN"
    );
    assert_eq!(said("v=/0:float32[]", "[[1]]"), "expected float32[], found `[1]` at +2");
    assert_eq!(said("v=/0:int32[]", "[1,2.5]"), "expected int32[], found `2.5` at +4");
    assert_eq!(said("v=/0:int32[]", "3"), "expected int32[], found `3` at +1");
    assert_eq!(
        said("v=/0:utf8[1]", "[\"a\",\"b\"]"),
        "expected utf8[1], found 2 strings; set fields to \"/0:utf8[]\" if they may be any number"
    );
    assert_eq!(said("v=/0:utf8[]", "[\"a\",1]"), "expected utf8[], found `1` at +6");
    assert_eq!(said("v=/0:utf8[]", "\"a\""), "expected utf8[], found `\\\"a\\\"` at +1");
    assert!(said("v=/0:float32[]", "[1e99]").ends_with("`1e99` at +2, which is out of its range"));
}

#[test]
fn lines_longer_than_max_record() {
    let message = "line is longer than max_record (5 bytes); raise max_record if lines may be that \
                   long";
    for options in [&[][..], &[("validate", "false")], &[("fields", "/a:int32?")]] {
        let setup = Setup { max_record: 5, ..Setup::new(options) }.skipping();
        let text = b"[1,2]\n[1,2]\r\n[10,2]\n[1234567890]\r\n[3,4]\n       \n[7]   ";
        let (records, errors) = outcome(&setup, text);
        assert_eq!(records.len(), 3);
        let wanted = [(13, 7), (20, 14), (40, 8), (48, 6)];
        assert_eq!(errors, wanted.map(|(at, length)| (at, length, message.to_owned())));
    }
}

/// A bad last line is an error, too.
#[test]
fn a_bad_line_without_a_line_end() {
    let (records, errors) = outcome(&Setup::new(&[]).skipping(), b"{}\n{\"a\":");
    assert_eq!((records.len(), errors.len()), (1, 1));
    assert_eq!(
        errors[0].2,
        "expected a value, found the end of the line at +5; the last line is not JSON, it may be \
         cut short"
    );
    let (_, errors) = outcome(&Setup::new(&[]).skipping(), b"{}\n{\"a\":]");
    assert_eq!(errors[0].2, "expected a value, found `]` at +5; the line is not JSON");
}

/// A JSON document that is one array.
#[test]
fn a_line_that_is_an_array_of_the_records() {
    let array = br#"[{"a":1},{"a":2}]"#;
    let (_, errors) = outcome(&Setup::new(&[("fields", "/a:int64")]).skipping(), array);
    assert_eq!(
        errors[0].2,
        "field `a` at \"/a\": the line is an array; if its elements are the records, `jq -c '.[]'` \
         makes lines of them"
    );
    let (_, errors) = outcome(&Setup::new(&[("fields", "v=/7:int64")]).skipping(), array);
    assert!(errors[0].2.contains("found no such value"), "{errors:?}");
}

#[test]
fn arrays_of_arrays_with_other_sizes() {
    let said = |field: &str, bad: &str| {
        let line = format!("[{bad}]");
        let (_, errors) = outcome(&Setup::new(&[("fields", field)]), line.as_bytes());
        let message = errors.into_iter().map(|(.., message)| message).next().expect("an error");
        message.strip_prefix("field `v` at \"/0\": ").expect("the message has this part").to_owned()
    };
    assert_eq!(
        said("v=/0:int32[0,2]", "[[1,2],[3]]"),
        "expected int32[0,2], found an array of 1 at +8 where 2 belong"
    );
    assert_eq!(
        said("v=/0:int32[2,2]", "[[1,2]]"),
        "expected int32[2,2], found an array of 1 at +1 where 2 belong"
    );
    assert_eq!(
        said("v=/0:int32[2,0]", "[[1,2],[3]]"),
        "expected int32[2,0], found an array of 1 at +8 where 2 belong"
    );
    assert_eq!(said("v=/0:int32[0,2]", "[1,2]"), "expected int32[0,2], found `1,2` at +2");
    assert_eq!(said("v=/0:int32[0,1]", "[[[1]]]"), "expected int32[0,1], found `[1]]` at +3");
    assert_eq!(
        said("v=/0:int32[0,1]", "[[\"1\"]]"),
        "expected int32[0,1], found `\\\"1\\\"]` at +3"
    );
    assert_eq!(said("v=/0:int32[0,1]", "3"), "expected int32[0,1], found `3` at +1");
}
