//! Everything is killed, stopped and started again, at random: host, command, consumers, writer, S3 server. A ledger
//! holds what was granted and ACKed: nothing is lost, nothing is ACKed twice, and the host keeps nothing of the dead.
//!
//! The actions follow from a seed. Each waits for batches that were ACKed since the one before, and not for time.
//! `PIPEMILL_SOAK_HOURS` goes on for longer (`make soak`); `PIPEMILL_CHAOS_SEED` takes another seed.

mod actor;
mod ledger;
mod scene;

use std::time::{Duration, Instant};

use scene::{Ending, Scene};

/// Actions in the life of a host.
const ACTIONS: usize = 40;

/// A variable that holds a number.
fn number<T: std::str::FromStr>(variable: &str) -> Option<T> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable}: expected a number, found {text:?}")))
}

#[test]
fn whatever_is_killed_nothing_is_lost_or_acked_twice() {
    let hours: f64 = number("PIPEMILL_SOAK_HOURS").unwrap_or(0.0);
    let seed = number("PIPEMILL_CHAOS_SEED").unwrap_or(14);
    println!("seed {seed}");
    let end = Instant::now() + Duration::from_secs_f64(hours * 3600.0);
    let mut scene = Scene::new(seed);
    for ending in [Ending::HostKilled, Ending::CommandKilled, Ending::HostKilled] {
        scene.live(ACTIONS, ending);
    }
    while Instant::now() < end {
        scene.live(ACTIONS, Ending::CommandKilled);
        scene.live(ACTIONS, Ending::HostKilled);
    }
    scene.live(ACTIONS, Ending::Good);
    println!("{}", scene.summary());
}
