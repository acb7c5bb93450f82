//! `.npz` files: zip archives of arrays, as `numpy.savez` and `numpy.savez_compressed` write them. A
//! record is a row of one array, or, with the option `fields`, an archive with several small arrays.
//!
//! The archive is read as a stream, from its first member to the directory at its end. The directory
//! is only compared with the members. Another archive may follow.
//!
//! **Stored** arrays are spans of the chunk, and may have any size. **Deflated** ones are decompressed
//! by the host, so their compressed bytes must be in one chunk.
//!
//! **State between calls.** The state is the part that is being read, and the rest of it. A chunk
//! starts with a record of the archive (a header, an entry of the directory), with a row, or inside
//! a member that is skipped. The last byte or row of a member is consumed only when the byte after
//! the member has arrived. So an input that ends too early always has an unconsumed byte, at which
//! the error is reported.

mod archive;
mod crc32;
mod directory;
mod errors;
mod inflate;
mod member;
mod rows;
mod sample;
mod skip;
mod state;
mod wanted;
mod zip;

use archive::Archive;
use errors::{cut_short, of_member};
use member::{DataSize, Member, MemberError, whole_size};
use pipemill_parsing::head::Head;
use pipemill_parsing::npy::{ArrayLayout, NpyHeader, display_fields};
use pipemill_plugin::{
    DecodeError, Decoder, Field, OptionSpec, Options, Progress, Records, Resume, StreamInfo,
};
use state::{Emit, State, Step, more_bytes};
use wanted::WantedArrays;
use zip::{LocalHeader, Read};

/// The use of a member.
enum Role {
    /// It is not wanted.
    Other,
    /// Its rows are the records.
    OfRows,
    /// It is the first one of a sample.
    OfSample,
    /// Its rows would be the records, but there was an array with the same name.
    Twice,
    /// Its rows would be the records, but there was this other array.
    Second { first: String },
}

pub use state::Npz;

#[cfg(feature = "export")]
pipemill_plugin::export!(Npz);

impl Decoder for Npz {
    fn options() -> Vec<OptionSpec> {
        vec![
            OptionSpec::string(
                "array",
                None,
                "the array whose rows are the records; default: the only one in the archive",
            ),
            OptionSpec::string(
                "fields",
                None,
                "a record for each archive, with these arrays: \"x:float32[0,3],label=y:int64,name?\"",
            ),
            OptionSpec::bool("verify", true, "check the checksums of what is read"),
        ]
    }

    fn open(options: &Options, info: &StreamInfo) -> Result<Self, String> {
        let emit = match (options.get("array"), options.get("fields")) {
            (Some(_), Some(_)) => {
                return Err(
                    "option `array` makes a record of each row, and `fields` one of each archive; \
                            set one of them"
                        .to_owned(),
                );
            }
            (array, None) => {
                let name = array.map(|name| name.strip_suffix(".npy").unwrap_or(name).to_owned());
                Emit::Rows(name)
            }
            (None, Some(fields)) => Emit::Sample(WantedArrays::new(fields)?),
        };
        Ok(Self {
            head: Head::new(info).of_decoder("npz"),
            emit,
            verify: options.is_on("verify"),
            // Offsets in the sandbox have 32 bits, one of which marks decompressed bytes.
            max_record: info.max_record.min(i32::MAX as u64),
            offset: 0,
            may_end: false,
            archive: None,
            state: State::Header,
            schema: None,
            made: 0,
        })
    }

    fn schema(&self) -> Option<Vec<Field>> {
        match &self.emit {
            Emit::Rows(_) => None,
            Emit::Sample(wanted) => wanted.schema(),
        }
    }

    fn decode(
        &mut self,
        chunk: &[u8],
        end: bool,
        out: &mut Records,
    ) -> Result<Progress, DecodeError> {
        self.made = 0;
        let result = self.run(chunk, end, out);
        let result = self.head.explain(chunk, end, result);
        let consumed = match &result {
            Ok(progress) => progress.consumed as u64,
            Err(error) => {
                self.may_end = true;
                match error.resume {
                    Resume::At(to) => to,
                    _ => chunk.len() as u64,
                }
            }
        };
        self.offset = self.offset.saturating_add(consumed);
        result
    }
}

