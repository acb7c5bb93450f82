//! Merges the indexes of all parts of a source to the index of the whole.

use std::collections::BTreeMap;

use crate::objects::Objects;
use crate::places::add_lengths;
use crate::root::Root;
use crate::{Header, Index, IndexedObject};

impl Index {
    /// The index of all objects, whose parts these indexes are of, in any order.
    ///
    /// # Errors
    /// They are not all parts of one source; the error says why, for people.
    pub fn merge(parts: &[Index]) -> Result<Index, String> {
        let parts = in_order(parts)?;
        let names: Vec<_> = parts.iter().map(|part| full_names(part)).collect();
        let all: Vec<_> = names.iter().flatten().map(String::as_str).collect();
        let root = Root::of(&all).map_err(|(object, message, _)| format!("{object} {message}"))?;
        let mut objects = Objects::default();
        for number in 0..all.len() {
            let (part, place) = (number % parts.len(), number / parts.len());
            let Some(object) = parts[part].objects.get(place) else { continue };
            let name = root.below(&names[part][place]);
            objects.push(IndexedObject { name, ..object });
        }
        let mut header = Header { part: None, root: root.0, ..parts[0].header.clone() };
        header.lengths = header.open_lengths();
        for part in &parts[1..] {
            add_lengths(&mut header.lengths, &part.header.open_lengths());
        }
        header.lengths.iter_mut().for_each(|one| *one = one.finished());
        header.by_plan = parts.iter().any(|part| part.header.by_plan);
        if header.by_plan {
            header.lengths.clear();
        }
        Ok(Index::new(header, objects))
    }
}

/// The names of an index's objects, with the folder that they lie in.
fn full_names(index: &Index) -> Vec<String> {
    index.objects.iter().map(|object| index.header.full_name(None, object.name)).collect()
}

/// The parts in their order, if they are all parts of one source.
fn in_order(parts: &[Index]) -> Result<Vec<&Index>, String> {
    let first = parts.first().ok_or("there is no index to merge")?;
    let count = first.header.part.as_ref().map_or(1, |part| part.count as usize);
    let mut ordered = BTreeMap::new();
    for index in parts {
        let number = check(first, index)?;
        if ordered.insert(number, index).is_some() {
            return Err(format!("part {number} of {count} is there twice"));
        }
    }
    if let Some(number) = (0..count).find(|number| !ordered.contains_key(number)) {
        return Err(format!("part {number} of {count} is missing"));
    }
    Ok(ordered.into_values().collect())
}

/// Checks that two indexes are of parts of one source, and returns the number of the second part.
fn check(first: &Index, other: &Index) -> Result<usize, String> {
    let (one, two) = (&first.header, &other.header);
    let differs = |what: &str| Err(format!("the indexes have different {what}"));
    let (Some(of_first), Some(part)) = (&one.part, &two.part) else {
        return Err("an index is not of a part, but of a whole source".to_owned());
    };
    if of_first.count != part.count {
        return differs("numbers of parts");
    }
    if one.sources != two.sources {
        return differs("sources");
    }
    if one.decoder_identity != two.decoder_identity || one.options != two.options {
        return differs("decoders or options");
    }
    if one.add_fields != two.add_fields {
        return differs("added fields");
    }
    if (one.skips_errors, one.max_record) != (two.skips_errors, two.max_record) {
        return differs("rules for errors");
    }
    if one.fields != two.fields {
        return differs("fields");
    }
    if of_first.list != part.list {
        return Err("the parts were listed at different times, and the objects have changed \
                    since; make them again"
            .to_owned());
    }
    Ok(part.index as usize)
}
