//! Gathers the members of a sample (consecutive members with one key), checks them and emits the
//! record.

use std::ops::Range;

use pipemill_parsing::field_spec::type_name;
use pipemill_parsing::numbers::Number;
use pipemill_parsing::shown;
use pipemill_plugin::{Records, Scalar};

use crate::key::{is_same, lower};
use crate::wanted::{Form, JsonMember, Wanted, WantedMember};

/// The members of a sample so far. One value serves all samples, so that its memory is reused.
#[derive(Debug, Default)]
pub(crate) struct Sample {
    /// The start of the sample's first header in the chunk.
    pub(crate) start: usize,
    pub(crate) key: Vec<u8>,
    /// The range of the key in the chunk, if it is in one piece.
    key_at: Option<Range<usize>>,
    members: Vec<SampleMember>,
    /// Files of macOS between the members.
    pub(crate) of_macos: u64,
}

/// The ranges of a member in the chunk.
#[derive(Debug)]
struct SampleMember {
    extension: Range<usize>,
    data: Range<usize>,
}

/// The reason why a sample can't be a record.
#[derive(Debug)]
pub(crate) enum SampleError<'a> {
    /// Two members have this extension, here in lower case.
    Twice(Vec<u8>),
    /// The sample has no member for this field.
    Missing(&'a WantedMember),
    /// The key is not UTF-8.
    Key,
    /// The value of this field is invalid: what was expected and what was found.
    Value(&'a WantedMember, String),
    /// The member with these extensions is not JSON: what was expected and what was found.
    Json(String, String),
}

impl Sample {
    /// Starts a sample. `key` is the key of its first member.
    pub(crate) fn open(&mut self, start: usize, key: &[u8], key_at: Option<Range<usize>>) {
        self.start = start;
        self.key.clear();
        self.key.extend_from_slice(key);
        self.key_at = key_at;
        self.members.clear();
        self.of_macos = 0;
    }

    pub(crate) fn add(&mut self, extension: Range<usize>, data: Range<usize>) {
        self.members.push(SampleMember { extension, data });
    }

    /// The extensions of the members, unchanged.
    pub(crate) fn extensions<'a>(&self, chunk: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        self.members.iter().map(|member| &chunk[member.extension.clone()])
    }

    /// Emits the sample. After an error, some of its fields may have been emitted, but not its end.
    pub(crate) fn emit<'a>(
        &self,
        chunk: &[u8],
        wanted: &'a mut Wanted,
        out: &mut Records,
    ) -> Result<(), SampleError<'a>> {
        if let Some(twice) = self.twice(chunk) {
            return Err(SampleError::Twice(twice));
        }
        if wanted.key {
            if str::from_utf8(&self.key).is_err() {
                return Err(SampleError::Key);
            }
            match &self.key_at {
                Some(range) => out.field(range.clone()),
                None => out.field_bytes(&self.key),
            }
        }
        for text in &mut wanted.texts {
            self.parse(chunk, text)?;
        }
        for field in &mut wanted.members {
            match self.find(chunk, &field.extensions) {
                Some(data) => emit_value(chunk, data, field, &wanted.texts, out)?,
                None if field.optional => out.absent(),
                None => return Err(SampleError::Missing(field)),
            }
        }
        out.end_record(self.start);
        Ok(())
    }

    /// Parses a JSON text, if the sample has it.
    fn parse<'a>(&self, chunk: &[u8], text: &mut JsonMember) -> Result<(), SampleError<'a>> {
        let Some(mut data) = self.find(chunk, &text.extensions) else { return Ok(()) };
        data.start += bom(&chunk[data.clone()]);
        text.values.parse(chunk, data.clone()).map_err(|error| {
            SampleError::Json(text.extensions.join(";"), error.describe(chunk, &data, "the end"))
        })
    }

    /// The data of the member with one of these extensions.
    fn find(&self, chunk: &[u8], extensions: &[String]) -> Option<Range<usize>> {
        extensions.iter().find_map(|wanted| {
            let same = |member: &&SampleMember| is_same(&chunk[member.extension.clone()], wanted);
            self.members.iter().find(same).map(|member| member.data.clone())
        })
    }

    /// An extension that two members have, wanted or not: it is not known which member is meant.
    fn twice(&self, chunk: &[u8]) -> Option<Vec<u8>> {
        // Most samples have few members with ASCII extensions. Comparing all pairs is fastest then.
        let is_first = |(index, one): (usize, &[u8])| {
            one.is_ascii()
                && !self.extensions(chunk).take(index).any(|b| b.eq_ignore_ascii_case(one))
        };
        if self.members.len() <= 16 && self.extensions(chunk).enumerate().all(is_first) {
            return None;
        }
        let mut all: Vec<_> = self.extensions(chunk).map(lower).collect();
        all.sort_unstable();
        all.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0].clone())
    }
}

/// Emits the value of a field, whose member has this data.
#[inline]
fn emit_value<'a>(
    chunk: &[u8],
    data: Range<usize>,
    field: &'a mut WantedMember,
    texts: &[JsonMember],
    out: &mut Records,
) -> Result<(), SampleError<'a>> {
    let emitted = match &mut field.form {
        Form::Bytes => {
            out.field(data);
            Ok(())
        }
        Form::Utf8 => emit_utf8(chunk, data, out),
        Form::Number(scalar) => emit_number(&chunk[data], *scalar, out),
        Form::Array(arrays) => arrays.emit(chunk, data, out),
        Form::Json(text, json) => {
            let emitted = json.emit(chunk, texts[*text].values.get(json.node()), out);
            emitted.map_err(|error| json.describe(&error, chunk, data.start, "samples"))
        }
    };
    match emitted {
        Ok(()) => Ok(()),
        Err(why) => Err(SampleError::Value(field, why)),
    }
}

/// Size of a byte order mark of UTF-8 at the start of a text. Editors of Windows write it.
fn bom(text: &[u8]) -> usize {
    const BOM: &[u8] = b"\xef\xbb\xbf";
    if text.starts_with(BOM) { BOM.len() } else { 0 }
}

/// Emits text unchanged. The error says what was expected and what was found.
fn emit_utf8(chunk: &[u8], data: Range<usize>, out: &mut Records) -> Result<(), String> {
    if let Err(error) = str::from_utf8(&chunk[data.clone()]) {
        return Err(format!(
            "expected UTF-8, found something else at byte {} of it; set fields to take it as bytes",
            error.valid_up_to()
        ));
    }
    out.field(data);
    Ok(())
}

/// Emits a number that is written as text, with blanks around it. The error says what was expected
/// and what was found.
fn emit_number(text: &[u8], scalar: Scalar, out: &mut Records) -> Result<(), String> {
    let number = text[bom(text)..].trim_ascii();
    let emitted = match scalar {
        Scalar::Int32 => i32::parse(number).map(|number| out.i32(number)),
        Scalar::Int64 => i64::parse(number).map(|number| out.i64(number)),
        Scalar::Float32 => f32::parse(number).map(|number| out.f32(number)),
        _ => f64::parse(number).map(|number| out.f64(number)),
    };
    emitted.ok_or_else(|| {
        format!("expected {} as text, found {}", type_name(scalar), shown(text, "nothing"))
    })
}
