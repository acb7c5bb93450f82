//! Objects that clearly have another format are refused, and the error names that format.

use pipemill_augmented_manifest::AugmentedManifest;
use pipemill_parsing::testing::assert_refuses_other_formats;
use pipemill_plugin::testing::Setup;

#[test]
fn other_formats_are_refused() {
    let setup = Setup::new(&[("attributes", "a,b")]);
    assert_refuses_other_formats::<AugmentedManifest>(&setup, "");
}
