//! The checks of one input, in their order. Each one decides which cases to try.

use std::sync::Arc;

use fastrand::Rng;

use super::budget::Budget;
use super::case::{CUT_SHORT, Case, CaseOutcome, NO_RECORD, Property};
use super::compare::{show_fields, show_metadata};
use super::positions::{positions, spread};
use super::random::{damage, random_pieces};
use super::resume::{Damages, Evidence};
use super::shrink::shrink;
use super::starts::StartVerdict;
use super::structure::Structure;
use super::{ConformanceTest, DEFAULT_CASES, Expectations, Finding, Report};
use super::{gaps, max_record, needs, restart, starts};
use crate::decode_run::{DecodeRun, PluginUnderTest, Record};
use crate::trace::Shown;

/// The checks of one input.
pub(super) struct Checks<'a> {
    tested: PluginUnderTest,
    input: Arc<[u8]>,
    test: &'a ConformanceTest,
    report: &'a mut dyn FnMut(Report<'_>),
    /// Starts of the records.
    starts: Vec<u64>,
}

/// The result of a check.
type CheckResult = Result<(), Box<Finding>>;

const UNCHANGED: &str = "the data as it is";
const PIECES: &str = "same records in any pieces";
const WINDOW: &str = "same records without a copy of the input";
const CUT: &str = "nothing invented or swallowed where the input is cut off";
const STARTS: &str = "records begin where they are said to";
const GAPS: &str = "no bytes vanish between records";
const NEEDS: &str = "`need` is true";
const MAX_RECORD: &str = "only records above max_record are refused";
const RESTART: &str = "decoding can begin again where the decoder says";
const CARRY: &str = "decoding can go on with what the decoder saves";
const DAMAGED: &str = "no failure on damaged input";
const RESUME: &str = "little is lost after an error";

