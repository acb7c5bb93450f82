//! Makes a component of a core module that implements the interface.
//!
//! A module says in a custom section which interface it implements, as those do that the SDK for
//! Rust makes. Other languages know nothing of that: their modules have functions with the names of
//! the interface, which is enough.

use std::borrow::Cow;

use wasmparser::{Parser, Payload};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::{Resolve, WorldId};

use crate::interface::{INTERFACE, INTERFACE_VERSION, OPTIONAL_EXPORTS, OPTIONAL_IMPORTS};

/// The definitions of all versions of the interface: the name of a file, and its content.
pub const DEFINITIONS: [(&str, &str); 3] = [
    ("0.1.wit", include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../wit/0.1/decoder.wit"))),
    ("0.2.wit", include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../wit/0.2/window.wit"))),
    ("0.3.wit", include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../wit/0.3/decoder.wit"))),
];

/// A module that implements functions that another one imports, by functions of the host.
pub struct Adapter<'a> {
    /// The name that the other module imports from.
    pub name: &'a str,
    /// The adapter: a core module that imports nothing but the memory of the other module, as
    /// `memory` from `env`, and functions of the host.
    pub module: &'a [u8],
}

/// Makes a component of a core module.
///
/// # Errors
/// The module does not implement the interface, or imports something else.
pub fn wrap(module: &[u8]) -> anyhow::Result<Vec<u8>> {
    encode(module, None)
}

/// As [`wrap`], with an adapter for what the module imports from it.
///
/// # Errors
/// As [`wrap`].
pub fn wrap_with(module: &[u8], adapter: &Adapter<'_>) -> anyhow::Result<Vec<u8>> {
    encode(module, Some(adapter))
}

fn encode(module: &[u8], adapter: Option<&Adapter<'_>>) -> anyhow::Result<Vec<u8>> {
    let mut encoder = ComponentEncoder::default().module(&with_interface(module)?)?;
    if let Some(adapter) = adapter {
        let module = embed(adapter.module, "adapter", &[])?;
        encoder = encoder.adapter(adapter.name, &module)?;
    }
    encoder.validate(true).encode()
}

/// The module with the section that describes the interface that it implements.
fn with_interface(module: &[u8]) -> anyhow::Result<Cow<'_, [u8]>> {
    let mut exports = vec![format!("{INTERFACE}/decoder@{INTERFACE_VERSION}")];
    for payload in Parser::new(0).parse_all(module) {
        match payload? {
            Payload::CustomSection(section) if section.name().starts_with("component-type") => {
                return Ok(Cow::Borrowed(module));
            }
            Payload::ExportSection(section) => {
                for export in section {
                    // A name is that of an interface and that of its function.
                    let name = export?.name.split('#').next().unwrap_or_default();
                    if OPTIONAL_EXPORTS.contains(&name) && !exports.iter().any(|it| it == name) {
                        exports.push(name.to_owned());
                    }
                }
            }
            _ => {}
        }
    }
    embed(module, "module", &exports).map(Cow::Owned)
}

/// The module with a section that says that it may import the host's interfaces, and exports these.
/// The packages in which the sections of a component say it have different names.
fn embed(module: &[u8], package: &str, exports: &[String]) -> anyhow::Result<Vec<u8>> {
    let (resolve, world) = world(package, exports)?;
    let mut module = module.to_vec();
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8)?;
    Ok(module)
}

