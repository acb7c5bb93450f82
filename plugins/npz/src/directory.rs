//! The directory at the end of an archive: compared with the members, and otherwise skipped.

use pipemill_plugin::{DecodeError, Records};

use crate::state::{Emit, Npz, Step, more_bytes};
use crate::wanted::missing_message;
use crate::zip::{self, Read};

impl Npz {
    /// Reads the record of the directory at `at`. It is consumed when the byte after it has
    /// arrived, except for the last one.
    pub(crate) fn directory(
        &mut self,
        signature: [u8; zip::SIGNATURE],
        chunk: &[u8],
        at: usize,
        end: bool,
        out: &mut Records,
    ) -> Result<Step, DecodeError> {
        const EXPECTED: &str = "the directory of the archive";
        let rest = &chunk[at..];
        let (mut zip64, mut last) = (None, None);
        let read = match signature {
            zip::DIRECTORY_ENTRY => zip::read_entry(rest),
            zip::ZIP64_LOCATOR if rest.len() < zip::ZIP64_LOCATOR_SIZE => {
                Read::Cut { need: zip::ZIP64_LOCATOR_SIZE }
            }
            zip::ZIP64_LOCATOR => Read::Whole(zip::ZIP64_LOCATOR_SIZE),
            zip::ZIP64_END => match zip::read_zip64_end(rest) {
                Ok(read) => sized(read, &mut zip64),
                Err(why) => {
                    self.archive = None;
                    let message =
                        format!("expected {why} at the end of the directory, found another size");
                    return Err(DecodeError::fatal(at, message));
                }
            },
            _ => sized(zip::read_end(rest), &mut last),
        };
        let size = match read {
            Read::Whole(size) if last.is_some() || rest.len() > size => size,
            Read::Whole(size) => return more_bytes(at, size + 1, EXPECTED, rest.len(), end),
            Read::Cut { need } => return more_bytes(at, need, EXPECTED, rest.len(), end),
        };
        let here = self.offset + at as u64;
        let mut problem = match self.archive.as_ref().is_some_and(|one| one.directory.is_none()) {
            true => self.end_of_members(at, out)?,
            false => None,
        };
        let archive = self.archive.get_or_insert_default();
        archive.directory.get_or_insert(here);
        if signature == zip::DIRECTORY_ENTRY {
            archive.add_entry(size);
        }
        if let Some(zip64) = zip64 {
            archive.set_zip64(zip64);
        }
        if let Some(last) = last {
            problem = problem.or_else(|| archive.check(here, last).err());
            self.archive = None;
            self.may_end = true;
        }
        if let Some(problem) = problem {
            out.bad(at..at + size, problem)?;
        }
        Ok(Step::GoOn(at + size))
    }

    /// Handles the end of the members: the directory starts at `at`. Returns the error for what the
    /// archive lacks.
    fn end_of_members(
        &mut self,
        at: usize,
        out: &mut Records,
    ) -> Result<Option<String>, DecodeError> {
        let Some(archive) = self.archive.as_mut() else { return Ok(None) };
        if archive.is_done || archive.chosen.is_some() {
            return Ok(None);
        }
        match &mut self.emit {
            Emit::Rows(Some(name)) => {
                let message = format!(
                    "expected an array `{name}`, found only: {}; correct the option `array`",
                    archive.arrays()
                );
                Err(DecodeError::refused(at, message))
            }
            Emit::Rows(None) => Ok(Some("expected an array, found none in the archive".to_owned())),
            // None of the wanted arrays was found.
            Emit::Sample(wanted) => {
                archive.is_done = true;
                match wanted.missing(&vec![None::<()>; wanted.len()]) {
                    Some(name) => Ok(Some(missing_message(name, &archive.arrays()))),
                    None => {
                        let learned = wanted.learn(&vec![None; wanted.len()], out);
                        learned.map_err(|why| DecodeError::refused(at, why))?;
                        (0..wanted.len()).for_each(|_| out.absent());
                        out.end_record(at);
                        Ok(None)
                    }
                }
            }
        }
    }
}

/// The size of a record of the directory; its content goes to `to`.
fn sized<T>(read: Read<(usize, T)>, to: &mut Option<T>) -> Read<usize> {
    match read {
        Read::Whole((size, rest)) => {
            *to = Some(rest);
            Read::Whole(size)
        }
        Read::Cut { need } => Read::Cut { need },
    }
}
