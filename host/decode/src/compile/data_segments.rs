//! Joins the parts of a module's initial memory.
//!
//! Some compilers leave out each run of zeros: a module of Go has 27,000 segments of data, for each
//! of which the engine's compiler takes memory: in all, more than it may. The initial memory of
//! JavaScript has 10,000. The same bytes in a few segments, with the short runs of zeros in them,
//! are nothing to compile.

use std::borrow::Cow;

use wasm_encoder::{ConstExpr, DataCountSection, DataSection, RawSection, Section};
use wasmparser::{
    BinaryReader, BinaryReaderError, CodeSectionReader, DataKind, DataSectionReader,
    ImportSectionReader, Operator, TypeRef,
};

/// A module with fewer segments stays as it is.
const MANY: u32 = 256;
/// Segments with at most this many zeros between them are joined. A segment has 5 bytes besides its
/// content.
const GAP: u32 = 64;
/// Bytes of zeros that may be added to a module.
const MAX_ADDED: u64 = 16 << 20;
/// Nesting depth of the components in which modules are looked for.
const MAX_DEPTH: usize = 16;

/// The first bytes of a module or component: the magic and the version.
const HEADER: usize = 8;
const MODULE: &[u8; HEADER] = b"\0asm\x01\0\0\0";

/// Sections of a module.
const IMPORTS: u8 = 2;
const CODE: u8 = 10;
const DATA: u8 = 11;
const DATA_COUNT: u8 = 12;
/// Sections of a component.
const CORE_MODULE: u8 = 1;
const COMPONENT: u8 = 4;

