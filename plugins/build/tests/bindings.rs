//! The SDK's `src/bindings.rs` is what `wit_bindgen::generate!` makes of the interface today.
//!
//! After a change of `wit/` or of wit-bindgen,
//! `PIPEMILL_UPDATE=1 cargo test -p pipemill-plugin-build --test bindings` writes the file again. The
//! test is not one of the SDK's, because the SDK does not compile with the bindings of another interface.

use std::path::Path;

use wit_bindgen_core::wit_parser::Resolve;
use wit_bindgen_core::{Files, WorldGenerator};

/// The lines before those that wit-bindgen writes.
const HEADER: &str = "\
// The interface in `wit/0.3`, expanded: compiling the macro takes longer than the rest of a plugin.
// A test compares this file with what the macro makes. PIPEMILL_UPDATE=1 writes it again.
";

fn generate() -> String {
    let wit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wit");
    let mut resolve = Resolve::default();
    let mut push = |file: &str| resolve.push_file(wit.join(file)).expect("it can be parsed");
    push("0.1/decoder.wit");
    push("0.2/window.wit");
    let package = push("0.3/decoder.wit");
    let world = resolve.select_world(&[package], None).expect("the interface has one world");
    let options = wit_bindgen_rust::Opts {
        format: true,
        pub_export_macro: true,
        generate_all: true,
        default_bindings_module: Some("pipemill_plugin::bindings".to_owned()),
        ..Default::default()
    };
    let mut files = Files::default();
    options.build().generate(&mut resolve, world, &mut files).expect("the interface has bindings");
    let (_, bindings) = files.iter().next().expect("bindings are one file");
    format!("{HEADER}{}", String::from_utf8_lossy(bindings))
}

#[test]
fn the_bindings_are_those_of_the_interface() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../sdk/src/bindings.rs");
    let generated = generate();
    if std::env::var_os("PIPEMILL_UPDATE").is_some() {
        std::fs::write(&path, &generated).expect("the file can be written");
    }
    let found = std::fs::read_to_string(&path).expect("the file can be read");
    assert!(
        found == generated,
        "{} is out of date: run this test with PIPEMILL_UPDATE=1",
        path.display()
    );
}
