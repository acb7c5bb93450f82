//! Skips unwanted members of any size.

use pipemill_plugin::{DecodeError, Progress};

use crate::errors::cut_short;
use crate::member::{Member, Tail, read_tail};
use crate::state::{Npz, Skip, State, Step, more_bytes, wants};
use crate::zip::{Descriptor, Read, Sizes};

impl Npz {
    /// Begins to skip a member.
    pub(crate) fn begin_skip(
        &mut self,
        member: &Member,
        chunk: &[u8],
        end: bool,
    ) -> Result<Step, DecodeError> {
        let left = match self.known_size(member, chunk, end)? {
            Ok(size) => size,
            Err(step) => return Ok(step),
        };
        let (at, held) = (member.at, chunk.len() - member.at);
        let (descriptor, sizes) = (member.descriptor(), member.sizes());
        if left == 0 {
            return match read_tail(&chunk[member.data..], descriptor, sizes) {
                Tail::Whole(size, _) => {
                    self.begin(member);
                    Ok(Step::GoOn(member.data + size))
                }
                Tail::Cut { need } => {
                    more_bytes(at, member.header.size + need, "what follows a member", held, end)
                }
            };
        }
        if chunk.len() == member.data {
            return more_bytes(at, held + 1, &format!("{left} bytes of data"), 0, end);
        }
        self.begin(member);
        self.state = State::Skip(Skip { left, descriptor });
        Ok(Step::GoOn(member.data))
    }

    /// Skips the data of a member, except for its last byte if the bytes after it have not arrived.
    pub(crate) fn skip(
        &mut self,
        skip: Skip,
        chunk: &[u8],
        at: usize,
        end: bool,
    ) -> Result<Step, DecodeError> {
        const NO_SIZES: Sizes = Sizes { crc32: 0, compressed: 0, plain: 0 };
        let Skip { left, descriptor } = skip;
        let held = chunk.len() - at;
        let (step, left, need) = if held as u64 >= left {
            // The value fits: the chunk is not shorter.
            let data_end = at + left as usize;
            match read_tail(&chunk[data_end..], descriptor, NO_SIZES) {
                Tail::Whole(size, _) => return Ok(Step::GoOn(data_end + size)),
                Tail::Cut { need } => (left as usize - 1, 1, 1 + need),
            }
        } else {
            let step = held.saturating_sub(1);
            (step, left - step as u64, 2)
        };
        if end && held > 0 {
            let expected = format!("{left} more bytes of a member and what follows it");
            self.archive = None;
            return Err(cut_short(at + step, &expected, held - step));
        }
        self.state = State::Skip(Skip { left, descriptor });
        Ok(wants(at + step, need))
    }

    /// Skips the descriptor after a member that had an error.
    pub(crate) fn descriptor(
        &mut self,
        descriptor: Descriptor,
        chunk: &[u8],
        at: usize,
        end: bool,
    ) -> Result<Step, DecodeError> {
        let rest = &chunk[at..];
        match descriptor.read(rest) {
            Read::Whole((size, _)) => Ok(Step::GoOn(at + size)),
            Read::Cut { .. } if end && rest.is_empty() => Ok(Step::Return(Progress::consumed(at))),
            Read::Cut { need } => {
                self.state = State::Descriptor(descriptor);
                more_bytes(at, need, "the descriptor of a member", rest.len(), end)
            }
        }
    }
}
