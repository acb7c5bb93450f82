//! Inputs of each format, sound and damaged, with records from no byte to many memories long.

use pipemill_parsing::testing::near_middle;
use proptest::prelude::*;
use proptest::sample::Index;

/// Bytes without a pattern that could hide a wrong offset.
pub fn noise(length: usize, seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..length).map(|_| next()).collect()
}

/// Mostly small, some larger than any memory that the tests use.
fn length() -> impl Strategy<Value = usize> {
    prop_oneof![8 => 0usize..40, 6 => 0usize..600, 3 => 0usize..6_000, 1 => 0usize..90_000]
}

fn payload() -> impl Strategy<Value = Vec<u8>> {
    (length(), any::<u64>()).prop_map(|(length, seed)| noise(length, seed))
}

/// A run of records of one size, so that indexes grow large against payloads.
fn payloads() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let run = (0usize..12, 1usize..700, any::<u64>()).prop_map(|(length, count, seed)| {
        (0..count).map(|n| noise(length, seed + n as u64)).collect()
    });
    let one = payload().prop_map(|payload| vec![payload]);
    let part = prop_oneof![6 => one, 1 => run];
    prop::collection::vec(part, 0..16).prop_map(|parts: Vec<Vec<Vec<u8>>>| parts.concat())
}

/// A TFRecord file. Some records have whole files of TFRecord inside of them.
pub fn tfrecord() -> impl Strategy<Value = Vec<u8>> {
    let plain = payloads().prop_map(|payloads| pipemill_testing::inputs::tfrecord(&payloads));
    let small = prop::collection::vec(prop::collection::vec(any::<u8>(), 0..90), 0..9);
    let nested = prop::collection::vec(small, 0..12).prop_map(|files| {
        let files: Vec<_> =
            files.iter().map(|payloads| pipemill_testing::inputs::tfrecord(payloads)).collect();
        pipemill_testing::inputs::tfrecord(&files)
    });
    prop_oneof![2 => plain, 1 => nested]
}

const MAGIC: [u8; 4] = [0x0a, 0x23, 0xd7, 0xce];

