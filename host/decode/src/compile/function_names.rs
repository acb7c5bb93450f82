//! The names of functions that compilers have left in a plugin's modules, for messages.

use pipemill_types::printable;
use wasmparser::{Encoding, KnownCustom, Name, Parser, Payload};

/// A longer name is shown without demangling.
const MAX_MANGLED_BYTES: usize = 10_000;

/// A function of a plugin's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FunctionPlace {
    /// Number of its module among all modules of the file, in their order, from 0.
    pub module: usize,
    /// Index of the function in the module, whose imported functions come first.
    pub index: u32,
}

/// Calls `visit` with each function that has a name, and with the name as the compiler wrote it:
/// mangled, and with any characters. Unreadable parts of the file have no names.
pub fn visit_function_names(file: &[u8], mut visit: impl FnMut(FunctionPlace, &str)) {
    let mut modules = 0usize;
    for payload in Parser::new(0).parse_all(file).map_while(Result::ok) {
        let section = match payload {
            Payload::Version { encoding: Encoding::Module, .. } => {
                modules += 1;
                continue;
            }
            Payload::CustomSection(section) => section,
            _ => continue,
        };
        let KnownCustom::Name(parts) = section.as_known() else { continue };
        for part in parts.into_iter().map_while(Result::ok) {
            let Name::Function(names) = part else { continue };
            for naming in names.into_iter().map_while(Result::ok) {
                let module = modules.saturating_sub(1);
                visit(FunctionPlace { module, index: naming.index }, naming.name);
            }
        }
    }
}

/// The name of a function in readable form.
pub(crate) fn function_name(mangled: &str) -> String {
    match mangled.len() > MAX_MANGLED_BYTES {
        true => printable(mangled),
        false => printable(&format!("{:#}", rustc_demangle::demangle(mangled))),
    }
}
