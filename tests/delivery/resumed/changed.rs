//! Jobs whose input, decoder or configuration changes while they are down: each goes on exactly, or is
//! refused with the name of what differs. None goes on with other records.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use fastrand::Rng;
use pipemill_builtin::BUILTINS;
use pipemill_ring::protocol::{Hello, Rank};
use pipemill_ring::reader::Reader;
use pipemill_tests::test_dir::TestDir;
use serde_json::Value;

use super::case::{Case, Kind, Mode};
use super::lives::{Given, Job, Life, RankProgress};
use super::origin::{Server, store};
use super::running::{Host, Hosts};

/// What changes between two lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    Removed,
    Added,
    /// An object has other bytes, of another size or, if the state stands in it, of the same size.
    Rewritten,
    Grown,
    /// Two objects have changed places.
    Swapped,
    /// Other modification times, the same bytes.
    Touched,
    /// A copy in another folder.
    Moved,
    Batch,
    Seed,
    Options,
    /// Another built-in decoder.
    Decoder,
    /// Another plugin in the same place.
    Plugin,
    /// The same plugin in another place.
    PluginMoved,
}

impl Change {
    /// What the refusal has to name. `None`: the job goes on exactly.
    fn differs(self) -> Option<&'static [&'static str]> {
        match self {
            Self::Touched | Self::Moved | Self::PluginMoved => None,
            Self::Batch => Some(&["batch"]),
            Self::Seed => Some(&["`shuffle`", "shuffle` was"]),
            Self::Options => Some(&["options` was"]),
            Self::Decoder | Self::Plugin => Some(&["decoder` was"]),
            // The host may decode changed bytes before it compares the batch of the state. Then it names
            // the damage that it finds in them, or other fields, or it comes to its end.
            Self::Removed | Self::Added | Self::Swapped | Self::Rewritten | Self::Grown => Some(&[
                "`objects` differ",
                "changed since the state was taken",
                "`schema` differs",
                "channels that are mixed need the same fields",
                ", byte offset ",
                "the channel is at its end",
                // What was removed was the only one.
                "holds no file",
                "no key begins with",
            ]),
        }
    }
}

/// How a life ended that began after a change.
enum End {
    Exact,
    /// With this text.
    Refused(String),
}

