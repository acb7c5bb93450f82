//! A decoder as a compiled component: its imports, its options, and the check that it implements
//! the interface.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use pipemill_types::{Companions, StreamInfo, nearest, printable};
use wasmtime::Store;
use wasmtime::component::{
    Component, ComponentExportIndex, Instance, InstancePre, types::ComponentItem,
};

use crate::call::carry::CarryExports;
use crate::call::host_state::{HostState, LogContext};
use crate::call::plan::PlanExports;
use crate::call::prepare::{PrepareExports, Prepared};
use crate::call::rest::rest_export;
use crate::call::store::{begin_call, new_store};
use crate::call::window::{WINDOW_FROM, WindowExports};
use crate::compile::cache::Cache;
use crate::compile::digest::Digest;
use crate::compile::state_in_memory::is_state_in_memory;
use crate::engine::Engine;
use crate::interface::wit::exports::pipemill::decoder::decoder as exports;
use crate::interface::wit::{DecoderPlugin, DecoderPluginIndices};
use crate::interface::{INTERFACE, INTERFACE_VERSION, OPTIONAL_IMPORTS};
use crate::sandbox::limits::Limits;
use crate::sandbox::log_budget::LogBudget;

/// Limits for asking a decoder for its options. The channel's limits are not known then. A decoder
/// with a Python interpreter has 12 MiB of memory, and takes less than 100 ms.
const OPTIONS_LIMITS: Limits =
    Limits { memory: 64 << 20, call_timeout: Duration::from_secs(5), output: 0, record: 0 };
/// Bytes of an object after which a decoder's state is saved again. A state of 64 KiB is then one
/// byte of 64, and a run that goes on decodes a few milliseconds again.
const SAVE_DISTANCE: u64 = 4 << 20;
/// Number of options that a decoder may declare.
const MAX_OPTIONS: usize = 1000;

/// An option that a decoder declares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OptionSpec {
    /// Its name.
    pub name: String,
    /// `string`, `bool`, `int`, `choice:a|b|c`, `list` or `file`.
    pub kind: String,
    /// The value that is used if the operator sets none.
    pub default: Option<String>,
    /// Whether the operator must set it.
    pub required: bool,
    /// One line of help.
    pub help: String,
}

/// The objects that a decoder claims, for channels that name no decoder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DetectionRule {
    /// Endings of names, in lower case and with their dot.
    pub endings: Vec<String>,
    /// First bytes.
    pub magic: Vec<Vec<u8>>,
}

/// The option whose default lists the name endings of the decoder's own objects.
const DETECT_ENDINGS: &str = "detect.endings";
/// The option whose default lists the first bytes of the decoder's own objects, in hexadecimal.
const DETECT_MAGIC: &str = "detect.magic";

/// The origin of a decoder.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// A file of the operator.
    File,
    /// The host's binary, without machine code.
    Builtin,
    /// The host's binary, with its machine code.
    Precompiled,
}

/// A compiled decoder whose interface was checked. Cheap to clone.
#[derive(Clone)]
pub struct Plugin {
    pub(super) inner: Arc<PluginInner>,
    /// Number of bytes after which an instance uses its window, if it has one.
    pub(super) window_from: usize,
    /// Bytes of an object after which its state is saved again. `None` if it is not saved.
    pub(super) save_distance: Option<u64>,
    /// `None` if its instances are not prepared.
    pub(super) prepared: Option<Arc<Prepared>>,
    /// Those of its objects, with the options that it was made ready for.
    pub(super) companions: Companions,
}

pub(super) struct PluginInner {
    pub(super) name: String,
    digest: Digest,
    origin: Origin,
    pub(super) engine: Engine,
    pre: InstancePre<HostState>,
    indices: DecoderPluginIndices,
    pub(super) window: Option<WindowExports>,
    /// The export `rest`, if there is one.
    pub(super) rest: Option<ComponentExportIndex>,
    /// `None` if the decoder makes no plans.
    pub(super) plan: Option<PlanExports>,
    /// `None` if the decoder prepares nothing.
    pub(super) prepare: Option<PrepareExports>,
    /// `None` if the decoder saves no state.
    pub(super) carry: Option<CarryExports>,
    /// Whether a copy of an instance's memory is a copy of the instance. Known if it prepares.
    pub(super) is_state_in_memory: bool,
    options: Vec<OptionSpec>,
    detection: DetectionRule,
    log_budget: Arc<LogBudget>,
}

