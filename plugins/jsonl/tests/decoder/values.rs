//! The fields that values become: types, optional fields, duplicate keys.

use pipemill_plugin::testing::{Record, Setup};

use crate::{outcome, records};

/// The field of a text with one line and one field.
fn value(field: &str, text: &str) -> Option<Vec<u8>> {
    let records = records(field, text);
    assert_eq!(records.len(), 1, "{text}");
    records[0][0].clone()
}

fn text(field: &str, text: &str) -> String {
    String::from_utf8(value(field, text).expect("present")).expect("UTF-8")
}

#[test]
fn strings() {
    let a = |json: &str| text("/a:utf8", &format!("{{\"a\":{json}}}"));
    assert_eq!(a(r#""""#), "");
    assert_eq!(a(r#""plain äöü 😀""#), "plain äöü 😀");
    assert_eq!(a(r#""\"\\\/\b\f\n\r\t""#), "\"\\/\u{8}\u{c}\n\r\t");
    assert_eq!(a(r#""x\u0041\u00e4\u20ACy\u0000""#), "xAä€y\0");
    assert_eq!(a(r#""\ud83d\uDE00 \uffff""#), "😀 \u{ffff}");
}

#[test]
fn numbers() {
    let bytes = |field, json: &str| value(field, &format!("[{json}]")).expect("present");
    for (json, wanted) in [("0", 0), ("-0", 0), ("-9223372036854775808", i64::MIN), ("12", 12)] {
        assert_eq!(bytes("/0:int64", json), wanted.to_le_bytes());
    }
    assert_eq!(bytes("/0:int32", "-2147483648"), i32::MIN.to_le_bytes());
    for json in
        ["0", "-0", "-0.0", "1E5", "1e-5", "0.1", "123456789012345678901234567890", "1e-400"]
    {
        let wanted: f64 = json.parse().expect("a number");
        assert_eq!(bytes("/0:float64", json), wanted.to_le_bytes(), "{json}");
        let wanted: f32 = json.parse().expect("a number");
        assert_eq!(bytes("/0:float32", json), wanted.to_le_bytes(), "{json}");
    }
    // If it were rounded to a double first, it would be rounded again, to another float.
    let json = "16777217.0000000001";
    assert_eq!(bytes("/0:float32", json), 16_777_218f32.to_le_bytes());
}

#[test]
fn arrays_of_numbers() {
    let floats = |numbers: &[f32]| numbers.iter().flat_map(|n| n.to_le_bytes()).collect::<Vec<_>>();
    let v = |field: &str, json: &str| value(field, &format!("{{\"v\":{json}}}"));
    assert_eq!(v("/v:float32[3]", "[1, -2.5 ,\t3e1 ]"), Some(floats(&[1.0, -2.5, 30.0])));
    assert_eq!(v("/v:float32[]", "[ ]"), Some(Vec::new()));
    assert_eq!(v("/v:int64[]", "[1,2]"), Some([1u64, 2].map(u64::to_le_bytes).concat()));
    assert_eq!(v("/v:int32[1]?", "null"), None);
}

#[test]
fn integers_with_a_fraction_or_an_exponent() {
    let a = |field: &str, json: &str| value(field, &format!("{{\"a\":{json}}}")).expect("present");
    for (json, wanted) in
        [("1.0", 1), ("-0.0", 0), ("2e3", 2000), ("9007199254740993.0", (1 << 53) + 1)]
    {
        assert_eq!(a("/a:int64", json), i64::to_le_bytes(wanted), "{json}");
    }
    assert_eq!(a("/a:int32", "-7.00"), (-7i32).to_le_bytes());
    assert_eq!(a("/a:int32[]", "[1.0, 2]"), [1i32, 2].map(i32::to_le_bytes).concat());
}

#[test]
fn arrays_of_arrays() {
    let floats = |numbers: &[f32]| numbers.iter().flat_map(|n| n.to_le_bytes()).collect::<Vec<_>>();
    let v = |field: &str, json: &str| value(field, &format!("{{\"v\":{json}}}")).expect("present");
    let boxes = "[[1,2,3,4], [5,6,7 , 8.5]]";
    let all = floats(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.5]);
    for shape in ["0,4", "2,4", "2,0"] {
        assert_eq!(v(&format!("/v:float32[{shape}]"), boxes), all, "{shape}");
    }
    assert_eq!(v("/v:float32[2,0,2]", "[[[1,2],[3,4]],[[5,6],[7,8.5]]]"), all);
    assert!(v("/v:float32[0,4]", "[ ]").is_empty());
    assert!(v("/v:float32[2,0]", "[[],[]]").is_empty());
    assert_eq!(v("/v:float32[1,1,1,1,1,1,1,1]", "[[[[[[[[3]]]]]]]]"), floats(&[3.0]));
}

#[test]
fn numbers_that_python_writes_and_json_lacks() {
    let setup = |fields: &str| Setup::new(&[("fields", fields), ("nan", "true")]);
    let records = |fields: &str, text: &str| {
        let (records, errors) = outcome(&setup(fields), text.as_bytes());
        assert_eq!(errors, []);
        records
    };
    let line = r#"{"a":NaN,"b":-Infinity,"c":[1.5,Infinity,null,NaN,-Infinity]}"#;
    let found = records("/a:float32,/b:float64,/c:float32[]", line);
    let floats = |numbers: &[f32]| numbers.iter().flat_map(|n| n.to_le_bytes()).collect::<Vec<_>>();
    let (nan, inf) = (f32::NAN, f32::INFINITY);
    let wanted = vec![
        Some(nan.to_le_bytes().to_vec()),
        Some(f64::NEG_INFINITY.to_le_bytes().to_vec()),
        Some(floats(&[1.5, inf, nan, nan, -inf])),
    ];
    assert_eq!(found, [wanted]);
    // As the whole line it stays text, and a value that is not a number stays an error.
    let (lines, errors) = outcome(&Setup::new(&[("nan", "true")]), line.as_bytes());
    assert_eq!((lines.len(), errors.len()), (1, 0));
    for bad in [r#"{"a":1e999}"#, r#"{"a":nan}"#, r#"{"a":null}"#, r#"{"a":Nan}"#] {
        assert_eq!(outcome(&setup("/a:float64"), bad.as_bytes()).1.len(), 1, "{bad}");
    }
    assert_eq!(outcome(&setup("/a:int64"), br#"{"a":NaN}"#).1.len(), 1);
    assert_eq!(outcome(&setup("/a:int64[]"), br#"{"a":[null]}"#).1.len(), 1);
}

#[test]
fn arrays_of_strings() {
    let list = |words: &[&str]| {
        let mut end = 4 * (words.len() as u32 + 1);
        let mut value = end.to_le_bytes().to_vec();
        for word in words {
            end += word.len() as u32;
            value.extend(end.to_le_bytes());
        }
        Some([value, words.concat().into_bytes()].concat())
    };
    let v = |field: &str, json: &str| value(field, &format!("{{\"v\":{json}}}"));
    let json = r#"["a,b" , "", "\u00fc\n\"]\\",	"x" ]"#;
    assert_eq!(v("/v:utf8[]", json), list(&["a,b", "", "ü\n\"]\\", "x"]));
    assert_eq!(v("/v:utf8[4]", json), v("/v:utf8[]", json));
    assert_eq!(v("/v:utf8[]", "[ ]"), list(&[]));
    assert_eq!(v("/v:utf8[]?", "null"), None);
}

#[test]
fn raw_text_and_bool() {
    let v = |field: &str, json: &str| value(field, &format!("{{\"v\": {json} }}"));
    for json in [r#"{"a": [1, "ä"]}"#, r#""s\n""#, "1.50", "true", "null", "[ ]"] {
        assert_eq!(v("/v:bytes", json), Some(json.as_bytes().to_vec()));
    }
    assert_eq!(v("/v:bytes?", "null"), None);
    assert_eq!(v("/v:bool", "true"), Some(vec![1]));
    assert_eq!(v("/v:bool", "false"), Some(vec![0]));
}

#[test]
fn pointers() {
    let json = r#"{"a":{"b":[{"c":1},{"c":2}]},"0":3,"":4,"x/y~":5,"\n\u0061":6}"#;
    for (pointer, wanted) in [("/a/b/0/c", "1"), ("/a/b/1/c", "2"), ("/0", "3"), ("/x~1y~0", "5")] {
        assert_eq!(text(&format!("v={pointer}:bytes"), json), wanted);
    }
    assert_eq!(text("v=/:bytes", json), "4");
    assert_eq!(text("v=/\na:bytes", json), "6");
    assert_eq!(text("v=:bytes", json), json);
    for missing in ["/a/b/2/c", "/a/b/01/c", "/a/b/-/c", "/a/c", "/a/0", "/0/a"] {
        assert_eq!(value(&format!("v={missing}:bytes?"), json), None, "{missing}");
    }
}

#[test]
fn fields_have_the_order_of_the_option() {
    let fields = "c=/c:bytes,/a:bytes,d=/c/d:int32,/x:utf8?";
    let wanted: Record =
        vec![Some(b"{\"d\":7}".to_vec()), Some(b"1".to_vec()), Some(vec![7, 0, 0, 0]), None];
    assert_eq!(records(fields, "{\"a\":1,\"b\":2,\"c\":{\"d\":7}}\n"), [wanted]);
}

#[test]
fn the_last_of_equal_keys_counts() {
    assert_eq!(text("/a:bytes", r#"{"a":1,"a":2}"#), "2");
    assert_eq!(text("/a:bytes", r#"{"a":1,"\u0061":2}"#), "2");
    assert_eq!(text("v=/a/b:bytes", r#"{"a":{"b":1,"b":2},"b":3}"#), "2");
    // The values inside the earlier one are removed, too.
    assert_eq!(value("v=/a/b:bytes?", r#"{"a":{"b":1},"a":{"c":2}}"#), None);
    assert_eq!(value("v=/a/b:bytes?", r#"{"a":{"b":1},"a":2}"#), None);
    assert_eq!(value("/a:utf8?", r#"{"a":"x","a":null}"#), None);
}

#[test]
fn no_value_of_the_line_before_is_left() {
    let records = records("/a:int32?", "{\"a\":1}\n{}\n{\"a\":2}");
    let wanted = [Some(vec![1, 0, 0, 0]), None, Some(vec![2, 0, 0, 0])];
    assert_eq!(records, wanted.map(|field| vec![field]));
}
