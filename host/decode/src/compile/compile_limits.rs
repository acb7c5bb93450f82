//! Limits the cost of compiling a plugin: counts the contents of its file before the compiler sees
//! it.
//!
//! The compiler's time and memory grow with these counts, and not with the size of the file alone:
//! a component of 500 bytes can instantiate nested components four million times. The largest
//! decoder known to us, one with a Python interpreter, stays below each limit. The figures of time
//! and memory below were measured in a release build, on x86-64.

use wasmparser::{
    ComponentAlias, ComponentExternalKind, ComponentInstance, ComponentOuterAliasKind,
    CompositeInnerType, Encoding, FunctionBody, KnownCustom, Parser, Payload, SectionLimited,
    TypeRef,
};

use crate::compile::function_names::{FunctionPlace, function_name, visit_function_names};

/// Total size of all functions, in bytes. Compiling them takes up to 2 s of CPU time for each MiB.
const MAX_CODE_BYTES: u64 = 12 << 20;
/// Number of all functions. The compiler takes up to 6 KB of memory for each function.
const MAX_FUNCTIONS: u64 = 50_000;
/// Number of all types of modules. The compiler takes up to 7 KB of memory for each type.
const MAX_TYPES: u64 = 20_000;
/// Size of one function in bytes. The compiler takes up to 900 bytes of memory for each byte.
const MAX_FUNCTION_BYTES: u64 = 512 << 10;
/// Bytes of one function times its local variables, or times the values of the module's widest
/// signature: the compiler keeps each variable for each block.
const MAX_FUNCTION_VARIABLES: u64 = 64 << 20;
/// Number of the parts of components (imports, aliases, instances, functions, exports); each counts
/// as often as its component is instantiated.
const MAX_COMPONENT_PARTS: u64 = 100_000;
/// Number of the parts of module instances (functions, globals, bytes of elements); each counts as
/// often as its module is instantiated. The host keeps up to 32 bytes for each.
const MAX_MODULE_PARTS: u64 = 400_000;
/// Nesting depth of components.
const MAX_DEPTH: usize = 16;
/// Number of all tables. The compiler computes the first elements of each.
const MAX_TABLES: u64 = 64;
/// Bytes of everything that is not code, data or debug information: types, imports, exports,
/// elements.
const MAX_DESCRIPTION_BYTES: u64 = 4 << 20;
/// Bytes of function names.
const MAX_NAME_BYTES: u64 = 8 << 20;

const SMALLER: &str = "build it with optimization, or leave libraries out that it does not need";
const SPLIT: &str = "split the function";
const FLATTEN: &str = "build it as one component, without nested ones";
const STRIP: &str = "strip the names of functions";

/// Checks that a component can be compiled in limited time and memory.
///
/// # Errors
/// The error names what it has too much of, the limit, and what to do; or why it can't be read.
pub(crate) fn check(component: &[u8]) -> Result<(), String> {
    let mut count = Count::default();
    for payload in Parser::new(0).parse_all(component) {
        count.add(payload.map_err(unreadable)?).map_err(|why| match count.function {
            Some(function) => why.replace(SPLIT, &split(component, function)),
            None => why,
        })?;
    }
    Ok(())
}

/// The advice to split a function, with its name if it has one.
fn split(component: &[u8], function: FunctionPlace) -> String {
    let mut found = None;
    visit_function_names(component, |place, name| {
        if place == function {
            found = Some(function_name(name));
        }
    });
    let index = function.index;
    found.map_or_else(
        || format!("split function {index}, which has no name"),
        |name| format!("split the function `{name}` (number {index})"),
    )
}

fn foreign(what: &str) -> String {
    format!("instantiates a {what} that it imports: {FLATTEN}")
}

fn unreadable(why: wasmparser::BinaryReaderError) -> String {
    format!("not a WebAssembly component that can be compiled: {why}")
}

/// The counts so far.
#[derive(Default)]
struct Count {
    code: u64,
    functions: u64,
    tables: u64,
    types: u64,
    description: u64,
    names: u64,
    /// The module or component that is being read, on top of those that contain it.
    open: Vec<Part>,
    /// Number of modules that were begun.
    modules: usize,
    /// The function that is being read.
    function: Option<FunctionPlace>,
}

/// The parts of an instance of a module or component, with the instances in it.
#[derive(Default, Clone, Copy)]
struct Size {
    component_parts: u64,
    module_parts: u64,
}

/// A module or component.
#[derive(Default)]
struct Part {
    is_module: bool,
    size: Size,
    /// Size of each component that it has defined. `None` if the component is unknown.
    components: Vec<Option<Size>>,
    /// As `components`, for modules.
    modules: Vec<Option<Size>>,
    /// Parameters and results of the module's widest signature.
    widest: u64,
    /// Number of functions of the module so far, the imported ones first.
    functions: u32,
}

