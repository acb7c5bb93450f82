//! A plan of an input: every instance makes the same one, its parts have the records of the whole
//! input, and as many as it says, and all that holds for an input holds for the bytes of the parts.

use std::sync::Arc;

use pipemill_types::PlanParts;

use super::checks::Checks;
use super::compare::show_fields;
use super::{ConformanceTest, Expectations, Finding, Report};
use crate::decode_run::{DecodeRun, PlannedBytes, PluginUnderTest};

const PLAN: &str = "the parts of its plan have the same records";

/// Tests the plan of an input, whose run was `whole`.
pub(super) fn check(
    test: &ConformanceTest,
    tested: &PluginUnderTest,
    input: &Arc<[u8]>,
    whole: &DecodeRun,
    report: &mut dyn FnMut(Report<'_>),
) -> Result<(), Box<Finding>> {
    let finding = |broken| Box::new(Finding { tried: PLAN, broken, case: None });
    let Some(plan) = tested.plan(input).map_err(finding)? else {
        let note = "the plugin shows this input whole: its plans are not tested";
        report(Report::Note(note.to_owned()));
        return Ok(());
    };
    if tested.plan(input).map_err(finding)?.as_ref() != Some(&plan) {
        return Err(finding("a second instance makes another plan of the same input".to_owned()));
    }
    let (bytes, parts) = plan;
    let (bytes, planned): (Arc<[u8]>, _) = (bytes.into(), tested.planned());
    let found = planned.decode(&bytes, &[], test.skip_errors);
    if whole.errors.is_empty() {
        compare(whole, &found).map_err(finding)?;
    }
    report(Report::Passed(PLAN, format!("{} bytes of {}", bytes.len(), input.len())));
    check_counts(test, tested, (&bytes, &parts), &found, report)?;
    let mut of_parts = |line: Report<'_>| match line {
        Report::Passed(name, details) => {
            report(Report::Passed(name, format!("{details}, of the parts")));
        }
        Report::Note(note) => report(Report::Note(format!("of the parts: {note}"))),
    };
    Checks::new(&planned, bytes, test, &mut of_parts).run(Expectations::default()).map(|_| ())
}

const SAME_PLAN: &str = "every instance makes the same plan";

const COUNTS: &str = "the parts of its plan have as many records as it says";

/// Compares the number of records of each part with the one that the plan gives, if it gives any.
/// `found` is the run of the parts.
pub(super) fn check_counts(
    test: &ConformanceTest,
    tested: &PluginUnderTest,
    (bytes, parts): (&Arc<[u8]>, &Arc<PlanParts>),
    found: &DecodeRun,
    report: &mut dyn FnMut(Report<'_>),
) -> Result<(), Box<Finding>> {
    let counted = parts.all().iter().filter(|part| part.records.is_some()).count();
    if counted == 0 {
        return Ok(());
    }
    let run = tested.counted(parts).decode(bytes, &[], test.skip_errors);
    if let Some(error) = run.errors.iter().find(|error| !found.errors.contains(error)) {
        return Err(Box::new(Finding { tried: COUNTS, broken: error.to_string(), case: None }));
    }
    let (all, records) = (parts.all().len(), run.records.len());
    report(Report::Passed(COUNTS, format!("{counted} of {all} parts, {records} records")));
    Ok(())
}

/// The plan of an object with companions.
pub(super) fn of_object(
    tested: &PluginUnderTest,
    input: &Arc<[u8]>,
    report: &mut dyn FnMut(Report<'_>),
) -> Result<PlannedBytes, Box<Finding>> {
    let finding = |broken| Box::new(Finding { tried: SAME_PLAN, broken, case: None });
    let none = "the plugin wants companions, and makes no plan of this input".to_owned();
    let plan = tested.plan(input).map_err(finding)?.ok_or_else(|| finding(none))?;
    if tested.plan(input).map_err(finding)?.as_ref() != Some(&plan) {
        return Err(finding("a second instance makes another plan of the same input".to_owned()));
    }
    report(Report::Passed(SAME_PLAN, format!("{} bytes of {}", plan.0.len(), input.len())));
    Ok(plan)
}

/// Compares the records of the parts with those of the whole input.
fn compare(whole: &DecodeRun, found: &DecodeRun) -> Result<(), String> {
    if let Some(error) = found.errors.first() {
        return Err(format!("the whole input has no error, and its parts have {error}"));
    }
    let (of_whole, of_parts) = (whole.records.len(), found.records.len());
    if of_whole != of_parts {
        return Err(format!("the whole input has {of_whole} records, and its parts {of_parts}"));
    }
    if whole.schema != found.schema {
        let (before, now) = (show_fields(whole.fields()), show_fields(found.fields()));
        return Err(format!("the whole input has the fields {before}, and its parts {now}"));
    }
    let mut pairs = whole.records.iter().zip(&found.records);
    match pairs.position(|(before, now)| before.fields != now.fields) {
        Some(number) => Err(format!("record {number} of the parts has other values")),
        None => Ok(()),
    }
}
