//! Every type of numbers, with values at the limits of the types in every form: one by one, and in
//! arrays.

use pipemill_msgpack::Msgpack;
use pipemill_plugin::testing::{Record, Setup, decode_whole};

use crate::model::number;
use crate::write::{Value, map};

const TYPES: [&str; 10] = [
    "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64",
];

/// The numbers, each in all its forms.
fn numbers() -> Vec<Value> {
    let mut all = Vec::new();
    for bits in [0, 5, 7, 8, 15, 16, 31, 32, 63, 64] {
        for value in [-2, -1, 0, 1].map(|more| (1i128 << bits) + more) {
            for value in [value, -value] {
                if (i128::from(i64::MIN)..=u64::MAX.into()).contains(&value) {
                    all.extend([0, 1, 2, 4, 8].map(|size| Value::Int(value, size)));
                }
            }
        }
    }
    let floats = [0.0, -0.5, 1e-300, f64::from(f32::MAX), 1e39, f64::INFINITY, f64::NAN];
    all.extend(floats.map(Value::Float64));
    all.extend([0.0, -0.5, 1e-40, f32::MAX, f32::NEG_INFINITY, f32::NAN].map(Value::Float32));
    all
}

/// The records with the field `v` of this type; bad ones are left out.
fn records(word: &str, values: &[Value]) -> Vec<Record> {
    let setup = Setup::new(&[("fields", &format!("v:{word}"))]).skipping();
    let file: Vec<u8> =
        values.iter().flat_map(|value| map([("v", value.clone())]).encoded()).collect();
    decode_whole::<Msgpack>(&setup, &file).records
}

#[test]
fn one_by_one() {
    let numbers = numbers();
    for word in TYPES {
        let wanted: Vec<Record> = numbers
            .iter()
            .filter_map(|value| number(word, value))
            .map(|bytes| vec![Some(bytes)])
            .collect();
        assert!(wanted.len() > 40 && wanted.len() < numbers.len() || word == "float64");
        assert_eq!(records(word, &numbers), wanted, "{word}");
        // The same directly before the end of the input, where the last bytes are read differently.
        for value in &numbers {
            let wanted: Vec<Record> =
                number(word, value).map(|bytes| vec![Some(bytes)]).into_iter().collect();
            assert_eq!(records(word, std::slice::from_ref(value)), wanted, "{word}: {value:?}");
        }
    }
}

/// Arrays with up to 30 times the same number, and another one at each position.
#[test]
fn arrays() {
    let numbers = numbers();
    for word in TYPES {
        let fitting: Vec<_> =
            numbers.iter().filter(|value| number(word, value).is_some()).collect();
        for (index, value) in fitting.iter().enumerate() {
            let other = fitting[(index * 7 + 3) % fitting.len()];
            for length in [0, 1, 3, 4, 5, 7, 8, 9, 15, 17, 30] {
                let mut array = vec![(*value).clone(); length];
                if length > 0 {
                    array[index % length] = other.clone();
                }
                let bytes: Vec<u8> =
                    array.iter().filter_map(|value| number(word, value)).flatten().collect();
                let array = Value::Array(array, 0);
                let wanted: [Record; 2] = [vec![Some(bytes.clone())], vec![Some(bytes)]];
                let found = records(&format!("{word}[]"), &[array.clone(), array]);
                assert_eq!(found, wanted, "{word}: {length} of {value:?}, one {other:?}");
            }
        }
        // A number that does not fit, at each position.
        for value in numbers.iter().filter(|value| number(word, value).is_none()) {
            for place in 0..20 {
                let mut array = vec![fitting[place % 3].clone(); 20];
                array[place] = value.clone();
                let found = records(&format!("{word}[]"), &[Value::Array(array, 0)]);
                assert_eq!(found, Vec::<Record>::new(), "{word}: {value:?} at {place}");
            }
        }
    }
}

/// The rounding itself is tested next to the code, with all values.
#[test]
fn floats_of_two_bytes() {
    let values = [
        Value::Int(1, 0),
        Value::Int(-2, 8),
        Value::Float32(1.5),
        Value::Float64(65_504.0),
        Value::Float64(65_520.0),
        Value::Float64(f64::NEG_INFINITY),
        Value::Float64(f64::NAN),
    ];
    let bits = |bits: u16| vec![Some(bits.to_le_bytes().to_vec())];
    let float16 = [0x3c00, 0xc000, 0x3e00, 0x7bff, 0xfc00, 0x7e00].map(bits);
    assert_eq!(records("float16", &values), float16);
    let bfloat16 = [0x3f80, 0xc000, 0x3fc0, 0x4780, 0x4780, 0xff80, 0x7fc0].map(bits);
    assert_eq!(records("bfloat16", &values), bfloat16);
    let array = Value::Array(values[..4].to_vec(), 0);
    let joined = float16[..4].iter().flatten().flatten().flatten().copied().collect::<Vec<_>>();
    assert_eq!(records("float16[4]", &[array]), [[Some(joined)]]);
}
