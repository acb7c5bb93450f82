//! The window alone: its content, and how far it mixes. The order and the restart are tested with
//! decoders, in host/channel/tests/splits.

use pipemill_types::{BatchAcross, BatchPosition, Scalar};
use proptest::prelude::*;

use super::*;
use crate::sink::grow_private;
use crate::{ChannelStats, SinkMemory};

/// Keeps the records that it gets: the first 8 bytes of the first field of each.
#[derive(Default)]
struct Kept {
    numbers: Vec<u64>,
    largest_batch: usize,
}

impl SinkMemory for Kept {
    type Memory = Vec<u8>;

    fn memory(&mut self) -> Result<Vec<u8>, StopReason> {
        Ok(vec![0; 64 << 10])
    }

    fn dedicated_memory(&mut self, payload: usize, _: usize) -> Result<Vec<u8>, StopReason> {
        Ok(vec![0; payload])
    }

    fn grow(&mut self, memory: &mut Vec<u8>, payload: usize) -> Result<(), StopReason> {
        grow_private(memory, payload);
        Ok(())
    }

    fn room(&self, memory: &Vec<u8>, _: usize, _: usize, _: usize) -> Option<usize> {
        Some(memory.len())
    }
}

impl SinkDelivery for Kept {
    fn schema(&mut self, _: &Arc<[Field]>) {}

    fn grant(&mut self, memory: Vec<u8>, batch: &mut Batch) -> Result<(), StopReason> {
        self.largest_batch = self.largest_batch.max(batch.payload + 16 * batch.records);
        for offset in batch.columns[0].offsets() {
            let value = memory[*offset as usize..][..8].try_into().expect("8 bytes");
            self.numbers.push(u64::from_le_bytes(value));
        }
        Ok(())
    }

    fn has_demand(&self) -> bool {
        true
    }

    fn wants_epoch_end(&self, _: u32) -> bool {
        false
    }

    fn end_epoch(&mut self, _: u32, _: bool) -> Result<(), StopReason> {
        Ok(())
    }
}

fn field() -> Field {
    Field::new("x", Scalar::Bytes, Vec::new())
}

