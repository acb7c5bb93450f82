//! Transforms a sample that the built-in `webdataset` has found: decodes the field `image` and
//! keeps the others.
//!
//! All fields are copied next to the images, so that a batch holds no bytes of the archive.

use std::cell::Cell;

use pipemill_plugin::{
    Field, InnerRecord, MapRecords, OptionSpec, Options, Records, Scalar, StreamInfo,
};
use pipemill_webdataset::WebDataset;

use crate::picture::Pictures;

/// The option that says whether the key of a sample is emitted. `webdataset` always finds it.
pub(crate) const EMIT_KEY: &str = "emit_key";
/// The field that is decoded.
const IMAGE: &str = "image";
/// Largest height and width of an array, which has 12 MiB then.
const MAX_SIZE: u64 = 2048;

pub(crate) struct Samples {
    emit_key: bool,
    size: u32,
    /// Index of the image among the fields of `webdataset`, whose first one is the key.
    image: Cell<usize>,
    pictures: Pictures,
}

impl MapRecords for Samples {
    type Inner = WebDataset;

    fn options() -> Vec<OptionSpec> {
        vec![
            OptionSpec::bool(EMIT_KEY, false, "emit the key"),
            OptionSpec::int("size", None, "height and width of an image"),
            OptionSpec::int("max_pixels", None, "largest image, in pixels"),
            OptionSpec::bool("draft", false, "decode large images at a part of their size"),
        ]
    }

    fn open(options: &Options, _: &StreamInfo) -> Result<Self, String> {
        let size = options.int("size").unwrap_or_default();
        if !(1..=MAX_SIZE).contains(&size) {
            return Err(format!("option `size` takes 1 to {MAX_SIZE}, not {size}"));
        }
        let max_pixels = options.int("max_pixels").unwrap_or_default();
        Ok(Self {
            emit_key: options.is_on(EMIT_KEY),
            size: size as u32,
            image: Cell::new(0),
            pictures: Pictures::new(size as usize, max_pixels, options.is_on("draft")),
        })
    }

    fn schema(&self, inner: &[Field]) -> Result<Vec<Field>, String> {
        let is_image = |field: &Field| field.name == IMAGE && field.scalar == Scalar::Bytes;
        let Some(image) = inner.iter().position(is_image) else {
            let names: Vec<_> = inner[1..].iter().map(|field| &*field.name).collect();
            return Err(format!(
                "option `fields` must name the member that is the JPEG `{IMAGE}`, without a type, as in \
                 \"{IMAGE}=jpg;jpeg,cls:int64\"; it names {}",
                names.join(", ")
            ));
        };
        self.image.set(image);
        let mut fields = inner.to_vec();
        let shape = [self.size, self.size, 3];
        fields[image] = Field {
            nullable: inner[image].nullable,
            ..Field::new(IMAGE, Scalar::Uint8).shaped(shape)
        };
        Ok(fields.split_off(usize::from(!self.emit_key)))
    }

    // Each sample is independent of the others.
    fn can_restart(&self) -> bool {
        true
    }

    fn map(&mut self, record: &InnerRecord<'_>, out: &mut Records) -> Result<(), String> {
        for field in usize::from(!self.emit_key)..record.fields() {
            match record.field(field) {
                None => out.absent(),
                Some(jpeg) if field == self.image.get() => {
                    let made = out.field_made(|payload| self.pictures.decode(jpeg, payload));
                    if let Err(why) = made {
                        out.abandon_record();
                        let key = record.field(0).unwrap_or_default();
                        return Err(format!("sample `{}`: {IMAGE}: {why}", key.escape_ascii()));
                    }
                }
                Some(bytes) => out.field_bytes(bytes),
            }
        }
        out.end_record(record.start());
        Ok(())
    }
}
