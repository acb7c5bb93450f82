//! One consumer in the table: its credits and what it holds.

use std::collections::VecDeque;
use std::time::Instant;

use super::{ConsumerId, Place};

#[derive(Clone, Copy, Debug)]
pub(in crate::host) struct Granted {
    pub(in crate::host) grant: u64,
    pub(in crate::host) place: Place,
    pub(in crate::host) batch: u64,
    pub(in crate::host) since: Instant,
    pub(in crate::host) acked: bool,
}

#[derive(Debug)]
pub(in crate::host) struct Consumer {
    pub(in crate::host) id: ConsumerId,
    pub(in crate::host) credits: u32,
    /// In the order of their numbers.
    pub(in crate::host) grants: Vec<Granted>,
    /// Broadcast: assigned, waiting for credit.
    pub(super) due: VecDeque<Place>,
    /// Its socket takes no more for now.
    pub(super) blocked: bool,
    /// The epoch whose rest it asked to be left out.
    pub(super) left: Option<u32>,
    /// When it was last granted something, for taking turns.
    pub(super) turn: u64,
}

impl Consumer {
    pub(super) fn new(id: ConsumerId, credits: u32) -> Consumer {
        Consumer {
            id,
            credits,
            grants: Vec::new(),
            due: VecDeque::new(),
            blocked: false,
            left: None,
            turn: 0,
        }
    }

    pub(in crate::host) fn has_credit(&self) -> bool {
        self.grants.len() < self.credits as usize
    }

    pub(super) fn takes(&self) -> bool {
        !self.blocked && self.has_credit()
    }

    pub(super) fn all_acked(&self) -> bool {
        self.due.is_empty() && self.grants.iter().all(|granted| granted.acked)
    }
}