impl<'a> Checks<'a> {
    pub(super) fn new(
        tested: &PluginUnderTest,
        input: Arc<[u8]>,
        test: &'a ConformanceTest,
        report: &'a mut dyn FnMut(Report<'_>),
    ) -> Self {
        Self { tested: tested.clone(), input, test, report, starts: Vec::new() }
    }

    pub(super) fn run(mut self, expected: Expectations<'_>) -> Result<DecodeRun, Box<Finding>> {
        self.count_set_up();
        let whole = self.unchanged(expected)?;
        self.starts = whole.records.iter().map(|record| record.start).collect();
        self.starts.dedup();
        self.in_pieces()?;
        self.in_window()?;
        self.cut_off()?;
        match Structure::of_first_part(&self.tested, &self.input) {
            Some(structure) => {
                self.starts(&structure)?;
                self.gaps(&structure)?;
                self.needs(&structure)?;
                self.max_record(&structure)?;
                self.restart(&structure)?;
                self.damaged(whole.records.len())?;
                self.resume(&structure)?;
            }
            None => {
                self.note(
                    "the input has errors: starts, gaps, need, max_record and resume are not \
                           tested with it"
                        .to_owned(),
                );
                self.damaged(whole.records.len())?;
            }
        }
        Ok(whole)
    }

    /// Counts a long set-up: each case has new instances, so fewer cases are tried.
    fn count_set_up(&mut self) {
        let instructions = self.tested.set_up_instructions();
        if self.tested.work.count_set_up(instructions) && self.test.time_limit.is_none() {
            let millions = instructions / 1_000_000;
            self.note(format!(
                "the set-up of each instance takes {millions} million instructions, so only some \
                 cases of each kind are tried; --time gives each kind more. A host pays this for \
                 each object: do what can be done once when the plugin is built"
            ));
        }
    }

    /// The unchanged input gives the expected records and errors, in every instance.
    fn unchanged(&mut self, expected: Expectations<'_>) -> Result<DecodeRun, Box<Finding>> {
        let finding = |broken| Box::new(Finding { tried: UNCHANGED, broken, case: None });
        let skip = self.test.skip_errors;
        let whole = self.tested.decode(&self.input, &[], skip);
        if let Some(error) = whole.errors.first()
            && expected.errors.is_none()
            && !skip
        {
            let from = &self.input[(error.offset as usize).min(self.input.len())..];
            let bytes: Vec<_> = from.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
            return Err(finding(format!("{error} [bytes there: {}]", bytes.join(" "))));
        }
        let shown = Shown { skip, ..Shown::default() };
        let decompresses = |import: &String| import.ends_with("#decompress");
        let trace = self.tested.trace(&self.input, shown);
        self.tested.has_blocks = whole.has_blocks()
            || trace.has_blocks
            || trace.has_payload && self.tested.plugin.imports().iter().any(decompresses);
        let case = self.case(Property::Pieces(Vec::new()));
        self.check("same in every instance", &case)?;
        let mut details = format!("{} records", whole.records.len());
        if !whole.errors.is_empty() {
            details.push_str(&format!(", {} errors", whole.errors.len()));
        }
        if !whole.metadata.is_empty() {
            details.push_str(&format!("; metadata {}", show_metadata(&whole)));
        }
        self.passed(UNCHANGED, details);
        if let Some(expected) = expected.records {
            expected.compare(&whole).map_err(finding)?;
            self.passed("records as expected", format!("{} compared", expected.len()));
        }
        if let Some(expected) = expected.errors {
            expected.compare(&whole).map_err(finding)?;
            self.passed("errors as expected", format!("{} compared", expected.len()));
        }
        if whole.records.is_empty() {
            let fields = show_fields(whole.fields());
            self.note(format!("the data has no records, so little is tested; fields: {fields}"));
        }
        Ok(whole)
    }

    /// The input in pieces: single bytes, splits into two, random splits.
    fn in_pieces(&mut self) -> CheckResult {
        let size = self.input.len();
        if size <= MAX_SINGLE_BYTES {
            self.check(PIECES, &self.case(Property::Pieces(vec![1; size])))?;
        }
        let mut budget = self.full_budget(size as u64);
        let places = positions(size, &self.starts).filter(|at| (1..size).contains(at));
        for at in places.take_while(|_| budget.take()) {
            self.check(PIECES, &self.case(Property::Pieces(vec![at])))?;
        }
        let mut random = self.random_budget(1);
        let mut rng = Rng::with_seed(self.test.seed);
        while random.take() {
            let pieces = random_pieces(&mut rng, size);
            self.check(PIECES, &self.case(Property::Pieces(pieces)))?;
        }
        let long = self.long_input();
        if let Some(input) = &long {
            let pieces = vec![LONG_PIECE; input.len() / LONG_PIECE];
            let case = Case { input: input.clone(), property: Property::Pieces(pieces) };
            self.check(PIECES, &case)?;
        }
        let (done, all) = (budget.done(), size.saturating_sub(1));
        let single = if size <= MAX_SINGLE_BYTES { "single bytes, " } else { "" };
        let random = random.done();
        let long = long.map_or(String::new(), |long| format!("; repeated to {} bytes", long.len()));
        self.passed(
            PIECES,
            format!("{single}{done} of {all} splits in two, {random} random ones{long}"),
        );
        Ok(())
    }

    /// The input with its records repeated, so that a chunk has offsets that don't fit into 16
    /// bits; `None` if it has them already, or no records. After the first end of a file, the input
    /// need not be sound: the result must be the same in any pieces.
    fn long_input(&self) -> Option<Arc<[u8]>> {
        let from = usize::try_from(*self.starts.first()?).ok()?;
        let (head, records) = self.input.split_at_checked(from)?;
        if self.input.len() > LONG_INPUT || records.is_empty() {
            return None;
        }
        let times = LONG_INPUT / records.len() + 1;
        Some([head, &records.repeat(times)].concat().into())
    }

    /// The input in the decoder's window, if it has one: in one piece, and in random splits.
    fn in_window(&mut self) -> CheckResult {
        if !self.tested.plugin.has_window() {
            return Ok(());
        }
        self.check(WINDOW, &self.case(Property::Window(Vec::new())))?;
        let mut random = self.random_budget(1);
        let mut rng = Rng::with_seed(self.test.seed);
        while random.take() {
            let pieces = random_pieces(&mut rng, self.input.len());
            self.check(WINDOW, &self.case(Property::Window(pieces)))?;
        }
        self.passed(WINDOW, format!("in one piece, {} random splits", random.done()));
        Ok(())
    }

    /// The input without its end.
    fn cut_off(&mut self) -> CheckResult {
        let size = self.input.len();
        let (mut shortened, mut without) = (0u64, 0u64);
        let mut swallowed: Option<(Case, String)> = None;
        let mut budget = self.full_budget(size as u64);
        let places = positions(size, &self.starts).filter(|at| *at < size);
        for at in places.take_while(|_| budget.take()) {
            let case = self.case(Property::Cut(at));
            match self.check(CUT, &case)? {
                CaseOutcome::Holds => {}
                CaseOutcome::LastRecordShortened if self.test.strict_end => {
                    return Err(finding(
                        CUT,
                        format!("cut off after {at} bytes: {CUT_SHORT}"),
                        case,
                    ));
                }
                CaseOutcome::NoRecord if self.test.strict_end => {
                    return Err(finding(
                        CUT,
                        format!("cut off after {at} bytes: {NO_RECORD}"),
                        case,
                    ));
                }
                CaseOutcome::LastRecordShortened => shortened += 1,
                CaseOutcome::NoRecord => without += 1,
                CaseOutcome::TailSwallowed(broken) => {
                    swallowed.get_or_insert((case, broken));
                }
            }
        }
        let mut details = format!("{} of {size} places", budget.done());
        match swallowed {
            // If the end of the input never ends a record, its last bytes are always lost.
            Some(found) if shortened == 0 || self.test.strict_end => {
                let fails = |case: &Case| match case.check(&self.tested) {
                    Ok(CaseOutcome::TailSwallowed(broken)) => Some(broken),
                    _ => None,
                };
                let (case, broken) = shrink(found, &fails, self.shrink_budget());
                return Err(finding(CUT, broken, case));
            }
            Some((_, broken)) => {
                self.note(format!("{broken} (with --strict-end, this is a fault)"))
            }
            None => {}
        }
        if shortened > 0 {
            details.push_str(&format!(
                "; at {shortened} of them the end of the input ends a record, which is right where \
                 records end at a delimiter (if not: --strict-end)"
            ));
        }
        if without > 0 {
            details.push_str(&format!(
                "; at {without} of them there is no record and no error (if a header may not be \
                 cut off: --strict-end)"
            ));
        }
        self.passed(CUT, details);
        Ok(())
    }

    /// Each record begins where the decoder says.
    fn starts(&mut self, structure: &Structure) -> CheckResult {
        let count = structure.run.records.len();
        let (mut right, mut wrong) = (0u64, Vec::new());
        let mut budget = self.full_budget(MAX_STARTS);
        for record in spread(count).take_while(|_| budget.take()) {
            let case =
                || Case { input: structure.input.clone(), property: Property::Start(record) };
            match starts::judge(&self.tested, structure, record) {
                Err(broken) => return Err(finding(STARTS, broken, case())),
                Ok(StartVerdict::Right) => right += 1,
                Ok(StartVerdict::Unknown) => {}
                Ok(StartVerdict::Wrong(broken)) => wrong.push((broken, case())),
            }
        }
        // Nothing is known about the first record. The first record of a block may begin after the
        // block's header, so a few wrong starts are not a fault.
        let tried = budget.done();
        let count_wrong = wrong.len();
        let is_most = count_wrong >= 2 && count_wrong as u64 * 2 > tried.saturating_sub(1);
        let mut details = format!("{tried} of {count} records");
        match wrong.into_iter().next() {
            Some((broken, case)) if is_most => {
                return Err(finding(STARTS, broken, case));
            }
            Some((broken, _)) => self.note(format!(
                "{broken} (so it is with {count_wrong} of {tried} records; it is right for the \
                 first record of a block)"
            )),
            None if right == 0 && tried > 1 => details.push_str(
                ", but none of them can be decoded without what is before it, so little is known",
            ),
            None => details.push_str(&format!("; decoding can begin at {right} of them")),
        }
        self.passed(STARTS, details);
        Ok(())
    }

    /// Bytes that are inserted between records do not vanish.
    fn gaps(&mut self, structure: &Structure) -> CheckResult {
        let insertions = gaps::insertions(structure);
        let (mut vanished, mut first) = (0, None);
        let mut budget = self.full_budget(insertions.len() as u64);
        for (at, bytes) in insertions.into_iter().take_while(|_| budget.take()) {
            if let Err(broken) = gaps::judge(&self.tested, structure, at, &bytes) {
                vanished += 1;
                let property = Property::Gap(at, bytes);
                first.get_or_insert((broken, Case { input: structure.input.clone(), property }));
            }
        }
        let count = structure.units.len() + 1;
        let mut details = format!("{} insertions at {count} places", budget.done());
        match first {
            Some((broken, case)) if !self.test.allow_gaps => {
                return Err(finding(GAPS, broken, case));
            }
            Some(_) => details.push_str(&format!("; {vanished} vanish, which --allow-gaps allows")),
            None => {}
        }
        self.passed(GAPS, details);
        Ok(())
    }

    /// The decoder makes no progress with fewer bytes than it says it needs.
    fn needs(&mut self, structure: &Structure) -> CheckResult {
        let case = Case { input: structure.input.clone(), property: Property::Needs };
        let checked = needs::check(&self.tested, &structure.input);
        let checked = checked.map_err(|broken| self.smallest(NEEDS, &case, broken))?;
        let looks = needs::count_looks(&self.tested, structure);
        let details = format!(
            "{checked} numbers; in pieces of {} bytes, {} calls show each byte {:.1} times",
            looks.piece, looks.calls, looks.per_byte
        );
        self.passed(NEEDS, details);
        if looks.per_byte > MAX_LOOKS && !structure.units.is_empty() {
            self.note(format!(
                "each byte is shown {:.1} times if a record arrives in 64 pieces. If the format \
                 tells the length of a record, say how many bytes you need",
                looks.per_byte
            ));
        }
        Ok(())
    }

    /// With a lower `max_record`, larger records are refused, and no others.
    fn max_record(&mut self, structure: &Structure) -> CheckResult {
        let Some(least) = max_record::least(&self.tested, &structure.input) else {
            self.note("max_record is not tested: the input needs the one that is set".to_owned());
            return Ok(());
        };
        let all = [Some(least), least.checked_sub(1), (least > 3).then_some(least / 2)];
        let all = all.into_iter().flatten().chain([least.saturating_add(1)]);
        let mut budget = self.full_budget(u64::MAX);
        let mut tried = Vec::new();
        for max in all.take_while(|_| budget.take()) {
            let property = Property::MaxRecord(max);
            self.check(MAX_RECORD, &Case { input: structure.input.clone(), property })?;
            tried.push(max);
        }
        self.passed(MAX_RECORD, format!("the largest has {least}; tried {tried:?}"));
        let bytes = |record: &Record| record.fields.iter().flatten().map(Vec::len).sum::<usize>();
        if least <= 1 && structure.run.records.iter().any(|record| bytes(record) > SURELY_LARGE) {
            self.note(
                "records of any size are accepted: compare the length with info.max_record before \
                 the whole record is in the chunk"
                    .to_owned(),
            );
        }
        Ok(())
    }

    /// Decoding restarts where the decoder says that it can, and goes on where it saves its state.
    fn restart(&mut self, structure: &Structure) -> CheckResult {
        let size = structure.input.len();
        let (mut places, mut header) = (0, 0);
        let (mut saved, mut bytes) = (0, 0);
        let mut budget = self.full_budget(MAX_RESTARTS);
        for at in positions(size, &structure.units).take_while(|_| budget.take()) {
            let case = Case { input: structure.input.clone(), property: Property::Restart(at) };
            let checked = restart::check(&self.tested, &structure.input, at);
            let checked = checked.map_err(|broken| self.smallest(RESTART, &case, broken))?;
            places += checked.places;
            header = header.max(checked.header);
            saved += checked.saved;
            bytes = bytes.max(checked.saved_bytes);
        }
        if places > 0 {
            let details = format!("{places} places, after the first {header} bytes of the input");
            self.passed(RESTART, details);
        }
        if saved > 0 {
            self.passed(CARRY, format!("{saved} places, with at most {bytes} bytes"));
        }
        Ok(())
    }

    /// The input with random damages, in one piece and in several.
    ///
    /// `count` is the number of records of the unchanged input.
    fn damaged(&mut self, count: usize) -> CheckResult {
        let mut rng = Rng::with_seed(self.test.seed ^ 0x0064_616d_6167_6564);
        let (mut lost, mut most) = (0, 0);
        let mut budget = self.random_budget(1);
        while budget.take() {
            let input: Arc<[u8]> = damage(&mut rng, &self.input).into();
            let pieces = random_pieces(&mut rng, input.len());
            let kept = self.tested.decode_whole(&input, true).records.len();
            (lost, most) =
                (lost + count.saturating_sub(kept), most.max(count.saturating_sub(kept)));
            self.check(DAMAGED, &Case { input, property: Property::Pieces(pieces) })?;
        }
        let average = lost as f64 / budget.done().max(1) as f64;
        let details = format!(
            "{} damaged inputs, each in pieces, too; if errors are skipped, {average:.1} of \
             {count} records are lost on average, at most {most}",
            budget.done()
        );
        self.passed(DAMAGED, details);
        Ok(())
    }

    /// After a damaged byte, decoding continues at a record, and little is lost.
    fn resume(&mut self, structure: &Structure) -> CheckResult {
        let mut damages = Damages::new(&self.tested, structure);
        let mut evidence = Evidence::default();
        let mut budget = self.random_budget(5);
        for (at, byte) in single_damages(structure).take_while(|_| budget.take()) {
            if let Some(effect) = damages.effect(at, byte) {
                evidence.add(at, byte, effect);
            }
        }
        if let Some((at, byte, broken)) = evidence.fault(&mut damages) {
            let property = Property::Damage(at, byte);
            return Err(finding(RESUME, broken, Case { input: structure.input.clone(), property }));
        }
        self.passed(RESUME, evidence.details());
        Ok(())
    }

    fn case(&self, property: Property) -> Case {
        Case { input: self.input.clone(), property }
    }

    /// Checks a case. If it fails, the finding has a smaller case that fails.
    fn check(&self, tried: &'static str, case: &Case) -> Result<CaseOutcome, Box<Finding>> {
        case.check(&self.tested).map_err(|broken| self.smallest(tried, case, broken))
    }

    /// The finding for a case that fails, with the smallest such case that is found.
    fn smallest(&self, tried: &'static str, case: &Case, broken: String) -> Box<Finding> {
        let fails = |case: &Case| case.check(&self.tested).err();
        let (case, broken) = shrink((case.clone(), broken), &fails, self.shrink_budget());
        finding(tried, broken, case)
    }

    /// The budget of the search for a smaller case.
    fn shrink_budget(&self) -> Budget {
        self.budget(MAX_SHRINKING)
    }

    /// The budget for cases that are random, or whose number is unlimited.
    fn random_budget(&self, factor: u64) -> Budget {
        self.budget(u64::from(self.test.cases.unwrap_or(DEFAULT_CASES)) * factor)
    }

    /// The budget for at most `all` cases.
    fn full_budget(&self, all: u64) -> Budget {
        self.budget(self.test.cases.map_or(all, |limit| all.min(limit.into())))
    }

    fn budget(&self, cases: u64) -> Budget {
        Budget::new(cases, self.test.time_limit, &self.tested.work)
    }

    fn passed(&mut self, check: &str, details: String) {
        (self.report)(Report::Passed(check, details));
    }

    fn note(&mut self, text: String) {
        (self.report)(Report::Note(text));
    }
}

