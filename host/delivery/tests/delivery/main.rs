//! Tests of a ring, its delivery and real readers together.

mod restarts;
#[expect(dead_code, reason = "the tests of the ring use more of it")]
#[path = "../../../../ring/tests/ring/setup.rs"]
mod setup;
