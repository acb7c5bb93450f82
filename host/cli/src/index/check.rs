//! `pipemill index check`: compares an index with the objects that there are now.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use pipemill_index::{Index, IndexedList, find_objects, list_sources};
use pipemill_source::KnownObjects;
use pipemill_source::s3::{Address, ListedObject};
use pipemill_types::{Companions, Printable, is_same_content, split_companions};

use super::{read, settings, storage, unlisted};
use crate::output::say;
use crate::{exit, s3};

pub(super) fn main(name: &OsStr, root: Option<PathBuf>, s3: &s3::S3Args) -> Result<(), ExitCode> {
    let index = Arc::new(read(&mut storage(s3), &s3::location(name)?)?.0);
    let moved = root.map(|root| root.to_string_lossy().into_owned());
    let list = IndexedList::new(index.clone(), moved.clone());
    let sources = sources_now(&index, moved.as_deref());
    let compared = Compared::new(&list, &index.header.companions);
    let mut compared = compared.map_err(|object| {
        let why = format!(
            "the index does not know the names of the companions of {}: an earlier version has \
             made it; update it, with `pipemill index --update`",
            Printable::name(&object)
        );
        exit::because(exit::DATA, why)
    })?;
    // Companions are listed as other objects are.
    let listed = list_sources(&sources, &settings(s3), true, |object| compared.add(&object));
    listed.map_err(|error| unlisted(&error))?;
    let names = compared.unlisted(&sources);
    let found = find_objects(&names, &settings(s3), |object| compared.add(&object));
    found.map_err(|error| unlisted(&error))?;
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

/// The objects of an index and their companions, while they are compared with those that there are
/// now.
struct Compared<'a> {
    list: &'a IndexedList,
    companions: &'a Companions,
    /// All that the index knows, by its name.
    known: HashMap<String, Known>,
    /// The names of the objects that differ.
    differing: HashSet<String>,
}

/// An object of the index, or a companion of it.
struct Known {
    /// The number of the object.
    number: u64,
    /// The number of the rule of its companion.
    companion: Option<usize>,
    was_found: bool,
}

impl<'a> Compared<'a> {
    /// The error is an object whose companions have no names.
    fn new(list: &'a IndexedList, companions: &'a Companions) -> Result<Self, String> {
        let mut known = HashMap::new();
        for number in 0..list.count() {
            let Some(object) = list.get(number) else { continue };
            let names = companions.of(object.name.as_bytes()).unwrap_or_default();
            if names.len() != split_companions(&object.identity).1.count() {
                return Err(object.name);
            }
            for (rule, name) in names.into_iter().enumerate() {
                let name = String::from_utf8_lossy(&name).into_owned();
                known.insert(name, Known { number, companion: Some(rule), was_found: false });
            }
            known.insert(object.name, Known { number, companion: None, was_found: false });
        }
        Ok(Self { list, companions, known, differing: HashSet::new() })
    }

    /// The companions that were not found yet, of objects that these sources name, in the order of
    /// the index. A source that is one object is listed without its companions.
    fn unlisted(&self, sources: &[String]) -> Vec<String> {
        let sources: HashSet<_> = sources.iter().collect();
        let is_named = |known: &Known| {
            self.list.get(known.number).is_some_and(|object| sources.contains(&object.name))
        };
        let is_unlisted = |known: &Known| known.companion.is_some() && !known.was_found;
        let unlisted = self.known.iter().filter(|(_, known)| is_unlisted(known) && is_named(known));
        let in_order = unlisted.map(|(name, known)| (known.number, known.companion, name));
        let names = in_order.collect::<BTreeSet<_>>().into_iter();
        names.map(|(_, _, name)| name.clone()).collect()
    }

    /// Compares an object or a companion that there is now.
    fn add(&mut self, found: &ListedObject) {
        let Some(known) = self.known.get_mut(&found.name) else {
            let object = self.companions.object_of(found.name.as_bytes());
            let object = object.map(|name| String::from_utf8_lossy(&name).into_owned());
            let object = object.as_ref().unwrap_or(&found.name);
            return self.differs(object, &found.name, "is new");
        };
        known.was_found = true;
        let Some(object) = self.list.get(known.number) else { return };
        let (content, mut contents) = split_companions(&object.identity);
        let (was, what) = match known.companion {
            None => (content, String::new()),
            Some(rule) => {
                (contents.nth(rule).unwrap_or_default(), format!("its companion {} ", found.name))
            }
        };
        if !is_same_content(was, &found.identity) {
            let why = format!("{what}was {was}, and is {}", found.identity);
            self.differs(&object.name, &object.name, &why);
        }
    }

    /// Says that an object differs, by what is known of this name.
    fn differs(&mut self, object: &str, name: &str, why: &str) {
        self.differing.insert(object.to_owned());
        say!("{}: {}", Printable::name(name), Printable::line(why));
    }

    /// What was not found is missing. Says the result.
    fn end(mut self) -> Result<(), ExitCode> {
        let known = std::mem::take(&mut self.known).into_iter();
        let mut missing: Vec<_> = known
            .filter(|(_, known)| !known.was_found)
            .map(|(name, known)| (known.number, known.companion, name))
            .collect();
        missing.sort();
        let mut last = None;
        for (number, companion, name) in missing {
            // The companions of a missing object come after it.
            if companion.is_none() {
                last = Some(number);
                self.differs(&name, &name, "is missing");
            } else if last != Some(number)
                && let Some(object) = self.list.get(number)
            {
                let why = format!("its companion {name} is missing");
                self.differs(&object.name, &object.name, &why);
            }
        }
        let count = self.list.count();
        match self.differing.len() {
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