impl Npz {
    fn run(&mut self, chunk: &[u8], end: bool, out: &mut Records) -> Result<Progress, DecodeError> {
        let mut at = 0;
        loop {
            let state = std::mem::replace(&mut self.state, State::Header);
            let step = match state {
                State::Header => self.header(chunk, at, end, out)?,
                State::Rows(rows) => self.stored_rows(rows, chunk, at, end, out)?,
                State::Inflate(rows) => {
                    // The header was read when the member was begun.
                    let Ok(Read::Whole(header)) = LocalHeader::read(&chunk[at..]) else {
                        return Err(cut_short(at, "a member", chunk.len() - at));
                    };
                    let member = Member::new(chunk, at, header);
                    self.inflate(&member, Some(rows), chunk, end, out)?
                }
                State::Skip(skip) => self.skip(skip, chunk, at, end)?,
                State::Descriptor(descriptor) => self.descriptor(descriptor, chunk, at, end)?,
            };
            match step {
                Step::GoOn(next) => at = next,
                Step::Return(progress) => return Ok(progress),
            }
        }
    }

    /// Reads the record of the archive at `at`.
    fn header(
        &mut self,
        chunk: &[u8],
        at: usize,
        end: bool,
        out: &mut Records,
    ) -> Result<Step, DecodeError> {
        const EXPECTED: &str = "a header of a zip archive";
        let rest = &chunk[at..];
        if rest.is_empty() && end && self.may_end {
            return Ok(Step::Return(Progress::consumed(at)));
        }
        let Some(signature) = rest.first_chunk::<{ zip::SIGNATURE }>() else {
            return more_bytes(at, zip::SIGNATURE, EXPECTED, rest.len(), end);
        };
        let here = self.offset + at as u64;
        let is_new = self.archive.is_none();
        let archive = self.archive.get_or_insert_with(|| Archive::at(here));
        let is_member = *signature == zip::LOCAL_HEADER && archive.directory.is_none();
        if is_member {
            self.may_end = false;
            return self.member(chunk, at, end, out);
        }
        let is_directory = match *signature {
            zip::END => true,
            zip::DIRECTORY_ENTRY | zip::ZIP64_END | zip::ZIP64_LOCATOR => !is_new,
            _ => false,
        };
        if !is_directory {
            let after = match (is_new, archive.members) {
                (true, _) if self.offset + at as u64 == 0 => "this is no .npz",
                (true, _) => "there are bytes after the archive",
                _ => "the archive is damaged here or before",
            };
            let found = signature.escape_ascii();
            self.archive = None;
            return Err(DecodeError::fatal(
                at,
                format!("expected {EXPECTED}, found `{found}`; {after}"),
            ));
        }
        self.may_end = false;
        self.directory(*signature, chunk, at, end, out)
    }

    /// Reads the header of the member at `at`.
    fn member(
        &mut self,
        chunk: &[u8],
        at: usize,
        end: bool,
        out: &mut Records,
    ) -> Result<Step, DecodeError> {
        let rest = &chunk[at..];
        let header = match LocalHeader::read(rest) {
            Ok(Read::Whole(header)) => header,
            Ok(Read::Cut { need }) => {
                return more_bytes(at, need, "the header of a member", rest.len(), end);
            }
            Err(why) => {
                self.archive = None;
                let message = format!(
                    "expected {why} in the header of a member, found something else; the archive is damaged"
                );
                return Err(DecodeError::fatal(at, message));
            }
        };
        let member = Member::new(chunk, at, header);
        match self.role(&member) {
            Role::Other => self.begin_skip(&member, chunk, end),
            Role::OfSample => self.sample(chunk, at, end, out),
            Role::Twice => match self.known_size(&member, chunk, end)? {
                Ok(size) => Err(self.skip_bad(
                    &member,
                    size,
                    "it comes twice; each array may come once in an archive",
                )),
                Err(step) => Ok(step),
            },
            Role::Second { first } => {
                let message = format!(
                    "expected one array in the archive, found `{first}` and `{name}`; name the one whose \
                     rows you want, as in array = \"{name}\", or set `fields` to make one record of the \
                     archive",
                    name = member.array().unwrap_or_default()
                );
                Err(DecodeError::refused(at, message))
            }
            Role::OfRows => match member.check_form() {
                Err(MemberError::Refused(why)) => {
                    Err(DecodeError::refused(at, of_member(&member.name, &why)))
                }
                Err(MemberError::Damaged(why)) => {
                    Err(self.skip_bad(&member, member.sizes().compressed, &why))
                }
                Ok(()) if member.is_stored() => self.begin_rows(&member, chunk, end, out),
                Ok(()) => self.inflate(&member, None, chunk, end, out),
            },
        }
    }

