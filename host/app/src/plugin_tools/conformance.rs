//! Tries a plugin on what its author has: in all pieces or many, cut off at all places or many, and
//! damaged at random. Repeatable: the same seed tries the same.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fastrand::Rng;
use serde_json::Value;

use super::check::{AtEnd, CUT_SHORT, Case, Property, fields_as_json, show};
use super::decode_run::{DecodeRun, PluginUnderTest};
use super::shrink::shrink;

/// How hard to try.
#[derive(Debug, Clone)]
pub struct ConformanceTest {
    /// Where random cases start from.
    pub seed: u64,
    /// Random cases for each kind of trouble.
    pub cases: u32,
    /// The longest that each kind may take, and making what was found smaller.
    pub patience: Duration,
    /// Whether a record that is cut short by the end of the input is a fault.
    pub strict_end: bool,
}

impl Default for ConformanceTest {
    fn default() -> Self {
        Self { seed: 0, cases: 500, patience: Duration::from_secs(10), strict_end: false }
    }
}

/// What an input should give: JSON objects, one a record, as `pipemill cat` prints them. A key that an
/// object does not have is not compared.
#[derive(Debug, Clone)]
pub struct Expected(Vec<Value>);

/// Something that does not hold.
#[derive(Debug, Clone)]
pub struct Finding {
    /// What was tried.
    pub tried: &'static str,
    /// What does not hold.
    pub broken: String,
    /// The smallest input found that shows it; none if it is about the data as it is.
    pub case: Option<Case>,
}

/// Inputs up to this size are cut at every place.
const SMALL: usize = 4 << 10;

impl Expected {
    /// Reads JSON lines.
    ///
    /// # Errors
    /// A line is not JSON, with its number.
    pub fn parse(text: &str) -> Result<Self, String> {
        let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        let parse = |(number, line): (usize, &str)| {
            serde_json::from_str(line).map_err(|error| format!("line {}: {error}", number + 1))
        };
        lines.map(parse).collect::<Result<_, _>>().map(Self)
    }
}

/// Tries the plugin on one input. `tell` hears of each thing that holds.
///
/// # Errors
/// The first thing that does not hold.
pub fn try_out(
    subject: &PluginUnderTest,
    input: &[u8],
    expected: Option<&Expected>,
    trial: &ConformanceTest,
    tell: &mut dyn FnMut(&str, String),
) -> Result<DecodeRun, Box<Finding>> {
    let mut attempt = Attempt { subject, input: input.into(), trial, tell };
    let whole = attempt.as_it_is(expected)?;
    attempt.in_pieces()?;
    attempt.cut_off()?;
    attempt.damaged()?;
    Ok(whole)
}

struct Attempt<'a> {
    subject: &'a PluginUnderTest,
    input: Arc<[u8]>,
    trial: &'a ConformanceTest,
    tell: &'a mut dyn FnMut(&str, String),
}

