//! The start of a source: its first byte, or a byte in the middle, where an earlier process
//! stopped.

use pipemill_codecs::SeekPoint;
use pipemill_types::{ErrorKind, ListIdentity};

use crate::SourceError;

/// The place at which a source begins. The default is the beginning of epoch 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Start {
    /// Number of the epoch.
    pub epoch: u32,
    /// Number of the object in the epoch's list on this machine, from 0. If it is the number of
    /// objects in the list, the source begins with the end of the epoch.
    pub ordinal: u64,
    /// First byte of this object to read, inflated and wrapped.
    pub offset: u64,
}

/// The place in one object at which reading begins. The default is its first byte.
#[derive(Clone, Copy, Default)]
pub(crate) struct ObjectStart<'a> {
    /// First byte to read, inflated and wrapped.
    pub(crate) offset: u64,
    /// The point from which a compressed object is inflated; without one, its start.
    point: Option<&'a SeekPoint>,
}

impl<'a> ObjectStart<'a> {
    /// Byte `offset` of an object that is not compressed, or that is inflated from its start.
    pub(crate) fn at(offset: u64) -> Self {
        Self { offset, point: None }
    }

    /// Byte `offset` of an object that is inflated from this point, if it is not after the byte.
    pub(crate) fn after(point: Option<&'a SeekPoint>, offset: u64) -> Self {
        Self { offset, point: point.filter(|point| point.inflated() <= offset) }
    }

    /// The point from which a compressed object is inflated.
    pub(crate) fn point(&self) -> Option<&'a SeekPoint> {
        self.point
    }
}

impl Start {
    /// The beginning of an epoch.
    pub fn of_epoch(epoch: u32) -> Self {
        Self { epoch, ..Self::default() }
    }

    /// Checks that the epoch is one of `first..=end`. A source that begins with epoch `end` has no
    /// object.
    pub(crate) fn check_epoch(
        &self,
        name: &str,
        first: u32,
        end: Option<u32>,
    ) -> Result<(), SourceError> {
        let epoch = self.epoch;
        let is_end = end == Some(epoch) && (self.ordinal, self.offset) == (0, 0);
        if epoch >= first && (end.is_none_or(|end| epoch < end) || is_end) {
            return Ok(());
        }
        let range = match end {
            Some(end) if end <= first => "has none".to_owned(),
            Some(end) => format!("has the epochs {first} to {}", end - 1),
            None => format!("begins with epoch {first}"),
        };
        let message = format!("was to begin in epoch {epoch}, but {range}");
        let remedy = "set the epochs that were set when the state was taken, or begin without the \
                      state";
        Err(SourceError { epoch: Some(epoch), ..SourceError::new(name, message, remedy) })
    }

    /// Checks that the epoch's list, which has `found` objects, has the object.
    pub(crate) fn check_list(&self, name: &str, found: u64) -> Result<(), SourceError> {
        let Self { epoch, ordinal, offset } = *self;
        if ordinal < found || (ordinal == found && offset == 0) {
            return Ok(());
        }
        let message = format!(
            "was to begin at object {ordinal} of epoch {epoch}, counted from 0, but its list has \
             {found} objects for this machine"
        );
        let remedy = "the list has changed since the state was taken: bring the objects back, or \
                      begin without the state";
        Err(SourceError { epoch: Some(epoch), ..SourceError::new(name, message, remedy) })
    }
}

/// Checks that the list of an epoch is the list of a state.
///
/// # Errors
/// The lists differ; the error says how.
pub(crate) fn check_list(
    name: &str,
    epoch: u32,
    expected: &ListIdentity,
    found: &ListIdentity,
) -> Result<(), SourceError> {
    ListIdentity::check(expected, found).map_err(|why| {
        let message = format!("`objects` differ: {why}");
        let remedy = "bring the objects back, begin without the state, or accept it: `objects`";
        let error = SourceError::new(name, message, remedy);
        SourceError { epoch: Some(epoch), kind: ErrorKind::Refused, ..error }
    })
}
