//! Everything is killed, stopped and started again at random: hosts, their commands, consumers, the
//! writer of FIFOs, the S3 server. The host's log is not read for a while. Nothing is lost, nothing
//! is ACKed twice, nothing is left behind, and no consumer reads another user's host. Between two
//! hosts' lives, files change while another host reads them, and plugins are replaced.
//!
//! A program of its own, because `make soak` runs it for hours. `PIPEMILL_CHAOS_SEED` repeats the choices of another run
//! (not its timing), `PIPEMILL_CHAOS_KILLS` says after how many kills it ends, `PIPEMILL_SOAK_HOURS` makes it a soak.

mod changing;
mod child;
mod foreign;
mod ledger;
mod life;
mod memory;
mod replaced;
mod s3;
mod trace;
mod world;

use std::time::{Duration, Instant};

use ledger::LifeEnd;
use life::{BROADCAST, Life, OBJECTS, TRAIN};
use memory::Samples;
use world::{Pace, World, own_descriptors};

/// The kills that fit in a minute of two cores, with a pipemill that is not optimized.
const KILLS: u64 = 1000;
/// A host's life in a soak is this part of it, so that there is time for a leak to show.
const LIVES_OF_A_SOAK: u32 = 6;

#[test]
fn nothing_is_lost_and_nothing_is_acked_twice() {
    let seed = setting("PIPEMILL_CHAOS_SEED").unwrap_or_else(|| fastrand::u64(..) as f64) as u64;
    println!("seed {seed}: PIPEMILL_CHAOS_SEED={seed} makes the same choices");
    let hours = setting("PIPEMILL_SOAK_HOURS");
    let began = Instant::now();
    let Some(hours) = hours else {
        let kills = setting("PIPEMILL_CHAOS_KILLS").map_or(KILLS, |kills| kills as u64);
        let mut world = World::new(seed, Pace { batch_ms: 1, batches: 0, life: None });
        let descriptors = own_descriptors();
        while world.kills() < kills {
            live(&mut world, descriptors);
            changing::live(&mut world);
            replaced::live(&mut world);
        }
        println!("{:.0} s, {} lives, {:?}", began.elapsed().as_secs_f64(), world.lives, world.done);
        return;
    };
    let time = Duration::from_secs_f64(hours * 3600.0);
    let pace = Pace { batch_ms: 40, batches: 50, life: Some(time / LIVES_OF_A_SOAK) };
    let mut world = World::new(seed, pace);
    let descriptors = own_descriptors();
    while began.elapsed() < time {
        live(&mut world, descriptors);
        changing::live(&mut world);
        replaced::live(&mut world);
        println!("{:.0} s, {} lives, {:?}", began.elapsed().as_secs_f64(), world.lives, world.done);
    }
}

/// A number in the environment.
fn setting(name: &str) -> Option<f64> {
    let value = std::env::var(name).ok().filter(|value| !value.is_empty())?;
    Some(value.parse().unwrap_or_else(|_| panic!("{name}: expected a number, found {value:?}")))
}

/// One host's life, from its start until no process is left.
fn live(world: &mut World, descriptors: usize) {
    let end = match world.random.u8(0..10) {
        0..5 => LifeEnd::Killed,
        5..8 => LifeEnd::Command,
        _ => LifeEnd::Well,
    };
    let has_command = match end {
        LifeEnd::Well => false,
        LifeEnd::Command => true,
        LifeEnd::Killed => world.random.bool(),
    };
    let epochs = (end == LifeEnd::Well).then(|| world.random.u64(1..6));
    let (actions, until) = match world.pace.life {
        None => (world.random.u32(10..50), None),
        Some(time) => (u32::MAX, Some(Instant::now() + time)),
    };
    let mut life = Life::start(world, has_command, epochs);
    for _ in 0..3 {
        life.start_consumer(TRAIN);
    }
    life.start_consumer(OBJECTS);
    life.start_consumer(OBJECTS);
    life.start_consumer(BROADCAST);
    let mut samples = Samples::default();
    for _ in 0..actions {
        if until.is_some_and(|until| Instant::now() >= until) {
            break;
        }
        act(&mut life);
        let batches = life.world.pace.batches;
        if batches > 0 {
            life.progress(TRAIN, batches);
            life.check_descriptors();
            samples.add(life.host_pid());
        }
    }
    match end {
        LifeEnd::Well => life.end_well(),
        LifeEnd::Command => life.kill_command(),
        LifeEnd::Killed => life.kill_host(),
    }
    life.finish(end, descriptors);
    samples.check();
}

/// Does something to one of the processes.
fn act(life: &mut Life<'_>) {
    match life.world.random.u8(0..100) {
        0..57 => kill_a_consumer(life),
        57..60 => life.block_or_read_log(),
        60..66 => {
            let at = life.world.random.usize(0..life.consumers.len().max(1));
            if at < life.consumers.len() {
                life.stop_consumer(at);
            }
        }
        66..70 => life.resume_all(),
        70..78 => life.kill_writer(),
        78..81 => life.stop_writer(),
        81..85 => life.kill_s3(),
        85..87 => life.stop_s3(),
        87..89 => life.stop_host(),
        89..92 => life.check_descriptors(),
        92 => {
            if foreign::meet_foreign_host(&life.world.place) {
                life.world.count("met foreign hosts");
            }
        }
        93..98 => {
            let batches = life.world.random.u64(1..8);
            life.progress(TRAIN, batches);
        }
        98 => life.progress(BROADCAST, 1),
        _ => life.progress(OBJECTS, 1),
    }
}

/// Kills a consumer, most often one that stopped itself, and starts another.
fn kill_a_consumer(life: &mut Life<'_>) {
    let victims: Vec<_> = (0..life.consumers.len()).filter(|at| life.may_die(*at)).collect();
    let standing: Vec<_> = victims.iter().copied().filter(|at| life.stands(*at)).collect();
    let among =
        if standing.is_empty() || life.world.random.u8(0..4) == 0 { victims } else { standing };
    if let Some(&at) = life.world.random.choice(&among) {
        let channel = life.consumers[at].channel;
        life.kill_consumer(at);
        if !life.ledger.has_ended(channel) {
            life.start_consumer(channel);
        }
    }
}
