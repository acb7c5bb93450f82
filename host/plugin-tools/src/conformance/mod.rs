//! Tests a plugin with an input from its author.
//!
//! `case` has the properties that must hold for any input, sound or damaged: in pieces, cut off,
//! passed together with its end. Other checks need a sound input, whose records are known
//! (`structure`): `starts` and `gaps` change it where records begin, `needs` passes fewer bytes
//! than the decoder says it needs, `max_record` lowers the limit, `restart` begins inside it,
//! `resume` damages single bytes. `checks` decides what is tried, `positions` in which order, and
//! `budget` how much. `shrink` finds the smallest input that fails.
//!
//! - `compare`: compares runs, and shows records and errors in messages.
//! - `expected`: the author's expectations of an input: its records, as `pipemill cat` prints them,
//!   and its errors, as `pipemill cat --on-error quarantine` writes them.
//! - `offsets`: checks whether errors begin with the framing of the bad record.
//! - `plan`: makes the plan of an input, and tests its parts as an input of their own.
//! - `prepare`: compares a copy of the prepared memory with an instance that was prepared itself.
//! - `random`: random pieces and random damage.
//! - `run_check`: the properties of every run of any input: the decoder does not fail, starts and
//!   errors are in order, and values have the type of their field.

mod budget;
mod case;
mod checks;
mod compare;
mod expected;
mod gaps;
mod max_record;
mod needs;
mod offsets;
mod plan;
mod positions;
mod prepare;
mod random;
mod restart;
mod resume;
mod run_check;
mod shrink;
mod starts;
mod structure;

use std::sync::Arc;
use std::time::Duration;

use super::decode_run::{DecodeRun, PluginUnderTest};
use checks::Checks;

pub use case::{Case, Property};
pub use expected::{Expected, ExpectedErrors};

/// How thoroughly a plugin is tested, and which findings are not faults.
///
/// Without a time limit, the work of each kind of cases is limited so that a test takes some
/// seconds.
#[derive(Debug, Clone)]
pub struct ConformanceTest {
    /// Seed of the random cases.
    pub seed: u64,
    /// Largest number of cases of each kind; `None` for `DEFAULT_CASES` random ones, and all
    /// others.
    pub cases: Option<u32>,
    /// Time limit for the cases of each kind, and for the search for a smaller failing input.
    /// `None` limits their work: then the outcome does not depend on the machine.
    pub time_limit: Option<Duration>,
    /// Whether it is a fault if the end of the input silently shortens the last record.
    pub strict_end: bool,
    /// Whether the format allows bytes between records that belong to no record.
    pub allow_gaps: bool,
    /// Whether decode errors of the unchanged input are skipped.
    pub skip_errors: bool,
}

/// The expectations of the unchanged input.
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
    /// The property that does not hold.
    pub broken: String,
    /// The smallest input found that fails; `None` if the unchanged input fails.
    pub case: Option<Case>,
}

/// A line of a test's report.
#[derive(Debug)]
pub enum Report<'a> {
    /// A check that passes, and its details.
    Passed(&'a str, String),
    /// A suggestion for the author.
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
        let input: Arc<[u8]> = input.into();
        if !tested.plugin.companions().is_empty() {
            return self.run_parts(tested, &input, expected, report);
        }
        let whole = Checks::new(tested, input.clone(), self, report).run(expected)?;
        prepare::check(tested, &input, &whole, self.skip_errors, report)?;
        if tested.plugin.plans() {
            plan::check(self, tested, &input, &whole, report)?;
        }
        Ok(whole)
    }

    /// Tests a plugin whose input has companions: its streams are shown the parts of a plan only.
    fn run_parts(
        &self,
        tested: &PluginUnderTest,
        input: &Arc<[u8]>,
        expected: Expectations<'_>,
        report: &mut dyn FnMut(Report<'_>),
    ) -> Result<DecodeRun, Box<Finding>> {
        let (bytes, parts) = plan::of_object(tested, input, report)?;
        let bytes: Arc<[u8]> = bytes.into();
        let planned = tested.planned();
        let whole = Checks::new(&planned, bytes.clone(), self, report).run(expected)?;
        plan::check_counts(self, tested, (&bytes, &parts), &whole, report)?;
        prepare::check(&planned, &bytes, &whole, self.skip_errors, report)?;
        Ok(whole)
    }
}

/// Number of random cases of each kind, unless the author sets another one.
const DEFAULT_CASES: u32 = 500;
