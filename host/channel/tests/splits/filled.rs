//! Batches of a fixed size that several threads fill: the threads that copy the bytes, and the end
//! of the channel while batches are being filled.

use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use pipemill_channel::memory_sink::{LookAtRecords, MemorySink};
use pipemill_channel::{
    Batch, Channel, ChannelStats, CopiedBytes, ErrorPolicy, Learning, OnError, OnPluginError,
    Outcome, SinkDelivery, SinkMemory, StopReason, Workers,
};
use pipemill_decode::{Engine, Limits, Plugin};
use pipemill_source::{Input, Object, ReadOutcome, Source, SourceError, SourceEvent, Start};
use pipemill_testing::tiny::tiny_with_window;
use pipemill_types::{
    BatchAcross, BatchMemory, BatchSize, ChunkMemory, Column, Field, ObjectFacts, ObjectIdentity,
    Tail,
};

use crate::host::plugin;

/// Bytes of a line, with its end.
const LINE: usize = 1 << 10;
/// Lines of a batch, and batches of an epoch.
const RECORDS: usize = 100;
const BATCHES: usize = 40;
/// Objects of an epoch.
const OBJECTS: usize = 8;
/// A wait that only guards against a hang.
const PATIENCE: Duration = Duration::from_secs(600);

/// The text of an object: each line begins with its number in the epoch.
fn object(number: usize) -> Vec<u8> {
    let lines = RECORDS * BATCHES / OBJECTS;
    let line = |at: usize| format!("{:<width$}\n", number * lines + at, width = LINE - 1);
    (0..lines).map(line).collect::<String>().into_bytes()
}

/// Two epochs of the same objects.
#[derive(Default)]
struct Objects {
    next: usize,
    epoch: u32,
}

struct Bytes(std::io::Cursor<Vec<u8>>);

impl Input for Bytes {
    fn is_stored(&self) -> bool {
        true
    }

    fn check_unchanged(&self) -> Result<(), SourceError> {
        Ok(())
    }

    fn read(&mut self, buf: &mut [u8], _: Option<Duration>) -> Result<ReadOutcome, SourceError> {
        let count = std::io::Read::read(&mut self.0, buf).expect("it is in memory");
        Ok(if count == 0 { ReadOutcome::End } else { ReadOutcome::Bytes(count) })
    }
}

impl Source for Objects {
    fn next(&mut self) -> Result<SourceEvent, SourceError> {
        if self.epoch == 2 {
            return Ok(SourceEvent::End);
        }
        if self.next == OBJECTS {
            (self.next, self.epoch) = (0, self.epoch + 1);
            return Ok(SourceEvent::EpochEnd(self.epoch - 1));
        }
        self.next += 1;
        Ok(SourceEvent::Object(Object {
            epoch: self.epoch,
            ordinal: self.next as u64 - 1,
            name: format!("object {}", self.next - 1),
            identity: ObjectIdentity::default(),
            facts: ObjectFacts::default(),
            companions: Vec::new(),
            block: None,
            known: None,
            input: Box::new(Bytes(std::io::Cursor::new(object(self.next - 1)))),
        }))
    }

    fn start_at(&mut self, _: Start) -> Result<(), SourceError> {
        unreachable!("it begins at its start")
    }

    fn can_reread(&self) -> bool {
        true
    }

    fn end_epoch(&mut self) {
        self.next = OBJECTS;
    }
}

/// The event after several batches are being filled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    Nothing,
    EndEpoch,
    Stop,
}

/// Threads that copy wait here, until there are enough of them, or enough buffers for later
/// batches.
struct Gate {
    state: Mutex<GateState>,
    changed: Condvar,
    /// Threads or buffers that have to be here at the same time.
    wanted: usize,
}

#[derive(Default)]
struct GateState {
    inside: usize,
    buffers: usize,
    is_open: bool,
}

impl Gate {
    fn new(wanted: usize) -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), changed: Condvar::new(), wanted })
    }

    fn is_open(&self) -> bool {
        self.state.lock().expect("nobody panics with it").is_open
    }

    /// A later batch has a buffer.
    fn add_buffer(&self) {
        let mut state = self.state.lock().expect("nobody panics with it");
        state.buffers += 1;
        state.is_open |= state.buffers >= self.wanted;
        self.changed.notify_all();
    }

    fn pass(&self) {
        let mut state = self.state.lock().expect("nobody panics with it");
        state.inside += 1;
        state.is_open |= state.inside >= self.wanted;
        self.changed.notify_all();
        let closed = |state: &mut GateState| !state.is_open;
        let waited = self.changed.wait_timeout_while(state, PATIENCE, closed);
        let (mut state, timeout) = waited.expect("nobody panics with it");
        assert!(!timeout.timed_out(), "too few batches are filled at once");
        state.inside -= 1;
    }
}

