//! The rank of this process: from the table `[rank]`, or from the variables of the launcher.

use super::document::{Document, ReadResult};
use super::keys::*;
use super::presets::Rank;
use super::read::Reader;

/// Variables of launchers: the index and the count.
const LAUNCHERS: [(&str, &str); 2] = [("RANK", "WORLD_SIZE"), ("SLURM_PROCID", "SLURM_NTASKS")];
/// A Kubernetes Indexed Job sets the index, but not the count.
const INDEXED_JOB: &str = "JOB_COMPLETION_INDEX";

/// The rank from the table `[rank]`, else from the environment. The inner error says why it is not
/// known: that is a fault only if a source needs the rank.
pub(super) fn read(doc: &Document, root: &Reader) -> ReadResult<Result<Rank, String>> {
    let table = root.table(&RANK, "begin it with a line [rank]")?.refuse_unknown_keys(&RANK_TABLE);
    let (index, count) = (table.optional_number(&RANK_INDEX), table.optional_number(&RANK_COUNT));
    // Their ranges fit.
    let (index, count) = (index?.map(|index| index as u32), count?.map(|count| count as u32));
    if let (Some(index), Some(count)) = (index, count) {
        if index >= count {
            let message = format!("{index} of {count}, which are numbered from 0");
            let remedy = format!("give a number from 0 to {}", count - 1);
            return Err(table.fault(RANK_INDEX.name, message, remedy));
        }
        return Ok(Ok((index, count)));
    }
    if let Some(index) = index {
        let message = format!("{index} of how many?");
        return Err(table.fault(RANK_INDEX.name, message, "give `count`, too".to_owned()));
    }
    Ok(from_launcher(doc, count))
}

/// The rank from the variables of the launcher, else from the platform.
fn from_launcher(doc: &Document, count: Option<u32>) -> Result<Rank, String> {
    for (index, total) in LAUNCHERS {
        if let (Some(number), Some(all)) = (doc.variable(index), doc.variable(total)) {
            return parse_rank((index, &number), (total, &all));
        }
    }
    if let Some(rank) = doc.presets().rank {
        return Ok(rank);
    }
    match (doc.variable(INDEXED_JOB), count) {
        (Some(index), Some(count)) => {
            parse_rank((INDEXED_JOB, &index), ("count", &count.to_string()))
        }
        (Some(_), None) => Err(format!(
            "{INDEXED_JOB} is set, but not how many there are: set `count` in the table [rank]"
        )),
        (None, _) => Err("the number of this machine is not known".to_owned()),
    }
}

fn parse_rank(index: (&str, &str), count: (&str, &str)) -> Result<Rank, String> {
    let number = |(name, text): (&str, &str)| {
        text.trim().parse::<u32>().map_err(|_| format!("{name} is {text:?}, not a number"))
    };
    let (number, all) = (number(index)?, number(count)?);
    if number >= all {
        return Err(format!("{} is {number}, but {} is {all}", index.0, count.0));
    }
    Ok((number, all))
}