/// The property. Returns whether the case had a change.
pub fn check(case: &Case, hosts: Hosts, server: Option<&Server>) -> bool {
    let mut changed = Case::new(case.seed);
    let place = TestDir::new();
    let mut random = Rng::with_seed(case.seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let mut first = Case::new(case.seed);
    // Each host loads its plugins, which takes longer than a case.
    let is_plugin = case.seed.is_multiple_of(100);
    if is_plugin {
        use_plugin(&mut first, &place, "p", &[]);
    }
    store(&first, &place, server);
    let mut job = Job::new(&first, hosts, server, place);
    let expected = job.without_a_kill();
    let Some(ranks) = job.life_until_a_state(&expected) else { return false };
    let states: Vec<_> = ranks.iter().filter_map(|rank| rank.state.clone()).collect();
    let changes = changes(&first, &states, is_plugin);
    let change = changes[random.usize(..changes.len())];
    if is_plugin {
        let name = if change == Change::PluginMoved { "q" } else { "p" };
        let added: &[u8] = if change == Change::Plugin { b"\0\x03\x01v2" } else { &[] };
        use_plugin(&mut changed, job.place(), name, added);
    }
    let folders = apply(change, &mut changed, job.place(), server, &states, &mut random);
    job.tell(format!("{change:?}, states {states:?}"));
    let mut job = job.of(&changed, folders);
    let end = job.last_life(&ranks, &expected);
    match (change.differs(), end) {
        (None, End::Exact) => {}
        (Some(names), End::Refused(why)) if names.iter().any(|name| why.contains(name)) => {}
        (_, End::Refused(why)) => panic!("{change:?}: {why}\n{job:#?}"),
        (Some(_), End::Exact) => panic!("{change:?}: it went on without a word\n{job:#?}"),
    }
    true
}

/// The changes that a case can have, whose states are these.
fn changes(case: &Case, states: &[Value], is_plugin: bool) -> Vec<Change> {
    let mut changes = vec![Change::Batch];
    if is_plugin {
        return vec![Change::Plugin, Change::PluginMoved];
    }
    changes.push(Change::Decoder);
    changes.extend(case.shuffle.is_some().then_some(Change::Seed));
    changes.extend((case.inputs[0].decoder == "csv").then_some(Change::Options));
    if case.kind != Kind::Fifos && begun(case, states).next().is_some() {
        let (few, many) =
            ([Change::Added, Change::Rewritten, Change::Grown], [Change::Removed, Change::Swapped]);
        changes.extend(few.iter().chain(&few));
        if begun(case, states).any(|input| differing(case, input).is_some()) {
            changes.extend(many.iter().chain(&many));
        }
    }
    if case.kind == Kind::Files {
        changes.extend([Change::Touched, Change::Moved]);
    }
    changes
}

/// The inputs whose lists the states name: those of a mix that it has begun to read.
fn begun<'c>(case: &'c Case, states: &'c [Value]) -> impl Iterator<Item = usize> + 'c {
    let names = |input: usize| {
        states.iter().filter(|state| state["delivered"] != 0).any(|state| {
            let identity = state["identity"].as_str().unwrap_or_default();
            let Ok(Value::Array(positions)) = serde_json::from_str(identity) else {
                return identity.starts_with("list:");
            };
            let identity = positions[input]["identity"].as_str().unwrap_or_default();
            identity.starts_with("list:")
        })
    };
    (0..case.inputs.len()).filter(move |input| names(*input))
}

/// Two objects of an input with different bytes.
fn differing(case: &Case, input: usize) -> Option<(usize, usize)> {
    let objects = &case.inputs[input].objects;
    (1..objects.len()).find(|at| objects[*at] != objects[0]).map(|at| (0, at))
}

/// Changes the input or the case. Returns the folder of the inputs, below the place.
fn apply(
    change: Change,
    case: &mut Case,
    place: &TestDir,
    server: Option<&Server>,
    states: &[Value],
    random: &mut Rng,
) -> &'static str {
    let inputs: Vec<_> = begun(case, states).collect();
    let input = inputs.get(random.usize(..inputs.len().max(1))).copied().unwrap_or(0);
    let objects = &mut case.inputs[input].objects;
    let one = random.usize(..objects.len());
    match change {
        Change::Removed => {
            objects.remove(one);
        }
        Change::Added => {
            let copy = objects[one].clone();
            objects.insert(random.usize(..=objects.len()), copy);
        }
        Change::Rewritten => {
            let is_stood_in = states.iter().any(|state| {
                let object = state["object"].as_str().unwrap_or_default();
                state["delivered"] != 0 && object.ends_with(&format!("/{one}"))
            });
            objects[one].iter_mut().for_each(|byte| *byte ^= 1);
            if !is_stood_in || objects[one].is_empty() || inputs.len() > 1 {
                objects[one].push(b'1');
            }
        }
        Change::Grown => objects[one].push(b'x'),
        Change::Swapped => {
            let at = differing(case, input);
            let (one, two) = at
                .or_else(|| inputs.iter().find_map(|at| differing(case, *at)))
                .expect("there are two");
            let input = if at.is_some() {
                input
            } else {
                inputs
                    .iter()
                    .copied()
                    .find(|at| differing(case, *at).is_some())
                    .expect("it is there")
            };
            case.inputs[input].objects.swap(one, two);
            if case.kind == Kind::Files {
                // Files of the same size are known apart by their times.
                let path = |at: usize| place.path(&format!("{}/{at}", case.inputs[input].name));
                let between = place.path("between");
                fs::rename(path(one), &between).expect("it is there");
                fs::rename(path(two), path(one)).expect("it is there");
                fs::rename(&between, path(two)).expect("it is there");
                return "";
            }
        }
        Change::Touched => {
            for (number, path) in files(case, place).into_iter().enumerate() {
                let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000 + number as u64);
                let file = fs::File::options().append(true).open(path).expect("it is there");
                file.set_modified(time).expect("its time can be set");
            }
            return "";
        }
        Change::Moved => {
            for path in files(case, place) {
                let name = path.strip_prefix(place.folder()).expect("it is in the place");
                let bytes = fs::read(&path).expect("it is there");
                place.write(&format!("copy/{}", name.display()), bytes);
                fs::remove_file(&path).expect("it is there");
            }
            return "copy/";
        }
        Change::Batch => case.batch += 1,
        Change::Seed => {
            let (seed, _) = case.shuffle.as_mut().expect("it is shuffled");
            *seed ^= 1;
        }
        Change::Options => {
            case.inputs
                .iter_mut()
                .for_each(|input| input.options = "types = \"utf8\", header = false");
        }
        Change::Decoder => {
            for input in &mut case.inputs {
                input.decoder = if input.decoder == "lines" { "fixed" } else { "lines" };
                input.options = if input.decoder == "lines" { "" } else { "size = 3" };
            }
        }
        Change::Plugin | Change::PluginMoved => {}
    }
    if matches!(
        change,
        Change::Removed | Change::Added | Change::Rewritten | Change::Grown | Change::Swapped
    ) {
        store_again(case, place, server);
    }
    ""
}