/// Sends records of these lengths, at least 8, through a window; `gap` bytes lie after each in the
/// memory of its batch, which has at most `at_once` records. `look` is called after each batch.
fn send(
    window: &mut WindowSink<'_, Kept>,
    epoch: u32,
    lengths: &[usize],
    (gap, at_once): (usize, usize),
    mut look: impl FnMut(&WindowSink<'_, Kept>),
) {
    let mut rest = lengths.iter().copied().enumerate().peekable();
    let mut object = 0;
    while let Some((first_record, length)) = rest.peek().copied() {
        let is_large = length > window.shuffle.window.block_bytes();
        let memory = if is_large { window.dedicated_memory(length, 1) } else { window.memory() };
        let mut memory = memory.unwrap();
        let mut batch = Batch::default();
        batch.columns.resize_with(1, Default::default);
        batch.start.position = BatchPosition {
            object_number: object,
            first_record: first_record as u64,
            records: first_record as u64,
            ..BatchPosition::of_epoch(epoch)
        };
        let most = at_once.max(1);
        while let Some((number, length)) = rest.next_if(|(_, length)| {
            batch.records < most && batch.payload + length <= memory.as_ref().len()
        }) {
            let at = batch.payload;
            memory.as_mut()[at..at + 8].copy_from_slice(&(number as u64).to_le_bytes());
            batch.columns[0].push(at as u32, length as u32);
            batch.payload = at + length + gap;
            batch.records += 1;
        }
        window.grant(memory, &mut batch).unwrap();
        look(window);
        object += u64::from(batch.records < most);
    }
}

fn size(records: usize) -> BatchSize {
    BatchSize { records, tail: Tail::Keep, across: BatchAcross::Epoch }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// The bytes of the blocks are counted, not measured. Memory in addition to the window: the
    /// records of a batch; a seventh of both, because a block is not quite full; blocks that are
    /// being filled or emptied.
    #[test]
    fn the_memory_is_bounded_by_the_window(
        window in 1_u64 << 20..4 << 20,
        kinds in prop::collection::vec(
            (1_usize..400, prop_oneof![8_usize..64, 64_usize..5_000, 20_000_usize..150_000],
             prop_oneof![Just(0_usize), 1_usize..40, 1_000_usize..9_000],
             prop_oneof![1_usize..4, 500_usize..9_000]),
            1..12,
        ),
        records in prop_oneof![1_usize..9, 100_usize..300],
        repeat in 1_usize..10,
    ) {
        let mut kept = Kept::default();
        let shuffle = Shuffle { seed: 3, window: Window::Bytes(window) };
        let stats = ChannelStats::default();
        let monitor = Monitor::new(&stats, &[]);
        let mut sink = WindowSink::new(&mut kept, shuffle, size(records), monitor);
        sink.schema(&Arc::from([field()]));
        let mut held = 0;
        for epoch in 0..2 {
            for _ in 0..repeat {
                for (count, length, gap, at_once) in &kinds {
                    let lengths = vec![*length; *count];
                    send(&mut sink, epoch, &lengths, (*gap, *at_once), |window| {
                        held = held.max(window.held_bytes());
                    });
                }
            }
            sink.end_epoch(epoch, false).unwrap();
        }
        let largest = kinds.iter().map(|(_, length, ..)| length + 16).max().unwrap();
        let slack = 4 * (BLOCK_BYTES_OF_TEST + largest);
        let bound = (window as usize + records * largest) * 8 / 7 + slack;
        prop_assert!(held <= bound, "{} bytes in a window of {}, bound {}", held, window, bound);
    }

    #[test]
    fn all_records_leave_and_none_before_one_that_came_a_window_earlier(
        window in 1_u64..600,
        count in 1_usize..3_000,
        records in 1_usize..50,
        seed: u64,
        at_once in 1_usize..200,
    ) {
        let mut kept = Kept::default();
        let shuffle = Shuffle { seed, window: Window::Records(window) };
        let stats = ChannelStats::default();
        let monitor = Monitor::new(&stats, &[]);
        let mut sink = WindowSink::new(&mut kept, shuffle, size(records), monitor);
        sink.schema(&Arc::from([field()]));
        send(&mut sink, 0, &vec![8; count], (1, at_once), |_| {});
        sink.end_epoch(0, false).unwrap();
        let mut latest = 0;
        for number in &kept.numbers {
            latest = latest.max(*number);
            prop_assert!(latest - number < window, "{} came after {}", number, latest);
        }
        kept.numbers.sort_unstable();
        prop_assert_eq!(kept.numbers, (0..count as u64).collect::<Vec<_>>());
    }
}

/// Bytes of a block of the largest window that the test above tries.
const BLOCK_BYTES_OF_TEST: usize = 4 << 20 >> 5;

/// Fixed seeds. In the middle of an epoch, the moves of records are even from half a window earlier
/// to half a window later: by a quarter of it on average.
#[test]
fn a_window_mixes_as_far_as_it_is_wide() {
    const WINDOW: u64 = 1_000;
    const COUNT: usize = 20_000;
    for seed in [0, 1, 2, 3, 12_345] {
        let mut kept = Kept::default();
        let shuffle = Shuffle { seed, window: Window::Records(WINDOW) };
        let stats = ChannelStats::default();
        let monitor = Monitor::new(&stats, &[]);
        let mut sink = WindowSink::new(&mut kept, shuffle, size(100), monitor);
        sink.schema(&Arc::from([field()]));
        send(&mut sink, 0, &vec![8; COUNT], (1, 300), |_| {});
        sink.end_epoch(0, false).unwrap();
        let middle = 2_000..COUNT as u64 - 2_000;
        let of_middle = (0_u64..).zip(&kept.numbers).filter(|(_, number)| middle.contains(number));
        let moves: Vec<f64> =
            of_middle.map(|(place, number)| place as f64 - *number as f64).collect();
        let mean = moves.iter().sum::<f64>() / moves.len() as f64;
        let distance = moves.iter().map(|by| (by - mean).abs()).sum::<f64>() / moves.len() as f64;
        assert!(mean.abs() < 20.0, "seed {seed}: {mean}");
        assert!((235.0..265.0).contains(&distance), "seed {seed}: {distance}");
    }
}
