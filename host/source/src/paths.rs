//! What a command line names, one after the other: files, FIFOs, folders, objects in S3, standard input.

use std::path::Path;

use super::s3::{self, Access, Address, LazyS3, Selection};
use super::{
    Compression, Files, Object, Pattern, Reading, Source, SourceError, SourceEvent, TotalSize,
};
use crate::Stop;

/// The objects that a command line names, one after the other: paths of files and FIFOs, folders, addresses
/// in S3, and `-` for standard input.
pub struct Paths {
    names: Vec<String>,
    /// Of the names: how many were begun in this epoch.
    begun: usize,
    epoch: u32,
    /// What gives several objects by one name.
    several: Option<Box<dyn Source>>,
    reading: Reading,
    s3: LazyS3,
    access: Access,
    stop: Stop,
    total: Option<TotalSize>,
}

impl Paths {
    /// Objects by their names; those in S3 are reached so. A name that stands for several objects, a folder or a
    /// prefix, gives them as `reading.order` has it, and not sharing them with other names.
    pub fn new(names: Vec<String>, reading: Reading, access: Access, stop: Stop) -> Self {
        let s3 = LazyS3::new(None);
        Self { names, begun: 0, epoch: 0, several: None, reading, s3, access, stop, total: None }
    }

    /// What the name stands for, if that is several objects.
    fn several(&mut self, name: &str) -> Result<Option<Box<dyn Source>>, SourceError> {
        if Address::is_meant_by(name) {
            let address = name.parse().map_err(|why| {
                let message = format!("is no address in S3: {why}");
                SourceError::new(name, message, "write it as s3://bucket/key")
            })?;
            let s3 = self.s3.get().map_err(|error| SourceError::io(name, "can't start", &error))?;
            let mut settings = s3::Settings::new(Selection::Named(address));
            settings.access = self.access.clone();
            settings.reading = self.this_epoch();
            // Of several names, nobody adds up.
            let total = self.total.clone().filter(|_| self.names.len() == 1);
            let (stop, total) = (self.stop.clone(), total.unwrap_or_default());
            return Ok(Some(Box::new(s3::Objects::telling(s3, settings, self.epoch, stop, total))));
        }
        if Path::new(name).is_dir() {
            let pattern = Pattern::Folder(name.into());
            let stop = self.stop.clone();
            return Ok(Some(Box::new(Files::new(pattern, self.this_epoch(), self.epoch, stop))));
        }
        Ok(None)
    }
}

impl Paths {
    /// The bytes of what all names stand for, where those are files and folders.
    fn length(&self) -> Option<u64> {
        let length = |name: &String| {
            let path = Path::new(name);
            if path.is_dir() {
                let files = Pattern::Folder(path.into()).list().ok()?;
                let files = self.reading.share(files, self.epoch).ok()?;
                return self.reading.length_of_all(&files);
            }
            self.reading.length_of_all(&[path.into()])
        };
        self.names.iter().map(length).sum()
    }

    fn this_epoch(&self) -> Reading {
        Reading { epochs: self.epoch + 1, ..self.reading }
    }
}

impl Source for Paths {
    fn next(&mut self) -> Result<SourceEvent, SourceError> {
        loop {
            if let Some(several) = &mut self.several {
                if let step @ SourceEvent::Object(_) = several.next()? {
                    return Ok(step);
                }
                self.several = None;
            }
            if self.epoch == self.reading.epochs {
                return Ok(SourceEvent::End);
            }
            let Some(name) = self.names.get(self.begun).cloned() else {
                (self.begun, self.epoch) = (0, self.epoch + 1);
                return Ok(SourceEvent::EpochEnd(self.epoch - 1));
            };
            if self.begun == 0
                && let Some(total) = &self.total
                && let Some(bytes) = self.length()
            {
                total.tell(self.epoch, bytes);
            }
            self.begun += 1;
            self.several = self.several(&name)?;
            if self.several.is_none() {
                let input = self.reading.open(Path::new(&name), &name, &self.stop)?;
                return Ok(SourceEvent::Object(Object { epoch: self.epoch, name, input }));
            }
        }
    }

    fn end_epoch(&mut self) {
        self.begun = self.names.len();
        self.several = None;
    }

    fn total(&mut self) -> TotalSize {
        self.total.get_or_insert_default().clone()
    }
}

/// Standard input as a source of one epoch.
pub fn stdin(compression: Compression, stop: Stop) -> impl Source {
    let reading = Reading { compression, ..Reading::default() };
    Paths::new(vec!["-".to_owned()], reading, Access::default(), stop)
}