    /// The use of a member.
    fn role(&self, member: &Member) -> Role {
        let (Some(name), Some(archive)) = (member.array(), &self.archive) else {
            return Role::Other;
        };
        match (&self.emit, &archive.chosen) {
            (Emit::Sample(wanted), _) if !archive.is_done && wanted.find(name).is_some() => {
                Role::OfSample
            }
            (Emit::Sample(_), _) => Role::Other,
            (Emit::Rows(Some(wanted)), _) if wanted != name => Role::Other,
            (Emit::Rows(_), None) => Role::OfRows,
            (Emit::Rows(Some(_)), Some(_)) => Role::Twice,
            (Emit::Rows(None), Some(first)) => Role::Second { first: first.clone() },
        }
    }

    /// Records that a member is being read or skipped: no later call of `decode` asks for its role.
    fn begin(&mut self, member: &Member) {
        let is_chosen = matches!(self.role(member), Role::OfRows);
        let archive = self.archive.get_or_insert_default();
        archive.add_member(member.array());
        if is_chosen {
            archive.chosen = member.array().map(str::to_owned);
        }
    }

    /// The error of a member that is skipped as a whole. Its data has `size` bytes.
    #[cold]
    fn skip_bad(&mut self, member: &Member, size: u64, why: &str) -> DecodeError {
        self.begin(member);
        self.state = member.descriptor().map_or(State::Header, State::Descriptor);
        let next = (member.data as u64).saturating_add(size);
        DecodeError::skippable(member.at, of_member(&member.name, why), next)
    }

    /// The size of a member's data; or the result to return because it can't be known yet.
    fn known_size(
        &mut self,
        member: &Member,
        chunk: &[u8],
        end: bool,
    ) -> Result<Result<u64, Step>, DecodeError> {
        let (at, held) = (member.at, chunk.len() - member.at);
        match member.data_size(chunk) {
            Ok(DataSize::Known(size)) => Ok(Ok(size)),
            Ok(DataSize::Cut { need }) => {
                let need = member.header.size + need;
                more_bytes(at, need, "the header of an array", held, end).map(Err)
            }
            Err(MemberError::Refused(why)) => {
                Err(DecodeError::refused(at, of_member(&member.name, &why)))
            }
            Err(MemberError::Damaged(why)) => {
                self.archive = None;
                Err(DecodeError::fatal(at, of_member(&member.name, &why)))
            }
        }
    }

    /// The rows of an array of `size` bytes, if they can be records of this stream: those of all arrays
    /// have the same fields. Sets the schema.
    fn layout(
        &mut self,
        member: &Member,
        header: &NpyHeader,
        size: u64,
        out: &mut Records,
    ) -> Result<ArrayLayout, MemberError> {
        let name = member.array().unwrap_or(&member.name);
        let layout = header.rows(name).map_err(|why| {
            MemberError::Refused(format!(
                "expected an array that can be read row by row, found one with {why}"
            ))
        })?;
        if layout.record > self.max_record {
            return Err(MemberError::Damaged(format!(
                "rows of {} bytes are larger than max_record ({} bytes); raise max_record",
                layout.record, self.max_record
            )));
        }
        match whole_size(header) {
            Some(whole) if whole != size => {
                return Err(MemberError::Damaged(format!(
                    "expected {whole} bytes for an array of shape {}, found {size}",
                    header.display_shape()
                )));
            }
            _ => {}
        }
        match &self.schema {
            Some(fields) if fields != layout.fields() => {
                return Err(MemberError::Damaged(format!(
                    "expected rows of {}, as before in this input, found rows of {}",
                    named(fields),
                    named(layout.fields())
                )));
            }
            Some(_) => {}
            None => {
                out.set_schema(layout.fields());
                self.schema = Some(layout.fields().to_vec());
            }
        }
        Ok(layout)
    }
}

/// Fields with their names, for messages.
fn named(fields: &[Field]) -> String {
    match fields {
        [one] => format!("{}:{}", one.name, display_fields(fields)),
        _ => display_fields(fields),
    }
}
