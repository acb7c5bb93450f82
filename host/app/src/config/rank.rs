//! Which of several machines or processes this one is, as whoever started them tells it.

use super::document::{Document, Read};
use super::keys::*;
use super::read::Reader;

/// Number and count of the processes that share the work.
pub(super) type Rank = (u32, u32);

/// Who tells a rank, by two variables.
const LAUNCHERS: [(&str, &str); 2] = [("RANK", "WORLD_SIZE"), ("SLURM_PROCID", "SLURM_NTASKS")];
/// A Kubernetes Indexed Job tells the number, and not the count.
const INDEXED_JOB: &str = "JOB_COMPLETION_INDEX";

/// Takes the table `[rank]`: the rank, if it is given or found; and why not, if what was found makes none.
pub(super) fn rank(doc: &Document, root: &Reader) -> Read<Result<Rank, String>> {
    let table = root.table(&RANK, "begin it with a line [rank]")?.knowing(&RANK_TABLE);
    let (index, count) = (table.given(&INDEX_OF_RANK), table.given(&COUNT_OF_RANK));
    // Within their ranges, which fit.
    let (index, count) = (index?.map(|index| index as u32), count?.map(|count| count as u32));
    if let (Some(index), Some(count)) = (index, count) {
        if index >= count {
            let message = format!("{index} of {count}, which are numbered from 0");
            let remedy = format!("give a number from 0 to {}", count - 1);
            return Err(table.fault(INDEX_OF_RANK.name, message, remedy));
        }
        return Ok(Ok((index, count)));
    }
    if let Some(index) = index {
        let message = format!("{index} of how many?");
        return Err(table.fault(INDEX_OF_RANK.name, message, "give `count`, too".to_owned()));
    }
    Ok(found(doc, count))
}

fn found(doc: &Document, count: Option<u32>) -> Result<Rank, String> {
    for (index, total) in LAUNCHERS {
        if let (Some(number), Some(all)) = (doc.variable(index), doc.variable(total)) {
            return rank_of((index, &number), (total, &all));
        }
    }
    if let Some(rank) = doc.presets().rank {
        return Ok(rank);
    }
    match (doc.variable(INDEXED_JOB), count) {
        (Some(index), Some(count)) => rank_of((INDEXED_JOB, &index), ("count", &count.to_string())),
        (Some(_), None) => Err(format!(
            "{INDEXED_JOB} is set, but not how many there are: set `count` in the table [rank]"
        )),
        (None, _) => Err("the number of this machine is not known".to_owned()),
    }
}

fn rank_of(index: (&str, &str), count: (&str, &str)) -> Result<Rank, String> {
    let number = |(name, text): (&str, &str)| {
        text.trim().parse::<u32>().map_err(|_| format!("{name} is {text:?}, not a number"))
    };
    let (number, all) = (number(index)?, number(count)?);
    if number >= all {
        return Err(format!("{} is {number}, but {} is {all}", index.0, count.0));
    }
    Ok((number, all))
}
