//! The lives of a case: a run without a kill, and then runs that are killed and go on.

use std::fmt;
use std::path::{Path, PathBuf};

use fastrand::Rng;
use pipemill_ring::protocol::{Hello, Rank};
use pipemill_ring::reader::{Batch, Event, Reader};
use pipemill_tests::test_dir::TestDir;
use serde_json::Value;

use super::case::{Case, Kind, Mode};
use super::origin::{Origin, Server, store};
use super::running::{Host, Hosts};

/// The most events that one rank is ahead of another one, so that the slots last.
pub const LEAD: u32 = 5;

/// What a consumer is given.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Given {
    Batch {
        number: u64,
        epoch: u32,
        valid: usize,
        /// The object and the number of the first record in it. They say something else if records
        /// are shuffled.
        first: Option<(String, u64)>,
        /// The fields of each record.
        records: Vec<Vec<Option<Vec<u8>>>>,
    },
    EpochEnd(u32),
    End,
}

impl fmt::Debug for Given {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Batch { number, epoch, valid, first, records } => {
                write!(
                    f,
                    "batch {number} of epoch {epoch}, {valid} real records from {first:?}: "
                )?;
                for field in records.iter().flatten().take(12) {
                    let bytes = field.as_deref().unwrap_or(b"absent");
                    write!(f, "{} ", bytes[..bytes.len().min(40)].escape_ascii())?;
                }
                Ok(())
            }
            Self::EpochEnd(epoch) => write!(f, "end of epoch {epoch}"),
            Self::End => f.write_str("end"),
        }
    }
}

/// How a life goes on at states.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// `run --resume`.
    File,
    /// The consumers of a new host bring their states.
    Connect,
    /// The consumers of the same host bring their states.
    SameHost,
}

/// A case that is being checked.
pub(super) struct Job<'c> {
    pub(super) case: &'c Case,
    hosts: Hosts,
    server: Option<&'c Server>,
    place: TestDir,
    /// The folder of the inputs' folders, below the place: "" or a name with a `/`.
    folder: &'static str,
    pub(super) random: Rng,
    /// What has happened, for messages.
    story: Vec<String>,
}

/// A host and what feeds it.
pub(super) struct Life {
    // Dropped in this order.
    pub(super) host: Host,
    pub(super) origin: Origin,
}

/// What a rank was given so far, and its state, with the number of events before it.
#[derive(Default, Clone)]
pub(super) struct RankProgress {
    pub(super) given: usize,
    /// The last event was a batch of copies, after which nothing of its epoch follows. A state says
    /// already then that the epoch is over.
    pub(super) is_at_end: bool,
    pub(super) kept: usize,
    pub(super) state: Option<Value>,
}

/// The property: with kills, each rank is given what it is given without.
pub fn check(case: &Case, hosts: Hosts, server: Option<&Server>) {
    let place = TestDir::new();
    store(case, &place, server);
    let mut job = Job::new(case, hosts, server, place);
    let expected = job.without_a_kill();
    job.with_kills(&expected);
}

impl<'c> Job<'c> {
    pub(super) fn new(
        case: &'c Case,
        hosts: Hosts,
        server: Option<&'c Server>,
        place: TestDir,
    ) -> Self {
        let random = Rng::with_seed(!case.seed);
        Self { case, hosts, server, place, folder: "", random, story: Vec::new() }
    }

    /// The same job with a case that has changed, whose inputs are in this folder.
    pub(super) fn of<'d>(self, case: &'d Case, folder: &'static str) -> Job<'d>
    where
        'c: 'd,
    {
        let Self { hosts, server, place, random, story, .. } = self;
        Job { case, hosts, server, place, folder, random, story }
    }

    pub(super) fn place(&self) -> &TestDir {
        &self.place
    }
}

