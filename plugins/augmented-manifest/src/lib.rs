//! SageMaker's augmented manifest files in Pipe mode, with `RecordWrapperType` RecordIO. Each line
//! of the manifest arrives as a group of RecordIO records: one per attribute, in the order of
//! `AttributeNames`. A group becomes one record whose fields are the attributes.
//!
//! **Errors.** Only counting records shows where a group starts. So a group with a bad record is
//! dropped as a whole. After a damaged header the rest of the object is dropped, because nobody
//! knows how many records were lost, and attributes of two lines would be mixed.

mod group;

use group::{Group, Groups};
use pipemill_parsing::framing::recordio::Framing;
use pipemill_parsing::head::Head;
use pipemill_plugin::{
    DecodeError, Decoder, Field, OptionSpec, Options, Progress, Records, StreamInfo,
};

/// The `augmented-manifest` decoder.
#[derive(Debug)]
pub struct AugmentedManifest {
    head: Head,
    groups: Groups,
}

#[cfg(feature = "export")]
pipemill_plugin::export!(AugmentedManifest);

impl Decoder for AugmentedManifest {
    fn options() -> Vec<OptionSpec> {
        let attributes = OptionSpec::string(
            "attributes",
            None,
            "the channel's AttributeNames, in their order, with commas between them",
        );
        vec![attributes, Framing::option()]
    }

    fn open(options: &Options, info: &StreamInfo) -> Result<Self, String> {
        let (attributes, framing) = (attributes(options)?, Framing::open(options, info));
        let max_record = info.max_record;
        Ok(Self {
            head: Head::new(info),
            groups: Groups { attributes, framing, max_record, to_skip: 0 },
        })
    }

    fn schema(&self) -> Option<Vec<Field>> {
        Some(self.groups.attributes.iter().map(Field::bytes).collect())
    }

    fn restart(&self) -> Option<u64> {
        // A group that was dropped is consumed record by record.
        (self.groups.to_skip == 0).then_some(0)
    }

    fn decode(
        &mut self,
        chunk: &[u8],
        end: bool,
        out: &mut Records,
    ) -> Result<Progress, DecodeError> {
        let result = self.decode_records(chunk, end, out);
        self.head.explain(chunk, end, result)
    }
}

impl AugmentedManifest {
    /// Emits the records that are completely in the chunk.
    fn decode_records(
        &mut self,
        chunk: &[u8],
        end: bool,
        out: &mut Records,
    ) -> Result<Progress, DecodeError> {
        let mut at = 0;
        loop {
            match self.groups.next(chunk, at, out)? {
                Group::Whole { end } => at = end,
                Group::Cut { records: Some(records), .. } if end && at < chunk.len() => {
                    return Err(self.groups.cut_short(chunk, at, records));
                }
                Group::Cut { need, .. } => return Ok(Progress::consumed(at).and_wants(need)),
            }
        }
    }
}

/// The names of the attributes. An error is a message for the operator.
fn attributes(options: &Options) -> Result<Vec<String>, String> {
    let text = options.text("attributes");
    let names: Vec<_> = text.split(',').map(|name| name.trim().to_owned()).collect();
    if names.iter().any(String::is_empty) {
        let found = if text.is_empty() { String::new() } else { format!(", not {text:?}") };
        return Err(format!(
            "option `attributes` takes the channel's AttributeNames, in their order, as in \
             attributes = \"image-ref,annotations\"{found}"
        ));
    }
    for (index, name) in names.iter().enumerate() {
        if names[..index].contains(name) {
            return Err(format!("option `attributes` has `{name}` twice"));
        }
    }
    Ok(names)
}
