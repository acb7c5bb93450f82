//! The answer to a status client, in as many messages as necessary. None of them has a descriptor
//! attached: descriptors in transit count against the limit of the host's user, and a few clients
//! that never receive would leave none for consumers.

use std::os::fd::AsFd;
use std::time::Instant;

use nix::errno::Errno;

use crate::protocol;
use crate::socket::{has_unread, send};

/// The last answer to one status client. There is no second one before the client has received all
/// of the first: this limits the memory for a client that asks and never receives.
pub(super) struct StatusAnswer {
    asked: Instant,
    text: Vec<u8>,
    sent: usize,
}

impl StatusAnswer {
    /// Nothing was sent yet.
    pub(super) fn new(text: Vec<u8>, now: Instant) -> StatusAnswer {
        StatusAnswer { asked: now, text, sent: 0 }
    }

    /// Time of the client's request.
    pub(super) fn asked(&self) -> Instant {
        self.asked
    }

    /// Whether the client has received all of it.
    pub(super) fn is_received(&self, socket: impl AsFd) -> bool {
        self.sent == self.text.len() && !has_unread(socket)
    }

    /// Sends as many messages as fit. Returns whether everything is sent.
    pub(super) fn send(&mut self, socket: impl AsFd) -> nix::Result<bool> {
        while self.sent < self.text.len() {
            let (message, part) = protocol::status(&self.text[self.sent..]);
            match send(&socket, &message, None, false) {
                Ok(()) => self.sent += part,
                Err(Errno::EAGAIN) => return Ok(false),
                Err(errno) => return Err(errno),
            }
        }
        // The client may never ask again.
        self.text = Vec::new();
        self.sent = 0;
        Ok(true)
    }
}
