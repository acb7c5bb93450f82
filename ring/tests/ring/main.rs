//! Tests of the ring with real sockets, real memory, and real processes that are killed.

mod budget;
mod child;
mod crowds;
mod deaths;
mod endpoint;
mod ends;
mod extra_slots;
mod fitted;
mod hostile_consumers;
mod hostile_host;
mod larger;
mod observer;
mod raw_consumer;
mod sealed;
mod sealed_batch;
mod setup;
mod sharing;
mod views;
mod written_index;
