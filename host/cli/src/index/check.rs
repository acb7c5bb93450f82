//! `pipemill index check`: compares an index with the objects that there are now.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use pipemill_index::{Index, IndexedList, list_sources};
use pipemill_source::s3::{Address, ListedObject};
use pipemill_source::{KnownObjects, SourceError};
use pipemill_types::{Printable, is_same_content};

use super::{read, settings, storage, unlisted};
use crate::output::say;
use crate::{exit, s3};

pub(super) fn main(name: &OsStr, root: Option<PathBuf>, s3: &s3::S3Args) -> Result<(), ExitCode> {
    let index = Arc::new(read(&mut storage(s3), &s3::location(name)?)?.0);
    let moved = root.map(|root| root.to_string_lossy().into_owned());
    let list = IndexedList::new(index.clone(), moved.clone());
    let mut compared = Compared::new(&list);
    let listed = list_now(&index, moved.as_deref(), s3, |object| compared.add(&object));
    listed.map_err(|error| unlisted(&error))?;
    compared.end()
}

/// Lists the sources of the index as they are now.
fn list_now(
    index: &Index,
    moved: Option<&str>,
    s3: &s3::S3Args,
    visit: impl FnMut(ListedObject),
) -> Result<(), SourceError> {
    let now = |source: &String| match Address::is_s3_url(source) {
        true => source.clone(),
        false => now(Path::new(source), &index.header.root, moved).to_string_lossy().into_owned(),
    };
    let sources: Vec<_> = index.header.sources.iter().map(now).collect();
    list_sources(&sources, &settings(s3), true, visit)
}

/// The path of a source now. It lay in, or was, or held the folder `root`, which may have moved.
fn now(source: &Path, root: &str, moved: Option<&str>) -> PathBuf {
    let Some(moved) = moved else { return source.to_owned() };
    source.strip_prefix(root).map_or_else(|_| moved.into(), |below| Path::new(moved).join(below))
}

/// The objects of an index, while they are compared with those that there are now.
struct Compared<'a> {
    list: &'a IndexedList,
    /// The numbers of the objects that were not found yet.
    unseen: HashMap<String, u64>,
    differences: u64,
}

impl<'a> Compared<'a> {
    fn new(list: &'a IndexedList) -> Self {
        let named = |number| Some((list.get(number)?.name, number));
        Self { list, unseen: (0..list.count()).filter_map(named).collect(), differences: 0 }
    }

    /// Compares an object that there is now.
    fn add(&mut self, found: &ListedObject) {
        let known = self.unseen.remove(&found.name).and_then(|number| self.list.get(number));
        match known {
            None => self.differs(&found.name, "is new"),
            Some(known) if is_same_content(&known.identity, &found.identity) => {}
            Some(known) => {
                let why = format!("was {}, and is {}", known.identity, found.identity);
                self.differs(&found.name, &why);
            }
        }
    }

    fn differs(&mut self, name: &str, why: &str) {
        self.differences += 1;
        say!("{}: {}", Printable::name(name), Printable::line(why));
    }

    /// The objects that were not found are missing. Says the result.
    fn end(mut self) -> Result<(), ExitCode> {
        let mut missing: Vec<_> = std::mem::take(&mut self.unseen).into_iter().collect();
        missing.sort_by_key(|(_, number)| *number);
        missing.iter().for_each(|(name, _)| self.differs(name, "is missing"));
        let count = self.list.count();
        match self.differences {
            0 => {
                say!("all {count} objects are as they were");
                Ok(())
            }
            1 => Err(exit::because(exit::DATA, "1 object differs; make the index again")),
            many => {
                let why = format!("{many} objects differ; make the index again");
                Err(exit::because(exit::DATA, why))
            }
        }
    }
}
