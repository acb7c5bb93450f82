//! Writes MessagePack, also in forms that are longer than needed.

use proptest::prelude::*;

/// A value, and the form in which it is written.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Nil,
    Bool(bool),
    /// Written with at least this many bytes after the first: 0, 1, 2, 4 or 8.
    Int(i128, usize),
    Float32(f32),
    Float64(f64),
    /// The length is written with at least this many bytes: 0, 1, 2 or 4. The same is true below.
    Str(Vec<u8>, usize),
    Bin(Vec<u8>, usize),
    Ext(i8, Vec<u8>, usize),
    Array(Vec<Value>, usize),
    Map(Vec<(Value, Value)>, usize),
}

use Value::*;

pub fn str(text: &str) -> Value {
    Str(text.into(), 0)
}

pub fn int(value: i128) -> Value {
    Int(value, 0)
}

/// A map with these keys, as most programs write it.
pub fn map<const N: usize>(entries: [(&str, Value); N]) -> Value {
    Map(entries.map(|(key, value)| (str(key), value)).into(), 0)
}

pub fn array<const N: usize>(values: [Value; N]) -> Value {
    Array(values.into(), 0)
}

/// The values in sequence.
pub fn file(values: &[Value]) -> Vec<u8> {
    values.iter().flat_map(Value::encoded).collect()
}

impl Value {
    pub fn encoded(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.write(&mut bytes);
        bytes
    }

    pub fn write(&self, to: &mut Vec<u8>) {
        match self {
            Nil => to.push(0xc0),
            Bool(value) => to.push(0xc2 + u8::from(*value)),
            Int(value, size) => write_int(*value, *size, to),
            Float32(value) => {
                to.push(0xca);
                to.extend_from_slice(&value.to_be_bytes());
            }
            Float64(value) => {
                to.push(0xcb);
                to.extend_from_slice(&value.to_be_bytes());
            }
            Str(data, size) => {
                write_length(
                    data.len(),
                    *size,
                    [Some((0xa0, 31)), Some((0xd9, 0)), Some((0xda, 0))],
                    0xdb,
                    to,
                );
                to.extend_from_slice(data);
            }
            Bin(data, size) => {
                write_length(data.len(), *size, [None, Some((0xc4, 0)), Some((0xc5, 0))], 0xc6, to);
                to.extend_from_slice(data);
            }
            Ext(kind, data, size) => {
                match [1, 2, 4, 8, 16].iter().position(|size| *size == data.len()) {
                    Some(index) if *size == 0 => to.push(0xd4 + index as u8),
                    _ => {
                        let forms = [None, Some((0xc7, 0)), Some((0xc8, 0))];
                        write_length(data.len(), *size, forms, 0xc9, to);
                    }
                }
                to.push(*kind as u8);
                to.extend_from_slice(data);
            }
            Array(values, size) => {
                write_length(
                    values.len(),
                    *size,
                    [Some((0x90, 15)), None, Some((0xdc, 0))],
                    0xdd,
                    to,
                );
                values.iter().for_each(|value| value.write(to));
            }
            Map(entries, size) => {
                write_length(
                    entries.len(),
                    *size,
                    [Some((0x80, 15)), None, Some((0xde, 0))],
                    0xdf,
                    to,
                );
                for (key, value) in entries {
                    key.write(to);
                    value.write(to);
                }
            }
        }
    }
}

/// Writes a first byte and a length of at least `size` bytes. `forms` are the first bytes for
/// lengths of 0, 1 and 2 bytes; the first of them contains lengths up to the second number.
fn write_length(
    length: usize,
    size: usize,
    forms: [Option<(u8, usize)>; 3],
    longest: u8,
    to: &mut Vec<u8>,
) {
    let [inside, one, two] = forms;
    match (inside, one, two) {
        (Some((first, most)), ..) if size == 0 && length <= most => to.push(first + length as u8),
        (_, Some((first, _)), _) if size <= 1 && length < 256 => to.extend([first, length as u8]),
        (.., Some((first, _))) if size <= 2 && length < 65_536 => {
            to.push(first);
            to.extend((length as u16).to_be_bytes());
        }
        _ => {
            to.push(longest);
            to.extend((length as u32).to_be_bytes());
        }
    }
}

fn write_int(value: i128, size: usize, to: &mut Vec<u8>) {
    if size == 0 && (-32..128).contains(&value) {
        return to.push(value as u8);
    }
    // If two forms have the same size, a positive number has the one without a sign.
    for (index, bytes) in [1usize, 2, 4, 8].into_iter().enumerate().filter(|(_, n)| *n >= size) {
        let bits = 8 * bytes as u32;
        let first = if (0..1 << bits).contains(&value) {
            0xcc + index as u8
        } else if (-(1 << (bits - 1))..0).contains(&value) {
            0xd0 + index as u8
        } else {
            continue;
        };
        to.push(first);
        return to.extend_from_slice(&value.to_be_bytes()[16 - bytes..]);
    }
    panic!("{value} has no form");
}

/// Integers at the limits of the types, and others.
pub fn ints() -> impl Strategy<Value = i128> {
    let edge = (0u32..65, -2i128..3, any::<bool>()).prop_map(|(bits, more, negative)| {
        let edge = (1i128 << bits) + more;
        if negative { -edge } else { edge }
    });
    let edge = edge.prop_map(|edge| edge.clamp(i64::MIN.into(), u64::MAX.into()));
    prop_oneof![2 => edge, 2 => -40i128..300, 1 => any::<i64>().prop_map(i128::from)]
}

