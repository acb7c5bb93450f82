//! Tests a plugin with an input of its author: in pieces, cut off, and damaged at random. A small
//! input is split and cut at every byte, a large one at random. The same seed gives the same random
//! cases.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fastrand::Rng;
use serde_json::Value;

use super::check::{CUT_SHORT, Case, CaseOutcome, Property, fields_as_json, show};
use super::decode_run::{DecodeRun, PluginUnderTest};
use super::shrink::shrink;

/// How thoroughly a plugin is tested.
#[derive(Debug, Clone)]
pub struct ConformanceTest {
    /// Seed of the random cases.
    pub seed: u64,
    /// Number of random cases of each kind.
    pub cases: u32,
    /// Time limit for the random cases of each kind, and for the search for a smaller failing
    /// input.
    pub time_limit: Duration,
    /// Whether it is a fault if the end of the input silently shortens the last record.
    pub strict_end: bool,
}

impl Default for ConformanceTest {
    fn default() -> Self {
        Self { seed: 0, cases: 500, time_limit: Duration::from_secs(10), strict_end: false }
    }
}

/// The expected records of an input: one JSON object per record, as `pipemill cat` prints it. Keys
/// that an object leaves out are not compared.
#[derive(Debug, Clone)]
pub struct Expected(Vec<Value>);

/// The first failure of a test.
#[derive(Debug, Clone)]
pub struct Finding {
    /// Name of the check.
    pub tried: &'static str,
    /// What does not hold.
    pub broken: String,
    /// The smallest input found that fails; `None` if the unchanged input fails.
    pub case: Option<Case>,
}

/// Inputs of up to this many bytes are split and cut at every byte.
const SMALL_INPUT_BYTES: usize = 4 << 10;

impl Expected {
    /// Parses JSON lines. Empty lines are ignored.
    ///
    /// # Errors
    /// A line is not JSON. The error has the line's number, from 1.
    pub fn parse(text: &str) -> Result<Self, String> {
        let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        let parse = |(number, line): (usize, &str)| {
            serde_json::from_str(line).map_err(|error| format!("line {}: {error}", number + 1))
        };
        lines.map(parse).collect::<Result<_, _>>().map(Self)
    }
}

impl ConformanceTest {
    /// Tests the plugin with one input. `report` is called with the name and the details of each
    /// check that passes.
    ///
    /// # Errors
    /// The first check that fails.
    pub fn run(
        &self,
        tested: &PluginUnderTest,
        input: &[u8],
        expected: Option<&Expected>,
        report: &mut dyn FnMut(&str, String),
    ) -> Result<DecodeRun, Box<Finding>> {
        let mut checks = Checks { tested, input: input.into(), test: self, report };
        let whole = checks.unchanged(expected)?;
        checks.in_pieces()?;
        checks.cut_off()?;
        checks.damaged(whole.records.len())?;
        Ok(whole)
    }
}

/// The checks of one input.
struct Checks<'a> {
    tested: &'a PluginUnderTest,
    input: Arc<[u8]>,
    test: &'a ConformanceTest,
    report: &'a mut dyn FnMut(&str, String),
}

