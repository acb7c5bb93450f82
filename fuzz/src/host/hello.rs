//! HELLO with a state and other requests, to a complete host: it is refused with a reason, or its
//! records come. An unchanged state of the host gives exactly the records after it. Regardless of a
//! consumer's requests to its channel, another channel delivers all of its records.

use std::fmt::Write as _;
use std::sync::{LazyLock, OnceLock};

use pipemill_decode::Engine;
use pipemill_ring::protocol::{ErrorKind, Hello};
use pipemill_ring::reader::{Event, Reader, ReaderError};
use pipemill_run::in_process::Host;
use pipemill_testing::test_dir::TestDir;
use pipemill_types::Printable;
use serde_json::{Value, json};

/// Number of records of each object.
const ROWS: usize = 5;
const OBJECTS: usize = 2;
const EPOCHS: usize = 2;

/// The input, and the HELLO of a consumer after each batch, with its state and the number of
/// records that it had received.
struct Known {
    place: TestDir,
    hellos: Vec<(Value, usize)>,
}

static KNOWN: LazyLock<Known> = LazyLock::new(|| {
    let place = TestDir::new();
    for object in 0..OBJECTS {
        let rows = (0..ROWS).fold(String::new(), |mut text, row| {
            let _ = writeln!(text, "row {}", object * ROWS + row);
            text
        });
        place.write(&format!("in/{object}.txt"), rows);
    }
    let mut known = Known { place, hellos: Vec::new() };
    let _host = known.host();
    let mut reader = known.connect(&Hello::new("train", "fuzz")).expect("it asks for nothing");
    let mut given = 0;
    loop {
        let state = reader.state().expect("it reads alone");
        let hello = Hello {
            state: Some(serde_json::to_value(state).expect("it is JSON")),
            credits: Some(2),
            ..Hello::new("train", "fuzz")
        };
        known.hellos.push((serde_json::to_value(hello).expect("it is JSON"), given));
        match reader.next().expect("the input is sound") {
            Event::Batch(batch) => given += batch.valid(),
            Event::EpochEnd(_) => {}
            Event::StreamEnd => return known,
        }
    }
});

impl Known {
    fn host(&self) -> Host {
        static ENGINE: OnceLock<Engine> = OnceLock::new();
        let engine = ENGINE.get_or_init(|| {
            Engine::new(&pipemill_builtin::BUILTINS).expect("the machine runs WebAssembly")
        });
        let folder = self.place.path("in");
        let mut text = format!("socket = {:?}\n", self.place.path("run/host.sock"));
        for channel in ["train", "other"] {
            let _ = write!(
                text,
                "[[channel]]\nname = '{channel}'\ndecoder = 'lines'\nbatch = 2\ntail = 'pad'\n\
                 source = {{ folder = {folder:?}, epochs = {EPOCHS} }}\n\
                 [channel.ring]\nslot_size = '64KiB'\n"
            );
        }
        Host::start(&text, None, false, engine).expect("the configuration is sound")
    }

    fn connect(&self, hello: &Hello) -> Result<Reader, ReaderError> {
        Reader::connect_as(&self.place.path("run/host.sock"), hello, false)
    }
}

