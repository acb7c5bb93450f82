//! A source of those objects of another source whose names match a pattern: `--where object=…`.

use pipemill_source::{Source, SourceError, SourceEvent, Start};

/// A condition of `--where`.
#[derive(Clone, Debug)]
pub(super) struct Condition {
    pattern: glob::Pattern,
}

impl Condition {
    /// Parses `object=PATTERN`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some(("object", pattern)) => match glob::Pattern::new(pattern) {
                Ok(pattern) => Ok(Self { pattern }),
                Err(error) => Err(format!("`{pattern}` is not a pattern: {error}")),
            },
            Some((key, _)) => Err(format!("`{key}` is not known; write it as object=PATTERN")),
            None => Err("write it as object=PATTERN".to_owned()),
        }
    }

    /// Whether the name matches: a pattern without `/` is also compared with the last part of the
    /// name.
    fn matches(&self, name: &str) -> bool {
        let last = name.rsplit('/').next().unwrap_or(name);
        self.pattern.matches(name) || self.pattern.matches(last)
    }
}

/// The objects of `inner` that fulfil all conditions.
pub(super) struct Matching {
    inner: Box<dyn Source>,
    conditions: Vec<Condition>,
    /// Whether an object matched in this epoch.
    found: bool,
    /// Name of an object that did not match.
    other: Option<String>,
}

impl Matching {
    pub(super) fn new(inner: Box<dyn Source>, conditions: Vec<Condition>) -> Self {
        Self { inner, conditions, found: false, other: None }
    }
}

impl Source for Matching {
    fn next(&mut self) -> Result<SourceEvent, SourceError> {
        loop {
            match self.inner.next()? {
                SourceEvent::Object(object)
                    if !self.conditions.iter().all(|one| one.matches(&object.name)) =>
                {
                    self.other = Some(object.name);
                }
                SourceEvent::EpochEnd(epoch) if !std::mem::take(&mut self.found) => {
                    let Some(other) = self.other.take() else {
                        return Ok(SourceEvent::EpochEnd(epoch));
                    };
                    let patterns: Vec<_> =
                        self.conditions.iter().map(|one| one.pattern.as_str()).collect();
                    let message =
                        format!("no object's name matches `{}`", patterns.join("` and `"));
                    let remedy = format!("one is `{other}`; `*` stands for any text");
                    let error = SourceError::new(other, message, remedy);
                    return Err(SourceError { object: None, missing: true, ..error });
                }
                event => {
                    self.found |= matches!(event, SourceEvent::Object(_));
                    return Ok(event);
                }
            }
        }
    }

    fn start_at(&mut self, start: Start) -> Result<(), SourceError> {
        // Objects before the start may have matched.
        self.found = true;
        self.inner.start_at(start)
    }

    fn end_epoch(&mut self) {
        self.found = true;
        self.inner.end_epoch();
    }
}
