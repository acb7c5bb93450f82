//! The names of a command line as a source: files, FIFOs, folders, objects in S3, standard input.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use pipemill_codecs::SeekPoint;

use crate::companions::{missing_object, take_out};
use crate::file_identity::file_facts;
use crate::open::{Found, Opened};
use crate::s3::{self, Access, Address, LazyS3Runtime, Selection};
use crate::start::ObjectStart;
use crate::{
    Compression, Files, LeftOut, Object, Pattern, ReadSettings, Source, SourceError, SourceEvent,
    Start, Stop, TotalSize,
};

/// A source of the objects that a command line names: paths of files, FIFOs and folders, addresses
/// in S3, and `-` for standard input. They are read in the order of the names. A path need not be
/// UTF-8: messages show it with U+FFFD for invalid bytes.
pub struct Paths {
    names: Vec<OsString>,
    /// Index of the next name in this epoch.
    next: usize,
    epoch: u32,
    /// The source of the current name, if it stands for several objects.
    nested: Option<Box<dyn Source>>,
    reading: ReadSettings,
    s3: LazyS3Runtime,
    access: Access,
    stop: Stop,
    total_size: Option<TotalSize>,
    /// The start; `None` after the first object.
    start: Option<Start>,
    /// The point from which the object of the start is inflated.
    point: Option<Arc<SeekPoint>>,
    /// Number of the next object in this epoch.
    ordinal: u64,
    /// Whether all names can be read again, once it was looked at.
    can_reread: OnceLock<bool>,
}

impl Paths {
    /// A source of these names. `access` applies to objects in S3. `reading.order` applies to each
    /// folder and prefix separately, not to all names together.
    pub fn new(names: Vec<OsString>, reading: ReadSettings, access: Access, stop: Stop) -> Self {
        let s3 = LazyS3Runtime::new(None);
        let (nested, total_size, start) = (None, None, None);
        let (next, epoch, ordinal) = (0, 0, 0);
        Self {
            names,
            next,
            epoch,
            nested,
            reading,
            s3,
            access,
            stop,
            total_size,
            start,
            point: None,
            ordinal,
            can_reread: OnceLock::new(),
        }
    }

    /// The addresses in S3 at the beginning of these names that one source reads. An inventory is
    /// read once for each source, so it has the addresses up to the next name of another kind.
    fn addresses(&self, names: &[OsString]) -> Result<Vec<Address>, SourceError> {
        let most = if self.reading.inventory.is_some() { usize::MAX } else { 1 };
        let names = names.iter().take(most).take_while(|name| Address::is_s3_url(name));
        let address = |name: &OsString| {
            Address::of_name(name).map_err(|why| {
                let message = format!("is no address in S3: {why}");
                SourceError::new(name.to_string_lossy(), message, "write it as s3://bucket/key")
            })
        };
        names.map(address).collect()
    }

    /// The source of a folder or of addresses in S3, which begins with the name of this index;
    /// `None` for other names, which are one object each.
    fn nested_source(
        &mut self,
        first: usize,
        start: Start,
    ) -> Result<Option<Box<dyn Source>>, SourceError> {
        let name = &self.names[first];
        let addresses = self.addresses(&self.names[first..])?;
        if !addresses.is_empty() {
            self.next = first + addresses.len();
            let is_all = addresses.len() == self.names.len();
            let shown = name.to_string_lossy();
            let s3 =
                self.s3.get().map_err(|error| SourceError::io(&*shown, "can't start", &error))?;
            let mut settings = s3::Settings::new(Selection::Named(addresses));
            settings.access = self.access.clone();
            settings.reading = self.this_epoch();
            // The byte counts of several sources are not summed up: the total stays unknown.
            let total_size = self.total_size.clone().filter(|_| is_all);
            let (stop, total_size) = (self.stop.clone(), total_size.unwrap_or_default());
            let start = (start, self.point.take());
            let objects = s3::Objects::with_total_size(s3, settings, start, stop, total_size);
            return Ok(Some(Box::new(objects)));
        }
        if Path::new(name).is_dir() {
            let pattern = Pattern::Folder(name.into());
            let stop = self.stop.clone();
            let mut files = Files::new(pattern, self.this_epoch(), self.epoch, stop);
            files.start_from(self.point.take());
            files.start_at(start)?;
            return Ok(Some(Box::new(files)));
        }
        Ok(None)
    }

    /// Bytes of an epoch, if all names are regular files or folders of regular files.
    fn length(&self) -> Option<u64> {
        let length = |name: &OsString| {
            let path = Path::new(name);
            if path.is_dir() {
                let folder = Pattern::Folder(path.into());
                let mut files = folder.list(self.reading.hidden, &mut LeftOut::default()).ok()?;
                take_out(&self.reading.companions, &mut files, |file| file).ok()?;
                let files = self.reading.share(files, self.epoch).ok()?;
                return self.reading.length_of_all(&files);
            }
            self.reading.length_of_all(&[path.into()])
        };
        self.names.iter().map(length).sum()
    }

