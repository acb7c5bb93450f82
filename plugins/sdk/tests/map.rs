//! Decoders made of decoders: the records of an inner decoder, passed through a function, for any
//! split.

use pipemill_plugin::testing::{
    Outcome, Setup, assert_all_splits, assert_restarts, assert_saved, decode_whole, restarts,
    saved_places,
};
use pipemill_plugin::{
    Codec, DecodeError, Decoder, Field, InnerRecord, Map, MapRecords, OptionSpec, Options,
    Progress, Records, Resume, Resync, Scalar, StreamInfo, Tap, TapRecords,
};

/// Lines that end at LF. A line that begins with `!` is bad; `resync` searches for the next one.
struct Lines;

impl Decoder for Lines {
    fn options() -> Vec<OptionSpec> {
        vec![OptionSpec::bool("upper", false, "in capitals")]
    }
    fn open(_: &Options, _: &StreamInfo) -> Result<Self, String> {
        Ok(Self)
    }
    fn schema(&self) -> Option<Vec<Field>> {
        Some(vec![Field::bytes("line"), Field::bytes("made"), Field::bytes("none").nullable()])
    }
    fn decode(
        &mut self,
        chunk: &[u8],
        _: bool,
        out: &mut Records,
    ) -> Result<Progress, DecodeError> {
        let mut at = 0;
        while let Some(size) = chunk[at..].iter().position(|byte| *byte == b'\n') {
            if chunk[at] == b'!' {
                return Err(DecodeError::searchable(at, "a bad line", at as u64 + 1));
            }
            out.field(at..at + size);
            out.field_bytes(&chunk[at..at + size].to_ascii_uppercase());
            out.absent();
            out.end_record(at);
            at += size + 1;
        }
        Ok(Progress::consumed(at))
    }
    fn restart(&self) -> Option<u64> {
        Some(0)
    }
    fn resync(&mut self, chunk: &[u8], _: bool) -> Resync {
        match chunk.iter().position(|byte| *byte == b'\n') {
            Some(at) => Resync { consumed: at + 1, found: true },
            None => Resync { consumed: chunk.len(), found: false },
        }
    }
}

/// Drops lines that begin with `#`, doubles lines that begin with `+`, and refuses `?`.
struct Chosen {
    suffix: String,
}

impl MapRecords for Chosen {
    type Inner = Lines;

    fn options() -> Vec<OptionSpec> {
        vec![OptionSpec::string("suffix", Some("."), "text after a line")]
    }
    fn open(options: &Options, _: &StreamInfo) -> Result<Self, String> {
        assert!(!options.is_on("upper"));
        Ok(Self { suffix: options.text("suffix").to_owned() })
    }
    fn schema(&self, inner: &[Field]) -> Result<Vec<Field>, String> {
        Ok(vec![inner[0].clone(), inner[1].clone(), Field::utf8("text"), inner[2].clone()])
    }
    fn map(&mut self, record: &InnerRecord<'_>, out: &mut Records) -> Result<(), String> {
        let line = record.field(0).unwrap_or_default();
        if line.starts_with(b"?") {
            return Err(format!("{:?} is a question", String::from_utf8_lossy(line)));
        }
        let times = match line.first() {
            Some(b'#') => 0,
            Some(b'+') => 2,
            _ => 1,
        };
        for _ in 0..times {
            record.pass(0, out);
            record.pass(1, out);
            out.text(&format!("{}{}", String::from_utf8_lossy(line), self.suffix));
            record.pass(2, out);
            out.end_record(record.start());
        }
        Ok(())
    }
}

/// Joins each two lines. The first one waits for the second one, and is saved.
struct Pairs {
    waits: Option<Vec<u8>>,
}

impl MapRecords for Pairs {
    type Inner = Lines;