/// A RecordIO file whose records may be in several parts, which the decoder has to join.
pub fn recordio() -> impl Strategy<Value = Vec<u8>> {
    let cuts = prop::collection::vec(length(), 0..3);
    let several = (payload(), cuts).prop_map(|(payload, cuts)| {
        let mut parts = Vec::new();
        let mut rest = &payload[..];
        for cut in cuts {
            let (part, behind) = rest.split_at(cut.min(rest.len()));
            parts.push(part.to_vec());
            rest = behind;
        }
        parts.push(rest.to_vec());
        vec![parts]
    });
    let single =
        payloads().prop_map(|all| all.into_iter().map(|one| vec![one]).collect::<Vec<_>>());
    let section = prop_oneof![1 => single, 2 => several];
    prop::collection::vec(section, 0..5).prop_map(|sections| {
        let mut file = Vec::new();
        for parts in sections.concat() {
            let last = parts.len() - 1;
            for (index, part) in parts.iter().enumerate() {
                let cflag: u32 = match index {
                    _ if last == 0 => 0,
                    0 => 1,
                    index if index == last => 3,
                    _ => 2,
                };
                file.extend_from_slice(&MAGIC);
                file.extend_from_slice(&(cflag << 29 | part.len() as u32).to_le_bytes());
                file.extend_from_slice(part);
                file.resize(file.len().next_multiple_of(4), b' ');
            }
        }
        file
    })
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

/// A protobuf field, up to number 15, that is bytes, text or a message.
fn field(number: u8, value: &[u8]) -> Vec<u8> {
    [&[number << 3 | 2], &varint(value.len() as u64)[..], value].concat()
}

/// An entry of a map of messages, which is field `map` of its message.
fn entry(map: u8, key: &str, value: &[u8]) -> Vec<u8> {
    field(map, &[field(1, key.as_bytes()), field(2, value)].concat())
}

/// `tf.train.Example`s in a TFRecord file: bytes `image`, a list of int64 `ids` that is sometimes
/// missing, a float32 `weight`.
pub fn tf_example() -> impl Strategy<Value = Vec<u8>> {
    let example = |image: &Vec<u8>| {
        let ids: Vec<_> =
            image.iter().take(90).flat_map(|id| varint(u64::from(*id) << 9)).collect();
        let mut features = entry(1, "image", &field(1, &field(1, image)));
        features.extend(entry(1, "weight", &field(2, &field(1, &[7; 4]))));
        if !image.len().is_multiple_of(5) {
            features.extend(entry(1, "ids", &field(3, &field(1, &ids))));
        }
        field(1, &features)
    };
    payloads().prop_map(move |images| {
        pipemill_testing::inputs::tfrecord(&images.iter().map(example).collect::<Vec<_>>())
    })
}

/// `aialgs.data.Record`s in a RecordIO file: a tensor of float32 `values`, bytes `image`, a label
/// of int32 and a uid.
pub fn recordio_protobuf() -> impl Strategy<Value = Vec<u8>> {
    let record = |image: &Vec<u8>, columns: usize| {
        let tensor = field(2, &field(1, &noise(columns * 4, image.len() as u64)));
        let label = field(7, &field(1, &varint(image.len() as u64)));
        [
            entry(1, "values", &tensor),
            entry(1, "image", &field(9, &field(1, image))),
            entry(2, "values", &label),
            field(3, b"a uid"),
        ]
        .concat()
    };
    (payloads(), 0usize..60).prop_map(move |(images, columns)| {
        let records: Vec<_> = images.iter().map(|image| record(image, columns)).collect();
        pipemill_testing::inputs::recordio(&records)
    })
}

/// Text with all kinds of line ends.
pub fn lines() -> impl Strategy<Value = Vec<u8>> {
    let end = prop_oneof![4 => Just("\n"), 2 => Just("\r\n"), 1 => Just("\r"), 1 => Just("\n\n")];
    (prop::collection::vec((payloads(), end), 0..3), any::<bool>()).prop_map(|(parts, ended)| {
        let mut text = Vec::new();
        for (payloads, end) in parts {
            for payload in payloads {
                text.extend(
                    payload.into_iter().map(|byte| if byte < 0x20 { byte + 0x20 } else { byte }),
                );
                text.extend_from_slice(end.as_bytes());
            }
        }
        if !ended {
            text.pop();
        }
        text
    })
}

/// Lines of JSON objects with the keys `a` and `b`, values of all kinds, and blank lines.
pub fn jsonl() -> impl Strategy<Value = Vec<u8>> {
    let long = (1usize..40_000).prop_map(|n| format!("\"{}\"", "lorem \\n ipsum".repeat(n / 13)));
    let value = prop_oneof![
        6 => any::<i32>().prop_map(|n| n.to_string()),
        4 => any::<f32>().prop_filter("finite", |n| n.is_finite()).prop_map(|n| format!("{n:e}")),
        6 => "[a-zé ]{0,30}".prop_map(|text| format!("\"{text}\\u00e4\\t\"")),
        6 => "[a-zé ]{0,300}".prop_map(|text| format!("\"{text}\"")),
        2 => prop::collection::vec(-99i32..99, 0..40).prop_map(|all| format!("{all:?}")),
        2 => Just("null".to_owned()),
        2 => Just("{\"a\": [true, {}]}".to_owned()),
        1 => long,
    ];
    let line = prop_oneof![
        12 => (value.clone(), value).prop_map(|(a, b)| format!("{{\"a\": {a}, \"b\":{b}}}")),
        1 => Just(" \t".to_owned()),
        1 => Just(String::new()),
    ];
    let end = prop_oneof![4 => Just("\n"), 1 => Just("\r\n")];
    (any::<bool>(), prop::collection::vec((line, end), 0..60), any::<bool>()).prop_map(
        |(mark, lines, ended)| {
            let mut text = if mark { "\u{feff}".to_owned() } else { String::new() };
            for (line, end) in lines {
                text.push_str(&line);
                text.push_str(end);
            }
            if !ended {
                text.pop();
            }
            text.into_bytes()
        },
    )
}

/// Records after lengths of four bytes, the lowest byte first.
pub fn length_prefixed() -> impl Strategy<Value = Vec<u8>> {
    payloads().prop_map(|payloads| {
        let mut file = Vec::new();
        for payload in payloads {
            file.extend_from_slice(&(payload.len() as u32).to_le_bytes());
            file.extend_from_slice(&payload);
        }
        file
    })
}

/// Records after lengths as varints.
pub fn delimited() -> impl Strategy<Value = Vec<u8>> {
    payloads().prop_map(|payloads| {
        let mut file = Vec::new();
        for payload in payloads {
            let mut length = payload.len();
            while length >= 0x80 {
                file.push(length as u8 | 0x80);
                length >>= 7;
            }
            file.push(length as u8);
            file.extend_from_slice(&payload);
        }
        file
    })
}

/// Bytes that any size of records fits, or nearly.
pub fn fixed() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![payload(), (0usize..200_000, any::<u64>()).prop_map(|(n, seed)| noise(n, seed))]
}

