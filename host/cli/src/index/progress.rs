//! What a build that was killed has saved: the next one goes on from there.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

use indicatif::HumanCount;
use pipemill_index::{BuildKey, Progress, list_sources};
use pipemill_source::s3::Settings;
use pipemill_source::{Compression, Location, ReadSettings, SourceError};
use pipemill_types::AddedField;

use super::make::MakeArgs;
use super::settings;
use crate::find_decoder::DecodedSource;

/// The saved progress of a build, of which the log tells. `None` if nothing can be saved: the build
/// goes on without.
pub(super) fn open(
    args: &MakeArgs,
    out: &Location,
    found: &DecodedSource,
    (sources, reading): (&[String], &ReadSettings),
) -> Option<Progress> {
    let file = args.progress.clone().or_else(|| default(out))?;
    let add_fields: Vec<_> = args.add_fields.iter().map(AddedField::word).collect();
    let key = BuildKey {
        decoder_identity: found.plugin.identity(),
        options: &found.options,
        compression: Compression::Auto,
        skips_errors: args.skip_errors,
        max_record: args.max_record,
        distance: args.distance,
        add_fields: &add_fields,
        sources,
        part: args.part.map(|part| (part.index, part.count)),
    };
    let list = || {
        let mut list = Vec::new();
        let settings = Settings { reading: reading.clone(), ..settings(&args.s3) };
        list_sources(sources, &settings, false, |object| list.push(object))?;
        Ok::<_, Unusable>(list)
    };
    match Progress::open(&file, &key, list) {
        Ok(progress) => {
            let objects: usize = progress.done().iter().map(|index| index.objects.count()).sum();
            if objects > 0 {
                let (objects, file) = (HumanCount(objects as u64), file.display());
                log::info!("going on after {objects} objects, which {file} knows");
            }
            Some(progress)
        }
        Err(Unusable(why)) => {
            let file = file.display();
            log::warn!("the progress in {file} can't be used: {why}; all objects are read");
            None
        }
    }
}

/// Why the saved progress can't be used.
struct Unusable(String);

impl From<io::Error> for Unusable {
    fn from(error: io::Error) -> Self {
        Self(error.to_string())
    }
}

impl From<SourceError> for Unusable {
    fn from(error: SourceError) -> Self {
        Self(error.in_full())
    }
}

/// The file in which progress is saved if the command line names none.
fn default(out: &Location) -> Option<PathBuf> {
    let Location::File(path) = out else { return None };
    let mut name = OsString::from(".");
    name.push(path.file_name()?);
    name.push(".progress");
    Some(path.with_file_name(name))
}
