//! Every split of any bytes gives the same result as a simple model.

use pipemill_lines::Lines;
use pipemill_plugin::testing::{Record, Setup, assert_any_split};
use proptest::prelude::*;

/// Text with many line ends, CRs and invalid UTF-8, longer than a block of the newline search.
fn text() -> impl Strategy<Value = Vec<u8>> {
    let atom = prop_oneof![
        3 => Just(b"\n".to_vec()),
        1 => Just(b"\r\n".to_vec()),
        1 => Just(b"\r".to_vec()),
        1 => Just("ä€\u{1f600}".as_bytes().to_vec()),
        1 => any::<u8>().prop_map(|byte| vec![byte]),
        3 => (0usize..30).prop_map(|n| vec![b'x'; n]),
        1 => (0usize..300).prop_map(|n| vec![b'y'; n]),
    ];
    prop::collection::vec(atom, 0..60).prop_map(|atoms| atoms.concat())
}

#[derive(Debug, Clone, Copy)]
struct Rules {
    strip_cr: bool,
    skip_blank: bool,
    utf8: bool,
    max_record: usize,
}

fn rules() -> impl Strategy<Value = Rules> {
    let max_record = prop_oneof![Just(1 << 20), 0usize..40];
    (any::<bool>(), any::<bool>(), any::<bool>(), max_record).prop_map(
        |(strip_cr, skip_blank, utf8, max_record)| Rules { strip_cr, skip_blank, utf8, max_record },
    )
}

impl Rules {
    fn setup(self) -> Setup {
        let word = |on| if on { "true" } else { "false" };
        let options = [
            ("strip_cr", word(self.strip_cr)),
            ("skip_blank", word(self.skip_blank)),
            ("utf8", word(self.utf8)),
        ];
        Setup { max_record: self.max_record as u64, ..Setup::new(&options) }
    }

    /// The records, their starts, and the bad lines with their lengths.
    fn model(self, text: &[u8]) -> (Vec<Record>, Vec<u64>, Vec<(u64, u64)>) {
        let (mut records, mut starts, mut bad) = (Vec::new(), Vec::new(), Vec::new());
        let mut start = 0;
        for whole in text.split_inclusive(|byte| *byte == b'\n') {
            let line = whole.strip_suffix(b"\n").map_or(whole, |line| match line {
                [line @ .., b'\r'] if self.strip_cr => line,
                line => line,
            });
            if line.len() > self.max_record || self.utf8 && str::from_utf8(line).is_err() {
                bad.push((start, whole.len() as u64));
            } else if !(self.skip_blank && line.is_empty()) {
                records.push(vec![Some(line.to_vec())]);
                starts.push(start);
            }
            start += whole.len() as u64;
        }
        (records, starts, bad)
    }
}

fn pieces() -> impl Strategy<Value = Vec<usize>> {
    let piece = prop_oneof![4 => 1usize..20, 2 => 1usize..200, 1 => 200usize..3000];
    prop::collection::vec(piece, 0..60)
}

proptest! {
    #[test]
    fn all_lines(text in text(), rules in rules(), pieces in pieces()) {
        let (records, starts, bad) = rules.model(&text);
        let outcome = assert_any_split::<Lines>(&rules.setup().skipping(), &text, &pieces);
        prop_assert_eq!(outcome.records, records);
        prop_assert_eq!(outcome.starts, starts);
        let places: Vec<_> = outcome.errors.iter().map(|(at, length, _)| (*at, *length)).collect();
        prop_assert_eq!(places, bad);
    }

    #[test]
    fn lines_up_to_the_first_error(text in text(), rules in rules(), pieces in pieces()) {
        let (records, starts, bad) = rules.model(&text);
        let outcome = assert_any_split::<Lines>(&rules.setup(), &text, &pieces);
        let first = bad.first().map(|(at, _)| *at);
        prop_assert_eq!(outcome.errors.first().map(|(at, ..)| *at), first);
        let before = starts.iter().take_while(|start| first.is_none_or(|at| **start < at)).count();
        prop_assert_eq!(&outcome.records, &records[..before]);
    }
}
