//! An object's bytes as the channel's thread reads them: part after part, copied out of the responses' bodies.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes};
use tokio::runtime::Handle;
use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

use super::checksum::Sum;
use super::error::Trouble;
use super::fetch::{Target, head, mismatch};
use super::plan::Planner;
use super::prefetch::{Part, part, ranges};
use super::wait::wait;
use super::{OnChange, Task};
use crate::Stop;
use crate::{Input, ReadOutcome, SourceError};

/// An object's bytes.
pub(super) struct Body {
    pub(super) target: Arc<Target>,
    parts: UnboundedReceiver<Part>,
    part: Option<Part>,
    frame: Bytes,
    at: u64,
    sum: Option<Sum>,
    failed: Option<SourceError>,
    reader: Reader,
    /// Begins it anew.
    again: Option<Task<()>>,
}

/// What reading needs beside the bytes.
#[derive(Clone)]
pub(super) struct Reader {
    pub(super) planner: Planner,
    pub(super) handle: Handle,
    pub(super) stop: Stop,
}

impl Reader {
    /// Waits for what `poll` gives, because nothing is there to read.
    fn wait<T>(
        &self,
        patience: Option<Duration>,
        poll: impl FnMut(&mut Context) -> Poll<T>,
    ) -> Result<T, ReadOutcome> {
        let began = Instant::now();
        let came = wait(&self.handle, &self.stop, patience, poll).or_got();
        self.planner.window.waited(began.elapsed());
        came
    }
}

/// A frame or a trouble; none at the end of a part.
type Frame = Option<Result<Bytes, Trouble>>;

/// What a look for more bytes found.
enum Look {
    Frame,
    End,
    Other(ReadOutcome),
}

impl Body {
    pub(super) fn new(target: Arc<Target>, parts: UnboundedReceiver<Part>, reader: Reader) -> Self {
        Self {
            target,
            parts,
            part: None,
            frame: Bytes::new(),
            at: 0,
            sum: None,
            failed: None,
            reader,
            again: None,
        }
    }

    /// Copies what there is of the current frame.
    fn take(&mut self, buf: &mut [u8]) -> usize {
        let count = self.frame.len().min(buf.len());
        buf[..count].copy_from_slice(&self.frame[..count]);
        if self.at == 0 {
            self.sum = self.target.checksum.get().map(|checksum| checksum.begin());
        }
        if let Some(sum) = &mut self.sum {
            sum.update(&buf[..count]);
        }
        self.frame.advance(count);
        self.at += count as u64;
        if let Some(part) = &mut self.part {
            part.reserved.read(count as u64);
        }
        count
    }

    /// Gets the next frame; waits for it only if asked to.
    fn look(&mut self, patience: Option<Option<Duration>>) -> Result<Look, SourceError> {
        loop {
            let Some(mut current) = self.part.take() else {
                match self.next_part(patience) {
                    Ok(Some(part)) => self.part = Some(part),
                    Ok(None) => return Ok(Look::End),
                    Err(got) => return Ok(Look::Other(got)),
                }
                continue;
            };
            match self.next_frame(&mut current, patience) {
                Ok(Some(Ok(frame))) => {
                    self.part = Some(current);
                    self.frame = frame;
                    return Ok(Look::Frame);
                }
                Ok(Some(Err(trouble))) => self.begin_anew(trouble)?,
                Ok(None) if current.reserved.left() == 0 => {}
                Ok(None) => {
                    let message =
                        format!("the task that fetches it ended unexpectedly at byte {}", self.at);
                    let address = self.target.address.to_string();
                    return Err(SourceError::new(address, message, "report this"));
                }
                Err(got) => {
                    self.part = Some(current);
                    return Ok(Look::Other(got));
                }
            }
        }
    }

    /// The next frame of this part, none at its end; the error is what is there instead.
    fn next_frame(
        &mut self,
        part: &mut Part,
        patience: Option<Option<Duration>>,
    ) -> Result<Frame, ReadOutcome> {
        match part.frames.try_recv() {
            Ok(frame) => return Ok(Some(frame)),
            Err(TryRecvError::Disconnected) => return Ok(None),
            Err(TryRecvError::Empty) => {}
        }
        let Some(patience) = patience else { return Err(ReadOutcome::Nothing) };
        self.reader.wait(patience, |cx| part.frames.poll_recv(cx))
    }

