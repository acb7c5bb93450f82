//! What a plugin is: its interface, options, fields, origin; and what its author should mend.

use wasmparser::{Parser, Payload};

use super::decode_run::PluginUnderTest;
use pipemill_decode::{Digest, INTERFACE, INTERFACE_VERSION, OptionSpec, Stream};
use pipemill_types::{Field, StreamInfo};

/// All that can be said of a plugin without data.
#[derive(Debug)]
pub struct Inspection {
    /// Its file's SHA-256.
    pub digest: Digest,
    /// Its file's size in bytes.
    pub bytes: usize,
    /// Whether the file is a component; else it is a core module that is wrapped when it is loaded.
    pub is_component: bool,
    /// The interface that it was made for, as `pipemill:decoder@0.1.0`.
    pub interface: String,
    /// The functions of the host that it imports.
    pub imports: Vec<String>,
    /// The options that it takes.
    pub options: Vec<OptionSpec>,
    /// The fields of its records under the given options; `None` if only the input tells them. An error
    /// if it refuses to start.
    pub schema: Result<Option<Vec<Field>>, String>,
    /// What made it: languages, compilers, tools, with their versions.
    pub producers: Vec<(String, String)>,
    /// What should be mended.
    pub remarks: Vec<Remark>,
}

/// Something that its author should mend, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remark {
    /// Whether it makes the plugin unusable, or only worse.
    pub fatal: bool,
    /// What, and what to do.
    pub text: String,
}

/// From this size on a plugin takes noticeably long to compile.
const LARGE: usize = 2 << 20;

impl Inspection {
    /// Looks through a plugin and its file.
    pub fn at(subject: &PluginUnderTest, file: &[u8]) -> Self {
        let plugin = &subject.plugin;
        let schema = schema(subject);
        let mut remarks = Vec::new();
        let has_names = has_names(file);
        if !has_names {
            remarks.push(advice(
                "has no names of functions: an error can't say where it happened; don't strip the \
                 `name` section",
            ));
        }
        if file.len() > LARGE {
            remarks.push(advice(format!(
                "is {} KiB large, which takes long to compile at the first start; `pipemill plugin \
                 compile` does it beforehand",
                file.len() >> 10
            )));
        }
        remarks.extend(plugin.options().iter().flat_map(faults_of_option));
        if let Err(why) = &schema {
            remarks.push(Remark { fatal: false, text: why.clone() });
        }
        Self {
            digest: *plugin.digest(),
            bytes: file.len(),
            is_component: !file.starts_with(b"\0asm\x01\0\0\0"),
            interface: format!("{INTERFACE}@{INTERFACE_VERSION}"),
            imports: plugin.imports(),
            options: plugin.options().to_vec(),
            schema,
            producers: producers(file),
            remarks,
        }
    }
}

fn advice(text: impl Into<String>) -> Remark {
    Remark { fatal: false, text: text.into() }
}

fn schema(subject: &PluginUnderTest) -> Result<Option<Vec<Field>>, String> {
    let info = StreamInfo {
        channel: "test".to_owned(),
        epoch: 0,
        object: "input".to_owned(),
        max_record: subject.max_record,
        offsets: false,
    };
    let stream = Stream::open(&subject.plugin, &subject.options, &info, &subject.limits)
        .map_err(|fault| fault.message)?;
    Ok(stream.schema().map(|fields| fields.to_vec()))
}

/// What is wrong with how an option is declared.
fn faults_of_option(spec: &OptionSpec) -> Vec<Remark> {
    let mut faults = Vec::new();
    let mut fatal = |text: String| {
        let text = format!("option `{}`: {text}", spec.name);
        faults.push(Remark { fatal: true, text });
    };
    let good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    if spec.name.is_empty() || !spec.name.chars().all(good) {
        fatal("its name is not of lower-case letters, digits and `_`".into());
    }
    match spec.kind.split_once(':') {
        None if matches!(spec.kind.as_str(), "string" | "bool" | "int") => {}
        Some(("choice", words)) if words.split('|').all(|word| !word.is_empty()) => {}
        _ => fatal(format!(
            "its kind is {:?}; known are \"string\", \"bool\", \"int\" and \"choice:a|b|c\"",
            spec.kind
        )),
    }
    if let Some(why) = spec.default.as_ref().and_then(|default| spec.refusal(default)) {
        fatal(format!("its own default is refused: {why}"));
    }
    if spec.help.trim().is_empty() {
        faults.push(advice(format!("option `{}` has no help", spec.name)));
    }
    faults
}

/// Whether a module in the file names its functions.
fn has_names(file: &[u8]) -> bool {
    Parser::new(0).parse_all(file).any(
        |payload| matches!(payload, Ok(Payload::CustomSection(section)) if section.name() == "name"),
    )
}

/// What made the file, as the compilers and tools wrote into it.
fn producers(file: &[u8]) -> Vec<(String, String)> {
    let sections = Parser::new(0).parse_all(file).filter_map(|payload| match payload {
        Ok(Payload::CustomSection(section)) if section.name() == "producers" => Some(section),
        _ => None,
    });
    let mut all = Vec::new();
    for section in sections {
        let reader = wasmparser::BinaryReader::new(section.data(), section.data_offset());
        let Ok(fields) = wasmparser::ProducersSectionReader::new(reader) else { continue };
        for value in fields.into_iter().flatten().flat_map(|field| field.values).flatten() {
            let pair = (value.name.to_owned(), value.version.to_owned());
            if !all.contains(&pair) {
                all.push(pair);
            }
        }
    }
    all
}
