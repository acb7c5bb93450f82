//! The objects of sources, as a listing has them: their names, sizes and identities, without a
//! record. Of a file, some blocks are read for its identity; of an object in S3, nothing is.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use pipemill_source::s3::{
    Address, LazyS3Runtime, ListedObject, Selection, Settings, list_objects,
};
use pipemill_source::{LeftOut, Pattern, SourceError, Stop, file_identity};

use pipemill_types::AddedField;

use crate::noting::check_added;
use crate::objects::Objects;
use crate::root::Root;
use crate::{Header, Index, IndexedObject};

/// Calls `visit` with each object of these sources: files, folders, and addresses in S3, which is
/// reached with these settings. Their companions are read with their objects. A named file that
/// does not exist is an error, or is left out if `skip_missing` is set.
///
/// # Errors
/// A source can't be listed, or is no regular file.
pub fn list_sources(
    sources: &[String],
    s3: &Settings,
    skip_missing: bool,
    mut visit: impl FnMut(ListedObject),
) -> Result<(), SourceError> {
    let mut runtime = LazyS3Runtime::new(None);
    let companions = &s3.reading.companions;
    let is_companion = |path: &Path| companions.object_of(path.as_os_str().as_bytes()).is_some();
    let mut rest = sources;
    while let [source, after @ ..] = rest {
        if Address::is_s3_url(source) {
            rest = list_in_s3(rest, s3, &mut runtime, &mut visit)?;
            continue;
        }
        rest = after;
        let path = PathBuf::from(source);
        let pattern = if path.is_dir() { Pattern::Folder(path) } else { Pattern::File(path) };
        let paths = pattern.list(false, &mut LeftOut::default())?;
        for path in paths.into_iter().filter(|path| !is_companion(path)) {
            let (size, identity) = match file_identity(&path, companions) {
                Err(error) if error.missing && skip_missing => continue,
                found => found?,
            };
            visit(ListedObject { name: path.to_string_lossy().into_owned(), size, identity });
        }
    }
    Ok(())
}

/// Lists the address in S3 with which these sources begin. An inventory is read once for each list,
/// so it has all addresses up to the next source of another kind. Returns the sources after them.
fn list_in_s3<'a>(
    sources: &'a [String],
    s3: &Settings,
    runtime: &mut LazyS3Runtime,
    visit: &mut impl FnMut(ListedObject),
) -> Result<&'a [String], SourceError> {
    let most = if s3.reading.inventory.is_some() { sources.len() } else { 1 };
    let are_in_s3 = sources[..most].iter().take_while(|source| Address::is_s3_url(source));
    let (named, rest) = sources.split_at(are_in_s3.count());
    let mut addresses = Vec::with_capacity(named.len());
    for source in named {
        addresses.push(source.parse().map_err(|why| {
            let message = format!("is no address in S3: {why}");
            SourceError::new(source, message, "write it as s3://bucket/key")
        })?);
    }
    let system = |error| SourceError::io(&sources[0], "can't start", &error);
    let settings = Settings { selection: Selection::Named(addresses), ..s3.clone() };
    let (runtime, stop) = (runtime.get().map_err(system)?, Stop::new().map_err(system)?);
    list_objects(&runtime, &settings, 0, &stop, |object| {
        visit(object);
        true
    })?;
    Ok(rest)
}

/// Calls `visit` with each of these objects that exists: files, and addresses in S3, which is
/// reached with these settings.
///
/// # Errors
/// It is not known of one whether it exists, or it is no regular file.
pub fn find_objects(
    names: &[String],
    s3: &Settings,
    mut visit: impl FnMut(ListedObject),
) -> Result<(), SourceError> {
    let mut runtime = LazyS3Runtime::new(None);
    for name in names {
        let found = match name.parse() {
            Ok(address) => {
                let system = |error| SourceError::io(name, "can't start", &error);
                let (s3_now, stop) = (runtime.get().map_err(system)?, Stop::new().map_err(system)?);
                let selection = Selection::Objects(vec![address]);
                let settings = Settings { selection, ..s3.clone() };
                list_objects(&s3_now, &settings, 0, &stop, |object| {
                    visit(object);
                    true
                })
            }
            Err(_) => file_identity(Path::new(name), &s3.reading.companions)
                .map(|(size, identity)| visit(ListedObject { name: name.clone(), size, identity })),
        };
        match found {
            Err(error) if error.missing => {}
            found => found?,
        }
    }
    Ok(())
}

impl Index {
    /// An index of the objects of these sources alone, which are read by no decoder. Each object
    /// has the values of the fields that are added.
    ///
    /// # Errors
    /// The sources can't be listed, or an object can't be named in an index, or lacks a value.
    pub fn of_objects(
        sources: Vec<String>,
        s3: &Settings,
        added: &[AddedField],
    ) -> Result<Self, SourceError> {
        let mut listed = Vec::new();
        list_sources(&sources, s3, false, |object| listed.push(object))?;
        listed.iter().try_for_each(|object| check_added(&object.name, added))?;
        let names: Vec<_> = listed.iter().map(|object| object.name.as_str()).collect();
        let root = Root::of(&names)
            .map_err(|(object, message, remedy)| SourceError::new(object, message, remedy))?;
        let mut objects = Objects::default();
        for ListedObject { name, size, identity } in &listed {
            objects.push(IndexedObject {
                name: root.below(name),
                identity,
                size: *size,
                records: 0,
                errors: 0,
                places: &[],
            });
        }
        Ok(Self::new(
            Header {
                objects_only: true,
                add_fields: added.iter().map(AddedField::word).collect(),
                sources,
                root: root.0,
                ..Header::default()
            },
            objects,
        ))
    }
}
