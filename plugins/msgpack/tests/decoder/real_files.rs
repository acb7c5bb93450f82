//! Tests with files that Python's msgpack wrote: see `fixtures/make.py`.

use pipemill_msgpack::Msgpack;
use pipemill_plugin::testing::{Record, Setup, assert_any_split};
use serde_json::{Value, json};

fn expected() -> Value {
    serde_json::from_str(include_str!("../fixtures/expected.json")).expect("the fixture is JSON")
}

fn decode(options: &[(&str, &str)], file: &[u8]) -> Vec<Record> {
    let pieces = vec![997; file.len() / 997];
    let outcome = assert_any_split::<Msgpack>(&Setup::new(options), file, &pieces);
    assert_eq!(outcome.errors, []);
    outcome.records
}

fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes.try_into().expect("the size of the type")
}

/// The elements of a list of text.
fn list(value: &[u8]) -> Vec<String> {
    let offset = |at: usize| u32::from_le_bytes(array(&value[at..at + 4])) as usize;
    let count = offset(0) / 4 - 1;
    (0..count)
        .map(|index| &value[offset(4 * index)..offset(4 * index + 4)])
        .map(|text| String::from_utf8(text.to_vec()).expect("UTF-8"))
        .collect()
}

#[test]
fn maps() {
    let fields = "id:int64,score:float64,name:utf8?,image:bytes,ok:bool,source=/meta/source:utf8,\
                  second=/meta/span/1:int32,vec:float64[8],ids:uint32[],tags:utf8[]?,taken:timestamp?,\
                  none=/meta/none:int8?";
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("UTF-8");
    let records = decode(&[("fields", fields)], include_bytes!("../fixtures/samples.msgpack"));
    let found: Vec<_> = records
        .iter()
        .map(|record| {
            let [id, score, name, image, ok, source, second, vec, ids, tags, taken, none] = &record[..]
            else {
                panic!("twelve fields")
            };
            let present = |field: &Option<Vec<u8>>| field.clone().expect("never absent");
            assert_eq!(*none, None);
            let image = present(image);
            json!({
                "id": i64::from_le_bytes(array(&present(id))).to_string(),
                "score": f64::from_le_bytes(array(&present(score))),
                "name": name.as_deref().map(text),
                "image": image.len(),
                "image_sum": image.iter().map(|byte| u64::from(*byte)).sum::<u64>(),
                "ok": present(ok) == [1],
                "source": text(&present(source)),
                "second": i32::from_le_bytes(array(&present(second))),
                "vec": present(vec).chunks(8).map(|n| f64::from_le_bytes(array(n))).collect::<Vec<_>>(),
                "ids": present(ids).chunks(4).map(|n| u32::from_le_bytes(array(n))).collect::<Vec<_>>(),
                "tags": tags.as_deref().map(list),
                "taken": taken.as_deref().map(|time| i64::from_le_bytes(array(time)).to_string()),
            })
        })
        .collect();
    let number =
        |text: &Value| json!(text.as_str().expect("text").parse::<f64>().expect("a number"));
    let mut wanted = expected()["samples"].clone();
    for sample in wanted.as_array_mut().expect("samples") {
        sample["score"] = number(&sample["score"]);
        sample["vec"] = sample["vec"].as_array().expect("numbers").iter().map(number).collect();
    }
    assert_eq!(Value::from(found), wanted);
}

#[test]
fn whole_maps() {
    let file = include_bytes!("../fixtures/samples.msgpack");
    let records = decode(&[], file);
    assert_eq!(records.len(), 60);
    assert_eq!(records.into_iter().flatten().flatten().flatten().collect::<Vec<_>>(), file);
}

#[test]
fn arrays() {
    let fields = "id=0:uint8,x=1:float32,name=2:utf8,data=3:bytes";
    let records = decode(&[("fields", fields)], include_bytes!("../fixtures/rows.msgpack"));
    let found: Vec<_> = records
        .into_iter()
        .map(|record| {
            let [id, x, name, data] =
                <[_; 4]>::try_from(record).expect("four fields").map(Option::unwrap);
            let x = f64::from(f32::from_le_bytes(array(&x)));
            json!([id[0], x, String::from_utf8(name).expect("UTF-8"), data])
        })
        .collect();
    assert_eq!(Value::from(found), expected()["rows"]);
}

#[test]
fn as_deep_as_the_packer_goes() {
    let file = include_bytes!("../fixtures/deep.msgpack");
    assert_eq!(expected()["deep"], 1024);
    assert_eq!(decode(&[], file), [[Some(file.to_vec())]]);
}
