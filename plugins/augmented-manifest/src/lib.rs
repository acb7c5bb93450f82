//! SageMaker's augmented manifest files in Pipe mode, with `RecordWrapperType` RecordIO: each line of
//! the manifest arrives as a group of RecordIO records, one an attribute, in the order of
//! `AttributeNames`. A group is one record here, its attributes the fields.
//!
//! Nothing marks where a group starts but the count of records. So a group that is refused is dropped
//! as a whole; and where a damaged header leaves open how many records were lost, the rest of the
//! object is, because attributes of two lines would be mixed.

mod group;

use group::{Group, Groups};
use pipemill_parsing::framing::recordio::Framing;
use pipemill_plugin::{
    DecodeError, Decoder, Field, OptionSpec, Options, Progress, Records, StreamInfo,
};

/// The `augmented-manifest` decoder.
#[derive(Debug)]
pub struct AugmentedManifest {
    groups: Groups,
}

pipemill_plugin::export!(AugmentedManifest);

impl Decoder for AugmentedManifest {
    fn options() -> Vec<OptionSpec> {
        let attributes = OptionSpec::string(
            "attributes",
            None,
            "the channel's AttributeNames, in their order, comma between them",
        );
        vec![attributes, Framing::option()]
    }

    fn open(options: &Options, info: &StreamInfo) -> Result<Self, String> {
        let (attributes, framing) = (attributes(options)?, Framing::open(options, info));
        Ok(Self { groups: Groups { attributes, framing, max_record: info.max_record, pass: 0 } })
    }

    fn schema(&self) -> Option<Vec<Field>> {
        Some(self.groups.attributes.iter().map(Field::bytes).collect())
    }

    fn decode(
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
                Group::Cut { need, .. } => return Ok(Progress { consumed: at, need }),
            }
        }
    }
}

/// The names of the attributes. An error is for the operator.
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
