//! Workers in any order: each record of each object comes once, in the order of its object, and an
//! error of one object ends the channel with nothing that is not there.

use std::collections::BTreeMap;

use pipemill_channel::RecordOrder;
use pipemill_types::{BatchAcross, BatchSize, Tail};
use proptest::prelude::*;

use crate::host::{self, Bad, End, Job, Observed, Setup};
use crate::sink::Kept;
use crate::{batches, inputs, plain_way};

/// Several objects of a format whose decoder declares its fields before it reads.
fn job() -> impl Strategy<Value = Job> {
    prop_oneof![
        crate::job("lines", Just(vec![]), inputs::lines()),
        crate::job("tfrecord", Just(vec![]), inputs::tfrecord()),
        crate::job("recordio", Just(vec![]), inputs::recordio()),
    ]
    .prop_map(|job| Job { max_errors: u64::MAX, ..job })
}

/// More than one worker, in any order.
fn way() -> impl Strategy<Value = Setup> {
    let size = prop::option::of(batches::size());
    (plain_way(), 2usize..5, size).prop_map(|(way, workers, batch)| Setup {
        workers,
        order: RecordOrder::Any,
        batch: batch.map(|size| BatchSize { across: BatchAcross::Epoch, ..size }),
        ..way
    })
}

/// The result of each object alone.
fn alone(job: &Job) -> Vec<Observed> {
    let one = |object: &host::Bytes| Job { objects: vec![object.clone()], ..job.clone() };
    job.objects.iter().map(|object| host::run(&one(object), &Setup::in_one_piece())).collect()
}

type Fields = Vec<Option<Vec<u8>>>;

fn by_object(records: &[Kept]) -> BTreeMap<String, Vec<Fields>> {
    let mut objects: BTreeMap<String, Vec<Fields>> = BTreeMap::new();
    for record in records {
        objects.entry(record.object.clone()).or_default().push(record.fields.clone());
    }
    objects
}

/// Checks the records without a size of the batches.
fn check_records(job: &Job, seen: &Observed, alone: &[Observed]) -> Result<(), TestCaseError> {
    let objects = by_object(&seen.records);
    for (number, alone) in alone.iter().enumerate() {
        let name = format!("object {number}");
        let own: Vec<_> = alone.records.iter().map(|record| &record.fields).collect();
        let found: Vec<_> = objects.get(&name).into_iter().flatten().collect();
        let failed_here = matches!(&seen.end, End::Failed { object: Some(at), .. } if *at == name);
        if seen.end == End::Ended || failed_here {
            prop_assert_eq!(found, own, "{}", name);
        } else {
            prop_assert!(own.starts_with(&found), "{name}");
        }
    }
    if job.on_error != Bad::Fail && seen.end == End::Ended {
        let errors: u64 = alone.iter().map(|alone| alone.decode_errors).sum();
        prop_assert_eq!(seen.decode_errors, errors);
        let mut expected: Vec<_> = alone.iter().flat_map(|one| one.quarantined.clone()).collect();
        let mut found = seen.quarantined.clone();
        // The object has another name if it is alone.
        for line in expected.iter_mut().chain(&mut found) {
            line["object"] = "".into();
        }
        let text = |line: &serde_json::Value| line.to_string();
        expected.sort_by_key(text);
        found.sort_by_key(text);
        prop_assert_eq!(found, expected);
    }
    Ok(())
}

/// Checks batches of a size: all records once, in batches of this size.
fn check_cuts(way: &Setup, seen: &Observed, alone: &[Observed]) -> Result<(), TestCaseError> {
    let size = way.batch.expect("they have a size");
    let mut all: Vec<Fields> = alone
        .iter()
        .flat_map(|one| one.records.iter().map(|record| record.fields.clone()))
        .collect();
    let mut found: Vec<Fields> = Vec::new();
    for (number, cut) in seen.cuts.iter().enumerate() {
        let real = cut.records.len() - cut.padding;
        found.extend(cut.records[..real].iter().map(|(_, fields)| fields.clone()));
        let is_last = number + 1 == seen.cuts.len();
        prop_assert!(cut.records.len() == size.records || is_last && size.tail == Tail::Keep);
    }
    let left_out = all.len() - found.len().min(all.len());
    if seen.end == End::Ended && size.tail != Tail::Drop {
        prop_assert_eq!(left_out, 0);
    } else if seen.end == End::Ended {
        prop_assert!(left_out < size.records);
    }
    // Any records may have been dropped.
    all.sort();
    found.sort();
    let mut rest = all.into_iter();
    prop_assert!(found.iter().all(|record| rest.any(|other| other == *record)));
    Ok(())
}

proptest! {
    #![proptest_config(crate::config())]

    #[test]
    fn each_record_comes_once(job in job(), way in way()) {
        let seen = host::run(&job, &way);
        let alone = alone(&job);
        match way.batch {
            None => check_records(&job, &seen, &alone)?,
            Some(_) => check_cuts(&way, &seen, &alone)?,
        }
        let failures: Vec<_> = alone.iter().enumerate().filter_map(|(number, alone)| {
            let End::Failed { offset, record, message, .. } = &alone.end else { return None };
            Some((format!("object {number}"), *offset, *record, message.clone()))
        }).collect();
        match &seen.end {
            // Objects that deliver nothing and skip errors fail if they are alone.
            End::Ended => prop_assert!(job.on_error != Bad::Fail || failures.is_empty()),
            End::Failed { object: Some(object), offset, record, message, .. } => {
                let failure = (object.clone(), *offset, *record, message.clone());
                prop_assert!(failures.contains(&failure), "{failure:?} is none of {failures:?}");
            }
            End::Failed { object: None, .. } => prop_assert!(false, "{:?}", seen.end),
        }
    }

    #[test]
    fn an_epoch_that_is_left_early_gives_a_part_of_its_records(
        job in job(),
        way in way(),
        after in 0usize..6,
    ) {
        let job = Job { on_error: Bad::Skip, ..job };
        let way = Setup { batch: None, leaves_after: Some(after), ..way };
        let seen = host::run(&job, &way);
        let objects = by_object(&seen.records);
        for (number, alone) in alone(&job).iter().enumerate() {
            let own: Vec<_> = alone.records.iter().map(|record| &record.fields).collect();
            let found: Vec<_> = objects.get(&format!("object \
                                                      {number}")).into_iter().flatten().collect();
            prop_assert!(own.starts_with(&found));
        }
    }
}
