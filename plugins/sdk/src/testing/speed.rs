//! How fast a decoder is by itself, natively: for examples that print it. In the sandbox it is somewhat
//! slower, and a channel does more than decode.

use std::hint::black_box;
use std::rc::Rc;
use std::time::{Duration, Instant};

use super::crc32c;
use crate::{Decoder, Host, Level, Options, Records, StreamInfo};

/// How long one measurement takes.
const A_WHILE: Duration = Duration::from_secs(1);

/// Prints how fast the decoder with these options goes through an object that it is shown as a whole.
///
/// # Panics
/// Where the decoder refuses its options, and where it does not decode all of the object.
pub fn print_speed<D: Decoder>(what: &str, options: &[(&str, &str)], object: &[u8]) {
    print_speed_with::<D>(what, options, object, crc32c);
}

/// The same of a decoder that asks for checksums: they are what takes the time, unless this function
/// has the speed of the hardware.
///
/// # Panics
/// As above.
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
        epoch: 0,
        object: "memory".into(),
        max_record: 64 << 20,
    };
    let object: Rc<[u8]> = object.into();
    print_passes(what, object.len(), || {
        let mut decoder = D::open(&options, &info).expect("opens");
        let taker = Taker { object: object.clone(), bytes: 0, crc32c };
        let mut out = Records::new(Box::new(taker), false);
        if let Some(fields) = decoder.schema() {
            out.set_schema(&fields);
        }
        let progress = decoder.decode(black_box(&object), true, &mut out).expect("good records");
        assert_eq!(progress.consumed, object.len(), "the decoder left bytes at the end");
        out.flush();
    });
}

/// Prints how fast this goes through so many bytes. The best pass counts: others are slow for reasons
/// that are not ours.
pub fn print_passes(what: &str, bytes: usize, mut pass: impl FnMut()) {
    let (start, mut best) = (Instant::now(), Duration::MAX);
    while start.elapsed() < A_WHILE {
        let start = Instant::now();
        pass();
        best = best.min(start.elapsed());
    }
    println!("{what:<44}  {:7.2} GB/s", bytes as f64 / best.as_secs_f64() / 1e9);
}

/// Takes records, and sums the lengths of their fields.
struct Taker {
    object: Rc<[u8]>,
    bytes: u64,
    crc32c: fn(&[u8]) -> u32,
}

impl Host for Taker {
    fn emit(&mut self, spans: &[u64], payload: &[u8], _: &[u32]) {
        self.bytes += spans.iter().map(|span| span & 0xffff_ffff).sum::<u64>();
        black_box((payload, self.bytes));
    }
    fn check_crc32c(&mut self, spans: &[u64], expected: &[u32]) -> Option<usize> {
        let crc = |span: &u64| (self.crc32c)(super::slice(&self.object, *span));
        spans.iter().zip(expected).position(|(span, expected)| crc(span) != *expected)
    }
    fn log(&mut self, _: Level, _: &str) {}
}
