//! Objects that clearly have another format are refused, and the error names that format.

use pipemill_fixed::Fixed;
use pipemill_parsing::testing::{assert_refuses_other_formats, assert_takes_other_formats};
use pipemill_plugin::testing::Setup;

#[test]
fn other_formats_are_refused() {
    let setup = Setup::new(&[("size", "3")]);
    assert_refuses_other_formats::<Fixed>(&setup, "");
    assert_takes_other_formats::<Fixed>(&setup);
}
