//! A simple model of the decoder: it parses each value into a tree, and takes the fields from it.
//! The decoder must give the same records, and errors at the same places.

use pipemill_msgpack::Msgpack;
use pipemill_plugin::testing::{Record, Setup, assert_any_split};
use proptest::prelude::*;

use crate::write::{Value, damage, damaged, file, values};

/// The reason why a value can't be parsed.
#[derive(Debug, PartialEq)]
enum Stop {
    /// The input ends inside the value.
    Cut,
    /// It is not MessagePack.
    Bad,
}

struct Parser<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Parser<'_> {
    fn take(&mut self, count: usize) -> Result<Vec<u8>, Stop> {
        let taken = self.bytes.get(self.at..self.at.saturating_add(count)).ok_or(Stop::Cut)?;
        self.at += count;
        Ok(taken.to_vec())
    }

    fn number(&mut self, size: usize) -> Result<u64, Stop> {
        Ok(self.take(size)?.iter().fold(0, |high, low| high << 8 | u64::from(*low)))
    }

    fn signed(&mut self, size: usize) -> Result<i128, Stop> {
        let unused = 64 - 8 * size as u32;
        Ok(((self.number(size)? << unused) as i64 >> unused).into())
    }

    fn data(&mut self, size: usize) -> Result<Vec<u8>, Stop> {
        let length = self.number(size)? as usize;
        self.take(length)
    }

    fn ext(&mut self, length: usize) -> Result<Value, Stop> {
        let kind = self.take(1)?[0] as i8;
        Ok(Value::Ext(kind, self.take(length)?, 0))
    }

    fn array(&mut self, count: u64, depth: usize) -> Result<Value, Stop> {
        if depth == 1024 {
            return Err(Stop::Bad);
        }
        let values = (0..count).map(|_| self.value(depth + 1)).collect::<Result<_, _>>()?;
        Ok(Value::Array(values, 0))
    }

    fn map(&mut self, count: u64, depth: usize) -> Result<Value, Stop> {
        if depth == 1024 {
            return Err(Stop::Bad);
        }
        let entry = |_| Ok((self.value(depth + 1)?, self.value(depth + 1)?));
        Ok(Value::Map((0..count).map(entry).collect::<Result<_, _>>()?, 0))
    }

    fn value(&mut self, depth: usize) -> Result<Value, Stop> {
        let first = self.take(1)?[0];
        let size = 1 << (first & 3);
        Ok(match first {
            0x00..=0x7f => Value::Int(first.into(), 0),
            0x80..=0x8f => self.map((first & 15).into(), depth)?,
            0x90..=0x9f => self.array((first & 15).into(), depth)?,
            0xa0..=0xbf => Value::Str(self.take((first & 31).into())?, 0),
            0xc0 => Value::Nil,
            0xc1 => return Err(Stop::Bad),
            0xc2 | 0xc3 => Value::Bool(first == 0xc3),
            0xc4..=0xc6 => Value::Bin(self.data(size)?, 0),
            0xc7..=0xc9 => {
                let length = self.number(1 << (first - 0xc7))? as usize;
                self.ext(length)?
            }
            0xca => Value::Float32(f32::from_bits(self.number(4)? as u32)),
            0xcb => Value::Float64(f64::from_bits(self.number(8)?)),
            0xcc..=0xcf => Value::Int(self.number(size)?.into(), 0),
            0xd0..=0xd3 => Value::Int(self.signed(size)?, 0),
            0xd4..=0xd8 => self.ext(1 << (first - 0xd4))?,
            0xd9..=0xdb => Value::Str(self.data(1 << (first - 0xd9))?, 0),
            0xdc | 0xdd => {
                let count = self.number(2 << (first - 0xdc))?;
                self.array(count, depth)?
            }
            0xde | 0xdf => {
                let count = self.number(2 << (first - 0xde))?;
                self.map(count, depth)?
            }
            0xe0..=0xff => Value::Int((first as i8).into(), 0),
        })
    }
}

/// The value that these keys lead to; the last of equal keys counts.
fn select(value: &Value, keys: &[&str]) -> Option<Value> {
    let [key, rest @ ..] = keys else { return Some(value.clone()) };
    let inner = match value {
        Value::Array(values, _) => values.get(key.parse::<usize>().ok()?)?,
        Value::Map(entries, _) => {
            let is_key = |found: &Value| match found {
                Value::Str(data, _) | Value::Bin(data, _) => data == key.as_bytes(),
                Value::Int(number, _) => number.to_string() == *key && *number >= 0,
                _ => false,
            };
            &entries.iter().rfind(|(found, _)| is_key(found))?.1
        }
        _ => return None,
    };
    select(inner, rest)
}

