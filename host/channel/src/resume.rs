//! Resumes in the middle: after the last batch that was delivered to a program, in this or in
//! another run.

use pipemill_decode::SavedState;
use pipemill_source::{Block, Object, Source, SourceError, Start};
use pipemill_types::{
    Accepted, BatchPosition, ErrorKind, Fault, ListIdentity, is_same_content, restart_extension,
    saved_in, schema_extension_of, split_identity,
};

/// The place at which a channel resumes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resume {
    /// The position of the last delivered batch. Without an object: that of the start of its epoch.
    pub position: BatchPosition,
    /// Number of records of that batch that were delivered.
    pub delivered: u64,
    /// The fields of the records, as decoders get them: see
    /// [`schema_extension`](pipemill_types::schema_extension).
    pub schema: Option<String>,
    /// Accepted differences from the time of the state.
    pub accepted: Accepted,
}

/// Names in positions are cut to this many bytes, or to a few less.
const MAX_NAME_BYTES: usize = 1_000;

/// Whether `kept` is the name of the same object. Folders may differ, because the objects were
/// compared otherwise: by their list, or else by their place.
fn is_name(kept: &str, name: &str) -> bool {
    let last = |name: &str| name.rsplit('/').next().unwrap_or_default().to_owned();
    last(kept) == last(name) || kept.len() > MAX_NAME_BYTES
}

impl Resume {
    /// The beginning of the input.
    pub fn at_start() -> Resume {
        Resume {
            position: BatchPosition::default(),
            delivered: 0,
            schema: None,
            accepted: Accepted::default(),
        }
    }

    /// The start of a block of an object. `schema` has the fields of the records, as decoders get
    /// them.
    pub(super) fn at_block(object: &Object, block: &Block, schema: Option<String>) -> Resume {
        let position = BatchPosition {
            object_number: object.ordinal,
            header: block.header,
            offset: block.offset,
            first_record: block.record,
            ..BatchPosition::of_epoch(object.epoch)
        };
        Resume { position, schema, ..Self::at_start() }
    }

    /// The place in the object at which decoding begins again: 0 at its start.
    pub(super) fn offset(&self) -> u64 {
        self.position.offset
    }

    /// Bytes at the object's start that the decoder is shown first.
    pub(super) fn header(&self) -> u64 {
        self.position.header.into()
    }

    /// Number of the record at that place in the object.
    pub(super) fn record(&self) -> u64 {
        self.position.record_at_offset()
    }

    /// Records from there on that were delivered already.
    pub(super) fn to_skip(&self) -> u64 {
        self.position.records.saturating_add(self.delivered)
    }

    /// What the decoder has saved at that place, if it has.
    ///
    /// # Errors
    /// The state was changed.
    pub(super) fn saved(&self) -> Result<Option<SavedState>, Fault> {
        match saved_in(self.position.identity.text()) {
            Ok(saved) => Ok(saved.map(|bytes| SavedState { bytes, offset: self.offset() })),
            Err(error) => {
                let message = format!(
                    "what the decoder has saved in the state's `identity` is no Base64: {error}"
                );
                let remedy = "give the state as `Stream.state_dict()` returned it, or begin \
                              without the state";
                Err(Fault::new(ErrorKind::Refused, message, remedy))
            }
        }
    }

    /// Extensions for a stream that begins in the middle of the object.
    pub(super) fn extensions(&self) -> Vec<(String, String)> {
        let restart = restart_extension(self.header(), self.offset());
        self.schema_extension().into_iter().chain([restart]).collect()
    }

    /// The extension for a stream that begins at the start of the object: the fields of earlier
    /// objects.
    pub(super) fn schema_extension(&self) -> Option<(String, String)> {
        self.schema.clone().map(schema_extension_of)
    }

    /// The place at which the source begins. A header is read first.
    pub(super) fn start(&self) -> Start {
        let offset = if self.header() > 0 { 0 } else { self.offset() };
        Start { epoch: self.position.epoch, ordinal: self.position.object_number, offset }
    }

    /// The place at which the source continues after the header.
    pub(super) fn after_header(&self) -> Start {
        Start { offset: self.offset(), ..self.start() }
    }

    /// Starts the source at the state's place. The source refuses the place if its list is another
    /// one.
    ///
    /// # Errors
    /// As [`Source::start_at`].
    pub(super) fn begin(&self, source: &mut dyn Source) -> Result<(), SourceError> {
        source.expect_list(self.list());
        source.start_at(self.start())
    }

    /// The list that the epoch must have.
    pub(super) fn list(&self) -> Option<ListIdentity> {
        let (list, _) = split_identity(self.position.identity.text());
        list.filter(|_| !self.accepted.objects)
    }

    /// Checks that the first object is the one of the state.
    ///
    /// # Errors
    /// The object has another name, or its bytes have changed; or the state was changed.
    pub(super) fn check(&self, object: &Object) -> Result<(), Fault> {
        self.saved()?;
        let position = &self.position;
        let differs = |what: &str, expected: &str, found: &str| {
            let message = format!(
                "`objects` differ: the state goes on in object {} of epoch {}, whose {what} was \
                 {expected}; it is {found}",
                position.object_number, position.epoch
            );
            let remedy = "the objects have changed since the state was taken: bring them back, \
                          begin without the state, or accept it: `objects`";
            Err(Fault::new(ErrorKind::Refused, message, remedy))
        };
        if position.object.is_empty() {
            return Ok(());
        }
        if !is_name(&position.object, &object.name) {
            return differs("name", &position.object, &object.name);
        }
        let ((_, then), (_, now)) =
            (split_identity(position.identity.text()), split_identity(object.identity.text()));
        if self.accepted.objects || is_same_content(then, now) {
            return Ok(());
        }
        differs("identity", then, now)
    }
}