/// Stores the objects of the changed case in the place of the others.
fn store_again(case: &Case, place: &TestDir, server: Option<&Server>) {
    if case.kind == Kind::Files {
        for input in &case.inputs {
            for (number, bytes) in input.objects.iter().enumerate() {
                let path = place.path(&format!("{}/{number}", input.name));
                // A file that stays the same is not written again.
                if fs::read(&path).ok().as_ref() != Some(bytes) {
                    fs::write(&path, bytes).expect("it can be written");
                }
            }
            let surplus = place.path(&format!("{}/{}", input.name, input.objects.len()));
            let _ = fs::remove_file(surplus);
        }
        return;
    }
    store(case, place, server);
    let stored = Case::new(case.seed);
    for (input, stored) in case.inputs.iter().zip(&stored.inputs) {
        let surplus = input.objects.len()..stored.objects.len();
        surplus.for_each(|number| {
            server.into_iter().for_each(|server| server.delete(case, input, number))
        });
    }
}

fn files(case: &Case, place: &TestDir) -> Vec<PathBuf> {
    let of_input = |input: &super::inputs::Input| {
        let path = |number: usize| place.path(&format!("{}/{number}", input.name));
        (0..input.objects.len()).map(path).collect::<Vec<_>>()
    };
    case.inputs.iter().flat_map(of_input).collect()
}

/// Lets the case decode with a plugin: a built-in decoder as a file, with this at its end.
fn use_plugin(case: &mut Case, place: &TestDir, name: &str, added: &[u8]) {
    let builtin = BUILTINS.iter().find(|builtin| builtin.name == case.inputs[0].decoder);
    let module = builtin.expect("cases have built-in decoders").module();
    let path = place.write(&format!("{name}.wasm"), [&module, added].concat());
    let text = path.to_str().expect("UTF-8").to_owned();
    for input in &mut case.inputs {
        input.decoder = text.clone().leak();
    }
}

/// Why a consumer was refused. Where that is the failure of what others asked for, these know why.
fn reason(others: &mut [Reader], refusal: &str) -> String {
    if !refusal.contains("what another consumer asked for has failed") {
        return refusal.to_owned();
    }
    let error_of = |reader: &mut Reader| reader.next().err().map(|error| error.to_string());
    others.iter_mut().find_map(error_of).unwrap_or_else(|| refusal.to_owned())
}