/// The same module or component, with the segments of its modules joined. What can't be read stays
/// as it is: the compiler says what is wrong with it.
pub(crate) fn join(wasm: Cow<'_, [u8]>) -> Cow<'_, [u8]> {
    match joined(&wasm, 0) {
        Some(joined) => Cow::Owned(joined),
        None => wasm,
    }
}

/// `None` if nothing changes.
fn joined(wasm: &[u8], depth: usize) -> Option<Vec<u8>> {
    let is_module = wasm.starts_with(MODULE);
    let sections = sections(wasm.get(HEADER..)?)?;
    let data = if is_module { joined_data(&sections) } else { None };
    let count = data.as_ref().map(|data| DataCountSection { count: data.len() });
    let changed: Vec<_> = sections
        .iter()
        .map(|(id, content)| match (is_module, *id) {
            (true, DATA) => data.as_ref().and_then(content_of),
            (true, DATA_COUNT) => count.as_ref().and_then(content_of),
            (false, CORE_MODULE | COMPONENT) if depth < MAX_DEPTH => joined(content, depth + 1),
            _ => None,
        })
        .collect();
    if changed.iter().all(Option::is_none) {
        return None;
    }
    let mut all = wasm[..HEADER].to_vec();
    for ((id, content), changed) in sections.iter().zip(&changed) {
        RawSection { id: *id, data: changed.as_deref().unwrap_or(content) }.append_to(&mut all);
    }
    Some(all)
}

/// The sections, each with its number and its content.
fn sections(bytes: &[u8]) -> Option<Vec<(u8, &[u8])>> {
    let mut reader = BinaryReader::new(bytes, 0);
    let mut sections = Vec::new();
    while !reader.eof() {
        let (id, length) = (reader.read_u8().ok()?, reader.read_var_u32().ok()?);
        sections.push((id, reader.read_bytes(length as usize).ok()?));
    }
    Some(sections)
}

/// What a section has after its number and its length.
fn content_of(section: &impl Section) -> Option<Vec<u8>> {
    let mut encoded = Vec::new();
    section.append_to(&mut encoded);
    self::sections(&encoded)?.first().map(|(_, content)| content.to_vec())
}

/// The data section of a module with these sections. `None` if it stays the same, or if what lies
/// between the segments is not known to be zero, or if code names a segment.
fn joined_data(sections: &[(u8, &[u8])]) -> Option<DataSection> {
    let content = |wanted| sections.iter().find(|(id, _)| *id == wanted).map(|it| it.1);
    let mut segments = segments(content(DATA)?)?;
    // Only a module that counts its segments beforehand may name them.
    let names_segments = || content(CODE).is_some_and(|code| names_segments(code) != Ok(false));
    if content(IMPORTS).is_some_and(has_memory) || content(DATA_COUNT).is_some() && names_segments()
    {
        return None;
    }
    segments.sort_by_key(|(at, _)| *at);
    let mut parts: Vec<(u64, Vec<u8>)> = Vec::new();
    let mut added = 0;
    for (at, bytes) in segments {
        let end = parts.last().map_or(0, |(start, part)| start + part.len() as u64);
        // Of two segments in one place the order matters.
        let gap = at.checked_sub(end)?;
        match parts.last_mut() {
            Some((_, part)) if gap <= u64::from(GAP) => {
                added += gap;
                part.resize(part.len() + gap as usize, 0);
                part.extend(bytes);
            }
            _ => parts.push((at, bytes.to_vec())),
        }
    }
    if added > MAX_ADDED {
        return None;
    }
    let mut section = DataSection::new();
    for (at, bytes) in parts {
        section.active(0, &ConstExpr::i32_const(at as u32 as i32), bytes);
    }
    Some(section)
}

/// Whether functions copy from a segment, or drop it.
fn names_segments(code: &[u8]) -> Result<bool, ()> {
    let unreadable = |_: BinaryReaderError| ();
    for body in CodeSectionReader::new(BinaryReader::new(code, 0)).map_err(unreadable)? {
        let mut operators =
            body.and_then(|body| body.get_operators_reader()).map_err(unreadable)?;
        while !operators.eof() {
            let operator = operators.read().map_err(unreadable)?;
            if matches!(operator, Operator::MemoryInit { .. } | Operator::DataDrop { .. }) {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// The segments, each with its address; `None` if they are few, or not all lie at a fixed address
/// of the first memory.
fn segments(content: &[u8]) -> Option<Vec<(u64, &[u8])>> {
    let section = DataSectionReader::new(BinaryReader::new(content, 0)).ok()?;
    if section.count() < MANY {
        return None;
    }
    section
        .into_iter()
        .map(|segment| {
            let segment = segment.ok()?;
            let DataKind::Active { memory_index: 0, offset_expr } = segment.kind else {
                return None;
            };
            let mut operators = offset_expr.get_operators_reader();
            let (Ok(Operator::I32Const { value }), Ok(Operator::End)) =
                (operators.read(), operators.read())
            else {
                return None;
            };
            Some((u64::from(value as u32), segment.data))
        })
        .collect()
}

fn has_memory(content: &[u8]) -> bool {
    let Ok(section) = ImportSectionReader::new(BinaryReader::new(content, 0)) else { return true };
    section
        .into_imports()
        .any(|import| !import.is_ok_and(|it| !matches!(it.ty, TypeRef::Memory(_))))
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use wasmparser::Parser;

    use super::*;

    fn module(parts: &str, segments: &[(u32, Vec<u8>)]) -> Vec<u8> {
        let segments = segments.iter().map(|(at, bytes)| {
            let bytes: String = bytes.iter().map(|byte| format!("\\{byte:02x}")).collect();
            format!("(data (i32.const {at}) \"{bytes}\")")
        });
        let segments: String = segments.collect();
        wat::parse_str(format!("(module {parts} {segments})")).expect("a module")
    }

    /// Each of these has `length` bytes, and `gap` zeros after it.
    fn regular(count: u32, length: u32, gap: u32) -> Vec<(u32, Vec<u8>)> {
        let segment = |n| (1000 + n * (length + gap), vec![n as u8; length as usize]);
        (0..count).map(segment).collect()
    }

    const MEMORY: &str = "(memory 1000)";

    fn counts(wasm: &[u8]) -> Vec<u32> {
        let payloads = Parser::new(0).parse_all(wasm).map(|payload| payload.expect("it is valid"));
        payloads
            .filter_map(|payload| match payload {
                wasmparser::Payload::DataSection(section) => Some(section.count()),
                _ => None,
            })
            .collect()
    }

    fn of(wasm: &[u8]) -> Cow<'_, [u8]> {
        join(Cow::Borrowed(wasm))
    }

    #[test]
    fn near_segments_are_joined_and_far_ones_are_not() {
        assert_eq!(counts(&of(&module(MEMORY, &regular(1000, 3, GAP)))), [1]);
        assert_eq!(counts(&of(&module(MEMORY, &regular(1000, 3, GAP + 1)))), [1000]);
        let inner = module(MEMORY, &regular(1000, 1, 1));
        let mut component = b"\0asm\x0d\0\x01\0".to_vec();
        RawSection { id: CORE_MODULE, data: &inner }.append_to(&mut component);
        let mut outer = b"\0asm\x0d\0\x01\0".to_vec();
        RawSection { id: COMPONENT, data: &component }.append_to(&mut outer);
        assert_eq!(counts(&of(&outer)), [1]);
    }

    #[test]
    fn a_count_of_segments_that_code_does_not_name_is_corrected() {
        let counted = |code: &str| {
            let module = module(&format!("{MEMORY} {code}"), &regular(1000, 3, 1));
            let mut counted = module[..HEADER].to_vec();
            let sections = sections(&module[HEADER..]).expect("sections");
            for (id, data) in sections.iter().filter(|(id, _)| *id != DATA_COUNT) {
                if *id == CODE {
                    DataCountSection { count: 1000 }.append_to(&mut counted);
                }
                RawSection { id: *id, data }.append_to(&mut counted);
            }
            counted
        };
        let joined = of(&counted("(func (drop (i32.const 1)))")).into_owned();
        wasmparser::Validator::new().validate_all(&joined).expect("the count is right");
        assert_eq!(counts(&joined), [1]);
        for code in ["(memory.init 3 (i32.const 0) (i32.const 0) (i32.const 0))", "(data.drop 3)"] {
            let counted = counted(&format!("(func {code})"));
            assert!(matches!(of(&counted), Cow::Borrowed(_)), "{code}");
        }
    }

    #[test]
    fn a_module_stays_as_it_is_where_its_meaning_could_change() {
        let mut overlapping = regular(1000, 3, 1);
        overlapping.push((1001, vec![7]));
        for module in [
            module(MEMORY, &regular(MANY - 1, 3, 1)),
            module(MEMORY, &overlapping),
            module("(import \"env\" \"memory\" (memory 1000))", &regular(1000, 3, 1)),
            module(&format!("{MEMORY} (data \"passive\")"), &regular(1000, 3, 1)),
        ] {
            assert!(matches!(of(&module), Cow::Borrowed(_)));
        }
        let cut = &module(MEMORY, &regular(1000, 3, 1))[..2000];
        assert!(matches!(of(cut), Cow::Borrowed(_)) && matches!(of(b""), Cow::Borrowed(_)));
    }

    /// The memory that segments make.
    fn memory(wasm: &[u8]) -> Vec<u8> {
        let mut memory = vec![0; 1 << 20];
        let sections = sections(&wasm[HEADER..]).expect("sections");
        let (_, content) = sections.iter().find(|(id, _)| *id == DATA).expect("data");
        let section = DataSectionReader::new(BinaryReader::new(content, 0)).expect("a section");
        for segment in section {
            let segment = segment.expect("a segment");
            let DataKind::Active { offset_expr, .. } = segment.kind else { panic!("passive") };
            let Ok(Operator::I32Const { value }) = offset_expr.get_operators_reader().read() else {
                panic!("no constant")
            };
            memory[value as usize..][..segment.data.len()].copy_from_slice(segment.data);
        }
        memory
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn the_memory_is_the_same(
            steps in vec((0u32..200, vec(any::<u8>(), 0..40)), MANY as usize..600),
            turn in any::<prop::sample::Index>(),
        ) {
            let mut at = 0;
            let mut segments: Vec<_> = steps.into_iter().map(|(gap, bytes)| {
                at += gap;
                let segment = (at, bytes);
                at += segment.1.len() as u32;
                segment
            }).collect();
            let middle = turn.index(segments.len());
            segments.rotate_left(middle);
            let module = module(MEMORY, &segments);
            let joined = of(&module);
            prop_assert_eq!(memory(&joined), memory(&module));
            prop_assert!(counts(&joined)[0] <= counts(&module)[0]);
        }
    }
}