impl Count {
    fn add(&mut self, payload: Payload<'_>) -> Result<(), String> {
        self.add_description(&payload)?;
        match payload {
            Payload::Version { encoding, .. } => return self.begin(encoding),
            Payload::End(_) => self.end(),
            Payload::TypeSection(types) => self.add_types(types)?,
            Payload::TableSection(section) => {
                self.tables += u64::from(section.count());
                at_most(self.tables, MAX_TABLES, "tables", SMALLER)?;
            }
            Payload::ImportSection(section) => {
                self.add_module_parts(section.count());
                self.add_imports(section)?;
            }
            Payload::FunctionSection(section) => self.add_module_parts(section.count()),
            Payload::GlobalSection(section) => self.add_module_parts(section.count()),
            Payload::ElementSection(section) => self.add_module_parts(section.range().len() as u32),
            Payload::CodeSectionStart { count, .. } => {
                self.functions += u64::from(count);
                at_most(self.functions, MAX_FUNCTIONS, "functions", SMALLER)?;
            }
            Payload::CodeSectionEntry(body) => {
                let module = self.modules.saturating_sub(1);
                let index = self.open.last().map_or(0, |part| part.functions);
                self.function = Some(FunctionPlace { module, index });
                self.add_function(&body)?;
                self.function = None;
                if let Some(part) = self.open.last_mut() {
                    part.functions = part.functions.saturating_add(1);
                }
            }
            Payload::InstanceSection(section) => self.add_module_instances(section)?,
            Payload::ComponentTypeSection(section) => self.add_parts(section.count())?,
            Payload::ComponentCanonicalSection(section) => self.add_parts(section.count())?,
            Payload::ComponentInstanceSection(section) => self.add_instances(section)?,
            Payload::ComponentAliasSection(section) => self.add_aliases(section)?,
            Payload::ComponentImportSection(section) => {
                self.add_parts(section.count())?;
                for import in section {
                    self.define_unknown(import.map_err(unreadable)?.ty.kind());
                }
            }
            Payload::ComponentExportSection(section) => {
                self.add_parts(section.count())?;
                for export in section {
                    self.define_unknown(export.map_err(unreadable)?.kind);
                }
            }
            Payload::CustomSection(section) => {
                if matches!(
                    section.as_known(),
                    KnownCustom::Name(_) | KnownCustom::ComponentName(_)
                ) {
                    self.names += section.data().len() as u64;
                    at_most(self.names, MAX_NAME_BYTES, "bytes of names", STRIP)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Counts the bytes of a section that contains descriptions.
    fn add_description(&mut self, payload: &Payload<'_>) -> Result<(), String> {
        let is_content = matches!(
            payload,
            Payload::CodeSectionStart { .. }
                | Payload::DataSection(_)
                | Payload::CustomSection(_)
                | Payload::ModuleSection { .. }
                | Payload::ComponentSection { .. }
        );
        if let (false, Some((_, range))) = (is_content, payload.as_section()) {
            self.description += range.len() as u64;
        }
        let what = "bytes of types, imports, exports and elements";
        at_most(self.description, MAX_DESCRIPTION_BYTES, what, SMALLER)
    }

    fn begin(&mut self, encoding: Encoding) -> Result<(), String> {
        let is_module = encoding == Encoding::Module;
        self.modules += usize::from(is_module);
        self.open.push(Part { is_module, ..Part::default() });
        at_most(self.open.len() as u64, MAX_DEPTH as u64, "components in each other", FLATTEN)
    }

    fn end(&mut self) {
        let ended = self.open.pop();
        if let (Some(ended), Some(outer)) = (ended, self.open.last_mut()) {
            let defined = if ended.is_module { &mut outer.modules } else { &mut outer.components };
            defined.push(Some(ended.size));
        }
    }

    /// Adds parts to the component that is being read.
    fn add_parts(&mut self, count: u32) -> Result<(), String> {
        self.add_size(Size { component_parts: count.into(), module_parts: 0 })
    }

    /// Adds an instance, or parts, to the component that is being read.
    fn add_size(&mut self, more: Size) -> Result<(), String> {
        let Some(Part { size, .. }) = self.open.last_mut() else { return Ok(()) };
        size.component_parts = size.component_parts.saturating_add(more.component_parts);
        size.module_parts = size.module_parts.saturating_add(more.module_parts);
        let what = "parts of components, those of all instances included";
        at_most(size.component_parts, MAX_COMPONENT_PARTS, what, FLATTEN)?;
        let what = "functions, globals and elements, those of all instances included";
        at_most(size.module_parts, MAX_MODULE_PARTS, what, FLATTEN)
    }

    /// Adds parts to the module that is being read. They count when it is instantiated.
    fn add_module_parts(&mut self, count: u32) {
        if let Some(part) = self.open.last_mut() {
            part.size.module_parts += u64::from(count);
        }
    }

    /// Adds an import, export or alias: if it is a component or module, the next index is an
    /// unknown one.
    fn define_unknown(&mut self, kind: ComponentExternalKind) {
        let Some(part) = self.open.last_mut() else { return };
        match kind {
            ComponentExternalKind::Component => part.components.push(None),
            ComponentExternalKind::Module => part.modules.push(None),
            _ => {}
        }
    }

    fn add_module_instances(
        &mut self,
        section: SectionLimited<'_, wasmparser::Instance<'_>>,
    ) -> Result<(), String> {
        self.add_parts(section.count())?;
        for instance in section {
            if let wasmparser::Instance::Instantiate { module_index, .. } =
                instance.map_err(unreadable)?
            {
                let known = self.open.last().and_then(|it| it.modules.get(module_index as usize));
                let size = known.copied().flatten().ok_or_else(|| foreign("module"))?;
                self.add_size(size)?;
            }
        }
        Ok(())
    }

    fn add_instances(
        &mut self,
        section: SectionLimited<'_, ComponentInstance<'_>>,
    ) -> Result<(), String> {
        self.add_parts(section.count())?;
        for instance in section {
            let ComponentInstance::Instantiate { component_index, .. } =
                instance.map_err(unreadable)?
            else {
                continue;
            };
            let known = self.open.last().and_then(|it| it.components.get(component_index as usize));
            let size = known.copied().flatten().ok_or_else(|| foreign("component"))?;
            self.add_size(size)?;
        }
        Ok(())
    }

    fn add_aliases(
        &mut self,
        section: SectionLimited<'_, ComponentAlias<'_>>,
    ) -> Result<(), String> {
        self.add_parts(section.count())?;
        for alias in section {
            match alias.map_err(unreadable)? {
                ComponentAlias::Outer { kind, count, index } => {
                    let outer = self.open.iter().rev().nth(count as usize);
                    let found =
                        |defined: &[Option<Size>]| defined.get(index as usize).copied().flatten();
                    let (component, module) = outer
                        .map_or((None, None), |it| (found(&it.components), found(&it.modules)));
                    let Some(part) = self.open.last_mut() else { return Ok(()) };
                    match kind {
                        ComponentOuterAliasKind::Component => part.components.push(component),
                        ComponentOuterAliasKind::CoreModule => part.modules.push(module),
                        ComponentOuterAliasKind::CoreType | ComponentOuterAliasKind::Type => {}
                    }
                }
                ComponentAlias::InstanceExport { kind, .. } => self.define_unknown(kind),
                ComponentAlias::CoreInstanceExport { .. } => {}
            }
        }
        Ok(())
    }

    /// Counts the functions that the module imports.
    fn add_imports(&mut self, section: wasmparser::ImportSectionReader<'_>) -> Result<(), String> {
        let Some(part) = self.open.last_mut() else { return Ok(()) };
        for import in section.into_imports() {
            let kind = import.map_err(unreadable)?.ty;
            let is_function = matches!(kind, TypeRef::Func(_) | TypeRef::FuncExact(_));
            part.functions = part.functions.saturating_add(u32::from(is_function));
        }
        Ok(())
    }

    fn add_types(&mut self, section: wasmparser::TypeSectionReader<'_>) -> Result<(), String> {
        let Some(part) = self.open.last_mut() else { return Ok(()) };
        for group in section {
            for ty in group.map_err(unreadable)?.into_types() {
                self.types += 1;
                at_most(self.types, MAX_TYPES, "types", SMALLER)?;
                if let CompositeInnerType::Func(ty) = &ty.composite_type.inner {
                    part.widest = part.widest.max((ty.params().len() + ty.results().len()) as u64);
                }
            }
        }
        Ok(())
    }

    fn add_function(&mut self, body: &FunctionBody<'_>) -> Result<(), String> {
        let size = body.range().len() as u64;
        self.code += size;
        at_most(self.code, MAX_CODE_BYTES, "bytes of code", SMALLER)?;
        at_most(size, MAX_FUNCTION_BYTES, "bytes in one function", SPLIT)?;
        let mut variables = self.open.last().map_or(0, |part| part.widest);
        for group in body.get_locals_reader().map_err(unreadable)? {
            variables += u64::from(group.map_err(unreadable)?.0);
        }
        let what = format!("bytes of one function times its {variables} variables");
        at_most(size.saturating_mul(variables), MAX_FUNCTION_VARIABLES, &what, SPLIT)
    }
}

/// # Errors
/// `found` is more than `max`.
fn at_most(found: u64, max: u64, what: &str, remedy: &str) -> Result<(), String> {
    if found <= max {
        return Ok(());
    }
    Err(format!("is too large to be compiled: it has {found} {what}; {max} are possible; {remedy}"))
}
