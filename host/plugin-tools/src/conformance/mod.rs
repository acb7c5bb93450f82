//! Tests a plugin with an input of its author.
//!
//! `case` has the properties that must hold for any input, sound or damaged: in pieces, cut off,
//! shown together with its end. Other checks need a sound input, whose records are known
//! (`structure`): `starts` and `gaps` change it where records begin, `needs` shows the decoder less
//! than it says it needs, `max_record` lowers the limit, `restart` begins again inside of it,
//! `resume` damages single bytes. `checks` decides what is tried, `positions` in which order, and
//! `budget` how much. `shrink` finds the smallest input that fails.
//!
//! - `compare`: compares runs, and shows records and errors in messages.
//! - `expected`: what an author expects of an input: its records, as `pipemill cat` prints them,
//!   and its errors, as `pipemill cat --on-error quarantine` writes them.
//! - `offsets`: whether errors begin where the bad record begins: with its framing.
//! - `random`: random pieces and random damage.
//! - `run_check`: what must hold for every run, of whatever input: the decoder does not fail,
//!   starts and errors are in order, and values have the type of their field.

mod budget;
mod case;
mod checks;
mod compare;
mod expected;
mod gaps;
mod max_record;
mod needs;
mod offsets;
mod positions;
mod random;
mod restart;
mod resume;
mod run_check;
mod shrink;
mod starts;
mod structure;

use std::time::Duration;

use super::decode_run::{DecodeRun, PluginUnderTest};
use checks::Checks;

pub use case::{Case, Property};
pub use expected::{Expected, ExpectedErrors};

/// How thoroughly a plugin is tested, and what is no fault.
///
/// Without a time limit, each kind of cases may cost so much work that a test takes some seconds.
#[derive(Debug, Clone)]
pub struct ConformanceTest {
    /// Seed of the random cases.
    pub seed: u64,
    /// Largest number of cases of each kind; `None` for `DEFAULT_CASES` random ones, and all
    /// others.
    pub cases: Option<u32>,
    /// Time limit for the cases of each kind, and for the search for a smaller failing input.
    /// `None` limits the work that they cost: then the outcome does not depend on the machine.
    pub time_limit: Option<Duration>,
    /// Whether it is a fault if the end of the input silently shortens the last record.
    pub strict_end: bool,
    /// Whether the format allows bytes between records that belong to none.
    pub allow_gaps: bool,
    /// Whether decode errors of the unchanged input are skipped.
    pub skip_errors: bool,
}

/// What is expected of the unchanged input.
#[derive(Debug, Clone, Copy, Default)]
pub struct Expectations<'a> {
    /// The records.
    pub records: Option<&'a Expected>,
    /// The errors.
    pub errors: Option<&'a ExpectedErrors>,
}

/// The first failure of a test.
#[derive(Debug, Clone)]
pub struct Finding {
    /// Name of the check.
    pub tried: &'static str,
    /// What does not hold.
    pub broken: String,
    /// The smallest input found that fails; `None` if the unchanged input fails.
    pub case: Option<Case>,
}

/// A line of a test's report.
#[derive(Debug)]
pub enum Report<'a> {
    /// A check that passes, and its details.
    Passed(&'a str, String),
    /// What the author may want to improve.
    Note(String),
}

impl ConformanceTest {
    /// Tests the plugin with one input. `report` gets each check that passes.
    ///
    /// # Errors
    /// The first check that fails.
    pub fn run(
        &self,
        tested: &PluginUnderTest,
        input: &[u8],
        expected: Expectations<'_>,
        report: &mut dyn FnMut(Report<'_>),
    ) -> Result<DecodeRun, Box<Finding>> {
        Checks::new(tested, input.into(), self, report).run(expected)
    }
}

/// Random cases of each kind, unless the author says how many.
const DEFAULT_CASES: u32 = 500;
