//! `pipemill index check`: compares an index with the objects that there are now.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use pipemill_index::{Index, IndexedList, list_sources};
use pipemill_source::KnownObjects;
use pipemill_source::s3::{Address, ListedObject};
use pipemill_types::{Printable, is_same_content, split_companions};

use super::{read, settings, storage, unlisted};
use crate::output::say;
use crate::{exit, s3};

pub(super) fn main(name: &OsStr, root: Option<PathBuf>, s3: &s3::S3Args) -> Result<(), ExitCode> {
    let index = Arc::new(read(&mut storage(s3), &s3::location(name)?)?.0);
    let moved = root.map(|root| root.to_string_lossy().into_owned());
    let list = IndexedList::new(index.clone(), moved.clone());
    let sources = sources_now(&index, moved.as_deref());
    let mut compared = Compared::new(&list, &sources);
    let listed = list_sources(&sources, &settings(s3), true, |object| compared.add(&object));
    listed.map_err(|error| unlisted(&error))?;
    compared.end()
}

/// The names of the sources of the index as they are now.
fn sources_now(index: &Index, moved: Option<&str>) -> Vec<String> {
    let now = |source: &String| match Address::is_s3_url(source) {
        true => source.clone(),
        false => now(Path::new(source), &index.header.root, moved).to_string_lossy().into_owned(),
    };
    index.header.sources.iter().map(now).collect()
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
    /// The companions of the objects that were not found yet: the folder and content of each, and
    /// the objects that they are of.
    companions: BTreeMap<(String, String), Vec<String>>,
    differences: u64,
}

/// The folder of an object, with the text by which the content of a companion is known there. The
/// time of a file whose blocks are known is not compared.
fn companion(object: &str, content: &str) -> (String, String) {
    let folder = object.rfind('/').map_or("", |slash| &object[..slash]);
    let without_time = content.split_once(",mtime:").and_then(|(size, rest)| {
        let (_, blocks) = rest.split_once(",blocks:")?;
        Some(format!("{size},blocks:{blocks}"))
    });
    (folder.to_owned(), without_time.unwrap_or_else(|| content.to_owned()))
}

impl<'a> Compared<'a> {
    fn new(list: &'a IndexedList, sources: &[String]) -> Self {
        let mut companions = BTreeMap::<_, Vec<_>>::new();
        let mut unseen = HashMap::new();
        for number in 0..list.count() {
            let Some(object) = list.get(number) else { continue };
            // A source that is one object is listed without its companions.
            let is_listed = !sources.contains(&object.name);
            for content in split_companions(&object.identity).1.filter(|_| is_listed) {
                let key = companion(&object.name, content);
                companions.entry(key).or_default().push(object.name.clone());
            }
            unseen.insert(object.name, number);
        }
        Self { list, unseen, companions, differences: 0 }
    }

    /// Compares an object that there is now.
    fn add(&mut self, found: &ListedObject) {
        let known = self.unseen.remove(&found.name).and_then(|number| self.list.get(number));
        match known {
            None if self.has_companion(found) => {}
            None => self.differs(&found.name, "is new"),
            Some(known)
                if is_same_content(split_companions(&known.identity).0, &found.identity) => {}
            Some(known) => {
                let why = format!("was {}, and is {}", known.identity, found.identity);
                self.differs(&found.name, &why);
            }
        }
    }

    /// Whether this is a companion as the index knows it.
    fn has_companion(&mut self, found: &ListedObject) -> bool {
        let key = companion(&found.name, &found.identity);
        let Some(objects) = self.companions.get_mut(&key) else { return false };
        objects.pop();
        if objects.is_empty() {
            self.companions.remove(&key);
        }
        true
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
        for ((_, content), objects) in std::mem::take(&mut self.companions) {
            let why = format!("its companion, which was {content}, is missing or has changed");
            objects.iter().for_each(|name| self.differs(name, &why));
        }
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