/// The bytes of a number of this type; `None` if the value can't have it.
pub fn number(word: &str, value: &Value) -> Option<Vec<u8>> {
    let value = value.clone();
    Some(match (word, value) {
        ("int8", Value::Int(value, _)) => i8::try_from(value).ok()?.to_le_bytes().into(),
        ("int16", Value::Int(value, _)) => i16::try_from(value).ok()?.to_le_bytes().into(),
        ("int32", Value::Int(value, _)) => i32::try_from(value).ok()?.to_le_bytes().into(),
        ("int64", Value::Int(value, _)) => i64::try_from(value).ok()?.to_le_bytes().into(),
        ("uint8", Value::Int(value, _)) => u8::try_from(value).ok()?.to_le_bytes().into(),
        ("uint16", Value::Int(value, _)) => u16::try_from(value).ok()?.to_le_bytes().into(),
        ("uint32", Value::Int(value, _)) => u32::try_from(value).ok()?.to_le_bytes().into(),
        ("uint64", Value::Int(value, _)) => u64::try_from(value).ok()?.to_le_bytes().into(),
        ("float64", Value::Int(value, _)) => (value as f64).to_le_bytes().into(),
        ("float64", Value::Float64(value)) => value.to_le_bytes().into(),
        ("float64", Value::Float32(value)) if value.is_nan() => f64::NAN.to_le_bytes().into(),
        ("float64", Value::Float32(value)) => f64::from(value).to_le_bytes().into(),
        ("float32", Value::Int(value, _)) => (value as f32).to_le_bytes().into(),
        ("float32", Value::Float32(value)) => value.to_le_bytes().into(),
        ("float32", Value::Float64(value)) if value.is_nan() => f32::NAN.to_le_bytes().into(),
        ("float32", Value::Float64(value)) => {
            let narrow = value as f32;
            (narrow.is_finite() || value.is_infinite()).then(|| narrow.to_le_bytes().into())?
        }
        ("timestamp", Value::Ext(-1, data, _)) => {
            let number =
                |data: &[u8]| data.iter().fold(0u64, |high, low| high << 8 | u64::from(*low));
            let (seconds, nanoseconds) = match data.len() {
                4 => (i128::from(number(&data)), 0),
                8 => (i128::from(number(&data) % (1 << 34)), number(&data) >> 34),
                12 => (i128::from(number(&data[4..]) as i64), number(&data[..4])),
                _ => return None,
            };
            let time = seconds * 1_000_000_000 + i128::from(nanoseconds);
            let valid = nanoseconds < 1_000_000_000;
            i64::try_from(time).ok().filter(|_| valid)?.to_le_bytes().into()
        }
        _ => return None,
    })
}

/// The bytes of a field of this type, without brackets and `?`; `None` if the value can't have it.
fn single(word: &str, value: &Value) -> Option<Vec<u8>> {
    match (word, value) {
        ("bool", Value::Bool(value)) => Some(vec![u8::from(*value)]),
        ("bytes", Value::Str(data, _) | Value::Bin(data, _)) => Some(data.clone()),
        ("utf8", Value::Str(data, _)) => {
            String::from_utf8(data.clone()).ok().map(String::into_bytes)
        }
        (word, value) => number(word, value),
    }
}

/// The field for a type, as it is written in a spec. `Err` if the record is bad.
fn field(word: &str, optional: bool, value: Option<Value>) -> Result<Option<Vec<u8>>, ()> {
    let value = match value {
        None | Some(Value::Nil) => return if optional { Ok(None) } else { Err(()) },
        Some(value) => value,
    };
    let Some((word, size)) = word.strip_suffix(']').and_then(|word| word.split_once('[')) else {
        return single(word, &value).map(Some).ok_or(());
    };
    let Value::Array(values, _) = value else { return Err(()) };
    if size.parse().is_ok_and(|size: usize| size != values.len()) {
        return Err(());
    }
    let singles: Vec<_> =
        values.iter().map(|value| single(word, value)).collect::<Option<_>>().ok_or(())?;
    if !matches!(word, "utf8" | "bytes") {
        return Ok(Some(singles.concat()));
    }
    let mut list = Vec::new();
    let mut offset = 4 * (singles.len() as u32 + 1);
    list.extend_from_slice(&offset.to_le_bytes());
    for data in &singles {
        offset += data.len() as u32;
        list.extend_from_slice(&offset.to_le_bytes());
    }
    Ok(Some([list, singles.concat()].concat()))
}

/// A field for the model: its keys, its type, and whether it is optional.
type Wanted = (&'static [&'static str], &'static str, bool);

