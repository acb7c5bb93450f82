//! A case: an input, a channel of it, and who reads that.

use std::fmt::Write;

use fastrand::Rng;

use super::inputs::Input;

/// Where the bytes come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Files,
    Fifos,
    S3,
}

impl Kind {
    /// That of the case with this seed.
    pub fn of(seed: u64) -> Self {
        match seed % 10 {
            0..6 => Self::Files,
            6 => Self::S3,
            _ => Self::Fifos,
        }
    }
}

/// How the batches are divided among the readers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Share,
    Shard,
    Broadcast,
}

/// What is read, and by whom. All of it follows from the seed.
#[derive(Debug)]
pub struct Case {
    pub seed: u64,
    pub kind: Kind,
    /// The inputs of the channel: one.
    pub inputs: Vec<Input>,
    pub epochs: u32,
    /// Records of a batch.
    pub batch: usize,
    /// Whether an object has enough records for a batch of each reader.
    pub has_batches: bool,
    pub tail: &'static str,
    pub across: &'static str,
    /// Seed, and the window as it is written in a configuration.
    pub shuffle: Option<(u64, Option<String>)>,
    pub mode: Mode,
    /// Number of consumers: in [`Mode::Shard`] the ranks.
    pub readers: u32,
    /// The consumers ask for the number of records of their batches; the configuration does not say it.
    pub asks_for_batch: bool,
    /// The consumers ask for their part of the batches; the configuration does not say it.
    pub asks_for_shard: bool,
    /// Each one but the last is killed.
    pub lives: usize,
}

impl Case {
    pub fn new(seed: u64) -> Self {
        let mut random = Rng::with_seed(seed);
        let kind = Kind::of(seed);
        let mode = match random.u8(..8) {
            0..3 => Mode::Share,
            3..7 => Mode::Shard,
            _ => Mode::Broadcast,
        };
        let readers = match mode {
            Mode::Share => 1,
            Mode::Shard => random.u32(1..5),
            Mode::Broadcast => random.u32(1..3),
        };
        let window = random.bool().then(|| match random.u8(..4) {
            0 => "\"1MiB\"".to_owned(),
            1 => random.u32(2..6).to_string(),
            _ => random.u32(2..150).to_string(),
        });
        // A source of one object at a time has none to shuffle.
        let is_shuffled = window.is_some() || kind != Kind::Fifos && random.bool();
        let across = if window.is_none() && random.u8(..3) == 0 { "object" } else { "epoch" };
        let tails = ["drop", "pad", "keep"];
        let input = Input::new(&mut random, "a");
        let batch = match input.decoder {
            "avro" => random.usize(20..90),
            _ if random.bool() => random.usize(1..6),
            _ => random.usize(6..40),
        };
        let has_batches = input.records >= batch * readers as usize;
        // A channel without a batch is at its end before anybody can ask.
        let can_ask = kind != Kind::Fifos && has_batches;
        Self {
            seed,
            kind,
            inputs: vec![input],
            epochs: random.u32(1..4),
            batch,
            has_batches,
            tail: tails[random.usize(..if mode == Mode::Shard { 2 } else { 3 })],
            across,
            asks_for_batch: can_ask && window.is_none() && random.u8(..5) == 0,
            asks_for_shard: can_ask && mode == Mode::Shard && random.u8(..3) == 0,
            shuffle: is_shuffled.then(|| (random.u64(..1 << 63), window)),
            mode,
            readers,
            lives: random.usize(2..6),
        }
    }

    /// The channel's configuration, for a source that is written as `source`. What does not change
    /// the batches is chosen at random.
    pub fn config(&self, source: &str, random: &mut Rng) -> String {
        let [input] = self.inputs.as_slice() else { panic!("a channel of one input") };
        let Self { batch, tail, across, readers, epochs, .. } = self;
        let (decoder, options) = (input.decoder, input.options);
        let mut text = format!(
            "[[channel]]\nname = \"train\"\ndecoder = \"{decoder}\"\noptions = {{ {options} }}\n\
             source = {{ {source}, epochs = {epochs}, compression = \"{}\" }}\n",
            input.compression.word()
        );
        let mut put = |line: std::fmt::Arguments<'_>| writeln!(text, "{line}").expect("a text");
        if !self.asks_for_batch {
            put(format_args!("batch = {batch}\ntail = \"{tail}\"\nbatch_across = \"{across}\""));
        }
        match &self.shuffle {
            Some((seed, Some(window))) => {
                put(format_args!("shuffle = {{ seed = {seed}, window = {window} }}"));
            }
            Some((seed, None)) => put(format_args!("shuffle = {{ seed = {seed} }}")),
            None => {}
        }
        match self.mode {
            Mode::Shard if !self.asks_for_shard && !self.asks_for_batch => {
                put(format_args!("mode = \"shard\"\nconsumers = {readers}"));
            }
            Mode::Broadcast => put(format_args!("mode = \"broadcast\"\nconsumers = {readers}")),
            Mode::Share | Mode::Shard => {}
        }
        let slots = (super::lives::LEAD + 2) * *readers + 4 + random.u32(..9);
        let slot_size = ["64KiB", "68KiB", "256KiB"][random.usize(..3)];
        let linger = ["0ms", "10ms"][random.usize(..2)];
        put(format_args!(
            "[channel.ring]\nslots = {slots}\nslot_size = \"{slot_size}\"\nlinger = \"{linger}\""
        ));
        text
    }

    /// What the consumers' batches are, where they ask for them.
    pub fn wanted_batch(&self) -> serde_json::Value {
        let Self { batch, tail, across, .. } = self;
        serde_json::json!({ "records": batch, "tail": tail, "across": across })
    }

    /// Whether the order of the records is another one than that of the input.
    pub fn has_window(&self) -> bool {
        self.shuffle.as_ref().is_some_and(|(_, window)| window.is_some())
    }
}
