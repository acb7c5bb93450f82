//! Prints the speed of the decoder outside the sandbox, and the speed of the `csv` crate: `cargo
//! run --release -p pipemill-csv --example speed [FILTER]`

use std::hint::black_box;

use pipemill_csv::Csv;
use pipemill_plugin::testing::{print_passes, print_speed};

/// A small random number generator, so that every run has the same file.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// About 4 MiB of rows.
fn file(mut row: impl FnMut(&mut Random) -> String) -> Vec<u8> {
    let mut random = Random(1);
    let mut file = Vec::new();
    while file.len() < 4 << 20 {
        file.extend(row(&mut random).into_bytes());
        file.push(b'\n');
    }
    file
}

/// A row of 8 fields, about 100 bytes. With `quotes`, one in five fields is quoted; some of these
/// have delimiters or doubled quotes.
fn mixed(random: &mut Random, quotes: bool) -> String {
    let words = ["alpha", "a longer piece of text", "x", "2026-11-21", "3.25", "nine hundred"];
    let field = |random: &mut Random| {
        let word = words[random.below(6) as usize];
        let number = random.below(1000);
        match random.below(50) {
            0 if quotes => format!("\"{word}, \"\"{number}\"\"\""),
            1..10 if quotes => format!("\"{word}, {number}\""),
            _ => format!("{word}{number}"),
        }
    };
    (0..8).map(|_| field(random)).collect::<Vec<_>>().join(",")
}

/// A row of `count` numbers with `digits` digits after the dot.
fn floats(random: &mut Random, count: usize, digits: u32) -> String {
    let float = |random: &mut Random| {
        let sign = if random.below(3) == 0 { "-" } else { "" };
        let fraction = random.below(10u64.pow(digits));
        format!("{sign}{}.{fraction:0width$}", random.below(30), width = digits as usize)
    };
    (0..count).map(|_| float(random)).collect::<Vec<_>>().join(",")
}

/// Whether the name matches the filter on the command line.
fn wanted(what: &str) -> bool {
    std::env::args().nth(1).is_none_or(|wanted| what.contains(&wanted))
}

fn ours(what: &str, file: &[u8], options: &[(&str, &str)]) {
    if wanted(what) {
        print_speed::<Csv>(what, options, file);
    }
}

fn theirs(what: &str, file: &[u8]) {
    if !wanted(what) {
        return;
    }
    print_passes(what, file.len(), || {
        let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(black_box(file));
        let mut record = csv::ByteRecord::new();
        while reader.read_byte_record(&mut record).expect("good rows") {
            black_box(&record);
        }
    });
}

fn main() {
    for (name, quotes) in [("plain", false), ("quoted", true)] {
        let file = file(|random| mixed(random, quotes));
        let rows = file.iter().filter(|b| **b == b'\n').count();
        println!("{name}: rows of 8 fields, {} bytes on average", file.len() / rows);
        ours("  row", &file, &[("emit", "row")]);
        ours("  fields", &file, &[]);
        ours("  fields, 2 columns as utf8", &file, &[("columns", "1,0"), ("types", "utf8")]);
        theirs("  csv crate, ByteRecord", &file);
    }
    for (count, digits) in [(28, 6), (20, 4)] {
        let file = file(|random| floats(random, count, digits));
        println!("floats: rows of {count} numbers with {digits} digits after the dot");
        ours("  row", &file, &[("emit", "row")]);
        ours("  fields", &file, &[]);
        ours("  fields as float32", &file, &[("types", "float32")]);
        ours("  dense", &file, &[("emit", "dense")]);
        ours("  dense with label", &file, &[("emit", "dense"), ("label", "0")]);
        theirs("  csv crate, ByteRecord", &file);
    }
}
