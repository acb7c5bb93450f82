//! Messages on a consumer's socket: each is refused, or means the same after it was encoded again.

use pipemill_ring::protocol::{self, ErrorReport, GrantNumbers, ToConsumer, ToHost};
use pipemill_types::Printable;

pub(crate) fn messages(bytes: &[u8]) {
    if let Ok(message) = ToHost::decode(bytes) {
        let again = match &message {
            ToHost::Hello(hello) => protocol::hello(hello),
            ToHost::Ack(numbers) => protocol::ack(last(numbers)).to_vec(),
            ToHost::Release(numbers) => protocol::release(last(numbers)).to_vec(),
            ToHost::EndEpoch(epoch) => protocol::end_epoch(*epoch).to_vec(),
            ToHost::Views => protocol::views().to_vec(),
            ToHost::GetStatus => protocol::get_status().to_vec(),
        };
        match (&message, ToHost::decode(&again)) {
            (ToHost::Ack(numbers), Ok(ToHost::Ack(again)))
            | (ToHost::Release(numbers), Ok(ToHost::Release(again))) => {
                assert_eq!(last(numbers), last(&again));
            }
            (message, again) => assert_eq!(Ok(message), again.as_ref()),
        }
    }
    if let Ok(mut message) = ToConsumer::decode(bytes) {
        // Texts for people are made printable when they are sent.
        if let ToConsumer::Refused(text) | ToConsumer::Error(ErrorReport { message: text, .. }) =
            &mut message
        {
            *text = Printable::line(&text).to_string();
        }
        let again = match &message {
            ToConsumer::Welcome(welcome) => protocol::welcome(welcome),
            ToConsumer::Refused(why) => protocol::refused(why),
            ToConsumer::Schema(fields) => protocol::schema(fields),
            ToConsumer::Grant(grant) => protocol::grant(grant).to_vec(),
            ToConsumer::EpochEnd(end) => protocol::epoch_end(end).to_vec(),
            ToConsumer::StreamEnd => protocol::stream_end().to_vec(),
            ToConsumer::Error(report) => protocol::error(report),
            ToConsumer::Status(part) if part.left == part.text.len() as u64 => {
                protocol::status(&part.text).0
            }
            ToConsumer::LargerSlots(slots) => protocol::larger_slots(slots).to_vec(),
            // The sender has the rest of the text.
            ToConsumer::Status(_) => bytes.to_vec(),
        };
        assert_eq!(Ok(message), ToConsumer::decode(&again));
    }
}

/// The last grant that a message names: it names one at least.
fn last(numbers: &GrantNumbers<'_>) -> u64 {
    numbers.iter().last().expect("a message without a grant is refused")
}
