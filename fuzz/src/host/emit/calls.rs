//! Calls of `emit`: read from the fuzzer's bytes, so that many are nearly right, and written as the
//! chunk that makes the decoder do them.

/// Largest number of calls, of spans of a call, and of bytes of a payload: they keep a run short.
const MAX_CALLS: usize = 8;
const MAX_LIST: usize = 64;

/// One call.
#[derive(Debug, Default)]
pub(super) struct Call {
    pub(super) records: u32,
    pub(super) spans: Vec<u64>,
    pub(super) starts: Vec<u32>,
    pub(super) payload: Vec<u8>,
}

impl Call {
    /// Number of bytes that the call takes in the chunk.
    fn size(&self) -> usize {
        let size = 8 + 8 * self.spans.len() + 4 * self.starts.len() + self.payload.len();
        size.next_multiple_of(8)
    }
}

/// Reads calls: a byte each for the number of records, for lists that have too few or too many, and
/// for the length of the payload; then the payload, a byte for each start, three for each span.
pub(super) fn read(mut bytes: &[u8], fields: usize) -> Vec<Call> {
    let mut take = || bytes.split_off_first().copied();
    let (mut calls, mut end, mut payload) = (Vec::new(), 0u64, 0u64);
    while calls.len() < MAX_CALLS {
        let (Some(records), Some(wrong), Some(length)) = (take(), take(), take()) else { break };
        let records = usize::from(records) % 9;
        let mut call = Call { records: records as u32, ..Call::default() };
        call.payload =
            (0..usize::from(length) % MAX_LIST).map(|_| take().unwrap_or_default()).collect();
        payload += call.payload.len() as u64;
        let (starts, spans) = match wrong {
            255 => (records + 1, records * fields),
            254 => (records, records * fields + 1),
            253 => (records.saturating_sub(1), records * fields),
            _ => (records, records * fields),
        };
        for at in 0..starts.max(spans.div_ceil(fields)) {
            if at < starts {
                // Usually the end of the record before it.
                let step = take().unwrap_or_default();
                call.starts
                    .push((end + u64::from(step & 3)).saturating_sub(u64::from(step >> 7)) as u32);
            }
            for _ in 0..fields.min(spans.saturating_sub(call.spans.len())) {
                let [kind, a, b] = [take(), take(), take()].map(Option::unwrap_or_default);
                let span = span(kind, a, b, end, payload);
                if span >> 63 == 0 {
                    end = (span >> 32) + (span & 0xffff_ffff);
                }
                call.spans.push(span);
            }
        }
        calls.push(call);
    }
    calls
}

/// A span. `end` is the end of the last one in the chunk, `payload` the size of the payload.
fn span(kind: u8, a: u8, b: u8, end: u64, payload: u64) -> u64 {
    let (first, second) = (u64::from(a), u64::from(b));
    match kind % 8 {
        0 => u64::MAX,
        1 => 1 << 63 | first << 32 | second,
        // The last bytes of the payload.
        2 => 1 << 63 | payload.saturating_sub(second) << 32 | second.min(payload),
        3 => first << 32 | second,
        4 => first << 56 | second,
        5 => first << 24 | second << 56,
        _ => ((end + (first & 3)) << 32) | (second % 16),
    }
}

/// The chunk that makes the decoder do these calls.
pub(super) fn chunk(calls: &[Call]) -> Vec<u8> {
    let mut chunk = Vec::new();
    for call in calls {
        let end = chunk.len() + call.size();
        let lengths = [call.spans.len(), call.starts.len(), call.payload.len()];
        chunk.push(call.records as u8);
        chunk.extend(lengths.map(|length| length as u8));
        chunk.extend([0; 4]);
        chunk.extend(call.spans.iter().flat_map(|span| span.to_le_bytes()));
        chunk.extend(call.starts.iter().flat_map(|start| start.to_le_bytes()));
        chunk.extend(&call.payload);
        chunk.resize(end, 0xee);
    }
    chunk
}