impl Plugin {
    /// Checks a compiled component and asks it for its options.
    ///
    /// # Errors
    /// It was made for another interface, has imports that the host does not provide, or fails when
    /// it is asked for its options.
    pub(super) fn of_component(
        engine: &Engine,
        name: &str,
        digest: Digest,
        component: &Component,
        origin: Origin,
        wasm: &[u8],
    ) -> Result<Self, String> {
        check_interface(engine, component)?;
        let (pre, indices) = engine
            .linker
            .instantiate_pre(component)
            .and_then(|pre| DecoderPluginIndices::new(&pre).map(|indices| (pre, indices)))
            .map_err(|why| {
                let version = env!("CARGO_PKG_VERSION");
                format!(
                    "was made for another state of {INTERFACE}@{INTERFACE_VERSION} than that of \
                         pipemill {version}: rebuild the plugin with a pipemill-plugin of that \
                         version ({why:#})"
                )
            })?;
        let (name, engine) = (name.to_owned(), engine.clone());
        let (options, detection) = (Vec::new(), DetectionRule::default());
        let (window, plan) = (WindowExports::of(component), PlanExports::of(component));
        let (prepare, rest) = (PrepareExports::of(component), rest_export(component));
        let carry = CarryExports::of(component);
        let mut inner = PluginInner {
            name,
            digest,
            origin,
            engine,
            pre,
            indices,
            window,
            rest,
            plan,
            prepare,
            carry,
            is_state_in_memory: false,
            options,
            detection,
            log_budget: Arc::default(),
        };
        let Answers { options, plans, prepares, carries } = inner.ask()?;
        inner.options = options;
        inner.plan = inner.plan.filter(|_| plans);
        inner.prepare = inner.prepare.filter(|_| prepares);
        inner.carry = inner.carry.filter(|_| carries);
        inner.is_state_in_memory = prepares && is_state_in_memory(wasm);
        inner.detection = DetectionRule::take_from(&mut inner.options)?;
        inner.check_files()?;
        let (prepared, companions) = (None, Companions::default());
        let (window_from, save_distance) = (WINDOW_FROM, Some(SAVE_DISTANCE));
        Ok(Self { inner: Arc::new(inner), window_from, save_distance, prepared, companions })
    }

    /// Whether its decoder has a window: memory in which the host can show it chunks without a
    /// copy.
    pub fn has_window(&self) -> bool {
        self.inner.window.is_some()
    }

    /// Whether its decoder chooses the bytes of objects that its streams are shown.
    pub fn plans(&self) -> bool {
        self.inner.plan.is_some()
    }

    /// Bytes of an object after which the state of its decoder is [saved](crate::Stream::save)
    /// again. `None` if the decoder saves no state, or if nobody wants it.
    pub fn save_distance(&self) -> Option<u64> {
        self.save_distance.filter(|_| self.inner.carry.is_some())
    }

    /// The same plugin, whose state is saved after this many bytes. `None`: never.
    #[must_use]
    pub fn with_save_distance(self, save_distance: Option<u64>) -> Self {
        Self { save_distance, ..self }
    }

    /// The companions of each object that it decodes. Known with its options: none before.
    pub fn companions(&self) -> &Companions {
        &self.companions
    }

    pub(crate) fn with_companions(self, companions: Companions) -> Self {
        Self { companions, ..self }
    }

    /// Makes instances use their windows once they have been passed this many bytes.
    #[doc(hidden)]
    pub fn with_window_from(self, bytes: usize) -> Self {
        Self { window_from: bytes, ..self }
    }

    /// The name or path by which the operator chose it.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// The digest of the plugin's file.
    pub fn digest(&self) -> &Digest {
        &self.inner.digest
    }

    /// For a decoder that came with the host's binary: a number that grows when its records change.
    pub fn records_version(&self) -> Option<u32> {
        let PluginInner { engine, name, .. } = &*self.inner;
        let mut builtins = engine.builtins.iter().filter(|_| self.is_builtin());
        builtins.find(|builtin| builtin.name == name).map(|builtin| builtin.records_version)
    }

    /// A text that identifies it, not by its path: the digest of its file; or the name of a
    /// built-in decoder, with the number that grows when its records change.
    pub fn identity(&self) -> String {
        match self.records_version() {
            Some(version) => format!("{} {version}", self.name()),
            None => format!("sha256:{}", self.digest()),
        }
    }

    /// Whether its machine code came with the host's binary.
    pub fn is_precompiled(&self) -> bool {
        self.inner.origin == Origin::Precompiled
    }

    /// Whether it came with the host's binary.
    pub(super) fn is_builtin(&self) -> bool {
        self.inner.origin != Origin::File
    }

