//! Describes a plugin: its interface, options, fields and metadata, and possible improvements.

use pipemill_decode::{
    Digest, INTERFACE, INTERFACE_VERSION, OptionSpec, Stream, visit_function_names,
};
use pipemill_types::{ErrorKind, Fault, Field, StreamInfo};
use wasmparser::{Parser, Payload};

use super::decode_run::PluginUnderTest;
use super::metadata::Metadata;

/// The facts about a plugin that are known without decoding any input.
#[derive(Debug)]
pub struct Inspection {
    /// The SHA-256 of the plugin's file.
    pub digest: Digest,
    /// Size of the plugin's file in bytes.
    pub bytes: usize,
    /// Whether the file is a component. If not, it is a core module, which the host wraps.
    pub is_component: bool,
    /// The interface for which it was made, for example `pipemill:decoder@0.1.0`.
    pub interface: String,
    /// The host's functions that it imports.
    pub imports: Vec<String>,
    /// The options that it takes.
    pub options: Vec<OptionSpec>,
    /// The fields of its records with the given options; `None` if they depend on the input. An
    /// error if the plugin refuses to start.
    pub schema: Result<Option<Vec<Field>>, String>,
    /// The file's description of itself.
    pub metadata: Metadata,
    /// Suggestions for its author.
    pub remarks: Vec<Remark>,
}

/// A suggestion for the author of a plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remark {
    /// Whether it makes the plugin unusable.
    pub fatal: bool,
    /// The problem, and what to do.
    pub text: String,
}

/// A plugin with more bytes takes noticeably long to compile.
const SLOW_TO_COMPILE_BYTES: usize = 2 << 20;

impl Inspection {
    /// Inspects a plugin; `file` is the content of its file.
    pub fn at(tested: &PluginUnderTest, file: &[u8]) -> Self {
        let plugin = &tested.plugin;
        let schema = schema(tested);
        let mut remarks = Vec::new();
        let has_names = has_names(file);
        if !has_names {
            remarks.push(advice(
                "has no names of functions: an error can't say where it happened; don't strip the \
                 `name` section",
            ));
        }
        if file.len() > SLOW_TO_COMPILE_BYTES {
            remarks.push(advice(format!(
                "is {} KiB large, which takes long to compile at the first start; `pipemill plugin \
                 compile` does it beforehand",
                file.len() >> 10
            )));
        }
        remarks.extend(prints(file));
        remarks.extend(plugin.options().iter().flat_map(check_option));
        if let Err(fault) = &schema {
            // A plugin may refuse to start without an option that only the operator knows.
            let fatal = fault.kind != ErrorKind::Refused;
            remarks.push(Remark { fatal, text: fault.message.clone() });
        }
        Self {
            digest: *plugin.digest(),
            bytes: file.len(),
            is_component: !file.starts_with(b"\0asm\x01\0\0\0"),
            interface: format!("{INTERFACE}@{INTERFACE_VERSION}"),
            imports: plugin.imports(),
            options: plugin.options().to_vec(),
            schema: schema.map_err(|fault| fault.message),
            metadata: Metadata::of(file),
            remarks,
        }
    }
}

/// A remark that does not make the plugin unusable.
fn advice(text: impl Into<String>) -> Remark {
    Remark { fatal: false, text: text.into() }
}

/// A remark about text that nobody sees: `println!` and similar macros do nothing in a plugin.
fn prints(file: &[u8]) -> Option<Remark> {
    let mut found = None;
    visit_function_names(file, |_, name| {
        // `std::io::stdio::_print` and `_eprint`, in both mangling schemes.
        if let Some((_, function)) = name.split_once("3std2io5stdio") {
            found = match function {
                text if text.contains("_eprint") => Some("eprintln! (or eprint!, dbg!)"),
                text if text.contains("_print") => Some("println! (or print!)"),
                _ => found,
            };
        }
    });
    found.map(|what| {
        advice(format!(
            "uses {what}, whose text goes nowhere, because a plugin has no output; use \
             `out.log(Level::Info, …)`, which writes to the host's log"
        ))
    })
}

/// The plugin's fields with the given options, if it declares them before it gets any input.
fn schema(tested: &PluginUnderTest) -> Result<Option<Vec<Field>>, Fault> {
    let info = StreamInfo {
        channel: "test".to_owned(),
        object: "input".to_owned(),
        max_record: tested.max_record,
        ..StreamInfo::default()
    };
    let stream = Stream::open(&tested.plugin, &tested.options, &info, &tested.limits)?;
    Ok(stream.schema().map(|fields| fields.to_vec()))
}

/// The fault in the declaration of an option.
fn check_option(spec: &OptionSpec) -> Vec<Remark> {
    let mut remarks = Vec::new();
    let mut fatal = |text: String| {
        let text = format!("option `{}`: {text}", spec.name);
        remarks.push(Remark { fatal: true, text });
    };
    let good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    if spec.name.is_empty() || !spec.name.chars().all(good) {
        fatal("its name is not of lower-case letters, digits and `_`".into());
    }
    match spec.kind.split_once(':') {
        None if matches!(spec.kind.as_str(), "string" | "bool" | "int" | "list" | "file") => {}
        Some(("choice", words)) if words.split('|').all(|word| !word.is_empty()) => {}
        _ => fatal(format!(
            "its kind is {:?}; known are \"string\", \"bool\", \"int\", \"list\", \"file\" and \
             \"choice:a|b|c\"",
            spec.kind
        )),
    }
    if spec.required && spec.default.is_some() {
        fatal("it is required, so it can have no default".into());
    }
    if let Some(why) = spec.default.as_ref().and_then(|default| spec.refusal(default)) {
        fatal(format!("its own default is refused: {why}"));
    }
    if spec.help.trim().is_empty() {
        remarks.push(advice(format!("option `{}` has no help", spec.name)));
    }
    remarks
}

/// Whether a module in the file has the names of its functions.
fn has_names(file: &[u8]) -> bool {
    Parser::new(0).parse_all(file).any(|payload| match payload {
        Ok(Payload::CustomSection(section)) => section.name() == "name",
        _ => false,
    })
}
