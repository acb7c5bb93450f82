//! The seek points of one object: those that are known, and those that are noted while it is
//! inflated.

#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use zstd::bulk::Compressor;

use crate::Codec;
use crate::seek_point::{BlockStart, CHECKED_BYTES, SeekPoint};

/// The seek points of one object, in their order. Clones are handles to the same points: one is
/// given to the reader, which adds to them, another one is kept.
#[derive(Debug, Clone)]
pub struct SeekPoints(Arc<Mutex<Kept>>);

#[derive(Debug)]
struct Kept {
    points: Vec<Arc<SeekPoint>>,
    /// Distance of the points in inflated bytes; `None` if no more are noted.
    every: Option<u64>,
    /// Memory of the points in bytes.
    memory: usize,
    /// Largest memory.
    max_memory: usize,
    /// Whether the reader of the object inflates it.
    is_inflated: bool,
}

impl Kept {
    fn new(points: Vec<Arc<SeekPoint>>, every: Option<u64>, max_memory: usize) -> Self {
        let memory = points.iter().map(|point| point.memory()).sum();
        Self { points, every, memory, max_memory, is_inflated: false }
    }
}

impl SeekPoints {
    /// No points, to which the reader of an object adds one every `every` inflated bytes, at least
    /// every 64 KiB: the first possible one at or after this distance from the one before. If they
    /// take more than `max_memory` bytes, each second one is removed, and the distance is doubled.
    pub fn every(every: u64, max_memory: usize) -> Self {
        let every = Some(every.max(CHECKED_BYTES as u64));
        Self(Arc::new(Mutex::new(Kept::new(Vec::new(), every, max_memory))))
    }

    /// These points of an object. None are added.
    pub fn known(points: Vec<SeekPoint>) -> Self {
        let mut points: Vec<_> = points.into_iter().map(Arc::new).collect();
        points.sort_by_key(|point| point.inflated);
        Self(Arc::new(Mutex::new(Kept::new(points, None, usize::MAX))))
    }

    /// Whether the reader that they were given to inflates the object. One that finds out when the
    /// first bytes come does so from then on.
    pub fn is_inflated(&self) -> bool {
        self.lock().is_inflated
    }

    /// The last point that is not after this inflated byte.
    pub fn before(&self, inflated: u64) -> Option<Arc<SeekPoint>> {
        let kept = self.lock();
        let after = kept.points.partition_point(|point| point.inflated <= inflated);
        after.checked_sub(1).map(|last| kept.points[last].clone())
    }

    /// All points so far.
    pub fn all(&self) -> Vec<Arc<SeekPoint>> {
        self.lock().points.clone()
    }

    /// Memory of all points in bytes.
    pub fn memory(&self) -> usize {
        self.lock().memory
    }

    /// The inflated byte from which on the next point is noted, for a reader that begins at this
    /// inflated byte; `None` if none is noted.
    fn next_after(&self, begin: u64) -> Option<u64> {
        let kept = self.lock();
        let last = kept.points.last().map_or(0, |point| point.inflated);
        Some(last.saturating_add(kept.every?).max(begin))
    }

    /// Adds a point.
    fn push(&self, point: SeekPoint) {
        let mut kept = self.lock();
        if kept.points.last().is_some_and(|last| last.inflated >= point.inflated) {
            return;
        }
        kept.memory += point.memory();
        kept.points.push(Arc::new(point));
        while kept.memory > kept.max_memory {
            let mut number = 0;
            kept.points.retain(|_| {
                number += 1;
                number % 2 == 0
            });
            kept.memory = kept.points.iter().map(|point| point.memory()).sum();
            kept.every = kept.every.map(|every| every.saturating_mul(2));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Notes points while an object is inflated.
pub(crate) struct Collector {
    points: SeekPoints,
    /// The inflated byte from which on the next point is noted.
    due: u64,
    /// A point whose first bytes are still inflated.
    open: Option<(SeekPoint, crc32fast::Hasher)>,
    /// It compresses windows; `None` before the first one.
    compressor: Option<Compressor<'static>>,
}

impl Collector {
    /// Notes points of an object that is inflated from its inflated byte `begin` on; `None` if none
    /// are to be noted.
    pub(crate) fn of(points: &SeekPoints, begin: u64) -> Option<Box<Self>> {
        points.lock().is_inflated = true;
        let due = points.next_after(begin)?;
        Some(Box::new(Self { points: points.clone(), due, open: None, compressor: None }))
    }

    /// Whether a point at this inflated byte would be noted.
    pub(crate) fn is_due(&self, inflated: u64) -> bool {
        inflated >= self.due
    }

    /// Notes a point. The bytes after it are those that [`inflated`](Self::inflated) is called with
    /// from now on.
    pub(crate) fn note(
        &mut self,
        codec: Codec,
        compressed: u64,
        inflated: u64,
        block: Option<BlockStart>,
    ) {
        if !self.is_due(inflated) {
            return;
        }
        let point = SeekPoint { codec, compressed, inflated, block, checked: 0, crc: 0 };
        self.open = Some((point, crc32fast::Hasher::new()));
        // Until its distance is known, when it is complete.
        self.due = u64::MAX;
    }

    /// Compresses a window, which is in two pieces. `None` if there is no memory for it.
    pub(crate) fn compress(&mut self, window: [&[u8]; 2]) -> Option<Box<[u8]>> {
        let window = window.concat();
        if window.is_empty() {
            return Some(Box::default());
        }
        // Level 1: a higher one takes several times as long, and saves a tenth.
        let compressor = match &mut self.compressor {
            Some(compressor) => compressor,
            none => none.insert(Compressor::new(1).ok()?),
        };
        compressor.compress(&window).ok().map(Vec::into_boxed_slice)
    }

    /// Bytes were inflated.
    pub(crate) fn inflated(&mut self, bytes: &[u8]) {
        let Some((point, crc)) = &mut self.open else { return };
        let count = bytes.len().min(CHECKED_BYTES - point.checked as usize);
        crc.update(&bytes[..count]);
        point.checked += count as u32;
        if point.checked as usize == CHECKED_BYTES {
            self.complete();
        }
    }

    /// The object has ended.
    pub(crate) fn end(&mut self) {
        // A point without any byte after it is of no use.
        if self.open.as_ref().is_some_and(|(point, _)| point.checked > 0) {
            self.complete();
        }
    }

    fn complete(&mut self) {
        let Some((mut point, crc)) = self.open.take() else { return };
        point.crc = crc.finalize();
        let begin = point.inflated;
        self.points.push(point);
        self.due = self.points.next_after(begin).unwrap_or(u64::MAX);
    }
}