    /// The folder of `cache` that has its machine code. The plugin is written to a folder if none
    /// has it.
    ///
    /// # Errors
    /// The folder can't be written, or others can write it, so that it is not used.
    pub fn keep_in<'a>(&self, cache: &'a Cache) -> io::Result<&'a Path> {
        let PluginInner { engine, digest, pre, .. } = &*self.inner;
        cache.keep(&engine.engine, digest, pre.component())
    }

    /// The host's functions that it imports, for example `pipemill:decoder/host@0.1.0#emit`.
    pub fn imports(&self) -> Vec<String> {
        let engine = &self.inner.engine.engine;
        let component = self.inner.pre.component();
        let ty = component.component_type();
        let mut names = Vec::new();
        for (name, item) in ty.imports(engine) {
            if let ComponentItem::ComponentInstance(instance) = item.ty {
                let functions = instance
                    .exports(engine)
                    .filter(|(_, item)| matches!(item.ty, ComponentItem::ComponentFunc(_)));
                names.extend(functions.map(|(function, _)| format!("{name}#{function}")));
            }
        }
        names
    }

    /// The options that it takes.
    pub fn options(&self) -> &[OptionSpec] {
        &self.inner.options
    }

    /// The objects that it claims.
    pub fn detection(&self) -> &DetectionRule {
        &self.inner.detection
    }

    /// Checks the `given` options (name and value) against those that the decoder declares. Returns
    /// the index of each wrong option, and what is wrong with it. A missing option has no index.
    pub fn check_options(&self, given: &[(String, String)]) -> Vec<(Option<usize>, String)> {
        let check = |(index, (name, value)): (usize, &(String, String))| {
            let problem = match self.inner.options.iter().find(|spec| spec.name == *name) {
                None => Some(self.unknown_option(name)),
                Some(spec) => spec.refusal(value),
            };
            problem.map(|problem| (Some(index), problem))
        };
        let is_set = |spec: &OptionSpec| given.iter().any(|(name, _)| *name == spec.name);
        let missing = self.inner.options.iter().filter(|spec| spec.required && !is_set(spec));
        let missing = missing.map(|spec| {
            let OptionSpec { name, help, .. } = spec;
            let decoder = self.name();
            (
                None,
                format!("decoder `{decoder}` needs its option `{name}`, which is not set: {help}"),
            )
        });
        given.iter().enumerate().filter_map(check).chain(missing).collect()
    }

    fn unknown_option(&self, name: &str) -> String {
        let known: Vec<_> = self.inner.options.iter().map(|spec| spec.name.as_str()).collect();
        let decoder = self.name();
        match nearest(name, &known) {
            Some(near) => {
                format!("decoder `{decoder}` has no option `{name}`; did you mean `{near}`?")
            }
            None if self.inner.options.is_empty() => {
                format!("decoder `{decoder}` takes no options")
            }
            None => {
                let known = known.join(", ");
                format!("decoder `{decoder}` has no option `{name}`; it takes {known}")
            }
        }
    }
}

impl DetectionRule {
    /// Extracts the rule for the decoder's own objects from its options. The interface has no other
    /// place for it, and nobody can set it.
    fn take_from(options: &mut Vec<OptionSpec>) -> Result<Self, String> {
        let mut take = |name: &str| {
            let at = options.iter().position(|spec| spec.name == name)?;
            options.remove(at).default
        };
        let (endings, magic) = (take(DETECT_ENDINGS), take(DETECT_MAGIC));
        let words = |list: Option<String>| -> Vec<String> {
            let list = list.unwrap_or_default();
            list.split(',')
                .map(|word| word.trim().to_lowercase())
                .filter(|w| !w.is_empty())
                .collect()
        };
        let endings = words(endings);
        if let Some(bad) = endings.iter().find(|it| !it.starts_with('.') || it.len() < 2) {
            return Err(format!(
                "declares the ending {bad:?} in `{DETECT_ENDINGS}`: an ending begins with a dot"
            ));
        }
        let bytes = |word: &String| match hex::decode(word) {
            Ok(bytes) if bytes.len() >= 2 => Ok(bytes),
            _ => Err(format!(
                "declares {word:?} in `{DETECT_MAGIC}`: give at least two bytes in hexadecimal"
            )),
        };
        let magic = words(magic).iter().map(bytes).collect::<Result<_, _>>()?;
        Ok(Self { endings, magic })
    }
}

impl OptionSpec {
    /// Whether its value is the path of a file, whose content the decoder gets.
    pub(crate) fn is_file(&self) -> bool {
        self.kind == "file"
    }

    /// The reason why the option refuses this value; `None` if it accepts it.
    pub fn refusal(&self, value: &str) -> Option<String> {
        let wants = match self.kind.as_str() {
            "bool" if !matches!(value, "true" | "false") => "true or false".to_owned(),
            "int" if value.parse::<u64>().is_err() => "a whole number".to_owned(),
            "file" if value.is_empty() => "the path of a file".to_owned(),
            "list" if value.split(',').any(|word| word.trim().is_empty()) => {
                "words with commas between them".to_owned()
            }
            kind => match kind.strip_prefix("choice:") {
                Some(words) if words.split('|').all(|word| word != value) => {
                    format!("one of {}", words.replace('|', ", "))
                }
                _ => return None,
            },
        };
        Some(format!("option `{}` takes {wants}, not {value:?}", self.name))
    }
}