impl Attempt<'_> {
    fn as_it_is(&mut self, expected: Option<&Expected>) -> Result<DecodeRun, Box<Finding>> {
        let finding = |broken| Box::new(Finding { tried: "the data as it is", broken, case: None });
        let whole = self.subject.read(&self.input, &[], false);
        if let Some(failure) = whole.errors.first() {
            return Err(finding(failure.to_string()));
        }
        // Twice: another instance must say the same.
        self.run("same in every instance", &self.case(Property::Pieces(Vec::new())))?;
        (self.tell)("the data as it is", format!("{} records", whole.records.len()));
        if let Some(expected) = expected {
            compare(&whole, expected).map_err(finding)?;
            (self.tell)("records as expected", format!("{} compared", expected.0.len()));
        }
        Ok(whole)
    }

    /// Every cut into two and single bytes for a small input, else as many random ways as time allows.
    fn in_pieces(&mut self) -> Result<(), Box<Finding>> {
        const TRIED: &str = "same records in any pieces";
        let size = self.input.len();
        let mut done = 0u64;
        if size <= SMALL {
            self.run(TRIED, &self.case(Property::Pieces(vec![1; size])))?;
            for at in 1..size {
                self.run(TRIED, &self.case(Property::Pieces(vec![at])))?;
            }
            done = size as u64;
        }
        let mut rng = Rng::with_seed(self.trial.seed);
        done += self.random(|this| {
            let pieces = pieces(&mut rng, size);
            this.run(TRIED, &this.case(Property::Pieces(pieces))).map(|_| ())
        })?;
        (self.tell)(TRIED, format!("{done} ways"));
        Ok(())
    }

    fn cut_off(&mut self) -> Result<(), Box<Finding>> {
        const TRIED: &str = "nothing invented where the input is cut off";
        let size = self.input.len();
        let (mut short, mut done) = (0u64, 0u64);
        let mut cut = |this: &mut Self, at: usize| {
            let case = this.case(Property::Cut(at));
            let is_short = this.run(TRIED, &case)? == AtEnd::Short;
            if is_short && this.trial.strict_end {
                let broken = format!("cut off after {at} bytes: {CUT_SHORT}");
                return Err(Box::new(Finding { tried: TRIED, broken, case: Some(case) }));
            }
            short += u64::from(is_short);
            done += 1;
            Ok(())
        };
        if size <= SMALL {
            (0..size).try_for_each(|at| cut(self, at))?;
        } else {
            let mut rng = Rng::with_seed(self.trial.seed);
            self.random(|this| cut(this, rng.usize(0..size)))?;
        }
        let shortened = match short {
            0 => String::new(),
            short => format!(
                "; at {short} of them the end of the input ends a record, which is right where records \
                 end at a delimiter (if not: --strict-end)"
            ),
        };
        (self.tell)(TRIED, format!("{done} places{shortened}"));
        Ok(())
    }

    fn damaged(&mut self) -> Result<(), Box<Finding>> {
        const TRIED: &str = "no failure on damaged input";
        let mut rng = Rng::with_seed(self.trial.seed ^ 0x0064_616d_6167_6564);
        let done = self.random(|this| {
            let input: Arc<[u8]> = damage(&mut rng, &this.input).into();
            let pieces = pieces(&mut rng, input.len());
            this.run(TRIED, &Case { input, property: Property::Pieces(pieces) }).map(|_| ())
        })?;
        (self.tell)(TRIED, format!("{done} damaged inputs, each in pieces, too"));
        Ok(())
    }

    fn case(&self, property: Property) -> Case {
        Case { input: self.input.clone(), property }
    }

    fn run(&self, tried: &'static str, case: &Case) -> Result<AtEnd, Box<Finding>> {
        case.check(self.subject).map_err(|broken| {
            let patience = self.trial.patience;
            let (case, broken) = shrink(self.subject, case.clone(), broken, patience);
            Box::new(Finding { tried, broken, case: Some(case) })
        })
    }

    /// Runs random cases, as many as wanted or as there is time for.
    fn random(
        &mut self,
        mut one: impl FnMut(&mut Self) -> Result<(), Box<Finding>>,
    ) -> Result<u64, Box<Finding>> {
        let until = Instant::now() + self.trial.patience;
        let mut done = 0;
        while done < u64::from(self.trial.cases) && (done < 10 || Instant::now() < until) {
            one(self)?;
            done += 1;
        }
        Ok(done)
    }
}

/// Sizes of pieces: a few large, or many small, or both.
fn pieces(rng: &mut Rng, size: usize) -> Vec<usize> {
    let largest = match rng.u8(0..4) {
        0 => 4,
        1 => 64,
        2 => 4 << 10,
        _ => size.max(1),
    };
    let count = rng.usize(0..200);
    (0..count).map(|_| rng.usize(1..=largest)).collect()
}

/// The input with up to four damages.
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
        // What the object is called depends on where it lies.
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