/// The records, their starts, and the positions of the errors.
fn decode(
    bytes: &[u8],
    wanted: Option<&[Wanted]>,
    skip: bool,
) -> (Vec<Record>, Vec<u64>, Vec<u64>) {
    let (mut records, mut starts, mut errors) = (Vec::new(), Vec::new(), Vec::new());
    let mut parser = Parser { bytes, at: 0 };
    while parser.at < bytes.len() {
        let start = parser.at;
        let Ok(value) = parser.value(0) else {
            errors.push(start as u64);
            break;
        };
        let whole = matches!(value, Value::Array(..) | Value::Map(..))
            || wanted.is_none_or(|wanted| wanted.iter().any(|(keys, ..)| keys.is_empty()));
        let record = match wanted {
            _ if !whole => Err(()),
            None => Ok(vec![Some(bytes[start..parser.at].to_vec())]),
            Some(wanted) => wanted
                .iter()
                .map(|(keys, word, optional)| field(word, *optional, select(&value, keys)))
                .collect(),
        };
        match record {
            Ok(record) => {
                records.push(record);
                starts.push(start as u64);
            }
            Err(()) => {
                errors.push(start as u64);
                if !skip {
                    break;
                }
            }
        }
    }
    (records, starts, errors)
}

const TYPES: [&str; 25] = [
    "bool",
    "bytes",
    "utf8",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float32",
    "float64",
    "timestamp",
    "utf8[]",
    "bytes[]",
    "utf8[2]",
    "int64[]",
    "uint8[]",
    "int16[]",
    "uint32[]",
    "float32[]",
    "float64[]",
    "float64[3]",
    "timestamp[]",
];

const KEYS: [&[&str]; 9] = [
    &["a"],
    &["b"],
    &["0"],
    &["1"],
    &["a", "b"],
    &["a", "0"],
    &["b", "a", "1"],
    &["a long key of many bytes"],
    &[],
];

fn wanted() -> impl Strategy<Value = Vec<Wanted>> {
    let one = (prop::sample::select(&KEYS[..]), prop::sample::select(&TYPES[..]), any::<bool>());
    prop_oneof![
        1 => one.clone().prop_map(|one| vec![one]),
        // Many selectors that most records have.
        1 => prop::collection::vec(one.prop_map(|(keys, word, _)| (keys, word, true)), 1..6),
    ]
}

/// The option `fields`. A pointer that occurs again has another notation.
fn option(wanted: &[Wanted]) -> String {
    let spec = |(index, (keys, word, optional)): (usize, &Wanted)| {
        let pointer: String =
            keys.iter().map(|key| format!("/{}", key.replace('/', "~1"))).collect();
        let selector = if keys.len() == 1 && index % 2 == 0 { keys[0] } else { &pointer };
        format!("f{index}={selector}:{word}{}", if *optional { "?" } else { "" })
    };
    let specs: Vec<_> = wanted.iter().enumerate().map(spec).collect();
    specs.join(",")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, ..ProptestConfig::default() })]

    #[test]
    fn whole_values(values in values(), damage in damage(), skip: bool, pieces in pieces()) {
        let bytes = damaged(file(&values), &damage);
        let setup = Setup { skip, ..Setup::new(&[]) };
        let outcome = assert_any_split::<Msgpack>(&setup, &bytes, &pieces);
        let (records, starts, errors) = decode(&bytes, None, skip);
        prop_assert_eq!(outcome.records, records);
        prop_assert_eq!(outcome.starts, starts);
        prop_assert_eq!(outcome.errors.iter().map(|(at, ..)| *at).collect::<Vec<_>>(), errors);
    }

    #[test]
    fn fields(
        values in values(),
        damage in damage(),
        wanted in wanted(),
        skip: bool,
        pieces in pieces(),
    ) {
        let option = option(&wanted);
        // The option has no selector twice.
        let mut selectors: Vec<_> = option.split(',').filter_map(|spec| spec.split(['=', ':']).nth(1)).collect();
        selectors.sort_unstable();
        prop_assume!(selectors.windows(2).all(|pair| pair[0] != pair[1]));
        let bytes = damaged(file(&values), &damage);
        let setup = Setup { skip, ..Setup::new(&[("fields", &option)]) };
        let outcome = assert_any_split::<Msgpack>(&setup, &bytes, &pieces);
        let (records, starts, errors) = decode(&bytes, Some(&wanted), skip);
        prop_assert_eq!(outcome.records, records, "{}", option);
        prop_assert_eq!(outcome.starts, starts);
        prop_assert_eq!(outcome.errors.iter().map(|(at, ..)| *at).collect::<Vec<_>>(), errors);
    }
}

fn pieces() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(prop_oneof![4 => 1usize..20, 1 => 1usize..200], 0..40)
}
