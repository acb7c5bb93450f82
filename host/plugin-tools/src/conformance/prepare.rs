//! What a decoder prepares: an instance that begins with the memory of another one, in which it was
//! prepared, gives the same as one that was prepared itself.

use std::sync::Arc;

use super::compare::difference;
use super::{Finding, Report};
use crate::decode_run::{DecodeRun, PluginUnderTest};

const PREPARE: &str = "a copy of the prepared memory has the same records";

/// Tests what was prepared with an input, whose run was `whole`.
pub(super) fn check(
    tested: &PluginUnderTest,
    input: &Arc<[u8]>,
    whole: &DecodeRun,
    skip_errors: bool,
    report: &mut dyn FnMut(Report<'_>),
) -> Result<(), Box<Finding>> {
    let Some(each_time) = tested.prepared_each_time() else { return Ok(()) };
    let each = each_time.decode(input, &[], skip_errors);
    let what = (input.len(), skip_errors);
    match difference(&each, whole, what, "in an instance that was prepared itself it is") {
        None => {
            report(Report::Passed(PREPARE, "as if each instance was prepared".to_owned()));
            Ok(())
        }
        Some(broken) => Err(Box::new(Finding { tried: PREPARE, broken, case: None })),
    }
}
