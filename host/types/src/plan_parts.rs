//! The parts of an object's plan: where each of them begins in the plan, and how many records it
//! has.

/// A part that has bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlannedPart {
    /// Its number in the plan, from 0. Parts without bytes are counted, too.
    pub number: usize,
    /// Place of its first byte in the plan.
    pub start: u64,
    /// Number of its records, if the plan says it.
    pub records: Option<u64>,
}

/// The parts of a plan that have bytes, in their order. Empty for an object without a plan.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PlanParts {
    parts: Vec<PlannedPart>,
    size: u64,
}

impl PlanParts {
    /// These parts of a plan of this many bytes. They begin at different places, in their order.
    pub fn new(parts: Vec<PlannedPart>, size: u64) -> Self {
        Self { parts, size }
    }

    /// The parts.
    pub fn all(&self) -> &[PlannedPart] {
        &self.parts
    }

    /// Number of the plan's bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The first start of a part at or after this byte, or the end of the plan.
    pub fn next_start(&self, offset: u64) -> u64 {
        self.parts.get(self.first_from(offset)).map_or(self.size, |part| part.start)
    }

    /// The index of the first part that begins at or after this byte; the number of parts, if there
    /// is none.
    pub fn first_from(&self, offset: u64) -> usize {
        self.parts.partition_point(|part| part.start < offset)
    }

    /// Number of all records, if the plan says that of each part.
    pub fn records(&self) -> Option<u64> {
        self.parts.iter().try_fold(0_u64, |sum, part| sum.checked_add(part.records?))
    }
}