/// The first byte selects a HELLO, each three of the others change something in it. If it selects
/// none, they are the JSON of one.
pub(crate) fn hello(bytes: &[u8]) {
    let Some((choice, rest)) = bytes.split_first() else { return };
    let known = &*KNOWN;
    let chosen = known.hellos.get(usize::from(*choice));
    let (mut asked, given) = match chosen {
        Some((hello, given)) => (hello.clone(), *given),
        None => match serde_json::from_slice(rest) {
            Ok(hello) => (hello, 0),
            Err(_) => return,
        },
    };
    if chosen.is_some() {
        rest.chunks_exact(3).for_each(|edit| change(&mut asked, edit));
    }
    let Ok(hello) = serde_json::from_value::<Hello>(asked.clone()) else { return };
    let _host = known.host();
    match known.connect(&hello) {
        Ok(reader) => {
            let is_true = chosen.is_some_and(|(own, _)| own["state"] == asked["state"]);
            // A rank waits for the others.
            if hello.rank.is_none_or(|rank| rank.world == 1) {
                let records = read(reader);
                assert!(!is_true || records == Some(after(given)), "{records:?} after {given}");
            }
        }
        Err(ReaderError::Refused(why)) => {
            assert!(!why.is_empty() && Printable::line(&why).to_string() == why, "{why:?}");
        }
        // It is longer than a message.
        Err(ReaderError::Protocol { what, .. }) if what.contains("at most") => {}
        Err(error) => panic!("{error}"),
    }
    let other = known.connect(&Hello::new("other", "fuzz")).expect("nobody else reads it");
    assert_eq!(read(other), Some(after(0)), "another channel");
}

/// All records but the first `given`.
fn after(given: usize) -> Vec<String> {
    let epoch = (0..ROWS * OBJECTS).map(|row| format!("row {row}"));
    let all = std::iter::repeat_n(epoch, EPOCHS).flatten();
    all.skip(given).collect()
}

/// The records up to the end of the stream. `None`: the channel could not fulfil the request.
fn read(mut reader: Reader) -> Option<Vec<String>> {
    let mut records = Vec::new();
    loop {
        match reader.next() {
            Ok(Event::Batch(batch)) => {
                let rows = (0..batch.valid()).filter_map(|record| batch.field(record, 0));
                records.extend(rows.map(|row| String::from_utf8_lossy(row).into_owned()));
            }
            Ok(Event::EpochEnd(_)) => {}
            Ok(Event::StreamEnd) => return Some(records),
            Err(ReaderError::Failed(report)) => {
                assert_ne!(report.kind, ErrorKind::Host, "{report}");
                return None;
            }
            Err(ReaderError::Refused(_)) => return None,
            Err(error) => panic!("{error}"),
        }
    }
}

/// Replaces or removes one value of a HELLO.
fn change(hello: &mut Value, edit: &[u8]) {
    let [place, kind, number] = [edit[0], edit[1], edit[2]].map(usize::from);
    let mut places = Vec::new();
    find(hello, String::new(), &mut places);
    let pointer = &places[place % places.len()];
    let Some((parent, name)) = pointer.rsplit_once('/') else { return };
    let Some(Value::Object(parent)) = hello.pointer_mut(parent) else { return };
    let values = [
        json!(number),
        json!(-1),
        json!(u32::MAX),
        json!(u64::MAX),
        json!(1u64 << (number % 64)),
        json!(0.5),
        json!(""),
        json!("\u{1b}[2J\u{202e}\u{2028}\u{e0041}"),
        json!("x".repeat(number * 256)),
        json!(null),
        json!([]),
        json!({}),
        json!(["objects", "decoder", "options", "schema"]),
        json!({ "records": number, "tail": "pad" }),
        json!({ "rank": number % 4, "world": number % 3 }),
        json!({ "program": "fuzz", "number": number }),
    ];
    match values.into_iter().nth(kind % 18) {
        Some(value) => drop(parent.insert(name.to_owned(), value)),
        None if kind % 18 == 16 => drop(parent.remove(name)),
        None => {
            let wish = ["batch", "rank", "accept", "pass"][number % 4];
            let value = [json!({ "records": 2, "tail": "pad" }), json!({ "rank": 0, "world": 1 })]
                .into_iter()
                .chain([json!(["objects"]), json!({ "program": "fuzz", "number": 1 })])
                .nth(number % 4);
            hello[wish] = value.unwrap_or_default();
        }
    }
}

/// The places of all values.
fn find(value: &Value, at: String, places: &mut Vec<String>) {
    for (name, value) in value.as_object().into_iter().flatten() {
        find(value, format!("{at}/{name}"), places);
    }
    places.push(at);
}
