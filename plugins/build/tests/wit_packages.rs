//! The interface as the files that a registry of WIT packages takes: each version in binary form,
//! as `wkg publish` sends it.
//!
//! `make wit-packages` runs this test with a folder in `PIPEMILL_WIT_PACKAGES`, and it writes the
//! files there. They are what a release has.

use std::path::{Path, PathBuf};

use wit_component::WitPrinter;
use wit_parser::decoding::{DecodedWasm, decode};
use wit_parser::{PackageId, Resolve};

/// The files of the interface's versions. Each may use what those before it define.
const VERSIONS: [(&str, &str); 3] =
    [("0.1.0", "0.1/decoder.wit"), ("0.2.0", "0.2/window.wit"), ("0.3.0", "0.3/decoder.wit")];

/// A version of the interface with those that it needs.
fn version(count: usize) -> (Resolve, PackageId) {
    let wit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wit");
    let mut resolve = Resolve::default();
    let push = |(_, file): &(&str, &str)| resolve.push_file(wit.join(file)).expect("it is WIT");
    let package = VERSIONS[..count].iter().map(push).last().expect("there is one");
    (resolve, package)
}

/// The package as text, with its documentation.
fn text(resolve: &Resolve, package: PackageId) -> String {
    let mut printer = WitPrinter::default();
    printer.print(resolve, package, &[]).expect("it can be printed");
    printer.output.to_string()
}

#[test]
fn a_registry_gets_each_version_of_the_interface_as_it_is() {
    let folder = std::env::var_os("PIPEMILL_WIT_PACKAGES").map(PathBuf::from);
    for (index, (number, _)) in VERSIONS.iter().enumerate() {
        let (resolve, package) = version(index + 1);
        let binary = wit_component::encode(&resolve, package).expect("it can be encoded");
        let DecodedWasm::WitPackage(again, found) = decode(&binary).expect("it can be decoded")
        else {
            panic!("{number}: it is a component, and no package");
        };
        let name = &again.packages[found].name;
        assert_eq!(name.to_string(), format!("pipemill:decoder@{number}"));
        let (sent, got) = (text(&resolve, package), text(&again, found));
        assert!(sent.contains("///") && sent.contains("interface "), "{sent}");
        assert_eq!(got, sent, "{number}");
        if let Some(folder) = &folder {
            std::fs::create_dir_all(folder).expect("the folder can be made");
            let file = folder.join(format!("pipemill-decoder-{number}.wasm"));
            std::fs::write(file, binary).expect("the file can be written");
        }
    }
}