    /// Whether this is the companion of an object that is named, too: a shell's pattern names both.
    ///
    /// # Errors
    /// It is a companion, and its object is not named.
    fn is_companion(&self, path: &Path) -> Result<bool, SourceError> {
        let object = self.reading.companions.object_of(path.as_os_str().as_bytes());
        let Some(object) = object else { return Ok(false) };
        if self.names.iter().any(|name| name.as_bytes() == object) {
            return Ok(true);
        }
        let object = String::from_utf8_lossy(&object);
        Err(missing_object(&path.to_string_lossy(), &object))
    }

    fn next_ordinal(&mut self) -> u64 {
        self.ordinal += 1;
        self.ordinal - 1
    }

    /// Reading options of a nested source, which reads the current epoch only.
    fn this_epoch(&self) -> ReadSettings {
        ReadSettings { epochs: self.epoch + 1, ..self.reading.clone() }
    }
}

impl Source for Paths {
    fn next(&mut self) -> Result<SourceEvent, SourceError> {
        loop {
            if let Some(nested) = &mut self.nested {
                if let SourceEvent::Object(object) = nested.next()? {
                    let ordinal = self.next_ordinal();
                    return Ok(SourceEvent::Object(Object { ordinal, ..object }));
                }
                self.nested = None;
            }
            if self.epoch == self.reading.epochs {
                return Ok(SourceEvent::End);
            }
            let Some(name) = self.names.get(self.next).cloned() else {
                (self.next, self.ordinal, self.epoch) = (0, 0, self.epoch + 1);
                return Ok(SourceEvent::EpochEnd(self.epoch - 1));
            };
            if self.next == 0
                && let Some(total_size) = &self.total_size
                && let Some(bytes) = self.length()
            {
                total_size.set(self.epoch, bytes);
            }
            let first = self.next;
            self.next += 1;
            let start = self.start.take().unwrap_or(Start::of_epoch(self.epoch));
            self.nested = self.nested_source(first, start)?;
            if self.nested.is_some() {
                continue;
            }
            let path = Path::new(&name);
            if self.is_companion(path)? {
                continue;
            }
            let name = name.to_string_lossy().into_owned();
            start.check_list(&name, 1)?;
            if start.ordinal == 1 {
                continue;
            }
            let point = self.point.take();
            let Opened { input, version } = self.reading.open(
                path,
                &name,
                ObjectStart::after(point.as_deref(), start.offset),
                Found::Named,
                &self.stop,
            )?;
            let companions = self.reading.open_companions(path, &name, version, &self.stop)?;
            let (facts, identity) = file_facts(path, version, &companions, None);
            let companions = companions.into_iter().map(|one| one.companion).collect();
            let (epoch, ordinal) = (self.epoch, self.next_ordinal());
            return Ok(SourceEvent::Object(Object {
                epoch,
                ordinal,
                name,
                identity,
                facts,
                block: None,
                known: None,
                input,
                companions,
            }));
        }
    }

    /// Reading can begin in the middle only if there is one name. With several names, the number of
    /// objects of each is not known.
    fn start_at(&mut self, start: Start) -> Result<(), SourceError> {
        let name = self.names.first().map(|name| name.to_string_lossy()).unwrap_or_default();
        start.check_epoch(&name, 0, Some(self.reading.epochs))?;
        if self.names.len() > 1 && (start.ordinal, start.offset) != (0, 0) {
            let message = "several names can't be read from the middle of an epoch";
            return Err(SourceError::new(name, message, "name one file, folder or prefix"));
        }
        (self.epoch, self.ordinal, self.next) = (start.epoch, start.ordinal, 0);
        (self.start, self.nested) = (Some(start), None);
        Ok(())
    }

    fn start_from(&mut self, point: Option<Arc<SeekPoint>>) {
        self.point = point;
    }

    fn can_reread(&self) -> bool {
        let can = |name: &OsString| {
            let is_file = || Pattern::File(name.into()).can_reread();
            let is_path = || name != "-" && (Path::new(name).is_dir() || is_file());
            Address::is_s3_url(name) || is_path()
        };
        *self.can_reread.get_or_init(|| self.names.iter().all(can))
    }

    fn end_epoch(&mut self) {
        (self.next, self.nested, self.start) = (self.names.len(), None, None);
        self.point = None;
    }

    fn total_size(&mut self) -> TotalSize {
        self.total_size.get_or_insert_default().clone()
    }
}

/// Standard input as a source of one epoch and one object.
pub fn stdin(compression: Compression, stop: Stop) -> impl Source {
    let reading = ReadSettings { compression, ..ReadSettings::default() };
    Paths::new(vec!["-".into()], reading, Access::default(), stop)
}