/// Memory whose writers pass the gate, if it has one.
struct Gated {
    bytes: Vec<u8>,
    gate: Option<Arc<Gate>>,
    index: Option<Vec<Column>>,
    /// A clone, as long as this lives.
    _filled: Arc<()>,
}

impl AsRef<[u8]> for Gated {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl AsMut<[u8]> for Gated {
    fn as_mut(&mut self) -> &mut [u8] {
        self.gate.iter().for_each(|gate| gate.pass());
        &mut self.bytes
    }
}

impl ChunkMemory for Gated {}

impl BatchMemory for Gated {
    fn write_index(&mut self, _: usize, _: usize, columns: &[Column]) -> bool {
        self.index = Some(columns.to_vec());
        true
    }

    fn take_index(&mut self) -> Option<Vec<Column>> {
        self.index.take()
    }
}

/// Keeps the number of each line.
struct Lines {
    gate: Arc<Gate>,
    then: Then,
    /// Bytes of a memory, and the number of memories.
    bytes: usize,
    memories: usize,
    /// Number of dedicated buffers. That of the next batch is filled when others were taken.
    dedicated: usize,
    filled: Arc<()>,
    most_filled: usize,
    lines: Vec<(u32, usize)>,
    epochs: Vec<(u32, bool)>,
}

impl Lines {
    fn new(then: Then, wanted: usize, bytes: usize) -> Self {
        let (lines, epochs) = Default::default();
        let (gate, filled) = (Gate::new(wanted), Arc::new(()));
        let (memories, dedicated, most_filled) = (8, 0, 0);
        Self { gate, then, bytes, memories, dedicated, filled, most_filled, lines, epochs }
    }

    fn gated(&mut self, bytes: usize) -> Gated {
        Gated { gate: Some(self.gate.clone()), ..self.ungated(bytes) }
    }

    fn ungated(&mut self, bytes: usize) -> Gated {
        let filled = self.filled.clone();
        self.most_filled = self.most_filled.max(Arc::strong_count(&filled) - 1);
        Gated { bytes: vec![0; bytes], gate: None, index: None, _filled: filled }
    }

    /// If batches fit into no such memory, it has no gate.
    fn in_slot(&mut self) -> Gated {
        let fits = self.bytes >= RECORDS * (LINE - 1);
        if fits { self.gated(self.bytes) } else { self.ungated(self.bytes) }
    }

    /// Whether it has memory for a later batch.
    fn is_free(&self, memories: usize) -> bool {
        let ends = self.then != Then::Nothing && self.gate.is_open() && self.epochs.is_empty();
        Arc::strong_count(&self.filled) <= memories && !ends
    }

    fn does(&self, then: Then) -> bool {
        self.then == then && self.gate.is_open()
    }
}

impl SinkMemory for Lines {
    type Memory = Gated;

    fn memory(&mut self) -> Result<Gated, StopReason> {
        if self.does(Then::Stop) {
            return Err(StopReason::Stopped);
        }
        if self.does(Then::EndEpoch) && self.epochs.is_empty() {
            return Err(StopReason::EpochEnded);
        }
        Ok(self.in_slot())
    }

    fn free_memory(&mut self) -> Option<Gated> {
        // Where later batches have dedicated buffers, the first one leaves its slot before the next
        // one begins: so the second one of the epoch waits at the gate.
        (self.dedicated == 0 && self.is_free(self.memories)).then(|| self.in_slot())
    }

    fn dedicated_memory(&mut self, payload: usize, _: usize) -> Result<Gated, StopReason> {
        // The channel's thread itself copies to a buffer in place of other memory.
        let is_next = self.dedicated > 0 && Arc::strong_count(&self.filled) == 1;
        Ok(if is_next { self.gated(payload) } else { self.ungated(payload) })
    }

    fn free_dedicated_memory(&mut self, payload: usize, _: usize) -> Option<Gated> {
        if !self.is_free(self.dedicated) {
            return None;
        }
        self.gate.add_buffer();
        Some(self.ungated(payload))
    }

    fn grow(&mut self, memory: &mut Gated, payload: usize) -> Result<(), StopReason> {
        memory.bytes.resize(payload, 0);
        Ok(())
    }

    fn room(&self, memory: &Gated, _: usize, _: usize, _: usize) -> Option<usize> {
        Some(memory.bytes.len())
    }
}

impl SinkDelivery for Lines {
    fn schema(&mut self, _: &Arc<[Field]>) {}

