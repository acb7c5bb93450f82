//! A model of `emit` (`wit/0.1/decoder.wit`): the rules of the interface, one by one.

use super::super::guest::MAX_OUTPUT;
use super::Call;

/// A record: its fields; `None` is an absent field.
pub(super) type Record = Vec<Option<Vec<u8>>>;

/// The rule of a field's type for its values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Field {
    /// Any bytes.
    Bytes,
    /// Any bytes, or an absent value.
    Nullable,
    /// Two numbers of two bytes.
    Pair,
    /// A list of bytes.
    List,
}

/// The fields of the two decoders.
pub(super) const SINGLE: &[Field] = &[Field::Bytes];
pub(super) const SEVERAL: &[Field] = &[Field::Nullable, Field::Pair, Field::List];

/// The records of these calls. The error is the number of records before the call that must be
/// refused.
pub(super) fn records(
    calls: &[Call],
    fields: &[Field],
    chunk: &[u8],
) -> Result<Vec<Record>, usize> {
    let (mut records, mut payload) = (Vec::new(), Vec::new());
    let (mut end, mut start, mut spans) = (0, 0, 0);
    for call in calls {
        let before = records.len();
        spans += call.spans.len();
        payload.extend_from_slice(&call.payload);
        let fits = call.spans.len() == call.records as usize * fields.len()
            && call.starts.len() == call.records as usize
            && is_within_output(payload.len(), spans, chunk.len());
        if !fits {
            return Err(before);
        }
        for (row, at) in call.spans.chunks(fields.len()).zip(&call.starts) {
            let in_chunk = || row.iter().filter(|span| *span >> 63 == 0);
            let low = in_chunk().map(|span| span >> 32).min().unwrap_or(u64::MAX);
            if *at < start || u64::from(*at) > low || low < end {
                return Err(before);
            }
            let record: Option<Record> = row
                .iter()
                .zip(fields)
                .map(|(span, field)| value(*span, *field, chunk, &payload))
                .collect();
            records.push(record.ok_or(before)?);
            let high = in_chunk().map(|span| (span >> 32) + (span & 0xffff_ffff)).max();
            (start, end) = (*at, end.max(high.unwrap_or(0)));
        }
    }
    Ok(records)
}

/// One span for each byte of the chunk and one more are free; others count 8 bytes.
fn is_within_output(payload: usize, spans: usize, chunk: usize) -> bool {
    (payload + 8 * spans.saturating_sub(chunk + 1)) as u64 <= MAX_OUTPUT
}

/// The value of a span; `None` if the span or the value is wrong.
fn value(span: u64, field: Field, chunk: &[u8], payload: &[u8]) -> Option<Option<Vec<u8>>> {
    if span == u64::MAX {
        return (field == Field::Nullable).then_some(None);
    }
    let place = if span >> 63 == 1 { payload } else { chunk };
    let (from, length) = ((span << 1 >> 33) as usize, (span & 0xffff_ffff) as usize);
    let bytes = place.get(from..from + length)?;
    let fits = match field {
        Field::Bytes | Field::Nullable => true,
        Field::Pair => bytes.len() == 4,
        Field::List => is_list(bytes),
    };
    fits.then(|| Some(bytes.to_vec()))
}

/// n + 1 offsets, then n elements: the first offset determines their number, the last one is the
/// end of the value.
fn is_list(bytes: &[u8]) -> bool {
    let Some(first) = bytes.first_chunk().map(|first| u32::from_le_bytes(*first) as usize) else {
        return false;
    };
    let Some(table) = bytes.get(..first).filter(|_| first >= 4 && first % 4 == 0) else {
        return false;
    };
    let mut offsets = table.as_chunks().0.iter().map(|offset| u32::from_le_bytes(*offset) as usize);
    offsets.clone().is_sorted() && offsets.next_back() == Some(bytes.len())
}
