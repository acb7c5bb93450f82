//! Reads skip lists, and leaves their records out of the objects of an index.

use std::sync::Arc;

use pipemill_config::{Channel, SkipList, record_range};
use pipemill_index::{Header, Storage};
use pipemill_source::{KnownList, ListWithout, Location, SkippedRecords};

use crate::indexes::Wrong;

/// The records of a skip list, which are all in the index with this name.
///
/// # Errors
/// The list can't be read, or names a record that the index does not have.
pub fn read(
    list: SkipList,
    storage: &mut Storage,
    header: &Header,
    index: &str,
) -> Result<SkippedRecords, Wrong> {
    let ranges = match list {
        SkipList::Records(ranges) => ranges,
        SkipList::File(file) => {
            let text = storage.read_text(&file).map_err(|error| unreadable(&file, &error))?;
            SkipList::records_in(&text).map_err(|wrong| {
                let remedy = "write one number or range in each line, and comments after a #";
                (format!("the skip list {file}: {wrong}"), remedy.to_owned())
            })?
        }
    };
    if ranges.is_empty() {
        return Ok(SkippedRecords::default());
    }
    if header.objects_only {
        let message =
            format!("the index {index} has objects only, and does not know numbers of records");
        let remedy = "make it again without `--objects-only`, or leave out `skip`";
        return Err((message, remedy.to_owned()));
    }
    let skipped = SkippedRecords::new(ranges);
    let last = skipped.ranges().last().map_or(0, |range| range.end - 1);
    if last >= header.records {
        let message = format!(
            "record {last} is to be skipped, and the index {index} has {} records, which are \
             numbered from 0",
            header.records
        );
        let remedy = "take the numbers from the field `__index__`, or make the skip list again";
        return Err((message, remedy.to_owned()));
    }
    Ok(skipped)
}

fn unreadable(file: &Location, why: &str) -> Wrong {
    let name = file.to_string();
    let last = name.rsplit('/').next().unwrap_or_default();
    let remedy = match record_range(last) {
        Some(_) => format!("write a list to skip these records: skip = [\"{last}\"]"),
        None => "`skip` is a list, or a text with a record number in each line".to_owned(),
    };
    (format!("can't read the skip list {name}: {why}"), remedy)
}

/// The objects without these records.
pub fn without(all: &KnownList, skipped: &SkippedRecords, channel: &Channel) -> KnownList {
    if skipped.is_empty() {
        return all.clone();
    }
    let (count, records) = (skipped.count(), all.total_records());
    log::info!("channel `{}`: {count} of {records} records of its index are skipped", channel.name);
    KnownList::new(Arc::new(ListWithout::new(all.clone(), skipped.clone())))
}
