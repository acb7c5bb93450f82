//! Decodes messages. The bytes may be anything.

use super::*;

impl<'m> ToHost<'m> {
    /// Decodes a message of a consumer or a status client.
    ///
    /// # Errors
    /// The type is unknown, or the body does not fit the type.
    pub fn decode(message: &'m [u8]) -> Result<ToHost<'m>, ProtocolError> {
        let (kind, body) = split(message)?;
        match kind {
            HELLO => Ok(ToHost::Hello(parse("HELLO", body)?)),
            ACK => Ok(ToHost::Ack(grant_numbers("ACK", body)?)),
            RELEASE => Ok(ToHost::Release(grant_numbers("RELEASE", body)?)),
            END_EPOCH => Ok(ToHost::EndEpoch(u32::from_le_bytes(exactly("END_EPOCH", body)?))),
            GET_STATUS => {
                let [] = exactly("GET_STATUS", body)?;
                Ok(ToHost::GetStatus)
            }
            VIEWS => {
                let [] = exactly("VIEWS", body)?;
                Ok(ToHost::Views)
            }
            _ => Err(unknown(kind)),
        }
    }
}

impl ToConsumer {
    /// Decodes a message of the host.
    ///
    /// # Errors
    /// The type is unknown, or the body does not fit the type.
    pub fn decode(message: &[u8]) -> Result<ToConsumer, ProtocolError> {
        let (kind, body) = split(message)?;
        Ok(match kind {
            WELCOME => ToConsumer::Welcome(parse("WELCOME", body)?),
            REFUSED => ToConsumer::Refused(parse::<RefusedBody>("REFUSED", body)?.message),
            SCHEMA => ToConsumer::Schema(parse::<SchemaBody<_>>("SCHEMA", body)?.fields),
            GRANT => ToConsumer::Grant(parse_grant(exactly("GRANT", body)?)),
            EPOCH_END => ToConsumer::EpochEnd(parse_epoch_end(exactly("EPOCH_END", body)?)),
            STREAM_END => {
                let [] = exactly("STREAM_END", body)?;
                ToConsumer::StreamEnd
            }
            ERROR => ToConsumer::Error(parse("ERROR", body)?),
            STATUS => ToConsumer::Status(parse_status(body)?),
            LARGER_SLOTS => {
                ToConsumer::LargerSlots(parse_larger_slots(exactly("LARGER_SLOTS", body)?))
            }
            _ => return Err(unknown(kind)),
        })
    }
}

fn parse_grant(body: [u8; 32]) -> Grant {
    Grant {
        grant: u64_at(&body, 0),
        batch: u64_at(&body, 8),
        bytes: u64_at(&body, 16),
        slot: u32_at(&body, 24),
        epoch: u32_at(&body, 28),
    }
}

fn parse_status(body: &[u8]) -> Result<StatusPart, ProtocolError> {
    let split = body.split_first_chunk::<8>().map(|(left, text)| (u64::from_le_bytes(*left), text));
    match split {
        Some((left, text)) if !text.is_empty() && left >= text.len() as u64 => {
            Ok(StatusPart { left, text: text.into() })
        }
        _ => Err(ProtocolError(format!(
            "STATUS with a body of {} bytes: expected 8 bytes, and then up to as many as these say",
            body.len()
        ))),
    }
}

fn parse_larger_slots(body: [u8; 16]) -> LargerSlots {
    LargerSlots { slot_bytes: u64_at(&body, 0), first: u32_at(&body, 8), slots: u32_at(&body, 12) }
}

fn parse_epoch_end(body: [u8; 24]) -> EpochEnd {
    EpochEnd {
        batches: u64_at(&body, 0),
        records: u64_at(&body, 8),
        epoch: u32_at(&body, 16),
        early: u32_at(&body, 20) & ENDED_EARLY != 0,
    }
}

/// For positions that are constants of the caller, within the array. So is `u32_at`.
fn u64_at<const N: usize>(body: &[u8; N], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|i| body[at + i]))
}

fn u32_at<const N: usize>(body: &[u8; N], at: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|i| body[at + i]))
}

fn split(message: &[u8]) -> Result<(u32, &[u8]), ProtocolError> {
    match message.split_first_chunk::<4>() {
        Some((kind, body)) => Ok((u32::from_le_bytes(*kind), body)),
        None => Err(ProtocolError(format!(
            "a message of {} bytes: expected a type of 4 bytes, then a body",
            message.len()
        ))),
    }
}

fn unknown(kind: u32) -> ProtocolError {
    ProtocolError(format!("a message of the unknown type {kind}, in protocol {PROTOCOL}"))
}

fn parse<'m, T: Deserialize<'m>>(name: &str, body: &'m [u8]) -> Result<T, ProtocolError> {
    serde_json::from_slice(body).map_err(|error| {
        ProtocolError(format!("{name} with a body that is not understood: {error}"))
    })
}

fn exactly<const N: usize>(name: &str, body: &[u8]) -> Result<[u8; N], ProtocolError> {
    body.try_into().map_err(|_| {
        ProtocolError(format!("{name} with a body of {} bytes: expected {N}", body.len()))
    })
}