impl Checks<'_> {
    /// The unchanged input: it has no errors, and gives the expected records.
    fn unchanged(&mut self, expected: Option<&Expected>) -> Result<DecodeRun, Box<Finding>> {
        let finding = |broken| Box::new(Finding { tried: "the data as it is", broken, case: None });
        let whole = self.tested.decode(&self.input, &[], false);
        if let Some(failure) = whole.errors.first() {
            return Err(finding(failure.to_string()));
        }
        // Another instance must give the same records.
        self.run("same in every instance", &self.case(Property::Pieces(Vec::new())))?;
        (self.report)("the data as it is", format!("{} records", whole.records.len()));
        if let Some(expected) = expected {
            compare(&whole, expected).map_err(finding)?;
            (self.report)("records as expected", format!("{} compared", expected.0.len()));
        }
        Ok(whole)
    }

    /// The input in pieces: for a small input single bytes and every split into two, then random
    /// splits.
    fn in_pieces(&mut self) -> Result<(), Box<Finding>> {
        const TRIED: &str = "same records in any pieces";
        let size = self.input.len();
        let mut done = 0u64;
        if size <= SMALL_INPUT_BYTES {
            self.run(TRIED, &self.case(Property::Pieces(vec![1; size])))?;
            for at in 1..size {
                self.run(TRIED, &self.case(Property::Pieces(vec![at])))?;
            }
            done = size as u64;
        }
        let mut rng = Rng::with_seed(self.test.seed);
        done += self.random(|this| {
            let pieces = random_pieces(&mut rng, size);
            this.run(TRIED, &this.case(Property::Pieces(pieces))).map(|_| ())
        })?;
        (self.report)(TRIED, format!("{done} ways"));
        Ok(())
    }

    /// The input without its end.
    fn cut_off(&mut self) -> Result<(), Box<Finding>> {
        const TRIED: &str = "nothing invented where the input is cut off";
        let size = self.input.len();
        let (mut short, mut done) = (0u64, 0u64);
        let mut cut = |this: &mut Self, at: usize| {
            let case = this.case(Property::Cut(at));
            let is_short = this.run(TRIED, &case)? == CaseOutcome::LastRecordShortened;
            if is_short && this.test.strict_end {
                let broken = format!("cut off after {at} bytes: {CUT_SHORT}");
                return Err(Box::new(Finding { tried: TRIED, broken, case: Some(case) }));
            }
            short += u64::from(is_short);
            done += 1;
            Ok(())
        };
        if size <= SMALL_INPUT_BYTES {
            (0..size).try_for_each(|at| cut(self, at))?;
        } else {
            let mut rng = Rng::with_seed(self.test.seed);
            self.random(|this| cut(this, rng.usize(0..size)))?;
        }
        let shortened = match short {
            0 => String::new(),
            short => format!(
                "; at {short} of them the end of the input ends a record, which is right where \
                 records end at a delimiter (if not: --strict-end)"
            ),
        };
        (self.report)(TRIED, format!("{done} places{shortened}"));
        Ok(())
    }

    /// The input with random damages, in one piece and in several.
    ///
    /// `count` is the number of records of the unchanged input.
    fn damaged(&mut self, count: usize) -> Result<(), Box<Finding>> {
        const TRIED: &str = "no failure on damaged input";
        let mut rng = Rng::with_seed(self.test.seed ^ 0x0064_616d_6167_6564);
        let (mut lost, mut most) = (0, 0);
        let done = self.random(|this| {
            let input: Arc<[u8]> = damage(&mut rng, &this.input).into();
            let pieces = random_pieces(&mut rng, input.len());
            let kept = this.tested.decode(&input, &[], true).records.len();
            (lost, most) =
                (lost + count.saturating_sub(kept), most.max(count.saturating_sub(kept)));
            this.run(TRIED, &Case { input, property: Property::Pieces(pieces) }).map(|_| ())
        })?;
        let average = lost as f64 / done.max(1) as f64;
        let details = format!(
            "{done} damaged inputs, each in pieces, too; if errors are skipped, {average:.1} of \
             {count} records are lost on average, at most {most}"
        );
        (self.report)(TRIED, details);
        Ok(())
    }

    fn case(&self, property: Property) -> Case {
        Case { input: self.input.clone(), property }
    }

    /// Checks a case. If it fails, the finding has a smaller case that fails.
    fn run(&self, tried: &'static str, case: &Case) -> Result<CaseOutcome, Box<Finding>> {
        case.check(self.tested).map_err(|broken| {
            let time_limit = self.test.time_limit;
            let (case, broken) = shrink(self.tested, case.clone(), broken, time_limit);
            Box::new(Finding { tried, broken, case: Some(case) })
        })
    }

    /// Runs the configured number of random cases; fewer, but at least ten, if the time is over.
    fn random(
        &mut self,
        mut one: impl FnMut(&mut Self) -> Result<(), Box<Finding>>,
    ) -> Result<u64, Box<Finding>> {
        let until = Instant::now() + self.test.time_limit;
        let mut done = 0;
        while done < u64::from(self.test.cases) && (done < 10 || Instant::now() < until) {
            one(self)?;
            done += 1;
        }
        Ok(done)
    }
}

/// Random sizes of pieces: up to 199 of them, small or large ones.
fn random_pieces(rng: &mut Rng, size: usize) -> Vec<usize> {
    let largest = match rng.u8(0..4) {
        0 => 4,
        1 => 64,
        2 => 4 << 10,
        _ => size.max(1),
    };
    let count = rng.usize(0..200);
    (0..count).map(|_| rng.usize(1..=largest)).collect()
}

/// The input with one to four random damages.
fn damage(rng: &mut Rng, input: &[u8]) -> Vec<u8> {
    let mut bytes = input.to_vec();
    for _ in 0..rng.usize(1..=4) {
        if bytes.is_empty() {
            bytes.push(rng.u8(..));
            continue;
        }
        let at = rng.usize(0..bytes.len());
        let to = (at + rng.usize(1..=16)).min(bytes.len());
        match rng.u8(0..7) {
            0 => bytes[at] ^= 1 << rng.u8(0..8),
            1 => bytes[at] = rng.u8(..),
            2 => bytes[at..to].fill(if rng.bool() { 0xff } else { 0 }),
            3 => drop(bytes.drain(at..to)),
            4 => bytes.insert(at, rng.u8(..)),
            5 => {
                let again = bytes[at..to].to_vec();
                bytes.splice(at..at, again);
            }
            _ => bytes.truncate(at),
        }
    }
    bytes
}

/// Compares the records of a run with the expected ones.
fn compare(whole: &DecodeRun, expected: &Expected) -> Result<(), String> {
    let fields = whole.schema.as_deref().unwrap_or_default();
    for (index, wanted) in expected.0.iter().enumerate() {
        let Some(record) = whole.records.get(index) else {
            let count = whole.records.len();
            return Err(format!("record {index} is missing: there are {count}; expected {wanted}"));
        };
        let line = format!(
            "{{\"index\":{index},\"offset\":{},\"fields\":{}}}",
            record.start,
            fields_as_json(fields, record)
        );
        let found: Value = serde_json::from_str(&line).map_err(|error| error.to_string())?;
        let wanted_keys = wanted.as_object().ok_or(format!("expected an object, not {wanted}"))?;
        // The object's name depends on the path of the file.
        for (key, value) in wanted_keys.iter().filter(|(key, _)| *key != "object") {
            if found.get(key) != Some(value) {
                let none = Value::Null;
                let found = found.get(key).unwrap_or(&none);
                return Err(format!(
                    "record {index}: `{key}` is {found:.400}; expected {value:.400}"
                ));
            }
        }
    }
    match whole.records.get(expected.0.len()) {
        None => Ok(()),
        Some(record) => Err(format!(
            "there are {} records; expected {}; the first that is not expected is {}",
            whole.records.len(),
            expected.0.len(),
            show(fields, Some(record))
        )),
    }
}