impl PluginInner {
    /// A new sandbox for an instance of this decoder.
    pub(super) fn store(&self, stream: Option<&StreamInfo>, limits: &Limits) -> Store<HostState> {
        let (decoder, budget) = (self.name.clone(), self.log_budget.clone());
        let context = LogContext { decoder, stream: stream.cloned(), budget };
        new_store(&self.engine.engine, context, limits)
    }

    /// A new instance in a new sandbox.
    pub(super) fn instantiate(
        &self,
        store: &mut Store<HostState>,
    ) -> wasmtime::Result<(Instance, DecoderPlugin)> {
        let instance = self.pre.instantiate(&mut *store)?;
        let bindings = self.indices.load(&mut *store, &instance)?;
        Ok((instance, bindings))
    }

    /// Checks that the decoder gets the files that its options name.
    fn check_files(&self) -> Result<(), String> {
        let file = self.options.iter().find(|spec| spec.is_file());
        match file.filter(|_| self.prepare.is_none()) {
            Some(OptionSpec { name, .. }) => Err(format!(
                "declares the option `{name}` of the kind \"file\", but prepares nothing: files \
                 are passed to `prepare`"
            )),
            None => Ok(()),
        }
    }

    /// Asks the decoder for its options, whether it makes plans, whether it prepares anything, and
    /// whether it saves state.
    fn ask(&self) -> Result<Answers, String> {
        let mut store = self.store(None, &OPTIONS_LIMITS);
        let answers = self.instantiate(&mut store).and_then(|(instance, bindings)| {
            begin_call(&mut store, 0);
            let options = bindings.pipemill_decoder_decoder().call_options(&mut store)?;
            let plans = self.plan.map(|plan| plan.ask(&mut store, &instance)).transpose()?;
            let prepares = self.prepare.map(|it| it.ask(&mut store, &instance)).transpose()?;
            let carries = self.carry.map(|it| it.ask(&mut store, &instance)).transpose()?;
            let says = |answer: Option<bool>| answer.unwrap_or(false);
            Ok((options, says(plans), says(prepares), says(carries)))
        });
        let (specs, plans, prepares, carries) =
            answers.map_err(|why| format!("failed when asked for its options: {why:#}"))?;
        if specs.len() > MAX_OPTIONS {
            let count = specs.len();
            return Err(format!("declares {count} options; {MAX_OPTIONS} are possible"));
        }
        let spec = |spec: exports::OptionSpec| OptionSpec {
            name: printable(&spec.name),
            kind: printable(&spec.kind),
            default: spec.default.as_deref().map(printable),
            required: spec.required,
            help: printable(&spec.help),
        };
        Ok(Answers { options: specs.into_iter().map(spec).collect(), plans, prepares, carries })
    }
}

/// What a decoder says of itself.
struct Answers {
    options: Vec<OptionSpec>,
    plans: bool,
    prepares: bool,
    carries: bool,
}

/// Checks that the component implements the interface and imports nothing else.
///
/// # Errors
/// Checks the component's interface. The error is in the operator's terms.
fn check_interface(engine: &Engine, component: &Component) -> Result<(), String> {
    let (package, version) = (format!("{INTERFACE}/"), format!("@{INTERFACE_VERSION}"));
    let ty = component.component_type();
    let mut foreign = Vec::new();
    for (name, _) in ty.imports(&engine.engine) {
        match name.strip_prefix(&package) {
            Some(rest) if rest.ends_with(&version) || OPTIONAL_IMPORTS.contains(&name) => {}
            Some(_) => return Err(other_version(name)),
            None => foreign.push(format!("`{name}`")),
        }
    }
    if !foreign.is_empty() {
        let foreign = foreign.join(", ");
        return Err(format!(
            "requires {foreign}, which decoders are not given: they have no files, clock, \
             randomness, environment or network; build it for wasm32-unknown-unknown, not for WASI"
        ));
    }
    let decoder = format!("{package}decoder{version}");
    for (name, item) in ty.exports(&engine.engine) {
        let is_instance = matches!(item.ty, ComponentItem::ComponentInstance(_));
        if name == decoder && is_instance {
            return Ok(());
        }
        if name.starts_with(&format!("{package}decoder@")) {
            return Err(other_version(name));
        }
    }
    Err(format!("exports no `{decoder}`: it is not a pipemill decoder"))
}

fn other_version(name: &str) -> String {
    format!(
        "was made for `{name}`; this pipemill speaks {INTERFACE}@{INTERFACE_VERSION}: \
         rebuild the plugin with a pipemill-plugin of that version"
    )
}