    fn open(_: &Options, _: &StreamInfo) -> Result<Self, String> {
        Ok(Self { waits: None })
    }
    fn schema(&self, _: &[Field]) -> Result<Vec<Field>, String> {
        Ok(vec![Field::bytes("pair")])
    }
    fn map(&mut self, record: &InnerRecord<'_>, out: &mut Records) -> Result<(), String> {
        let line = record.field(0).unwrap_or_default();
        match self.waits.take() {
            None => self.waits = Some(line.to_vec()),
            Some(first) => {
                out.field_bytes(&[&first, line].concat());
                out.end_record(record.start());
            }
        }
        Ok(())
    }
    fn end(&mut self, at: usize, out: &mut Records) -> Result<(), String> {
        if let Some(last) = self.waits.take() {
            out.field_bytes(&last);
            out.end_record(at);
        }
        Ok(())
    }
    fn can_restart(&self) -> bool {
        self.waits.is_none()
    }
    fn carries() -> bool {
        true
    }
    fn save(&self) -> Option<Vec<u8>> {
        self.waits.as_ref().map(|waits| [b"pairs 1 ", &waits[..]].concat())
    }
    fn load(_: &Options, info: &StreamInfo, saved: &[u8]) -> Result<Self, String> {
        assert_eq!(info.restart().map(|restart| restart.header), Some(0));
        let waits = saved.strip_prefix(b"pairs 1 ").ok_or("it is of another decoder")?;
        Ok(Self { waits: Some(waits.to_vec()) })
    }
}