    fn grant(&mut self, mut memory: Gated, batch: &mut Batch) -> Result<(), StopReason> {
        if self.does(Then::Stop) {
            // Other batches still wait for a thread.
            return Err(StopReason::Stopped);
        }
        let columns = memory.take_index().expect("the index was written");
        let position = &batch.start.position;
        assert_eq!(batch.records, RECORDS);
        for (record, offset) in columns[0].offsets().iter().enumerate() {
            let line = &memory.bytes[*offset as usize..][..LINE - 1];
            let line = std::str::from_utf8(line).expect("a line").trim_end();
            let number: usize = line.parse().expect("its number");
            if record == 0 {
                let of_object = (RECORDS * BATCHES / OBJECTS) as u64;
                let expected = position.object_number * of_object + position.first_record;
                assert_eq!(number as u64, expected, "the position of the batch");
            }
            self.lines.push((batch.epoch(), number));
        }
        Ok(())
    }

    fn has_demand(&self) -> bool {
        false
    }

    fn wants_epoch_end(&self, epoch: u32) -> bool {
        epoch == 0 && self.does(Then::EndEpoch)
    }

    fn end_epoch(&mut self, epoch: u32, early: bool) -> Result<(), StopReason> {
        self.epochs.push((epoch, early));
        Ok(())
    }
}

/// A channel of both epochs with these workers.
fn channel(workers: Workers) -> Channel {
    let size = BatchSize { records: RECORDS, tail: Tail::Keep, across: BatchAcross::Epoch };
    Channel {
        name: "test".to_owned(),
        source: Box::new(Objects::default()),
        plugin: plugin("lines"),
        options: vec![("sniff".to_owned(), "false".to_owned())],
        limits: Limits::default(),
        policy: ErrorPolicy::new(OnError::Fail, OnPluginError::Fail, 0),
        max_record: 1 << 20,
        linger: Duration::ZERO,
        batch: Some(size),
        shuffle: None,
        resume: None,
        learning: Learning::FromOwn,
        cache: None,
        added_fields: Vec::new(),
        offsets: false,
        workers,
        inflates_in_background: false,
        observers: Vec::new(),
    }
}

/// Runs both epochs with this many workers.
fn run(sink: &mut Lines, workers: usize) -> (Outcome, Arc<CopiedBytes>) {
    let workers = Workers::new(workers);
    let copied = workers.copied().clone();
    let outcome = channel(workers).run(sink, &ChannelStats::default());
    (outcome, copied)
}

/// In a batch of copies, only values take memory; otherwise the ends of lines do, too.
#[test]
fn the_first_records_are_measured() {
    for (are_copied, bytes) in [(true, LINE - 1), (false, LINE)] {
        let measured = channel(Workers::new(2)).measure(RECORDS * BATCHES, are_copied, 0);
        let measured = measured.expect("there are records");
        assert_eq!((measured.fields, measured.texts, measured.is_fixed), (1, 1, false));
        let all = measured.records * bytes;
        assert!((all - LINE..=all).contains(&measured.payload), "{measured:?}");
        // All of the first objects, or enough of them.
        assert!(measured.records >= RECORDS * BATCHES || measured.payload >= 8 << 20);
        let likely = RECORDS * bytes * 5 / 4;
        assert!((likely - LINE..=likely).contains(&measured.of_batch(RECORDS)), "{measured:?}");
    }
}

/// No more records are read than are necessary to know that a batch is small.
#[test]
fn few_records_say_that_a_batch_is_small() {
    let measured = channel(Workers::new(1)).measure(RECORDS, false, 100 << 20);
    let measured = measured.expect("there are records");
    assert!(measured.records < RECORDS * BATCHES / OBJECTS + RECORDS, "{measured:?}");
    let none = Channel { max_record: 10, ..channel(Workers::new(1)) };
    assert_eq!(none.measure(RECORDS, false, 0), None);
}

fn whole_epoch(epoch: u32) -> impl Iterator<Item = (u32, usize)> {
    (0..RECORDS * BATCHES).map(move |line| (epoch, line))
}

#[test]
fn the_channel_s_thread_copies_no_byte_and_several_batches_are_filled_at_once() {
    for workers in [2, 4] {
        let mut sink = Lines::new(Then::Nothing, 2, RECORDS * LINE);
        let (outcome, copied) = run(&mut sink, workers);
        assert!(matches!(outcome, Outcome::Ended), "{outcome:?}");
        assert!(sink.lines.iter().copied().eq(whole_epoch(0).chain(whole_epoch(1))));
        assert_eq!(copied.by_channel(), 0);
        let values = 2 * BATCHES * RECORDS * (LINE - 1);
        assert!(copied.by_others() >= values as u64, "{copied:?}");
        assert!(sink.most_filled >= 2);
    }
}

/// The values of all records.
#[derive(Default)]
struct Values(Vec<u8>);

impl LookAtRecords for Values {
    fn schema(&mut self, _: &Arc<[Field]>) {}