    /// The next part, none at the end; the error is what is there instead.
    fn next_part(
        &mut self,
        patience: Option<Option<Duration>>,
    ) -> Result<Option<Part>, ReadOutcome> {
        match self.parts.try_recv() {
            Ok(part) => return Ok(Some(part)),
            Err(TryRecvError::Disconnected) => return Ok(None),
            Err(TryRecvError::Empty) => {}
        }
        let Some(patience) = patience else { return Err(ReadOutcome::Nothing) };
        self.reader.wait(patience, |cx| self.parts.poll_recv(cx))
    }

    /// Waits until its first byte is there, and with it what the server says of it. If it is not, the answer is
    /// what a read would give.
    pub(super) fn begin(
        &mut self,
        patience: Option<Duration>,
    ) -> Result<Option<ReadOutcome>, SourceError> {
        match self.look(Some(patience))? {
            Look::Frame => Ok(None),
            Look::End => self.end().map(Some),
            Look::Other(got) => Ok(Some(got)),
        }
    }

    /// An object that changed before any of its bytes was read can be taken as it is now.
    fn begin_anew(&mut self, trouble: Trouble) -> Result<(), SourceError> {
        let planner = &self.reader.planner;
        let address = &self.target.address;
        let restart = planner.settings.on_change == OnChange::RestartObject
            && self.at == 0
            && matches!(trouble, Trouble::Changed(_));
        if !restart {
            return Err(trouble.into_error(address));
        }
        log::warn!(
            channel = planner.reach.channel, object:% = address;
            "{}; the new object is read instead", trouble.into_error(address).message
        );
        let verify = planner.settings.verify;
        let target = self.reader.handle.block_on(head(&planner.reach, address, verify))?;
        let (target, (sender, parts)) = (Arc::new(target), unbounded_channel());
        let refetch = one_by_one(planner.clone(), target.clone(), sender);
        self.again = Some(Task(self.reader.handle.spawn(refetch)));
        (self.target, self.parts, self.part) = (target, parts, None);
        Ok(())
    }

    fn end(&mut self) -> Result<ReadOutcome, SourceError> {
        let target = &self.target;
        let error = |message: String, remedy: &str| {
            Err(SourceError::new(target.address.to_string(), message, remedy))
        };
        if self.at != target.size {
            let (at, size) = (self.at, target.size);
            return error(format!("its request ended at byte {at} of {size}"), "try again");
        }
        if let Some(sum) = self.sum.take()
            && let Some(checksum) = target.checksum.get()
            && let Err(found) = checksum.check(sum)
        {
            let message = format!(
                "{}: what was decoded of this object is not what was stored",
                mismatch(&found, checksum)
            );
            return error(message, "read it again; if it stays so, store it again");
        }
        Ok(ReadOutcome::End)
    }
}

/// Fetches an object whose reader waits: room for it need not be waited for, because what has the room is read
/// after it. So only one part at a time.
async fn one_by_one(planner: Planner, target: Arc<Target>, parts: UnboundedSender<Part>) {
    for range in ranges(target.size, planner.settings.part_size) {
        let (reserved, permit) = planner.window.force(range.end - range.start);
        let (sender, read) = oneshot::channel();
        let mut part = part(&planner, &target, range, reserved, permit);
        part._read = Some(sender);
        if parts.send(part).is_err() {
            return;
        }
        // An error tells that the part was dropped, which is what is waited for.
        let _ = read.await;
    }
}

impl Input for Body {
    fn read(&mut self, buf: &mut [u8], wait: Option<Duration>) -> Result<ReadOutcome, SourceError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let mut count = 0;
        loop {
            count += self.take(&mut buf[count..]);
            if count == buf.len() {
                return Ok(ReadOutcome::Bytes(count));
            }
            // What came is not kept waiting for more.
            match self.look((count == 0).then_some(wait)) {
                Ok(Look::Frame) => {}
                Ok(_) if count > 0 => return Ok(ReadOutcome::Bytes(count)),
                Ok(Look::End) => return self.end(),
                Ok(Look::Other(got)) => return Ok(got),
                Err(error) => {
                    self.failed = Some(error.clone());
                    return if count > 0 { Ok(ReadOutcome::Bytes(count)) } else { Err(error) };
                }
            }
        }
    }
}
