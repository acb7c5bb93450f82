//! Whether all state of a decoder's instance is in its linear memory, so that a copy of the memory
//! is a copy of the instance.

use std::collections::BTreeSet;

use wasmparser::{
    BinaryReaderError, CustomSectionReader, Encoding, FunctionBody, KnownCustom, Name, Operator,
    Parser, Payload,
};

/// The name that linkers give to the global with the stack pointer. It is back at its first value
/// when a call returns.
const STACK_POINTER: &str = "__stack_pointer";

/// Whether the code of this file changes nothing that outlives a call but its linear memory. It may
/// set the global that has the name of the stack pointer.
pub(crate) fn is_state_in_memory(wasm: &[u8]) -> bool {
    // A file that can't be read was refused before.
    Changes::of(wasm).is_ok_and(|it| !it.tables && it.globals.is_subset(&it.stack_pointers))
}

/// What the code changes, apart from memory. A global is known by the numbers of its module and of
/// its own.
#[derive(Default)]
struct Changes {
    modules: usize,
    globals: BTreeSet<(usize, u32)>,
    stack_pointers: BTreeSet<(usize, u32)>,
    /// Whether it changes tables, or drops data.
    tables: bool,
}

impl Changes {
    fn of(wasm: &[u8]) -> Result<Self, BinaryReaderError> {
        let mut changes = Self::default();
        for payload in Parser::new(0).parse_all(wasm) {
            match payload? {
                Payload::Version { encoding: Encoding::Module, .. } => changes.modules += 1,
                Payload::CodeSectionEntry(body) => changes.add_code(&body)?,
                Payload::CustomSection(section) => changes.add_names(&section)?,
                _ => {}
            }
        }
        Ok(changes)
    }

    fn add_code(&mut self, body: &FunctionBody<'_>) -> Result<(), BinaryReaderError> {
        let mut operators = body.get_operators_reader()?;
        while !operators.eof() {
            match operators.read()? {
                Operator::GlobalSet { global_index } => {
                    self.globals.insert((self.modules, global_index));
                }
                Operator::TableSet { .. }
                | Operator::TableGrow { .. }
                | Operator::TableFill { .. }
                | Operator::TableCopy { .. }
                | Operator::TableInit { .. }
                | Operator::ElemDrop { .. }
                | Operator::DataDrop { .. } => self.tables = true,
                _ => {}
            }
        }
        Ok(())
    }

    /// Finds the stack pointer among the names of a module's globals.
    fn add_names(&mut self, section: &CustomSectionReader<'_>) -> Result<(), BinaryReaderError> {
        let KnownCustom::Name(names) = section.as_known() else { return Ok(()) };
        for names in names {
            let Name::Global(globals) = names? else { continue };
            for global in globals {
                let global = global?;
                if global.name == STACK_POINTER {
                    self.stack_pointers.insert((self.modules, global.index));
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_in_memory(module: &str) -> bool {
        is_state_in_memory(&wat::parse_str(module).expect("instructions"))
    }

    #[test]
    fn only_the_global_with_the_name_of_the_stack_pointer_may_be_set() {
        let sets = |name: &str, index: u32| {
            format!(
                "(module (global {name} (mut i32) (i32.const 8)) (global (mut i32) (i32.const 8))
                    (func (global.set {index} (i32.const 1))))"
            )
        };
        assert!(is_in_memory(&sets("$__stack_pointer", 0)));
        assert!(!is_in_memory(&sets("$__stack_pointer", 1)));
        assert!(!is_in_memory(&sets("$top", 0)));
        assert!(!is_in_memory(&sets("", 0)));
        assert!(is_in_memory("(module (memory 1) (func (i32.store (i32.const 0) (i32.const 1))))"));
    }

    #[test]
    fn the_name_counts_in_its_own_module() {
        let named = "(core module (global $__stack_pointer (mut i32) (i32.const 8)))";
        let sets = "(core module (global $top (mut i32) (i32.const 8))
            (func (global.set 0 (i32.const 1))))";
        assert!(is_in_memory(&format!("(component {named})")));
        assert!(!is_in_memory(&format!("(component {named} {sets})")));
        assert!(!is_in_memory(&format!("(component {sets} {named})")));
    }

    #[test]
    fn tables_and_dropped_data_are_state() {
        for code in [
            "(table.set (i32.const 0) (ref.null func))",
            "(drop (table.grow (ref.null func) (i32.const 1)))",
            "(table.fill (i32.const 0) (ref.null func) (i32.const 1))",
            "(table.copy (i32.const 0) (i32.const 0) (i32.const 1))",
            "(data.drop 0)",
        ] {
            let text = format!("(module (table 1 funcref) (memory 1) (data \"x\") (func {code}))");
            assert!(!is_in_memory(&text), "{code}");
        }
    }
}
