//! Measures the speed of a decoder outside the sandbox, for examples that print it. Inside the
//! sandbox it is somewhat slower, and a channel does more than decode.

use std::hint::black_box;
use std::rc::Rc;
use std::time::{Duration, Instant};

use super::crc32c;
use crate::{Decoder, Host, Level, Options, Records, StreamInfo, unpack};

/// Duration of one measurement.
const MEASURE_FOR: Duration = Duration::from_secs(1);

/// Prints the speed, in GiB/s, with which the decoder decodes `object` as one chunk.
///
/// # Panics
/// If the decoder refuses its options, or does not decode the whole object.
pub fn print_speed<D: Decoder>(what: &str, options: &[(&str, &str)], object: &[u8]) {
    print_speed_with::<D>(what, options, object, crc32c);
}

/// Like [`print_speed`], for a decoder that asks the host for checksums. Pass a `crc32c` that uses
/// the machine's CRC instructions, because the default is so slow that only its speed would be
/// measured.
///
/// # Panics
/// The same as [`print_speed`].
pub fn print_speed_with<D: Decoder>(
    what: &str,
    options: &[(&str, &str)],
    object: &[u8],
    crc32c: fn(&[u8]) -> u32,
) {
    let given: Vec<_> = options.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
    let options = Options::new(&D::options(), &given).expect("known options");
    let info = StreamInfo {
        channel: "speed".into(),
        object: "memory".into(),
        max_record: 64 << 20,
        ..StreamInfo::default()
    };
    let object: Rc<[u8]> = object.into();
    print_passes(what, object.len(), || {
        let mut decoder = D::open(&options, &info).expect("opens");
        let sink = Sink { object: object.clone(), bytes: 0, crc32c };
        let mut out = Records::new(Box::new(sink), false);
        if let Some(fields) = decoder.schema() {
            out.set_schema(&fields);
        }
        let mut at = 0;
        loop {
            out.begin_call();
            let rest = black_box(&object[at..]);
            let progress = decoder.decode(rest, true, &mut out).expect("good records");
            out.flush();
            at += progress.consumed;
            // A decoder may leave the end of the input to a call of its own.
            if !progress.more && (at == object.len() || progress.consumed == 0) {
                break;
            }
        }
        assert_eq!(at, object.len(), "the decoder left bytes at the end");
    });
}

/// Bytes in a GiB.
const GIB: f64 = 1024.0 * 1024.0 * 1024.0;

/// Prints the speed, in GiB/s, with which `pass` processes `bytes` bytes. The fastest pass counts,
/// because other work on the machine slowed down the others.
pub fn print_passes(what: &str, bytes: usize, mut pass: impl FnMut()) {
    let (start, mut best) = (Instant::now(), Duration::MAX);
    while start.elapsed() < MEASURE_FOR {
        let start = Instant::now();
        pass();
        best = best.min(start.elapsed());
    }
    println!("{what:<44}  {:7.2} GiB/s", bytes as f64 / best.as_secs_f64() / GIB);
}

/// A host that only adds up the lengths of all fields.
struct Sink {
    object: Rc<[u8]>,
    bytes: u64,
    crc32c: fn(&[u8]) -> u32,
}

impl Host for Sink {
    fn emit(&mut self, _: usize, spans: &[u64], payload: &[u8], _: &[u32]) {
        self.bytes += spans.iter().map(|span| span & 0xffff_ffff).sum::<u64>();
        black_box((payload, self.bytes));
    }
    fn check_crc32c(&mut self, spans: &[u64], expected: &[u32]) -> Option<usize> {
        let crc = |span: &u64| (self.crc32c)(&self.object[unpack(*span)]);
        spans.iter().zip(expected).position(|(span, expected)| crc(span) != *expected)
    }
    fn log(&mut self, _: Level, _: &str) {}
}