fn floats() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<f64>().prop_map(Float64),
        any::<f32>().prop_map(Float32),
        any::<f32>().prop_map(|value| Float64(value.into())),
        Just(Float64(1e39)),
    ]
}

fn data() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        6 => "[a-c]{0,9}".prop_map(String::into_bytes),
        2 => "\\PC{0,12}".prop_map(String::into_bytes),
        1 => prop::collection::vec(any::<u8>(), 0..40),
        1 => (200usize..300).prop_map(|length| vec![b'x'; length]),
    ]
}

fn ext() -> impl Strategy<Value = Value> {
    let length = prop::sample::select(vec![0usize, 1, 2, 3, 4, 8, 12, 16, 17]);
    let bytes = length.prop_flat_map(|length| prop::collection::vec(any::<u8>(), length));
    (prop_oneof![Just(-1i8), any::<i8>()], bytes, size())
        .prop_map(|(kind, data, size)| Ext(kind, data, size))
}

/// Most forms are as short as they can be.
fn size() -> impl Strategy<Value = usize> {
    prop_oneof![6 => Just(0usize), 1 => Just(1usize), 1 => Just(2usize), 1 => Just(4usize)]
}

/// One of a few keys, so that pointers often match.
fn key() -> impl Strategy<Value = Value> {
    let text =
        prop::sample::select(vec!["a", "b", "0", "1", "", "a/b", "a long key of many bytes"]);
    prop_oneof![
        12 => (text.clone(), size()).prop_map(|(text, size)| Str(text.into(), size)),
        1 => text.prop_map(|text| Bin(text.into(), 1)),
        1 => (0i128..3, size()).prop_map(|(value, size)| Int(value, size)),
        1 => prop_oneof![Just(Nil), Just(Int(-1, 0)), Just(Array(vec![Nil, str("a")], 0))],
    ]
}

fn leaf() -> impl Strategy<Value = Value> {
    prop_oneof![
        6 => (ints(), size()).prop_map(|(value, size)| Int(value, size)),
        4 => floats(),
        4 => (data(), size()).prop_map(|(data, size)| Str(data, size)),
        2 => (data(), size()).prop_map(|(data, size)| Bin(data, size)),
        2 => ext(),
        2 => any::<bool>().prop_map(Bool),
        1 => Just(Nil),
    ]
}

/// An array of numbers, many of them of the same form.
fn numbers() -> impl Strategy<Value = Value> {
    let run =
        (prop_oneof![ints().prop_map(|value| Int(value, 0)), floats()], 1usize..20, any::<bool>());
    let run = run.prop_map(|(value, count, same)| {
        let value = |index: usize| match &value {
            Int(value, size) if !same => Int(value ^ index as i128 & 0x3f, *size),
            value => value.clone(),
        };
        (0..count).map(value).collect::<Vec<_>>()
    });
    (prop::collection::vec(run, 0..4), size()).prop_map(|(runs, size)| Array(runs.concat(), size))
}

fn texts() -> impl Strategy<Value = Value> {
    let text = (data(), size()).prop_map(|(data, size)| Str(data, size));
    (prop::collection::vec(text, 0..6), size()).prop_map(|(texts, size)| Array(texts, size))
}

/// Any value.
pub fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![8 => leaf(), 2 => numbers(), 1 => texts()];
    leaf.prop_recursive(4, 40, 6, |inner| {
        let array = (prop::collection::vec(inner.clone(), 0..5), size())
            .prop_map(|(values, size)| Array(values, size));
        prop_oneof![1 => array, 3 => map_of(inner)]
    })
}

fn map_of(value: impl Strategy<Value = Value>) -> impl Strategy<Value = Value> {
    (prop::collection::vec((key(), value), 0..6), size()).prop_map(|(map, size)| Map(map, size))
}

/// The values of a file: most are maps, and many have the same keys.
pub fn values() -> impl Strategy<Value = Vec<Value>> {
    let record = prop_oneof![4 => map_of(value()), 1 => value()];
    let like =
        (map_of(value()), prop::collection::vec(value(), 0..9)).prop_map(|(first, values)| {
            // Maps with the keys of the first one; each has a different value at one position.
            let Map(entries, size) = &first else { unreachable!("a map") };
            let other = |value: Value| {
                let mut entries = entries.clone();
                let place = entries.len() / 2;
                if let Some(entry) = entries.get_mut(place) {
                    entry.1 = value;
                }
                Map(entries, *size)
            };
            values.into_iter().map(other).chain([first.clone()]).collect::<Vec<_>>()
        });
    let part = prop_oneof![3 => record.prop_map(|value| vec![value]), 1 => like];
    prop::collection::vec(part, 0..6).prop_map(|parts| parts.concat())
}

/// The bytes with some replaced.
pub fn damaged(mut bytes: Vec<u8>, damage: &[(prop::sample::Index, u8)]) -> Vec<u8> {
    for (at, byte) in damage {
        if !bytes.is_empty() {
            let at = at.index(bytes.len());
            bytes[at] = *byte;
        }
    }
    bytes
}

/// Positions, with bytes to write there: many of them start values.
pub fn damage() -> impl Strategy<Value = Vec<(prop::sample::Index, u8)>> {
    let byte = prop_oneof![3 => 0x80u8..0xe0, 1 => any::<u8>()];
    prop::collection::vec((any::<prop::sample::Index>(), byte), 0..4)
}
