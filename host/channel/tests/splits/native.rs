//! The same input through the decoder's native core, shown as a whole: the host must give the same
//! result.

use pipemill_plugin::Decoder;
use pipemill_plugin::testing::{
    Outcome, Setup, assert_restart, decode_whole, restarts, schema_extension,
};
use pipemill_types::printable;
use proptest::prelude::*;

use crate::host::{Bad, End, Job, Observed};

/// The beginning of both messages about an input that is cut short. The host says more.
const CUT: &str = "the input ends inside a record";

/// The beginning of the host's message that it skipped errors and has no record.
const NOTHING: &str = "no record was delivered";

/// The beginning of the host's message that objects have different schemas.
const OTHER_FIELDS: &str = "its records have the fields";

/// Compares the result of the host with the results of the native core for each object.
pub fn compare<D: Decoder>(job: &Job, seen: &Observed) -> Result<(), TestCaseError> {
    // One object alone can't show it.
    if matches!(&seen.end, End::Failed { message, .. } if message.starts_with(OTHER_FIELDS)) {
        return Ok(());
    }
    let skips = job.on_error != Bad::Fail;
    let mut setup = setup(job);
    let outcomes = job.objects.iter().map(|object| {
        let outcome = decode_whole::<D>(&setup, &object.0);
        if let (Some(fields), []) = (&outcome.schema, &*setup.extensions) {
            setup.extensions.push(schema_extension(fields));
        }
        outcome
    });
    let mut records = seen.records.iter();
    let (mut errors, mut refused) = (Vec::new(), false);
    // This failure has the place of the first error, but all objects were read.
    let nothing = matches!(&seen.end, End::Failed { message, .. } if message.starts_with(NOTHING));
    for (number, outcome) in outcomes.enumerate() {
        let object = format!("object {number}");
        let failed_here =
            !nothing && matches!(&seen.end, End::Failed { object: Some(at), .. } if *at == object);
        refused = outcome.refused;
        // A refusal is the last error, and is not skipped.
        let skipped = errors.len() + outcome.errors.len() - usize::from(refused);
        let too_many = skips && failed_here && (!refused || skipped as u64 > job.max_errors);
        if !too_many {
            check_records(&outcome, &object, &mut records)?;
        }
        errors.extend(outcome.errors.into_iter().map(|error| (object.clone(), error)));
        if failed_here {
            break;
        }
    }
    if !skips {
        return check_failure(seen, errors.first());
    }
    let before = (errors.len() as u64).saturating_sub(1);
    if refused
        && before <= job.max_errors
        && let Some(error) = errors.pop()
    {
        check_failure(seen, Some(&error))?;
        return check_skipped(job, seen, &errors);
    }
    let within = errors.len() as u64 <= job.max_errors;
    let delivered = !seen.records.is_empty();
    prop_assert_eq!(seen.end == End::Ended, within && (delivered || errors.is_empty()));
    prop_assert_eq!(nothing, within && !delivered && !errors.is_empty());
    check_skipped(job, seen, &errors)
}

fn setup(job: &Job) -> Setup {
    let options: Vec<_> = job.options.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let skip = job.on_error != Bad::Fail;
    Setup { skip, max_record: job.max_record, ..Setup::new(&options) }
}

/// Number of places of each object at which decoding begins again.
const RESTARTS: usize = 1;

/// Begins again at places that the decoder names while an object arrives in these pieces, and
/// compares the rest with the rest of the whole.
pub fn compare_restarts<D: Decoder>(job: &Job, pieces: &[usize]) {
    let setup = setup(job);
    let reversed: Vec<_> = pieces.iter().rev().copied().collect();
    for object in &job.objects {
        let places = restarts::<D>(&setup, &object.0, pieces);
        let whole = decode_whole::<D>(&setup, &object.0);
        // The random pieces determine which places.
        let step = places.len().div_ceil(RESTARTS).max(1);
        for place in places.iter().step_by(step).chain(places.last()) {
            assert_restart::<D>(&setup, &object.0, &reversed, place, &whole);
        }
    }
}

fn check_records<'a>(
    outcome: &Outcome,
    object: &str,
    records: &mut impl Iterator<Item = &'a crate::sink::Kept>,
) -> Result<(), TestCaseError> {
    for (number, (fields, start)) in outcome.records.iter().zip(&outcome.starts).enumerate() {
        let Some(kept) = records.next() else {
            return Err(TestCaseError::fail(format!("{object}: record {number} is missing")));
        };
        prop_assert_eq!(
            (kept.object.as_str(), kept.number, kept.start),
            (object, number as u64, *start)
        );
        prop_assert_eq!(&kept.fields, fields, "record {}", number);
    }
    Ok(())
}

type Error = (String, (u64, u64, String));

fn check_failure(seen: &Observed, error: Option<&Error>) -> Result<(), TestCaseError> {
    let Some((object, (at, _, text))) = error else {
        prop_assert_eq!(&seen.end, &End::Ended);
        return Ok(());
    };
    let End::Failed { object: found, offset, record, message, .. } = &seen.end else {
        return Err(TestCaseError::fail(format!("ended well, in spite of {error:?}")));
    };
    let of_object = seen.records.iter().filter(|kept| kept.object == *object).count();
    prop_assert_eq!((found.as_ref(), *offset), (Some(object), Some(*at)));
    prop_assert_eq!(*record, Some(of_object as u64));
    // The host escapes characters that control a terminal.
    let text = &printable(text);
    let alike = message == text || (text == CUT && message.starts_with(CUT));
    prop_assert!(alike, "host: {}; native: {}", message, text);
    Ok(())
}

fn check_skipped(job: &Job, seen: &Observed, errors: &[Error]) -> Result<(), TestCaseError> {
    let most = job.max_errors.saturating_add(1).min(errors.len() as u64);
    prop_assert_eq!(seen.decode_errors, most, "bad places; native: {:?}", errors);
    if job.on_error != Bad::Quarantine {
        return Ok(());
    }
    prop_assert_eq!(seen.quarantined.len() as u64, most);
    for (line, (object, (offset, length, message))) in seen.quarantined.iter().zip(errors) {
        prop_assert_eq!(line["object"].as_str(), Some(object.as_str()));
        prop_assert_eq!(line["offset"].as_u64(), Some(*offset));
        let number = object.trim_start_matches("object ").parse::<usize>().expect("our own name");
        let rest = &job.objects[number].0[*offset as usize..];
        // The native host does not skip the bytes after the last whole record.
        let length = if message == CUT { rest.len() } else { *length as usize };
        prop_assert_eq!(line["length"].as_u64(), Some(length as u64));
        let bytes = line["bytes"].as_str().expect("text");
        prop_assert_eq!(bytes, pipemill_testing::inputs::base64(&rest[..length]));
        prop_assert!(
            line["reason"].as_str().is_some_and(|reason| reason.starts_with(&printable(message)))
        );
    }
    Ok(())
}