impl Job<'_> {
    pub(super) fn start(&mut self, resume: Option<&Path>) -> Life {
        self.try_start(resume, false).unwrap_or_else(|why| panic!("{why}"))
    }

    /// Starts a host, or returns why it does not start. `consumers_first`: it decodes nothing before all
    /// consumers are connected.
    pub(super) fn try_start(
        &mut self,
        resume: Option<&Path>,
        consumers_first: bool,
    ) -> Result<Life, String> {
        let origin = Origin::start(
            self.case,
            &self.place,
            self.folder,
            self.server,
            &self.case.channels(),
            &mut self.random,
        );
        let config = self.case.config(&origin.sources, &mut self.random);
        let host = Host::start(self.hosts, &self.place, &config, resume, consumers_first)?;
        Ok(Life { host, origin })
    }

    /// Connects all consumers.
    pub(super) fn connect(&mut self, host: &Host, states: &[Option<Value>]) -> Vec<Reader> {
        let Case { mode, readers, asks_for_batch, .. } = *self.case;
        let mut connected: Vec<_> = (0..readers)
            .map(|rank| {
                let mut hello = Hello::new("train", "test");
                hello.credits = Some(self.random.u32(1..4));
                hello.rank = (mode == Mode::Rank).then_some(Rank { number: rank, world: readers });
                if asks_for_batch {
                    let wanted = serde_json::from_value(self.case.wanted_batch());
                    hello.batch = Some(wanted.expect("a number of records"));
                }
                hello.state = states.get(rank as usize).cloned().flatten();
                (rank, hello)
            })
            .collect();
        self.random.shuffle(&mut connected);
        let connect = |(rank, hello): (u32, Hello)| match host.connect(&hello) {
            Ok(reader) => (rank, reader),
            Err(error) => panic!("rank {rank}, {:?}: {error}\n{self:#?}", hello.state),
        };
        let mut readers: Vec<_> = connected.into_iter().map(connect).collect();
        readers.sort_by_key(|(rank, _)| *rank);
        readers.into_iter().map(|(_, reader)| reader).collect()
    }

    /// What each rank is given without a kill.
    pub(super) fn without_a_kill(&mut self) -> Vec<Vec<Given>> {
        let life = self.start(None);
        let mut readers = self.connect(&life.host, &[]);
        let mut given = vec![Vec::new(); readers.len()];
        while given.last().and_then(|events: &Vec<Given>| events.last()) != Some(&Given::End) {
            for (reader, given) in readers.iter_mut().zip(&mut given) {
                given.push(self.next(&life, reader));
            }
        }
        let counts: Vec<_> = given.iter().map(Vec::len).collect();
        assert!(counts.iter().all(|count| *count == counts[0]), "{counts:?}: {:?}", self.case);
        given
    }

    /// Notes what happens. A case that is run alone says it at once, because it may hang.
    pub(super) fn tell(&mut self, line: String) {
        if std::env::var_os(super::ONLY).is_some() {
            println!("{line}");
        }
        self.story.push(line);
    }

    fn next(&self, life: &Life, reader: &mut Reader) -> Given {
        life.origin.demand.set(true);
        let event = reader.next();
        life.origin.demand.set(false);
        self.given(event.unwrap_or_else(|error| panic!("{error}: {self:#?}")))
    }

    /// What an event gives. A batch is ACKed.
    pub(super) fn given(&self, event: Event) -> Given {
        match event {
            Event::Batch(batch) => {
                batch.ack();
                self.batch(&batch)
            }
            Event::EpochEnd(end) => Given::EpochEnd(end.epoch),
            Event::StreamEnd => Given::End,
        }
    }

    fn batch(&self, batch: &Batch) -> Given {
        let fields = batch.fields().len();
        let record = |record| {
            (0..fields).map(|field| batch.field(record, field).map(<[u8]>::to_vec)).collect()
        };
        // Folders may be moved.
        let object = batch.object().rsplit('/').next().unwrap_or_default();
        let first = (object.to_owned(), batch.first_record());
        Given::Batch {
            number: batch.number(),
            epoch: batch.epoch(),
            valid: batch.valid(),
            first: (!self.case.has_window()).then_some(first),
            records: (0..batch.records()).map(record).collect(),
        }
    }

    fn with_kills(&mut self, expected: &[Vec<Given>]) {
        let end = expected[0].len();
        let mut ranks = vec![RankProgress::default(); expected.len()];
        let mut living: Option<Life> = None;
        let is_batch = |given: &Given| matches!(given, Given::Batch { .. });
        let batches = expected[0].iter().rposition(is_batch).map_or(0, |at| at + 1);
        for life in 1..=self.case.lives {
            if ranks.iter().any(|rank| rank.state.is_none()) {
                // A job whose ranks have not all kept a state begins again.
                ranks.fill(RankProgress::default());
            }
            for rank in &mut ranks {
                (rank.given, rank.is_at_end) = (rank.kept, false);
            }
            // A host that goes on there has nothing to do, and ends before anybody connects.
            let is_at_end = match self.hosts {
                Hosts::InProcess => ranks.iter().all(|rank| rank.kept + 1 >= end),
                Hosts::Processes => ranks.iter().all(|rank| rank.kept >= batches),
            };
            if is_at_end && self.case.kind == Kind::Fifos {
                return;
            }
            let way = self.way(living.is_some(), &ranks, is_at_end);
            let (current, mut readers) = self.begin(way, living.take(), &ranks);
            let last = life == self.case.lives;
            let goals: Vec<_> = ranks
                .iter()
                .map(|rank| {
                    let most = if self.random.bool() { 8 } else { end };
                    let goal = rank.given + self.random.usize(..=most);
                    if last { end } else { goal.min(end) }
                })
                .collect();
            let from: Vec<_> = ranks.iter().map(|rank| rank.given).collect();
            self.tell(format!("life {life}: {way:?} from {from:?}, to {goals:?} of {end}"));
            self.read(&current, &mut readers, &mut ranks, &goals, expected);
            // Else the channel may be at its end, and can't begin again.
            let can_live = match self.case.mode {
                // Ranks that have ACKed more than their states say have to come one by one.
                Mode::Rank => ranks.iter().all(|rank| rank.kept == rank.given),
                Mode::Share | Mode::Broadcast => true,
            };
            let can_live = can_live && ranks.iter().all(|rank| rank.given < batches);
            if can_live && self.random.u8(..4) == 0 {
                drop(readers);
                living = Some(current);
            } else {
                drop(current);
            }
        }
        let given: Vec<_> = ranks.iter().map(|rank| rank.given).collect();
        assert!(given.iter().all(|given| *given == end), "{given:?} of {end}: {self:#?}");
    }

    fn way(&mut self, lives: bool, ranks: &[RankProgress], is_at_end: bool) -> Way {
        let has_state = ranks.iter().any(|rank| rank.state.is_some());
        if self.case.kind == Kind::Fifos {
            // Its bytes can't be read again by the same host.
            return Way::File;
        }
        if lives && has_state {
            return Way::SameHost;
        }
        // A file does not say what consumers ask for.
        let connects = self.case.asks_for_batch || is_at_end || self.random.bool();
        if connects { Way::Connect } else { Way::File }
    }

    /// Begins a life in this way.
    fn begin(
        &mut self,
        way: Way,
        living: Option<Life>,
        ranks: &[RankProgress],
    ) -> (Life, Vec<Reader>) {
        let states: Vec<_> = ranks.iter().map(|rank| rank.state.clone()).collect();
        let life = match (way, living) {
            (Way::SameHost, Some(living)) => living,
            (Way::File, living) => {
                drop(living);
                let file = self.write_states(ranks);
                let life = self.start(file.as_deref());
                let readers = self.connect(&life.host, &[]);
                return (life, readers);
            }
            (_, living) => {
                drop(living);
                self.start(None)
            }
        };
        let readers = self.connect(&life.host, &states);
        (life, readers)
    }

    /// The file for `run --resume`, if there is a state.
    pub(super) fn write_states(&mut self, ranks: &[RankProgress]) -> Option<PathBuf> {
        let mut states: Vec<_> =
            ranks.iter().map(|rank| rank.state.clone()).collect::<Option<_>>()?;
        let is_one_step = ranks.iter().all(|rank| rank.kept == ranks[0].kept);
        if self.case.mode == Mode::Broadcast || is_one_step && self.random.bool() {
            // One is enough.
            let one = self.random.usize(..states.len());
            states = vec![states.swap_remove(one)];
        }
        Some(self.place.write("states.json", Value::Array(states).to_string()))
    }

    /// Reads until each rank was given as much as its goal says, as far as ranks don't wait for each
    /// other, and keeps states on the way.
    pub(super) fn read(
        &mut self,
        life: &Life,
        readers: &mut [Reader],
        ranks: &mut [RankProgress],
        goals: &[usize],
        expected: &[Vec<Given>],
    ) {
        self.keep_states(readers, ranks, 4);
        loop {
            let slowest = ranks.iter().map(|rank| rank.given).min().unwrap_or(0);
            let may_read = |at: &usize| {
                let RankProgress { given, .. } = ranks[*at];
                if given >= goals[*at] || given >= slowest + LEAD as usize {
                    return false;
                }
                // An epoch ends when all have ACKed all of it.
                let is_batch = |given: &Given| matches!(given, Given::Batch { .. });
                let to_here = &expected[*at][..=given];
                to_here.iter().rposition(|given| !is_batch(given)).is_none_or(|end| end <= slowest)
            };
            let able: Vec<_> = (0..ranks.len()).filter(may_read).collect();
            if able.is_empty() {
                return;
            }
            let at = able[self.random.usize(..able.len())];
            let given = self.next(life, &mut readers[at]);
            let number = ranks[at].given;
            if given != expected[at][number] {
                let expected = &expected[at][number];
                panic!(
                    "rank {at}, event {number}: expected {expected:?}\nfound {given:?}\n{self:#?}"
                );
            }
            ranks[at].given += 1;
            ranks[at].is_at_end = matches!(given, Given::Batch { valid: 0, .. });
            self.keep_states(readers, ranks, 3);
        }
    }

    /// Each rank keeps its state, or not. Consumers that all get the same share one.
    fn keep_states(&mut self, readers: &[Reader], ranks: &mut [RankProgress], seldom: u8) {
        let is_one_step = ranks.iter().all(|rank| rank.given == ranks[0].given);
        let mut keeps = self.random.u8(..seldom) == 0;
        for (reader, rank) in readers.iter().zip(ranks) {
            if self.case.mode == Mode::Broadcast {
                keeps = keeps && is_one_step;
            } else {
                keeps = self.random.u8(..seldom) == 0;
            }
            if keeps {
                let state = reader.state().unwrap_or_else(|error| panic!("{error}: {self:#?}"));
                rank.state = Some(serde_json::to_value(state).expect("a state is JSON"));
                rank.kept = rank.given + usize::from(rank.is_at_end);
            }
        }
    }
}

impl fmt::Debug for Job<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:#?}", self.case)?;
        self.story.iter().try_for_each(|line| writeln!(f, "{line}"))
    }
}
