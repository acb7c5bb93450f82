//! Archives by other writers. The decoder must read the same samples as webdataset: see
//! `fixtures/make.py`.

use std::collections::BTreeSet;

use pipemill_plugin::testing::Setup;
use serde_json::{Map, Value};

use crate::outcome;

const FILES: [(&str, &[u8]); 11] = [
    ("gnu-gnu.tar", include_bytes!("../fixtures/gnu-gnu.tar")),
    ("gnu-pax.tar", include_bytes!("../fixtures/gnu-pax.tar")),
    ("gnu-ustar.tar", include_bytes!("../fixtures/gnu-ustar.tar")),
    ("gnu-v7.tar", include_bytes!("../fixtures/gnu-v7.tar")),
    ("python-gnu.tar", include_bytes!("../fixtures/python-gnu.tar")),
    ("python-pax.tar", include_bytes!("../fixtures/python-pax.tar")),
    ("python-ustar.tar", include_bytes!("../fixtures/python-ustar.tar")),
    ("shard-0.tar", include_bytes!("../fixtures/shard-0.tar")),
    ("shard-1.tar", include_bytes!("../fixtures/shard-1.tar")),
    ("typed.tar", include_bytes!("../fixtures/typed.tar")),
    ("writer.tar", include_bytes!("../fixtures/writer.tar")),
];

fn expected() -> Map<String, Value> {
    serde_json::from_str(include_str!("../fixtures/expected.json")).expect("the fixture is JSON")
}

/// The samples of an archive, in the form of the fixture.
fn samples(file: &[u8], extensions: &BTreeSet<&str>) -> Vec<Value> {
    let fields: Vec<_> = extensions.iter().map(|extension| format!("{extension}?")).collect();
    let outcome = outcome(&Setup::new(&[("fields", &fields.join(","))]), file);
    assert_eq!(outcome.errors, []);
    let names: Vec<_> =
        outcome.schema.expect("known at open").into_iter().map(|f| f.name).collect();
    let text = |name: &str, bytes: &[u8]| match name {
        "__key__" => String::from_utf8(bytes.to_vec()).expect("the decoder checked it"),
        _ => bytes.iter().map(|byte| char::from(*byte)).collect(),
    };
    let sample = |record: &Vec<Option<Vec<u8>>>| {
        let fields = names.iter().zip(record);
        let there = fields.filter_map(|(name, field)| Some((name, field.as_ref()?)));
        there.map(|(name, bytes)| (name.clone(), Value::from(text(name, bytes)))).collect()
    };
    outcome.records.iter().map(sample).collect()
}

#[test]
fn same_as_webdataset() {
    let expected = expected();
    assert_eq!(expected.len(), FILES.len());
    for (name, file) in FILES {
        let wanted = expected[name].as_array().expect("a list of samples");
        let extensions: BTreeSet<_> = wanted
            .iter()
            .flat_map(|sample| sample.as_object().expect("a sample").keys())
            .map(String::as_str)
            .filter(|key| *key != "__key__")
            .collect();
        assert_eq!(&samples(file, &extensions), wanted, "{name}");
    }
}

/// Members of many types: the values that webdataset's writer was given.
#[test]
fn typed_members() {
    let fields = "cls:int64,txt:utf8,score=score.txt:float64,json/size:int32[2],json/name:utf8,json/ok:bool,\
                  json_score=json/score:float64,json/tag:utf8?,image=image.npy:uint8[2,3],\
                  boxes=boxes.npy:float32[0,4],mask=mask.npy:bool[2,3],index=index.npy:int64,\
                  half=half.npy:float16[3]?";
    let file = include_bytes!("../fixtures/typed.tar");
    let outcome = outcome(&Setup::new(&[("fields", fields), ("key", "false")]), file);
    assert_eq!(outcome.errors, []);
    let names: Vec<_> =
        outcome.schema.expect("known").into_iter().map(|field| field.name).collect();
    let wanted: Vec<Map<String, Value>> =
        serde_json::from_str(include_str!("../fixtures/typed.json")).expect("JSON");
    assert_eq!(outcome.records.len(), wanted.len());
    for (record, wanted) in outcome.records.iter().zip(wanted) {
        assert_eq!(names.len(), wanted.len());
        for (name, found) in names.iter().zip(record) {
            let value = &wanted[name];
            let bytes = match (&**name, value) {
                (_, Value::Null) => None,
                ("image" | "boxes" | "mask" | "half", Value::String(hex)) => {
                    let digits =
                        hex.as_bytes().chunks(2).map(|two| str::from_utf8(two).expect("ASCII"));
                    Some(digits.map(|two| u8::from_str_radix(two, 16).expect("a byte")).collect())
                }
                (_, Value::String(text)) => Some(text.clone().into_bytes()),
                (_, Value::Bool(value)) => Some(vec![u8::from(*value)]),
                ("score" | "json_score", value) => {
                    value.as_f64().map(|number| number.to_le_bytes().to_vec())
                }
                (_, Value::Array(all)) => {
                    let numbers = all.iter().map(|one| one.as_i64().expect("an integer") as i32);
                    Some(numbers.flat_map(i32::to_le_bytes).collect())
                }
                (_, value) => value.as_i64().map(|number| number.to_le_bytes().to_vec()),
            };
            assert_eq!(*found, bytes, "{name}");
        }
    }
}

/// Several archives in sequence are one input.
#[test]
fn concatenated_archives() {
    let expected = expected();
    let file: Vec<_> = FILES.iter().flat_map(|(_, file)| file.to_vec()).collect();
    let wanted: Vec<_> = FILES
        .iter()
        .flat_map(|(name, _)| expected[*name].as_array().expect("a list of samples"))
        .map(|sample| &sample["__key__"])
        .collect();
    let keys: Vec<_> = samples(&file, &BTreeSet::from(["json"]))
        .iter()
        .map(|sample| sample["__key__"].clone())
        .collect();
    assert_eq!(keys.iter().collect::<Vec<_>>(), wanted);
}
