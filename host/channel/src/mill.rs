//! Grinds one object: reads bytes behind the chunk, shows the chunk to the decoder when that is worth
//! a call, places what it emits, and deals with what it can't decode.

use std::time::{Duration, Instant};

use super::failure::SHOWN;
use super::space::Space;
use super::{Failure, Halt, Meter, Policy, Sink, Stage, bad};
use pipemill_decode::{Answer, Resume, Stream};
use pipemill_source::{Got, Input, SourceError};
use pipemill_types::{ErrorKind, Fault, Position};

/// Bytes read and decoded at a time: with what the decoder copies of it, it stays in the second cache.
const READ: usize = 128 << 10;
/// A consumer that waits is granted a batch from so many bytes on. Memory that soon comes back is still in
/// the processor's caches when it is filled again: reading a pipe into it takes two thirds of the time.
const WARM: usize = 1 << 20;
/// From this size on, a chunk in which the decoder found no end is shown again only when it has grown
/// by half, so that a long record costs a few looks and not thousands.
const LONG: usize = 64 << 10;
/// A long chunk is shown all the same if no byte came for so long.
const SHOW_AFTER: Duration = Duration::from_millis(20);
/// A consumer that waits gets what there is, but not more often than this: from a source that is as
/// fast as the consumer, handing over small batches would take the most of the time.
const BREATH: Duration = Duration::from_millis(1);
/// How often a wait for bytes looks whether the consumers still want them.
const LOOK: Duration = Duration::from_millis(100);
/// Framing that a record may have beyond `max_record`.
const FRAMING: usize = 1 << 20;

/// What does not change while a channel runs.
pub(super) struct Setting<'a> {
    pub(super) channel: &'a str,
    pub(super) decoder: &'a str,
    pub(super) max_record: u64,
    pub(super) linger: Duration,
}

/// The grinding of one object.
pub(super) struct Mill<'a, S: Sink> {
    pub(super) setting: &'a Setting<'a>,
    pub(super) sink: &'a mut S,
    pub(super) space: &'a mut Space<S::Memory>,
    pub(super) policy: &'a mut Policy,
    pub(super) meter: &'a Meter,
    pub(super) epoch: u32,
    pub(super) object: &'a str,
    pub(super) input: &'a mut dyn Input,
    pub(super) stream: Stream,
    /// Told the schema as soon as it is known; fails if it differs from that of earlier objects.
    pub(super) schema: &'a mut dyn FnMut(&Stream, &mut S) -> Result<usize, Fault>,
    pub(super) progress: Progress,
}

/// How far the decoder came with what it was shown.
#[derive(Default)]
pub(super) struct Progress {
    /// Bytes it wants before it is called again; 0 if unknown.
    need: usize,
    /// Bytes of the chunk at the last call, after which it stood.
    shown: usize,
    /// It was shown all that it asked for and still stood.
    stood: bool,
    /// The input is at its end.
    ended: bool,
    /// Nothing more of the object can be decoded.
    over: bool,
    schema_known: bool,
    /// When records were handed over because nothing more came.
    handed: Option<Instant>,
}