fn world(package: &str, exports: &[String]) -> anyhow::Result<(Resolve, WorldId)> {
    let mut resolve = Resolve::default();
    for (file, definition) in DEFINITIONS {
        resolve.push_str(file, definition)?;
    }
    let exports: String = exports.iter().map(|name| format!("export {name};")).collect();
    let imports: String = OPTIONAL_IMPORTS.iter().map(|name| format!("import {name};")).collect();
    let text = format!(
        "package pipemill:{package}; world wrapped {{ import {INTERFACE}/host@{INTERFACE_VERSION};
         {imports} {exports} }}"
    );
    let package = resolve.push_str("wrapped.wit", &text)?;
    let world = resolve.select_world(&[package], None)?;
    Ok((resolve, world))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interface::WINDOW;

    /// The host knows each interface of the newest version.
    #[test]
    fn all_optional_interfaces_are_known() {
        let (resolve, _) = world("module", &[]).expect("a world");
        let newest = resolve.worlds.iter().find(|(_, world)| {
            let package = world.package.map(|id| &resolve.packages[id].name);
            let version = package.and_then(|name| name.version.as_ref());
            version.is_some_and(|version| version.to_string() == "0.3.0")
        });
        let (_, newest) = newest.expect("it has a world");
        let names = |keys: Vec<&wit_parser::WorldKey>| {
            let mut names: Vec<_> = keys.iter().map(|key| resolve.name_world_key(key)).collect();
            names.retain(|name| !name.ends_with("@0.1.0"));
            names.sort();
            names
        };
        let sorted = |known: &[&str]| {
            let mut known: Vec<_> = known.iter().map(|name| (*name).to_owned()).collect();
            known.sort();
            known
        };
        assert_eq!(names(newest.exports.keys().collect()), sorted(&OPTIONAL_EXPORTS));
        assert_eq!(names(newest.imports.keys().collect()), sorted(&OPTIONAL_IMPORTS));
    }

    /// The interfaces that a component imports and exports.
    fn names(component: &[u8]) -> (Vec<String>, Vec<String>) {
        let (mut imports, mut exports) = (Vec::new(), Vec::new());
        for payload in Parser::new(0).parse_all(component) {
            match payload.expect("a component") {
                Payload::ComponentImportSection(section) => {
                    imports.extend(section.into_iter().map(|it| it.unwrap().name.name.to_owned()));
                }
                Payload::ComponentExportSection(section) => {
                    exports.extend(section.into_iter().map(|it| it.unwrap().name.name.to_owned()));
                }
                _ => {}
            }
        }
        // The components of which it consists have others, without a package.
        imports.retain(|name| name.contains('/'));
        exports.retain(|name| name.contains('/'));
        (imports, exports)
    }

    /// A module that has the functions of a decoder, and these parts.
    fn module(imports: &str, parts: &str) -> Vec<u8> {
        let of = |name: &str| format!("pipemill:decoder/decoder@0.1.0#{name}");
        let text = format!(
            "(module {imports} (memory (export \"memory\") 1)
                (func (export \"cabi_realloc\") (param i32 i32 i32 i32) (result i32) unreachable)
                (func (export \"{}\") (result i32) unreachable)
                (func (export \"{}\") (param i32) (result i32) unreachable)
                (func (export \"{}\") (param i32 i32 i32 i32) (result i32) unreachable)
                (func (export \"{}\") (param i32 i32 i32 i32) (result i32) unreachable) {parts})",
            of("options"),
            of("[static]stream.open"),
            of("[method]stream.decode"),
            of("[method]stream.resync"),
        );
        wat::parse_str(text).expect("a module")
    }

    #[test]
    fn a_module_without_a_description_has_the_interfaces_whose_functions_it_exports() {
        let component = wrap(&module("", "")).expect("it is a decoder");
        let (_, exports) = names(&component);
        assert_eq!(exports, ["pipemill:decoder/decoder@0.1.0"]);
        let window = format!(
            "(func (export \"{WINDOW}#set-aside\") (param i32) (result i32) unreachable)
             (func (export \"{WINDOW}#decode\") (param i32 i32 i32 i32) (result i32) unreachable)"
        );
        let component = wrap(&module("", &window)).expect("it has a window");
        assert!(names(&component).1.iter().any(|name| name == WINDOW));
        let half =
            format!("(func (export \"{WINDOW}#set-aside\") (param i32) (result i32) unreachable)");
        let why = wrap(&module("", &half)).expect_err("half of a window");
        assert!(format!("{why:#}").contains("decode"), "{why:#}");
    }

    #[test]
    fn an_adapter_is_for_what_the_module_imports_from_it() {
        let imports = "(import \"system\" \"one\" (func (result i32)))";
        let why = wrap(&module(imports, "")).expect_err("there is no system");
        assert!(format!("{why:#}").contains("system"), "{why:#}");
        let adapter = wat::parse_str(
            "(module (import \"env\" \"memory\" (memory 0))
                (import \"pipemill:decoder/host@0.1.0\" \"log\" (func $log (param i32 i32 i32)))
                (func (export \"one\") (result i32)
                    (call $log (i32.const 1) (i32.const 0) (i32.const 0)) (i32.const 1))
                (func (export \"two\") (result i32) (i32.const 2)))",
        );
        let adapter = Adapter { name: "system", module: &adapter.expect("an adapter") };
        let component = wrap_with(&module(imports, ""), &adapter).expect("it is a decoder");
        let (imports, _) = names(&component);
        assert!(imports.iter().all(|name| name.starts_with("pipemill:decoder/")), "{imports:?}");
        assert!(imports.iter().any(|name| name == "pipemill:decoder/host@0.1.0"), "{imports:?}");
        let unknown = "(import \"system\" \"three\" (func (result i32)))";
        let why = wrap_with(&module(unknown, ""), &adapter).expect_err("it has no such function");
        assert!(format!("{why:#}").contains("three"), "{why:#}");
    }
}