    fn batch(&mut self, memory: &[u8], batch: &Batch) -> Result<(), StopReason> {
        for record in 0..batch.records {
            let (offset, length) = batch.columns[0].get(record);
            self.0.extend_from_slice(&memory[offset as usize..][..length as usize]);
        }
        Ok(())
    }
}

/// The decoder makes a record of each chunk. It traps if the chunk does not lie in its window,
/// which comes after 4 MiB of other memory. So a byte is read, and copied to a batch once.
#[test]
fn no_chunk_is_copied_to_a_decoder() {
    let set_aside =
        "(i32.shl (memory.grow (i32.shr_u (local.get $size) (i32.const 16))) (i32.const 16))";
    let in_window = "(if (i32.lt_u (local.get $chunk) (i32.const 0x400000)) (then unreachable))";
    let engine = Engine::new(&pipemill_builtin::BUILTINS).expect("an engine");
    let wasm = tiny_with_window(set_aside, in_window);
    let plugin = Plugin::compile(&engine, "tiny", &wasm).expect("it fits").with_window_from(0);
    let epoch = (0..OBJECTS).flat_map(object).collect::<Vec<u8>>();
    for workers in [2, 4] {
        let size = BatchSize { records: 3, tail: Tail::Keep, across: BatchAcross::Epoch };
        let workers = Workers::new(workers);
        let copied = workers.copied().clone();
        let (plugin, batch) = (plugin.clone(), Some(size));
        let mut channel = Channel { plugin, batch, options: Vec::new(), ..channel(workers) };
        let mut sink = MemorySink::new(Values::default(), 1 << 20);
        let outcome = channel.run(&mut sink, &ChannelStats::default());
        assert!(matches!(outcome, Outcome::Ended), "{outcome:?}");
        assert!(sink.looker.0 == epoch.repeat(2), "other bytes");
        let bytes = copied.by_channel() + copied.by_others();
        assert!((bytes as usize) < epoch.len() * 2 + (64 << 10), "{bytes}");
    }
}

#[test]
fn batches_that_fit_into_no_memory_are_filled_in_order() {
    let mut sink = Lines::new(Then::Nothing, 1, RECORDS * LINE / 3);
    let (outcome, _) = run(&mut sink, 2);
    assert!(matches!(outcome, Outcome::Ended), "{outcome:?}");
    assert!(sink.lines.iter().copied().eq(whole_epoch(0).chain(whole_epoch(1))));
}

/// A batch is not filled before two later ones have their buffers.
#[test]
fn several_batches_that_fit_into_no_memory_are_filled_at_once() {
    for workers in [2, 4] {
        let mut sink = Lines::new(Then::Nothing, 2, RECORDS * LINE / 3);
        sink.dedicated = 8;
        let (outcome, copied) = run(&mut sink, workers);
        assert!(matches!(outcome, Outcome::Ended), "{outcome:?}");
        assert!(sink.lines.iter().copied().eq(whole_epoch(0).chain(whole_epoch(1))));
        assert!(sink.gate.is_open() && sink.most_filled >= 3);
        assert_eq!(copied.by_channel(), 0);
    }
}

fn assert_first_epoch_ends_early(mut sink: Lines) {
    let (outcome, _) = run(&mut sink, 2);
    assert!(matches!(outcome, Outcome::Ended), "{outcome:?}");
    assert_eq!(sink.epochs, [(0, true), (1, false)]);
    let first = sink.lines.iter().filter(|(epoch, _)| *epoch == 0).count();
    assert!(first < RECORDS * BATCHES, "{first} records of the epoch that ended");
    assert!(sink.lines.iter().copied().eq(whole_epoch(0).take(first).chain(whole_epoch(1))));
    assert_eq!(Arc::strong_count(&sink.filled), 1, "all memory was given back");
}

#[test]
fn an_epoch_ends_while_several_dedicated_buffers_are_filled() {
    let mut sink = Lines::new(Then::EndEpoch, 2, RECORDS * LINE / 3);
    sink.dedicated = 8;
    assert_first_epoch_ends_early(sink);
}

#[test]
fn an_epoch_ends_while_several_batches_are_filled() {
    assert_first_epoch_ends_early(Lines::new(Then::EndEpoch, 2, RECORDS * LINE));
}

#[test]
fn a_stop_while_several_batches_are_filled() {
    let mut sink = Lines::new(Then::Stop, 2, RECORDS * LINE);
    let (outcome, _) = run(&mut sink, 2);
    assert!(matches!(outcome, Outcome::Stopped), "{outcome:?}");
    assert!(sink.lines.len() < 2 * RECORDS * BATCHES);
    let count = sink.lines.len();
    assert!(sink.lines.iter().copied().eq(whole_epoch(0).chain(whole_epoch(1)).take(count)));
    assert_eq!(Arc::strong_count(&sink.filled), 1, "all memory was given back");
}