impl<S: Sink> Mill<'_, S> {
    /// Grinds to the end of the object.
    pub(super) fn grind(&mut self) -> Result<(), Halt> {
        self.learn_schema()?;
        while !self.progress.ended && !self.progress.over {
            match self.try_read()? {
                Ok(Got::Bytes(_)) if self.is_due() => {
                    self.turn()?;
                    self.grant_while_warm()?;
                }
                Ok(Got::Nothing) => self.pause()?,
                Ok(_) => {}
                Err(error) => {
                    // Whole records may have come since the decoder was last called.
                    if self.is_unseen() {
                        self.turn()?;
                    }
                    return Err(self.source_failure(error).into());
                }
            }
            if self.sink.wants_epoch_end(self.epoch) {
                return Err(Halt::EpochEnded);
            }
        }
        if !self.progress.over {
            self.turn()?;
        }
        self.space.grant(self.sink)
    }

    /// A consumer that waits need not wait until the batch's memory is full.
    fn grant_while_warm(&mut self) -> Result<(), Halt> {
        if self.space.filled() >= WARM && self.sink.is_hungry() {
            return self.space.grant(self.sink);
        }
        Ok(())
    }

    /// Reads once, where only bytes are wanted.
    fn read(&mut self) -> Result<Got, Halt> {
        self.try_read()?.map_err(|error| self.source_failure(error).into())
    }

    /// Reads once.
    fn try_read(&mut self) -> Result<Result<Got, SourceError>, Halt> {
        let want = READ.max(self.progress.need.saturating_sub(self.space.len()));
        let wait = self.patience();
        self.meter.enter(Stage::Consumer);
        let buf = self.space.writable(self.sink, want)?;
        self.meter.enter(Stage::Source);
        let got = self.input.read(buf, Some(wait));
        match got {
            Ok(Got::Bytes(count)) => {
                self.space.came(count);
                self.meter.read(count);
            }
            Ok(Got::Stopped) => return Err(Halt::Stopped),
            Ok(Got::End) => self.progress.ended = true,
            Ok(Got::Nothing) | Err(_) => {}
        }
        Ok(got)
    }

    /// How long to wait for bytes before something else is due.
    fn patience(&self) -> Duration {
        if self.space.waiting() > 0 {
            let breath =
                || BREATH.saturating_sub(self.progress.handed.map_or(BREATH, |at| at.elapsed()));
            let linger = self.setting.linger;
            return if self.sink.is_hungry() { linger.min(breath()) } else { linger };
        }
        if self.space.len() > self.progress.shown { SHOW_AFTER } else { LOOK }
    }

    /// Nothing came for a while: records need not wait any longer, nor a long chunk to be shown.
    fn pause(&mut self) -> Result<(), Halt> {
        if self.space.waiting() > 0 {
            self.progress.handed = Some(Instant::now());
            return self.space.grant(self.sink);
        }
        if self.is_unseen() { self.turn() } else { Ok(()) }
    }

    /// Whether bytes came since the last call, and not fewer than the decoder wants.
    fn is_unseen(&self) -> bool {
        let len = self.space.len();
        len > self.progress.shown && len >= self.progress.need
    }

    /// Whether the chunk is worth a call.
    fn is_due(&self) -> bool {
        let (len, progress) = (self.space.len(), &self.progress);
        let grown = !progress.stood || len < LONG || len >= progress.shown + progress.shown / 2;
        len >= progress.need && grown
    }

    /// Calls the decoder as long as it gets further with what is there.
    fn turn(&mut self) -> Result<(), Halt> {
        loop {
            let answer = self.decode()?;
            let end = self.progress.ended;
            match answer {
                Ok(Answer::Progress { consumed, need }) => {
                    self.space.consume(consumed);
                    let left = self.space.len();
                    self.progress.stood = consumed == 0;
                    (self.progress.need, self.progress.shown) = (need, left);
                    if consumed == 0 {
                        return self.check_standing(left, need);
                    }
                    if left == 0 || !(end || (1..=left).contains(&need)) {
                        return Ok(());
                    }
                }
                Ok(Answer::Bad { offset, message, resume }) => {
                    let remedy = "see `on_error` to go on behind bad records";
                    let fault = Fault::new(ErrorKind::Decode, message, remedy);
                    self.pass_over(offset, fault, resume)?;
                    if self.space.len() == 0 || self.progress.over {
                        return Ok(());
                    }
                }
                Err(fault) => {
                    // The instance is dead, and with it the rest of the object.
                    let reached = self.stream.emitted().reached as usize;
                    return self.pass_over(reached, fault, Resume::None);
                }
            }
        }
    }

    /// One call, whose records are placed whatever else it answered.
    fn decode(&mut self) -> Result<Result<Answer, Fault>, Halt> {
        self.meter.enter(Stage::Decoder);
        let answer = {
            let (bytes, range) = self.space.chunk();
            self.stream.decode(&bytes, range, self.progress.ended)
        };
        self.meter.decoded(self.stream.memory_held());
        self.learn_schema()?;
        self.space.take(self.sink, self.stream.emitted())?;
        self.meter.placed(self.stream.emitted().records);
        self.meter.granted(self.space.granted());
        Ok(answer)
    }

    fn learn_schema(&mut self) -> Result<(), Halt> {
        if self.progress.schema_known || self.stream.schema().is_none() {
            return Ok(());
        }
        self.progress.schema_known = true;
        match (self.schema)(&self.stream, self.sink) {
            Ok(fields) => {
                self.space.set_fields(fields);
                Ok(())
            }
            Err(fault) => Err(self.failure(0, fault).into()),
        }
    }

    /// The decoder got no further with `left` bytes: fine as long as there can be more.
    fn check_standing(&mut self, left: usize, need: usize) -> Result<(), Halt> {
        if self.progress.ended && left > 0 {
            let wants =
                if need > left { format!("; it wants at least {need}") } else { String::new() };
            let message =
                format!("the input ends inside a record, {left} bytes after its start{wants}");
            let remedy = "the object was cut short, or is not of this format";
            let fault = Fault::new(ErrorKind::Decode, message, remedy);
            return self.pass_over(0, fault, Resume::None);
        }
        let most = self.setting.max_record.saturating_add(FRAMING as u64);
        if (left.max(need) as u64) > most {
            let max_record = self.setting.max_record;
            let message = format!("a record is larger than `max_record` = {max_record} bytes");
            let remedy = "raise `max_record` (and `limits.memory`) if the input is sound";
            let fault = Fault::new(ErrorKind::TooLarge, message, remedy);
            return self.pass_over(0, fault, Resume::None);
        }
        Ok(())
    }

    /// Deals with a bad place, `offset` bytes into the chunk: the end of the channel, or on behind it.
    fn pass_over(&mut self, offset: usize, fault: Fault, resume: Resume) -> Result<(), Halt> {
        let kind = fault.kind;
        let place = self.failure(offset, fault);
        if !self.policy.goes_on() {
            return Err(place.into());
        }
        let start = self.space.position();
        self.space.consume(offset);
        let mut kept = Vec::new();
        match resume {
            Resume::At(to) => self.discard_to(start.saturating_add(to), &mut kept)?,
            Resume::None => {
                self.progress.over = true;
                self.discard_to(u64::MAX, &mut kept)?;
            }
            Resume::Scan(from) => {
                self.discard_to(start.saturating_add(from), &mut kept)?;
                self.search(&mut kept)?;
            }
        }
        let length = self.space.position() - start - offset as u64;
        self.meter.passed_over(kind);
        self.progress = Progress {
            ended: self.progress.ended,
            over: self.progress.over,
            schema_known: self.progress.schema_known,
            handed: self.progress.handed,
            ..Progress::default()
        };
        Ok(self.policy.passed(&place, length, &kept)?)
    }

    /// Drops bytes up to this place of the object, or its end.
    fn discard_to(&mut self, place: u64, kept: &mut Vec<u8>) -> Result<(), Halt> {
        loop {
            let left = place.saturating_sub(self.space.position());
            self.discard(usize::try_from(left).unwrap_or(usize::MAX).min(self.space.len()), kept);
            if self.space.position() >= place || self.progress.ended {
                return Ok(());
            }
            self.progress.need = 0;
            self.read()?;
        }
    }

    fn discard(&mut self, count: usize, kept: &mut Vec<u8>) {
        if self.policy.keeps_bytes() {
            kept.extend(self.space.peek(0, count.min(bad::KEPT - kept.len())));
        }
        self.space.consume(count);
    }

    /// Drops bytes until the decoder finds a record.
    fn search(&mut self, kept: &mut Vec<u8>) -> Result<(), Halt> {
        loop {
            self.meter.enter(Stage::Decoder);
            let answer = {
                let (bytes, range) = self.space.chunk();
                self.stream.resync(&bytes, range, self.progress.ended)
            };
            let (count, found) = match answer {
                Ok(answer) => answer,
                Err(fault) => return Err(self.failure(0, fault).into()),
            };
            self.discard(count, kept);
            if found {
                return Ok(());
            }
            if self.progress.ended {
                return self.discard_to(u64::MAX, kept);
            }
            self.read()?;
        }
    }

    fn failure(&self, offset: usize, fault: Fault) -> Failure {
        Failure {
            fault,
            channel: self.setting.channel.to_owned(),
            position: Position {
                epoch: self.epoch,
                object: Some(self.object.to_owned()),
                offset: Some(self.space.position() + offset as u64),
                record: Some(self.space.records()),
            },
            decoder: self.setting.decoder.to_owned(),
            bytes: self.space.peek(offset, SHOWN),
            missing: false,
        }
    }

    fn source_failure(&self, error: SourceError) -> Failure {
        let fault = Fault::new(ErrorKind::Source, error.message, error.remedy);
        let offset = self.space.len();
        Failure { bytes: Vec::new(), missing: error.missing, ..self.failure(offset, fault) }
    }
}
