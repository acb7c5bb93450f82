//! Explains why no batch comes: the host's status says what the channel waits for.

use std::time::Duration;

use serde_json::Value;

use super::Reader;
use crate::status_client::StatusClient;

/// A host that has not answered within this time is stopped or overloaded.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

impl Reader {
    /// The reason why the channel waits, according to the host, in words for a message: the rank
    /// that has left or has not come, the writer of a FIFO, an object. `None` if it does not wait,
    /// or if the host does not answer within 5 seconds. It is meant for a program whose
    /// [`wait`](Reader::wait) has returned nothing for some seconds.
    pub fn waits_for(&self) -> Option<String> {
        let address = self.connection.address();
        let client = if address.allow_other_users {
            StatusClient::connect(&address.path)
        } else {
            StatusClient::connect_to_own(&address.path)
        };
        let mut client = client.ok()?;
        client.set_timeout(ANSWER_TIMEOUT).ok()?;
        waits_for(&client.status().ok()?, &self.welcome.channel)
    }
}

/// The reason in a host's status why this channel waits.
fn waits_for(status: &[u8], channel: &str) -> Option<String> {
    let status: Value = serde_json::from_slice(status).ok()?;
    let mut channels = status.get("channels")?.as_array()?.iter();
    let of_channel = channels.find(|one| one["name"] == channel)?;
    Some(of_channel["waits_for"]["what"].as_str()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_are_those_of_the_channel() {
        let status = br#"{"channels": [{"name": "a", "waits_for": null},
            {"name": "b", "waits_for": {"reason": "consumers", "what": "rank 1"}}]}"#;
        assert_eq!(waits_for(status, "b").as_deref(), Some("rank 1"));
        for (status, channel) in [(&status[..], "a"), (status, "c"), (b"{}", "b"), (b"[", "b")] {
            assert_eq!(waits_for(status, channel), None);
        }
    }
}
