//! Batches of a fixed size: their content depends only on the records.

use pipemill_channel::{BatchStart, Resume};
use pipemill_types::{
    ABSENT, Accepted, BatchAcross, BatchPosition, BatchSize, Field, Tail, schema_extension,
};
use proptest::prelude::*;

use crate::host::{End, Job, Observed, Setup, run};
use crate::memory::Memory;
use crate::sink::Kept;

/// The content of a batch of a fixed size.
#[derive(Debug, Clone)]
pub struct Cut {
    /// The position of the first record.
    pub start: BatchStart,
    /// Start and fields of each record.
    pub records: Vec<(u64, Vec<Option<Vec<u8>>>)>,
    pub padding: usize,
}

pub fn size() -> impl Strategy<Value = BatchSize> {
    let records = prop_oneof![4 => 1usize..12, 3 => 12usize..300, 1 => 300usize..5_000];
    let tail = prop_oneof![Just(Tail::Keep), Just(Tail::Drop), Just(Tail::Pad)];
    let across = prop_oneof![Just(BatchAcross::Object), Just(BatchAcross::Epoch)];
    (records, tail, across).prop_map(|(records, tail, across)| BatchSize { records, tail, across })
}

impl PartialEq for Cut {
    /// Whether both have the same records. The places from which they can be decoded again may
    /// differ.
    fn eq(&self, other: &Self) -> bool {
        let what = |cut: &Self| {
            let BatchStart { position, metadata, .. } = cut.start.clone();
            (position.epoch, position.object, metadata, position.first_record, cut.padding)
        };
        what(self) == what(other) && self.records == other.records
    }
}

impl Cut {
    /// The state of a program after this batch was delivered to it.
    pub fn resume(&self, schema: Option<&[Field]>) -> Resume {
        Resume {
            position: self.start.position.clone(),
            delivered: (self.records.len() - self.padding) as u64,
            schema: schema.and_then(schema_extension).map(|(_, text)| text),
            accepted: Accepted::default(),
        }
    }
}

/// The batches that these records make.
fn expected(whole: &Observed, size: BatchSize) -> Vec<Cut> {
    let same_group = |a: &Kept, b: &Kept| {
        a.epoch == b.epoch && (size.across == BatchAcross::Epoch || a.object == b.object)
    };
    let groups: Vec<&[Kept]> = whole.records.chunk_by(same_group).collect();
    let failed = match &whole.end {
        End::Ended => None,
        End::Failed { object, .. } => Some(object),
    };
    let mut cuts = Vec::new();
    for group in groups {
        let is_cut_off = failed.is_some_and(|object| {
            size.across == BatchAcross::Epoch || object.as_ref() == Some(&group[0].object)
        });
        for records in group.chunks(size.records) {
            let missing = size.records - records.len();
            if missing > 0 && (is_cut_off || size.tail == Tail::Drop) {
                continue;
            }
            let padding = if size.tail == Tail::Pad { missing } else { 0 };
            let mut kept: Vec<_> =
                records.iter().map(|record| (record.start, record.fields.clone())).collect();
            kept.extend(kept.last().cloned().into_iter().cycle().take(padding));
            let position = BatchPosition {
                object: records[0].object.clone(),
                first_record: records[0].number,
                ..BatchPosition::of_epoch(records[0].epoch)
            };
            let start = BatchStart {
                position,
                metadata: records[0].metadata.clone(),
                ..BatchStart::default()
            };
            cuts.push(Cut { start, records: kept, padding });
        }
    }
    cuts
}

/// Values of a fixed size are one array.
pub fn check_dense(memory: &Memory, batch: &pipemill_channel::Batch, sizes: &[Option<usize>]) {
    assert!(batch.payload <= memory.as_ref().len(), "payload");
    for (column, size) in batch.columns.iter().zip(sizes) {
        let Some(size) = size.filter(|size| *size > 0) else { continue };
        if column.offsets().contains(&ABSENT) {
            continue;
        }
        let first = column.offsets()[0];
        assert_eq!(first % 64, 0, "the array is not aligned");
        let rows = (first..).step_by(size).take(batch.records);
        assert!(rows.eq(column.offsets().iter().copied()), "the array has gaps");
    }
}

/// Resumes after batch `at` of a run: the rest is the same.
fn resumed(job: &Job, way: &Setup, run: &Observed, at: usize) -> Result<Observed, TestCaseError> {
    let schema = run.schema.as_ref().map(|own| way.with_added(own));
    let resume = run.cuts[at].resume(schema.as_deref());
    let rest = crate::host::run(job, &Setup { resume: Some(resume.clone()), ..way.clone() });
    if run.cuts[at + 1..] != rest.cuts {
        let different = run.cuts[at + 1..].iter().zip(&rest.cuts).position(|(a, b)| a != b);
        let counts = (run.cuts.len() - at - 1, rest.cuts.len());
        let differ = different.map(|i| (&run.cuts[at + 1 + i], &rest.cuts[i]));
        let (position, end) = (resume.position, &rest.end);
        return Err(TestCaseError::fail(format!(
            "goes on after batch {at}, {position:?}: {counts:?} batches, ends {end:?}; \
             {different:?}: {differ:?}"
        )));
    }
    Ok(rest)
}

/// The property itself. `whole` is the result of the job without a size.
pub fn check(
    job: &Job,
    way: &Setup,
    size: BatchSize,
    whole: &Observed,
) -> Result<(), TestCaseError> {
    let way = Setup { batch: Some(size), ..way.clone() };
    let observed = run(job, &way);
    let expected = expected(whole, size);
    let different = expected.iter().zip(&observed.cuts).position(|(a, b)| a != b);
    if let Some(at) = different {
        let (expected, found) = (&expected[at], &observed.cuts[at]);
        return Err(TestCaseError::fail(format!(
            "batch {at}: expected {expected:?}\nfound {found:?}"
        )));
    }
    prop_assert_eq!(expected.len(), observed.cuts.len(), "number of batches");
    // A run that resumes counts its errors from 0.
    if !observed.cuts.is_empty() && job.max_errors >= 1_000_000 {
        // Twice: at a batch that the sizes choose, and from the run that resumes there.
        let at = (way.slot + size.records) % observed.cuts.len();
        let rest = resumed(job, &way, &observed, at)?;
        if !rest.cuts.is_empty() {
            let later = way.pieces.len() % rest.cuts.len();
            resumed(job, &way, &rest, later)?;
        }
    }
    prop_assert_eq!(&whole.end, &observed.end);
    prop_assert_eq!(&whole.quarantined, &observed.quarantined);
    Ok(())
}
