//! The reader's error.

use std::path::PathBuf;

use crate::memory::MemoryError;
use crate::protocol::ErrorReport;
use crate::trust::OtherUser;

/// The reason why a channel can't be read.
#[derive(Debug, thiserror::Error)]
pub enum ReaderError {
    /// No host answers at the path.
    #[error("{}: no pipemill host answers: {error}", path.display())]
    Connect {
        /// The socket.
        path: PathBuf,
        /// The kernel's error.
        error: std::io::Error,
    },
    /// Another user serves the path. Nothing was sent to that host, and nothing of it was read.
    #[error(
        "{0}, which could send anything; if you trust that user, connect with allow_other_users; \
         if not, let the host serve a path in a folder that only you can write to"
    )]
    OtherUser(OtherUser),
    /// The host refused this consumer, for this reason.
    #[error("the host refused this consumer: {0}")]
    Refused(String),
    /// The channel failed. The report says where and why.
    #[error("{0}")]
    Failed(Box<ErrorReport>),
    /// The host hung up before it sent the end of the stream.
    #[error("channel {channel:?}: the host died: it hung up before the end of the stream")]
    HostDied {
        /// Name of the channel.
        channel: String,
    },
    /// The host broke the protocol.
    #[error("channel {channel:?}: the host broke the protocol: {what}")]
    Protocol {
        /// Name of the channel.
        channel: String,
        /// The violation.
        what: String,
    },
    /// Shared memory of the host can't be mapped.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// This consumer did not receive all batches of the channel, so it has no single position to
    /// resume from.
    #[error(
        "channel {channel:?}: this program was given batch {batch} before others, which went to \
         another consumer; let one consumer read the channel, or connect each with a rank"
    )]
    Gap {
        /// Name of the channel.
        channel: String,
        /// Number of the first unexpected batch.
        batch: u64,
    },
    /// The order of records differs from run to run, so a position inside an epoch does not
    /// determine the records before it.
    #[error(
        "channel {channel:?}: its records come in another order in each run, so there is no place \
         inside of an epoch to go on at; take the state between two epochs, or let the host keep \
         the order of the source"
    )]
    AnyOrder {
        /// Name of the channel.
        channel: String,
    },
    /// This process was forked from the one that connected.
    #[error("channel {channel:?}: connected before a fork; a child process must connect itself")]
    Forked {
        /// Name of the channel.
        channel: String,
    },
    /// The kernel refused to receive.
    #[error("the host's socket: {0}")]
    Socket(#[from] std::io::Error),
}
