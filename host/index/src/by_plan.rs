//! Objects that are counted by their plans: a plan says how many records each of its parts has, and
//! no byte of the parts is read.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use pipemill_channel::Channel;
use pipemill_decode::Stream;
use pipemill_planned::NotCounted;
use pipemill_source::Source;
use pipemill_types::{PlanParts, StreamInfo};

use crate::Place;
use crate::places::FoundPlaces;

/// The objects that were counted by their plans, by their numbers.
#[derive(Default)]
pub(crate) struct CountedByPlan(Arc<Mutex<BTreeMap<usize, FoundPlaces>>>);

impl CountedByPlan {
    /// The source without the objects that can be counted by their plans. `at_once` is how many
    /// plans are made at once. Places are at least `distance` bytes from each other.
    pub(crate) fn without(
        &self,
        source: Box<dyn Source>,
        channel: &Channel,
        distance: u64,
        at_once: usize,
    ) -> Box<dyn Source> {
        if !channel.plugin.plans() {
            return source;
        }
        let counted = self.0.clone();
        let (plugin, options) = (channel.plugin.clone(), channel.options.clone());
        let limits = channel.limits.clone();
        let count = move |info: &StreamInfo, number: u64| {
            let parts = &info.facts.parts;
            // A decoder that refuses the object does so when it is read.
            let stream = Stream::open(&plugin, &options, info, &limits);
            let (Ok(stream), Some(records)) = (stream, parts.records()) else { return false };
            let begins_at_parts = stream.restart_at_start() == Some(0);
            let places = if begins_at_parts { places(parts, distance) } else { Vec::new() };
            let mut counted = counted.lock().unwrap_or_else(PoisonError::into_inner);
            // The number fits: the list is in memory.
            counted.insert(number as usize, FoundPlaces { records, places });
            true
        };
        Box::new(NotCounted::new(source, channel.plan_maker(), Box::new(count), at_once))
    }

    /// Adds the objects to those that were read. Returns whether there are any.
    pub(crate) fn add_to(&self, objects: &mut Vec<FoundPlaces>) -> bool {
        let counted = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        let has_any = !counted.is_empty();
        for (number, found) in counted {
            if objects.len() <= number {
                objects.resize(number + 1, FoundPlaces::default());
            }
            objects[number] = found;
        }
        has_any
    }
}

/// The starts of parts, except for the object's own.
fn places(parts: &PlanParts, distance: u64) -> Vec<Place> {
    let (mut places, mut last, mut record) = (Vec::new(), 0, 0_u64);
    for part in parts.all() {
        if part.start >= last + distance.max(1) {
            let (offset, header, inflate) = (part.start, 0, Box::default());
            places.push(Place { record, offset, header, inflate });
            last = part.start;
        }
        record += part.records.unwrap_or(0);
    }
    places
}
