//! Tests a plugin with an input of its author.
//!
//! `case` has the properties that must hold for any input, sound or damaged: in pieces, cut off,
//! shown together with its end. Other checks need a sound input, whose records are known
//! (`structure`): `starts` and `gaps` change it where records begin, `needs` shows the decoder less
//! than it says it needs, `max_record` lowers the limit, `resume` damages single bytes. `checks`
//! decides what is tried, `positions` in which order, and `budget` how much. `shrink` finds the
//! smallest input that fails.

mod budget;
mod case;
mod checks;
mod compare;
mod expected;
mod gaps;
mod max_record;
mod needs;
mod positions;
mod random;
mod resume;
mod run_check;
mod shrink;
mod starts;
mod structure;

use std::time::Duration;

use super::decode_run::{DecodeRun, PluginUnderTest};
use budget::Budget;
use checks::Checks;

pub use case::{Case, Property};
pub use expected::{Expected, ExpectedErrors};

/// How thoroughly a plugin is tested, and what is no fault.
#[derive(Debug, Clone)]
pub struct ConformanceTest {
    /// Seed of the random cases.
    pub seed: u64,
    /// Number of cases of each kind; `None` if only the time limits it.
    pub cases: Option<u32>,
    /// Time limit for the cases of each kind, and for the search for a smaller failing input;
    /// `None` if only their number is limited.
    pub time_limit: Option<Duration>,
    /// Whether it is a fault if the end of the input silently shortens the last record.
    pub strict_end: bool,
    /// Whether the format allows bytes between records that belong to none.
    pub allow_gaps: bool,
    /// Whether decode errors of the unchanged input are skipped.
    pub skip_errors: bool,
}

impl Default for ConformanceTest {
    fn default() -> Self {
        Self {
            seed: 0,
            cases: None,
            time_limit: Some(Duration::from_secs(10)),
            strict_end: false,
            allow_gaps: false,
            skip_errors: false,
        }
    }
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

    /// The budget of cases that are random, or of which there is no end.
    fn random_budget(&self, factor: u64) -> Budget {
        Budget::new(u64::from(self.cases.unwrap_or(DEFAULT_CASES)) * factor, self.time_limit)
    }

    /// The budget of cases of which there is a last one.
    fn full_budget(&self) -> Budget {
        Budget::new(self.cases.map_or(u64::MAX, u64::from), self.time_limit)
    }
}

/// Random cases of each kind, unless the author says how many.
const DEFAULT_CASES: u32 = 500;
