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
    Rank,
    Broadcast,
}

/// How inputs are mixed, as a configuration says it.
#[derive(Debug)]
pub struct Mix {
    weights: Vec<u32>,
    until: String,
    seed: u64,
}

/// What is read, and by whom. All of it follows from the seed.
#[derive(Debug)]
pub struct Case {
    pub seed: u64,
    pub kind: Kind,
    /// The inputs of the channel: one, or those that it mixes.
    pub inputs: Vec<Input>,
    /// How several inputs are mixed.
    pub mix: Option<Mix>,
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
    /// Number of consumers: in [`Mode::Rank`] the ranks.
    pub readers: u32,
    /// The consumers ask for the number of records of their batches; the configuration does not say it.
    pub asks_for_batch: bool,
    /// The consumers ask for their part of the batches; the configuration does not say it.
    pub asks_for_rank: bool,
    /// Each one but the last is killed.
    pub lives: usize,
}

impl Case {
    pub fn new(seed: u64) -> Self {
        let mut random = Rng::with_seed(seed);
        let kind = Kind::of(seed);
        let mode = match random.u8(..8) {
            0..3 => Mode::Share,
            3..7 => Mode::Rank,
            _ => Mode::Broadcast,
        };
        let readers = match mode {
            Mode::Share => 1,
            Mode::Rank => random.u32(1..5),
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
        let mut case = Self {
            seed,
            kind,
            inputs: vec![input],
            mix: None,
            epochs: random.u32(1..4),
            batch,
            has_batches,
            tail: tails[random.usize(..if mode == Mode::Rank { 2 } else { 3 })],
            across,
            asks_for_batch: can_ask && window.is_none() && random.u8(..5) == 0,
            asks_for_rank: can_ask && mode == Mode::Rank && random.u8(..3) == 0,
            shuffle: is_shuffled.then(|| (random.u64(..1 << 63), window)),
            mode,
            readers,
            lives: random.usize(2..6),
        };
        if kind == Kind::Fifos {
            // Each epoch is one object, and the others are not read.
            let read = case.inputs[0].counts.iter().take(case.epochs as usize);
            case.has_batches = read.max().is_some_and(|most| *most >= batch * readers as usize);
        }
        if case.across == "epoch" && !case.asks_for_batch && random.u8(..4) == 0 {
            case.mix_inputs(&mut random);
        }
        case
    }

    /// Adds inputs, which are mixed with the first one.
    fn mix_inputs(&mut self, random: &mut Rng) {
        for name in ["b", "c"].into_iter().take(random.usize(1..3)) {
            let input = self.inputs[0].like(random, name);
            self.inputs.push(input);
        }
        // An input that is read again and again needs records, and a FIFO for each time.
        let can_count = self.kind != Kind::Fifos && self.inputs.iter().all(|one| one.records > 0);
        let until = match random.u8(..3) {
            0 => "\"first\"".to_owned(),
            1 if can_count => random.u32(1..200).to_string(),
            _ => "\"all\"".to_owned(),
        };
        let weights = self.inputs.iter().map(|_| random.u32(1..10)).collect();
        self.mix = Some(Mix { weights, until, seed: random.u64(..1 << 63) });
        // The first input may be drawn, or be at its end, before there is a batch.
        self.has_batches = false;
        self.asks_for_rank = false;
    }

    /// The names of the channels that read the inputs.
    pub fn channels(&self) -> Vec<&'static str> {
        match self.mix {
            Some(_) => self.inputs.iter().map(|input| input.name).collect(),
            None => vec!["train"],
        }
    }

    /// The configuration, for sources of the inputs that are written like this. What does not
    /// change the batches is chosen at random.
    pub fn config(&self, sources: &[String], random: &mut Rng) -> String {
        let Self { batch, tail, across, readers, epochs, .. } = self;
        let workers = match self.kind {
            Kind::Fifos => 1,
            Kind::Files | Kind::S3 => random.u32(1..5),
        };
        let reading = |input: &Input, source: &str, epochs: &str| {
            let (decoder, options) = (input.decoder, input.options);
            let compression = input.compression.word();
            format!(
                "decoder = \"{decoder}\"\noptions = {{ {options} }}\n\
                 source = {{ {source}, compression = \"{compression}\"{epochs} }}\n\
                 workers = {workers}\n"
            )
        };
        let own = match &self.mix {
            None => reading(&self.inputs[0], &sources[0], &format!(", epochs = {epochs}")),
            Some(Mix { weights, until, seed }) => {
                let names = self.inputs.iter().map(|input| input.name);
                let pairs: Vec<_> = names
                    .zip(weights)
                    .map(|(name, weight)| format!("{name} = 0.{weight}"))
                    .collect();
                let pairs = pairs.join(", ");
                format!(
                    "source = {{ mix = {{ {pairs} }}, until = {until}, seed = {seed}, epochs = \
                     {epochs} }}\n"
                )
            }
        };
        let mut text = format!("[[channel]]\nname = \"train\"\n{own}");
        let mut put = |line: std::fmt::Arguments<'_>| writeln!(text, "{line}").expect("a text");
        if !self.asks_for_batch {
            put(format_args!("batch = {batch}\ntail = \"{tail}\"\nbatch_across = \"{across}\""));
        }
        match &self.shuffle {
            Some((seed, Some(window))) => {
                put(format_args!("shuffle = {{ seed = {seed}, window = {window} }}"));
            }
            Some((seed, None)) if self.mix.is_none() => {
                put(format_args!("shuffle = {{ seed = {seed} }}"));
            }
            Some(_) | None => {}
        }
        match self.mode {
            Mode::Rank if !self.asks_for_rank && !self.asks_for_batch => {
                put(format_args!("mode = \"rank\"\nconsumers = {readers}"));
            }
            Mode::Broadcast => put(format_args!("mode = \"broadcast\"\nconsumers = {readers}")),
            Mode::Share | Mode::Rank => {}
        }
        let slots = (super::lives::LEAD + 2) * *readers + 4 + random.u32(..9);
        let slot_size = ["64KiB", "68KiB", "256KiB"][random.usize(..3)];
        let linger = ["0ms", "10ms"][random.usize(..2)];
        put(format_args!(
            "[channel.ring]\nslots = {slots}\nslot_size = \"{slot_size}\"\nlinger = \"{linger}\""
        ));
        if self.mix.is_some() {
            for (input, source) in self.inputs.iter().zip(sources) {
                let shuffle = match &self.shuffle {
                    Some((seed, _)) if self.kind != Kind::Fifos => {
                        format!("shuffle = {{ seed = {seed} }}\n")
                    }
                    _ => String::new(),
                };
                let (name, reading) = (input.name, reading(input, source, ""));
                text += &format!("[[channel]]\nname = \"{name}\"\n{reading}{shuffle}");
            }
        }
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