impl Job<'_> {
    /// Reads until each rank keeps a state, and one of them is in the middle of an epoch. `None` if the
    /// case has no such place.
    fn life_until_a_state(&mut self, expected: &[Vec<Given>]) -> Option<Vec<RankProgress>> {
        let is_inside = |events: &Vec<Given>| {
            events.iter().position(|given| matches!(given, Given::Batch { valid: 1.., .. }))
        };
        let first = expected.iter().filter_map(is_inside).min()?;
        let life = self.start(None);
        let mut readers = self.connect(&life.host, &[]);
        let mut ranks = vec![RankProgress::default(); expected.len()];
        let end = expected[0].len();
        // All stop at the same step, because a rank may wait for others.
        let goal = (first + 1 + self.random.usize(..14)).min(end - 1);
        self.read(&life, &mut readers, &mut ranks, &vec![goal; expected.len()], expected);
        for (reader, rank) in readers.iter().zip(&mut ranks) {
            let state = reader.state().ok()?;
            rank.state = Some(serde_json::to_value(state).expect("a state is JSON"));
            rank.kept = rank.given + usize::from(rank.is_at_end);
        }
        let is_one = ranks.iter().all(|rank| rank.kept == ranks[0].kept);
        let stands_inside =
            |rank: &RankProgress| rank.state.as_ref().is_some_and(|state| state["delivered"] != 0);
        let is_good = self.case.mode != Mode::Broadcast || is_one;
        (is_good && ranks.iter().any(stands_inside)).then_some(ranks)
    }

    /// Goes on from the states to the end, or to a refusal.
    fn last_life(&mut self, ranks: &[RankProgress], expected: &[Vec<Given>]) -> End {
        match self.try_last_life(ranks, expected) {
            Ok(()) => End::Exact,
            Err(why) => End::Refused(why),
        }
    }

    fn try_last_life(
        &mut self,
        ranks: &[RankProgress],
        expected: &[Vec<Given>],
    ) -> Result<(), String> {
        let by_file = self.case.kind == Kind::Fifos
            || !self.case.asks_for_batch && !self.case.asks_for_rank && self.random.bool();
        let file = if by_file { self.write_states(ranks) } else { None };
        let consumers_first = !by_file && self.random.bool();
        let life = self.try_start(file.as_deref(), consumers_first)?;
        let mut readers = self.try_connect(&life.host, ranks, by_file)?;
        let mut given: Vec<_> = ranks.iter().map(|rank| rank.kept).collect();
        let end = expected[0].len();
        while given.iter().any(|given| *given < end) {
            let least = given.iter().copied().min().unwrap_or(end);
            let at = given.iter().position(|given| *given == least).expect("one is least");
            let found = self.try_next(&life, &mut readers[at])?;
            let expected = &expected[at][given[at]];
            assert!(
                found == *expected,
                "rank {at}, event {}: expected {expected:?}\nfound {found:?}\n{self:#?}",
                given[at]
            );
            given[at] += 1;
        }
        Ok(())
    }

    fn try_connect(
        &mut self,
        host: &Host,
        ranks: &[RankProgress],
        by_file: bool,
    ) -> Result<Vec<Reader>, String> {
        let Case { mode, readers, asks_for_batch, .. } = *self.case;
        let mut connected = Vec::new();
        for rank in 0..readers {
            let mut hello = Hello::new("train", "test");
            hello.rank = (mode == Mode::Rank).then_some(Rank { number: rank, world: readers });
            if asks_for_batch {
                let wanted = serde_json::from_value(self.case.wanted_batch());
                hello.batch = Some(wanted.expect("a number of records"));
            }
            if !by_file {
                hello.state = ranks[rank as usize].state.clone();
            }
            match host.connect(&hello) {
                Ok(reader) => connected.push(reader),
                Err(error) => return Err(reason(&mut connected, &error.to_string())),
            }
        }
        Ok(connected)
    }

    fn try_next(&self, life: &Life, reader: &mut Reader) -> Result<Given, String> {
        life.origin.demand.set(true);
        let event = reader.next();
        life.origin.demand.set(false);
        event.map(|event| self.given(event)).map_err(|error| error.to_string())
    }
}