fn grant_numbers<'m>(name: &str, body: &'m [u8]) -> Result<GrantNumbers<'m>, ProtocolError> {
    match body.as_chunks::<8>() {
        (numbers, []) if !numbers.is_empty() => Ok(GrantNumbers(numbers)),
        _ => Err(ProtocolError(format!(
            "{name} with a body of {} bytes: expected one or more grant numbers of 8 bytes",
            body.len()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use pipemill_types::Printable;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn random_bytes_are_an_error_or_a_message(kind in 0..30u32, body: Vec<u8>) {
            let message = [&kind.to_le_bytes(), &body[..]].concat();
            let _ = ToHost::decode(&message);
            let _ = ToConsumer::decode(&message);
            prop_assert!(ToHost::decode(&message[..message.len().min(3)]).is_err());
        }

        #[test]
        fn messages_with_numbers_decode_to_the_same(
            a: u64, b: u64, c: u64, d: u32, e: u32, early: bool,
        ) {
            let sent = Grant { grant: a, batch: b, bytes: c, slot: d, epoch: e };
            prop_assert_eq!(ToConsumer::decode(&grant(&sent)), Ok(ToConsumer::Grant(sent)));
            let sent = LargerSlots { slot_bytes: a, first: d, slots: e };
            let message = larger_slots(&sent);
            prop_assert_eq!(ToConsumer::decode(&message), Ok(ToConsumer::LargerSlots(sent)));
            let sent = EpochEnd { batches: a, records: b, epoch: d, early };
            prop_assert_eq!(ToConsumer::decode(&epoch_end(&sent)), Ok(ToConsumer::EpochEnd(sent)));
            let message = end_epoch(d);
            prop_assert_eq!(ToHost::decode(&message), Ok(ToHost::EndEpoch(d)));
            for (sent, message) in [(a, ack(a)), (b, release(b))] {
                match ToHost::decode(&message) {
                    Ok(ToHost::Ack(numbers) | ToHost::Release(numbers)) => {
                        prop_assert!(numbers.iter().eq([sent]));
                    }
                    other => prop_assert!(false, "{other:?}"),
                }
            }
        }

        #[test]
        fn a_status_of_any_length_is_joined_from_its_parts(text: Vec<u8>, times in 1usize..2000) {
            let whole = text.repeat(times);
            let mut joined = Vec::new();
            while joined.len() < whole.len() {
                let (message, bytes) = status(&whole[joined.len()..]);
                prop_assert!(message.len() <= MAX_MESSAGE);
                match ToConsumer::decode(&message) {
                    Ok(ToConsumer::Status(StatusPart { left, text })) => {
                        prop_assert_eq!(left, (whole.len() - joined.len()) as u64);
                        prop_assert_eq!(text.len(), bytes);
                        joined.extend(text);
                    }
                    other => prop_assert!(false, "{other:?}"),
                }
            }
            prop_assert!(joined == whole);
        }

        /// The texts are up to three times as long as a message, even before JSON escapes them.
        #[test]
        fn an_error_and_a_refusal_are_cut_to_fit_a_message(
            text in prop::collection::vec(any::<char>(), 0..50), times in 0usize..1000
        ) {
            let text = text.into_iter().collect::<String>().repeat(times);
            let report = ErrorReport {
                kind: ErrorKind::Plugin,
                message: text.clone(),
                channel: "train".into(),
                epoch: None,
                object: Some(text.clone()),
                offset: Some(u64::MAX),
                record: None,
                decoder: None,
            };
            let shown = Printable::line(&text).to_string();
            for message in [error(&report), refused(&text)] {
                prop_assert!(message.len() <= MAX_MESSAGE);
                match ToConsumer::decode(&message).unwrap() {
                    ToConsumer::Error(found) => prop_assert!(shown.starts_with(&found.message)),
                    ToConsumer::Refused(found) => prop_assert!(shown.starts_with(&found)),
                    other => prop_assert!(false, "{other:?}"),
                }
            }
        }
    }

    #[test]
    fn messages_have_the_bytes_of_the_contract() {
        let text = r#"{"protocol": 1, "channel": "train", "credits": 2, "client": "python 3"}"#;
        let message = [&[1, 0, 0, 0], text.as_bytes()].concat();
        let hello = Hello { protocol: 1, credits: Some(2), ..Hello::new("train", "python 3") };
        assert_eq!(ToHost::decode(&message), Ok(ToHost::Hello(hello)));
        assert_eq!(ack(0x0102)[..6], [2, 0, 0, 0, 2, 1]);
        assert_eq!(stream_end(), [21, 0, 0, 0]);
        assert_eq!(status(b"{}").0, *b"\x17\0\0\0\x02\0\0\0\0\0\0\0{}");
        let fields = [Field::new("x", Scalar::Float32, vec![2, 0])];
        let text = r#"{"fields":[{"name":"x","scalar":"float32","shape":[2,0]}]}"#;
        assert_eq!(schema(&fields), [&[18, 0, 0, 0], text.as_bytes()].concat());
        let text = r#"{"kind": "source", "message": "gone", "channel": "train", "epoch": null}"#;
        match ToConsumer::decode(&[&[22, 0, 0, 0], text.as_bytes()].concat()) {
            Ok(ToConsumer::Error(report)) => assert_eq!(report.to_string(), "gone"),
            other => panic!("{other:?}"),
        }
    }
}
