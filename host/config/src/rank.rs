//! The rank of this process: from the table `[rank]`, or from the variables of the launcher.

use super::document::{Document, ReadResult};
use super::keys::*;
use super::presets::Rank;
use super::read::Reader;

/// Variables of launchers: the index and the count. The Python package has the same in `ranks.py`.
/// mpirun starts its helpers with srun on some clusters, so what is MPI's comes before what is
/// Slurm's.
const LAUNCHERS: [(&str, &str); 5] = [
    ("RANK", "WORLD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
    ("SLURM_PROCID", "SLURM_NTASKS"),
];
/// srun sets one of them in each process that it starts. They are not set in a job's batch script,
/// which runs once. There SLURM_PROCID is 0, and SLURM_NTASKS the number of tasks that srun would
/// start.
const STEP: [&str; 3] = ["SLURM_STEP_ID", "SLURM_STEPID", "SLURM_STEP_NUM_TASKS"];
/// A Kubernetes Indexed Job sets the index, but not the count.
const INDEXED_JOB: &str = "JOB_COMPLETION_INDEX";

/// The rank from the table `[rank]`, otherwise from the environment. The inner error says why it is
/// not known: that is a fault only if a source needs the rank.
pub(super) fn read(doc: &Document, root: &Reader) -> ReadResult<Result<Rank, String>> {
    let table = root.table(&RANK, "begin it with a line [rank]")?.refuse_unknown_keys(&RANK_TABLE);
    let (index, count) = (table.optional_number(&RANK_NUMBER), table.optional_number(&WORLD));
    // The keys' ranges fit into the types.
    let (index, count) = (index?.map(|index| index as u32), count?.map(|count| count as u32));
    if let (Some(index), Some(count)) = (index, count) {
        if index >= count {
            let message = format!("{index} of {count}, which are numbered from 0");
            let remedy = format!("give a number from 0 to {}", count - 1);
            return Err(table.fault(RANK_NUMBER.name, message, remedy));
        }
        return Ok(Ok((index, count)));
    }
    if let Some(index) = index {
        let message = format!("{index} of how many?");
        return Err(table.fault(RANK_NUMBER.name, message, "give `world`, too".to_owned()));
    }
    Ok(from_launcher(doc, count))
}

/// The rank from the variables of the launcher, otherwise from the platform.
fn from_launcher(doc: &Document, count: Option<u32>) -> Result<Rank, String> {
    let is_step = STEP.iter().any(|name| doc.variable(name).is_some());
    for (index, total) in LAUNCHERS {
        if index.starts_with("SLURM_") && !is_step {
            continue;
        }
        if let (Some(number), Some(all)) = (doc.variable(index), doc.variable(total)) {
            return parse_rank((index, &number), (total, &all));
        }
    }
    if let Some(rank) = doc.presets().rank {
        return Ok(rank);
    }
    match (doc.variable(INDEXED_JOB), count) {
        (Some(index), Some(count)) => {
            parse_rank((INDEXED_JOB, &index), ("world", &count.to_string()))
        }
        (Some(_), None) => Err(format!(
            "{INDEXED_JOB} is set, but not how many there are: set `world` in the table [rank]"
        )),
        (None, _) if !is_step && doc.variable("SLURM_PROCID").is_some() => Err(NO_STEP.to_owned()),
        (None, _) => Err("the number of this machine is not known".to_owned()),
    }
}

/// The reason to ignore the variables of Slurm.
const NO_STEP: &str = "the number of this machine is not known: SLURM_PROCID is that of the job's \
                       script, because srun did not start this process (SLURM_STEP_ID is not set)";

fn parse_rank(index: (&str, &str), count: (&str, &str)) -> Result<Rank, String> {
    let number = |(name, text): (&str, &str)| {
        // `parse` would accept a sign.
        let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
        let number = text.parse::<u32>().ok().filter(|_| is_number);
        number.ok_or_else(|| format!("{name} is {text:?}, not a number"))
    };
    let (number, all) = (number(index)?, number(count)?);
    if number >= all {
        return Err(format!("{} is {number}, but {} is {all}", index.0, count.0));
    }
    Ok((number, all))
}
