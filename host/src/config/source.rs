//! A channel's `source`: exactly one kind, and only the keys that go with it.

use std::time::Duration;

use super::document::Read;
use super::key::{Free, Key, one_of};
use super::keys::*;
use super::read::Reader;
use super::{Compression, Source};

#[derive(Clone, Copy)]
enum Kind {
    Fifo,
    File,
    Glob,
    Folder,
    Stdin,
}

/// A kind, its key, and the keys that may stand beside that.
struct Form {
    kind: Kind,
    key: &'static Free,
    beside: &'static [&'static dyn Key],
}

static FORMS: [Form; 5] = [
    Form {
        kind: Kind::Fifo,
        key: &FIFO,
        beside: &[&EPOCHS, &COMPRESSION, &FIRST_EPOCH, &WAIT, &IDLE, &PIPE],
    },
    Form { kind: Kind::File, key: &FILE, beside: &[&EPOCHS, &COMPRESSION] },
    Form { kind: Kind::Glob, key: &GLOB, beside: &[&EPOCHS, &COMPRESSION] },
    Form { kind: Kind::Folder, key: &FOLDER, beside: &[&EPOCHS, &COMPRESSION] },
    Form { kind: Kind::Stdin, key: &STDIN, beside: &[&COMPRESSION] },
];

/// Takes the channel's source.
pub(super) fn read(channel: &Reader) -> Read<Source> {
    if !channel.has(&SOURCE) {
        return channel.required(&SOURCE, Ok(None));
    }
    let remedy = "for example source = { file = \"data.tfrecord\" }";
    let reader = channel.table(&SOURCE, remedy)?.knowing(&SOURCE_TABLE);
    let form = form(channel, &reader)?;
    refuse_misplaced(&reader, form);
    let compression = reader.choice(&COMPRESSION);
    // Within its range, which fits.
    let epochs = reader.given(&EPOCHS).map(|epochs| epochs.map(|epochs| epochs as u32));
    match form.kind {
        Kind::Fifo => fifo(&reader, epochs, compression),
        Kind::File => {
            let path = reader.required(&FILE, reader.path(&FILE));
            let epochs = epochs?.unwrap_or(1);
            Ok(Source::File { path: path?, epochs, compression: compression? })
        }
        Kind::Glob => {
            let pattern = pattern(&reader);
            let epochs = epochs?.unwrap_or(1);
            Ok(Source::Glob { pattern: pattern?, epochs, compression: compression? })
        }
        Kind::Folder => {
            let path = reader.required(&FOLDER, reader.path(&FOLDER));
            let epochs = epochs?.unwrap_or(1);
            Ok(Source::Folder { path: path?, epochs, compression: compression? })
        }
        Kind::Stdin => {
            if reader.boolean(STDIN.name, STDIN.expected)? == Some(false) {
                let remedy = "leave it out to read something else".to_owned();
                return Err(reader.wrong(STDIN.name, STDIN.expected, "false", remedy));
            }
            Ok(Source::Stdin { compression: compression? })
        }
    }
}

/// The kind that the source has; a second one is a fault.
fn form(channel: &Reader, reader: &Reader) -> Read<&'static Form> {
    let named = |name: &&str| FORMS.iter().find(|form| form.key.name == *name);
    let mut given = reader.names();
    given.retain(|name| named(name).is_some());
    let Some(form) = given.first().and_then(named) else {
        let kinds: Vec<_> = FORMS.iter().map(|form| format!("`{}`", form.key.name)).collect();
        let missing = || {
            let remedy = format!("give {}", one_of(&kinds));
            channel.fault(SOURCE.name, "does not say what to read".to_owned(), remedy)
        };
        return Err(reader.unknown().unwrap_or_else(missing));
    };
    for second in &given[1..] {
        let message = format!("a second kind of source beside `{}`", form.key.name);
        reader.fault(second, message, "keep one of them".to_owned());
    }
    Ok(form)
}

/// Finds the keys that belong to another kind.
fn refuse_misplaced(reader: &Reader, form: &Form) {
    for name in reader.names() {
        let has = |form: &Form| form.beside.iter().any(|key| key.name() == name);
        let others: Vec<_> = FORMS.iter().filter(|other| has(other)).collect();
        if others.is_empty() || has(form) {
            continue;
        }
        let others: Vec<_> = others.iter().map(|other| format!("`{}`", other.key.name)).collect();
        let message = format!("does not go with `{}`", form.key.name);
        reader.fault(name, message, format!("it goes with {}", one_of(&others)));
    }
}

fn pattern(reader: &Reader) -> Read<String> {
    let given = reader.required(&GLOB, reader.text(GLOB.name, GLOB.expected))?;
    if given.text.is_empty() || given.text.contains('\0') {
        return Err(reader.wrong(GLOB.name, GLOB.expected, &given.found(), String::new()));
    }
    if let Err(error) = glob::Pattern::new(&given.text) {
        let remedy = format!("at character {}: {}", error.pos + 1, error.msg);
        return Err(reader.wrong(GLOB.name, GLOB.expected, &given.found(), remedy));
    }
    Ok(given.text)
}

fn fifo(
    reader: &Reader,
    epochs: Read<Option<u32>>,
    compression: Read<Compression>,
) -> Read<Source> {
    let dir = reader.required(&FIFO, reader.path(&FIFO));
    let first_epoch = reader.number(&FIRST_EPOCH);
    let wait = reader.patience(&WAIT, Some(Duration::from_millis(WAIT.default)));
    let idle = reader.patience(&IDLE, None);
    let pipe = reader.number(&PIPE);
    Ok(Source::Fifo {
        dir: dir?,
        epochs: epochs?,
        first_epoch: first_epoch? as u32, // within its range, as is `pipe`
        wait: wait?,
        idle: idle?,
        pipe: pipe? as usize,
        compression: compression?,
    })
}