fn texts(outcome: &Outcome) -> Vec<String> {
    let text = |field: &Option<Vec<u8>>| match field {
        Some(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        None => "-".to_owned(),
    };
    outcome
        .records
        .iter()
        .map(|record| record.iter().map(text).collect::<Vec<_>>().join(" "))
        .collect()
}

#[test]
fn records_are_left_out_doubled_and_changed() {
    let outcome = assert_all_splits::<Map<Chosen>>(&Setup::new(&[]), b"one\n#no\n+two\n\n");
    assert_eq!(
        texts(&outcome),
        ["one ONE one. -", "+two +TWO +two. -", "+two +TWO +two. -", "  . -"]
    );
    assert_eq!(outcome.starts, [0, 8, 8, 13]);
    assert!(outcome.errors.is_empty());
}

#[test]
fn what_a_map_remembers_is_saved() {
    let (setup, input) = (Setup::new(&[]), b"a\nbc\n\nd\ne\n");
    let outcome = assert_all_splits::<Map<Pairs>>(&setup, input);
    assert_eq!(texts(&outcome), ["abc", "d", "e"]);
    let bytes = vec![1; input.len()];
    let saved = saved_places::<Map<Pairs>>(&setup, input, &bytes);
    let of = |place: usize| saved.iter().find(|saved| saved.at.place == place);
    assert_eq!(of(2).map(|saved| &saved.saved[..]), Some(&b"pairs 1 a"[..]));
    assert_eq!((of(5), of(6).map(|saved| saved.at.records)), (None, Some(1)));
    // Where nothing waits, nothing has to be saved.
    let places = restarts::<Map<Pairs>>(&setup, input, &bytes);
    assert!(places.iter().any(|place| place.place == 5) && places.iter().all(|at| at.place != 2));
}

/// What is loaded must be what was saved.
#[test]
#[should_panic(expected = "records after")]
fn a_decoder_that_loads_something_else_is_found() {
    let (setup, input) = (Setup::new(&[]), b"a\nbc\n");
    let mut saved = saved_places::<Map<Pairs>>(&setup, input, &[2]).remove(0);
    saved.saved.push(b'x');
    let whole = decode_whole::<Map<Pairs>>(&setup, input);
    assert_saved::<Map<Pairs>>(&setup, input, &[], &saved, &whole);
}

#[test]
fn bad_records_of_both_are_skipped_or_end_the_stream() {
    let input = b"a\n?b\n!c\nd\n?e\n?f\n";
    let outcome = assert_all_splits::<Map<Chosen>>(&Setup::new(&[]).skipping(), input);
    assert_eq!(texts(&outcome), ["a A a. -", "d D d. -"]);
    let errors: Vec<_> = outcome.errors.iter().map(|(at, size, _)| (*at, *size)).collect();
    assert_eq!(errors, [(2, 3), (5, 3), (10, 3), (13, 3)]);
    assert_eq!(outcome.errors[0].2, "\"?b\" is a question");
    let outcome = assert_all_splits::<Map<Chosen>>(&Setup::new(&[]), input);
    assert_eq!((texts(&outcome), outcome.errors.len()), (vec!["a A a. -".to_owned()], 1));
}

/// Adds up the lengths of lines, and emits the sum at the end. It reads fields by name, and sets
/// the option of the inner decoder.
struct Sums {
    total: usize,
}

impl MapRecords for Sums {
    type Inner = Map<Lettered>;

    fn options() -> Vec<OptionSpec> {
        vec![OptionSpec::string("letter", Some("x"), "the letter that counts")]
    }
    fn inner_options(own: &Options) -> Vec<(&'static str, String)> {
        vec![("only", own.text("letter").to_owned())]
    }
    fn open(_: &Options, _: &StreamInfo) -> Result<Self, String> {
        Ok(Self { total: 0 })
    }
    fn schema(&self, inner: &[Field]) -> Result<Vec<Field>, String> {
        assert!(inner.iter().any(|field| field.name == "made"));
        Ok(vec![Field::new("total", Scalar::Uint32)])
    }
    fn map(&mut self, record: &InnerRecord<'_>, _: &mut Records) -> Result<(), String> {
        assert_eq!((record.index_of("made"), record.index_of("other")), (Some(1), None));
        assert_eq!(record.named("made"), record.field(1));
        self.total += record.named("line").map_or(0, <[u8]>::len);
        Ok(())
    }
    fn end(&mut self, at: usize, out: &mut Records) -> Result<(), String> {
        if self.total == 13 {
            return Err("13 letters".to_owned());
        }
        out.u32(self.total as u32);
        out.end_record(at);
        Ok(())
    }
}

/// Passes on lines that begin with a letter. It remembers nothing of them.
struct Lettered {
    only: String,
}

impl MapRecords for Lettered {
    type Inner = Lines;

    fn options() -> Vec<OptionSpec> {
        vec![OptionSpec::string("only", None, "the letter").required()]
    }
    fn open(options: &Options, _: &StreamInfo) -> Result<Self, String> {
        Ok(Self { only: options.text("only").to_owned() })
    }
    fn schema(&self, inner: &[Field]) -> Result<Vec<Field>, String> {
        Ok(inner.to_vec())
    }
    fn map(&mut self, record: &InnerRecord<'_>, out: &mut Records) -> Result<(), String> {
        if record.field(0).unwrap_or_default().starts_with(self.only.as_bytes()) {
            (0..record.fields()).for_each(|field| record.pass(field, out));
            out.end_record(record.start());
        }
        Ok(())
    }
    fn can_restart(&self) -> bool {
        true
    }
}

#[test]
fn a_map_emits_what_is_left_at_the_end() {
    let total = |outcome: &Outcome| outcome.records[0][0].clone();
    let outcome = assert_all_splits::<Map<Sums>>(&Setup::new(&[]), b"xab\nyy\nx\n");
    assert_eq!((total(&outcome), outcome.records.len()), (Some(vec![4, 0, 0, 0]), 1));
    assert_eq!(outcome.starts, [9]);
    let outcome = assert_all_splits::<Map<Sums>>(&Setup::new(&[("letter", "y")]), b"xab\nyy\n");
    assert_eq!(total(&outcome), Some(vec![2, 0, 0, 0]));
    assert_eq!(total(&assert_all_splits::<Map<Sums>>(&Setup::new(&[]), b"y\n")), Some(vec![0; 4]));
    let outcome = decode_whole::<Map<Sums>>(&Setup::new(&[]), b"xabcdefghijkl\n");
    assert_eq!(outcome.errors, [(14, 0, "13 letters".to_owned())]);
    // An input that ends inside a record has another error.
    let outcome = decode_whole::<Map<Sums>>(&Setup::new(&[]), b"xab\nx");
    assert_eq!((outcome.records.len(), outcome.errors.len()), (0, 1));
}

/// Passes all lines on.
struct Seen;

impl TapRecords for Seen {
    type Inner = Lines;

    fn open(_: &Options, _: &StreamInfo) -> Result<Self, String> {
        Ok(Self)
    }
    fn record(&mut self, _: &InnerRecord<'_>) -> Result<(), String> {
        Ok(())
    }
}

#[test]
fn options_that_a_map_sets_are_not_offered() {
    let names =
        |options: Vec<OptionSpec>| options.iter().map(|option| option.name).collect::<Vec<_>>();
    assert_eq!(names(Map::<Lettered>::options()), ["only", "upper"]);
    assert_eq!(names(Map::<Sums>::options()), ["letter", "upper"]);
}

#[test]
fn decoding_begins_again_where_the_map_has_no_state() {
    let input = b"xab\nx\ny\nx\n";
    let setup = Setup::new(&[("only", "x")]);
    let places = |restarts: Vec<_>| restarts.len();
    assert!(places(restarts::<Map<Lettered>>(&setup, input, &[4, 2, 2])) > 1);
    assert_restarts::<Map<Lettered>>(&setup, input, &[4, 2, 2]);
    assert!(places(restarts::<Tap<Seen>>(&Setup::new(&[]), input, &[4, 2, 2])) > 1);
    assert_eq!(places(restarts::<Map<Sums>>(&Setup::new(&[]), input, &[4, 2, 2])), 0);
    assert_eq!(places(restarts::<Map<Chosen>>(&Setup::new(&[]), input, &[4, 2, 2])), 0);
}

#[test]
fn options_of_both_are_known_and_others_are_not() {
    let options = Map::<Chosen>::options();
    assert_eq!(options.iter().map(|option| option.name).collect::<Vec<_>>(), ["suffix", "upper"]);
    let outcome = decode_whole::<Map<Chosen>>(&Setup::new(&[("suffix", "!")]), b"x\n");
    assert_eq!(texts(&outcome), ["x X x! -"]);
}

/// A whole object that is one compressed block of lines. It is decompressed in small parts.
struct Blocks {
    skip: usize,
}

impl Decoder for Blocks {
    fn open(_: &Options, _: &StreamInfo) -> Result<Self, String> {
        Ok(Self { skip: 0 })
    }
    fn schema(&self) -> Option<Vec<Field>> {
        None
    }
    fn decode(
        &mut self,
        chunk: &[u8],
        end: bool,
        out: &mut Records,
    ) -> Result<Progress, DecodeError> {
        if !end {
            return Ok(Progress::consumed(0));
        }
        if self.skip == 0 {
            out.set_schema(&[Field::bytes("line"), Field::new("number", Scalar::Uint64)]);
        }
        let part = out
            .decompress_part(Codec::Zstd, 0..chunk.len(), self.skip as u64, 40)
            .map_err(|why| DecodeError::fatal(0, why))?;
        let mut at = 0;
        while let Some(size) = part.bytes[at..].iter().position(|byte| *byte == b'\n') {
            out.field_in(&part, at..at + size);
            out.u64((self.skip + at) as u64);
            out.end_record(0);
            at += size + 1;
        }
        self.skip += at;
        Ok(if part.last { Progress::consumed(chunk.len()) } else { Progress::more(0) })
    }
}

/// Counts nothing, but refuses lines that begin with `?`.
struct NoQuestions;

impl TapRecords for NoQuestions {
    type Inner = Blocks;

    fn open(_: &Options, _: &StreamInfo) -> Result<Self, String> {
        Ok(Self)
    }
    fn record(&mut self, record: &InnerRecord<'_>) -> Result<(), String> {
        assert_eq!((record.fields(), record.start()), (2, 0));
        match record.field(0).unwrap_or_default().first() {
            Some(b'?') => Err("a question".to_owned()),
            _ => Ok(()),
        }
    }
}

/// This is not a compressed block at all: its decompressed bytes are ten of each byte.
fn tenfold(_: Codec, block: &[u8]) -> Result<Vec<u8>, String> {
    Ok(block.iter().flat_map(|byte| [*byte; 10]).collect())
}

/// The same without the repetition.
fn same(_: Codec, block: &[u8]) -> Result<Vec<u8>, String> {
    Ok(block.to_vec())
}

#[test]
fn records_of_a_block_of_many_parts_pass_through_a_tap() {
    let setup = Setup::new(&[]).decompressing(same);
    let input: Vec<u8> = (0..200).flat_map(|n| format!("line {n}\n").into_bytes()).collect();
    let plain = decode_whole::<Blocks>(&setup, &input);
    assert_eq!(plain.records.len(), 200);
    let tapped = decode_whole::<Tap<NoQuestions>>(&setup, &input);
    assert_eq!(plain, tapped);
    assert_eq!(decode_whole::<Blocks>(&setup.decompressing(tenfold), b"a\n").records.len(), 10);
}

#[test]
fn bad_records_of_one_block_are_all_skipped() {
    let setup = Setup::new(&[]).decompressing(same).skipping();
    let outcome = decode_whole::<Tap<NoQuestions>>(&setup, b"a\n?b\n?c\n?d\ne\n");
    assert_eq!((outcome.records.len(), outcome.errors.len()), (2, 3));
    let outcome = decode_whole::<Tap<NoQuestions>>(&Setup { skip: false, ..setup }, b"a\n?b\ne\n");
    assert_eq!((outcome.records.len(), outcome.errors.len()), (1, 1));
}

#[test]
fn a_wrapped_error_keeps_its_places() {
    let error = DecodeError::skippable(3, "x", 5).later_by(10);
    assert_eq!((error.offset, error.resume), (13, Resume::At(15)));
    assert_eq!(DecodeError::refused(3, "x").later_by(1).resume, Resume::Refused);
}