/// A member of a tar archive, of type file or folder.
fn member(name: &str, data: &[u8], kind: u8) -> Vec<u8> {
    let mut file = vec![0; 512];
    file[..name.len()].copy_from_slice(name.as_bytes());
    file[124..135].copy_from_slice(format!("{:011o}", data.len()).as_bytes());
    file[156] = kind;
    file[257..265].copy_from_slice(b"ustar\x0000");
    file[148..156].fill(b' ');
    let sum: u32 = file.iter().map(|byte| u32::from(*byte)).sum();
    file[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    file.extend_from_slice(data);
    file.resize(file.len().next_multiple_of(512), 0);
    file
}

/// A tar archive of samples with the members `a`, and some with `b`; some names are GNU's long
/// ones.
pub fn webdataset() -> impl Strategy<Value = Vec<u8>> {
    let sample = (payload(), prop::option::of(payload()), any::<bool>(), any::<bool>());
    (prop::collection::vec(sample, 0..14), any::<bool>()).prop_map(|(samples, twice)| {
        let mut file = member("folder/", b"", b'5');
        for (number, (a, b, long, between)) in samples.iter().enumerate() {
            let named = |extension: &str, data: &[u8]| {
                let short = member(&format!("{number}.{extension}"), data, b'0');
                if !long {
                    return short;
                }
                let name = format!("{}/{number}.{extension}\0", "long".repeat(50));
                [member("././@LongLink", name.as_bytes(), b'L'), short].concat()
            };
            file.extend(named("a", a));
            if *between {
                file.extend(member("README", a, b'0'));
            }
            if let Some(b) = b {
                file.extend(named("B", b));
            }
        }
        file.resize(file.len() + 1024, 0);
        if twice { file.repeat(2) } else { file }
    })
}

fn cell(numbers: bool) -> BoxedStrategy<String> {
    let number = prop_oneof![
        any::<i16>().prop_map(|n| n.to_string()),
        any::<f32>().prop_filter("finite", |n| n.is_finite()).prop_map(|n| n.to_string()),
        (0u32..99).prop_map(|n| format!(" {n}.5e-3 ")),
        Just(String::new()),
    ];
    if numbers {
        // Most numbers are of the form for which the decoder has a fast path.
        let plain = "-?[0-9]{1,5}\\.[0-9]{1,9}";
        return prop_oneof![60 => plain, 20 => number, 1 => "[a-z\"]{1,3}"].boxed();
    }
    let long =
        (1usize..40_000).prop_map(|length| "lorem ipsum ".chars().cycle().take(length).collect());
    let quoted = "[a-z,\n\r\"]{0,12}".prop_map(|text| format!("\"{}\"", text.replace('"', "\"\"")));
    // Rows inside of a field.
    let rows = prop::collection::vec("(a|\"\"b\"\"|\"\"\"\"),1,(x|\"\",\"\")\n", 1..30);
    let quoted_rows = rows.prop_map(|rows| format!("\"{}\"", rows.concat()));
    let long_quoted = (1usize..9_000).prop_map(|n| format!("\"{}\"", "a\"\",\n".repeat(n)));
    let text = "[a-zé \"]{0,14}";
    prop_oneof![
        20 => number,
        20 => text,
        12 => quoted,
        1 => quoted_rows,
        1 => long,
        1 => long_quoted,
    ]
    .boxed()
}

/// Rows of numbers close to the middle between two float32s: so close that some are read wrong
/// without a check of the product of digits and power of ten. Short numbers are between them,
/// because the decoder has its fast path only for four numbers of up to 48 bytes.
pub fn csv_near_middle() -> impl Strategy<Value = Vec<u8>> {
    let row = |random: &[u8]| {
        let (numbers, _) = random.as_chunks::<4>();
        let four = |random: &[u8; 4]| {
            let bits = 0x3f80_0000 + u32::from_le_bytes(*random) % 0x1600_0000;
            format!("1,{},2.5,-3", near_middle(bits, i64::from(random[0] % 3) - 1))
        };
        numbers.iter().map(four).collect::<Vec<_>>().join(",") + "\n"
    };
    let rows = move |(rows, seed)| noise(12 * rows, seed).chunks(12).map(row).collect::<String>();
    (1usize..500, any::<u64>()).prop_map(rows).prop_map(String::into_bytes)
}

/// A table of `columns` columns; some rows have more or fewer.
pub fn csv(columns: usize, numbers: bool) -> impl Strategy<Value = Vec<u8>> {
    let wide = prop_oneof![30 => Just(columns), 1 => 1..columns + 2];
    let row = wide.prop_flat_map(move |columns| prop::collection::vec(cell(numbers), columns));
    let end = prop_oneof![6 => Just("\n"), 3 => Just("\r\n"), 1 => Just("\n\n")];
    let rows = (prop::collection::vec((row, end), 0..30), 1usize..20);
    (prop::collection::vec(rows, 0..3), any::<bool>()).prop_map(|(sections, ended)| {
        let mut text = String::new();
        for (rows, times) in sections {
            // The long rows only once, because a table would otherwise take megabytes.
            let times = if rows.iter().flat_map(|(row, _)| row).any(|cell| cell.len() > 99) {
                1
            } else {
                times
            };
            for (row, end) in std::iter::repeat_n(&rows, times).flatten() {
                text.push_str(&row.join(","));
                text.push_str(end);
            }
        }
        if !ended {
            text.pop();
        }
        text.into_bytes()
    })
}

/// A damage of a file.
#[derive(Debug, Clone)]
pub enum Damage {
    Flip(Index, u8),
    Insert(Index, Vec<u8>),
    Delete(Index, usize),
    CutShort(Index),
}

/// No damage for half of the files.
pub fn damages() -> impl Strategy<Value = Vec<Damage>> {
    let small = || prop::collection::vec(any::<u8>(), 1..9);
    let damage = prop_oneof![
        4 => (any::<Index>(), 1u8..).prop_map(|(at, flip)| Damage::Flip(at, flip)),
        2 => (any::<Index>(), small()).prop_map(|(at, bytes)| Damage::Insert(at, bytes)),
        2 => (any::<Index>(), 1usize..5000).prop_map(|(at, count)| Damage::Delete(at, count)),
        1 => any::<Index>().prop_map(Damage::CutShort),
    ];
    prop_oneof![Just(Vec::new()), prop::collection::vec(damage, 1..4)]
}

/// Damages a file.
pub fn damage(mut file: Vec<u8>, damages: &[Damage]) -> Vec<u8> {
    for damage in damages {
        if file.is_empty() {
            break;
        }
        match damage {
            Damage::Flip(at, flip) => {
                let at = at.index(file.len());
                file[at] ^= flip;
            }
            Damage::Insert(at, bytes) => {
                let at = at.index(file.len());
                file.splice(at..at, bytes.iter().copied());
            }
            Damage::Delete(at, count) => {
                let at = at.index(file.len());
                file.drain(at..file.len().min(at + count));
            }
            Damage::CutShort(at) => file.truncate(at.index(file.len())),
        }
    }
    file
}