/// A longer input is not split into single bytes.
const MAX_SINGLE_BYTES: usize = 16 << 10;
/// Size of an input that is made longer, and of its pieces, in bytes. A chunk of a channel is
/// longer.
const LONG_INPUT: usize = 96 << 10;
const LONG_PIECE: usize = 1_009;
/// Number of records whose start is checked.
const MAX_STARTS: u64 = 64;
/// Number of splits of the input after which decoding restarts.
const MAX_RESTARTS: u64 = 96;
/// A record whose values have more bytes is larger than one byte, regardless of what a decoder
/// compares.
const SURELY_LARGE: usize = 16;
/// Number of cases that the search for a smaller one tries.
const MAX_SHRINKING: u64 = 20_000;
/// A byte that is passed more often than this, on average, is worth a note.
const MAX_LOOKS: f64 = 4.0;

fn finding(tried: &'static str, broken: String, case: Case) -> Box<Finding> {
    Box::new(Finding { tried, broken, case: Some(case) })
}

/// Number of records in which bytes are damaged.
const DAMAGED_UNITS: usize = 16;
/// Number of bytes that are damaged at the start of a record, at its end, and between.
const DAMAGED_BYTES: (u64, u64, u64) = (24, 8, 8);

/// Positions and values of damaged bytes in some records; all kinds of positions come early.
fn single_damages(structure: &Structure) -> impl Iterator<Item = (usize, u8)> {
    let units: Vec<_> = spread(structure.units.len()).take(DAMAGED_UNITS).collect();
    let (first, last, middle) = DAMAGED_BYTES;
    let of_unit = |unit: usize| -> Vec<u64> {
        let (start, end) = (structure.units[unit], structure.end_of(unit));
        let (low, high) = (end.min(start + first), end.saturating_sub(last).max(start));
        let mut places: Vec<_> = (start..low).chain(high.max(low)..end).collect();
        let between = high.saturating_sub(low);
        places.extend(spread(between as usize).take(middle as usize).map(|at| low + at as u64));
        places
    };
    let places: Vec<_> = units.iter().map(|unit| of_unit(*unit)).collect();
    let rounds = places.iter().map(Vec::len).max().unwrap_or(0);
    let mut all = Vec::new();
    for round in spread(rounds) {
        for at in places.iter().filter_map(|places| places.get(round)) {
            let at = *at as usize;
            let byte = structure.input[at];
            let other = if byte == 0xff { 0 } else { 0xff };
            let bytes = [byte ^ 1, byte ^ 0x80, byte ^ 0x40, other, byte.wrapping_add(3)];
            all.extend(bytes.map(|byte| (at, byte)));
        }
    }
    all.into_iter()
}
