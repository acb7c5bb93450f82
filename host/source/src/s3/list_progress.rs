//! The progress of reading an epoch's list, and its comparison with the list of a state.
//!
//! Its first objects are read before a long list is complete. So a state may name only the part
//! that was known then. That part ends with a page of the list.

use std::cmp::Ordering;
use std::sync::Mutex;

use pipemill_types::ListIdentity;

use crate::SourceError;
use crate::list_digest::ListDigest;
use crate::start::check_list;

/// The identity of the part of the list that was read. The listing task updates it, and the
/// identities of objects contain it.
pub(super) struct ListProgress {
    known: Mutex<ListIdentity>,
    expected: Option<ListIdentity>,
}

impl ListProgress {
    /// `expected` is the list, or the beginning of it, that a state names.
    pub(super) fn new(expected: Option<ListIdentity>) -> Self {
        Self { known: Mutex::new(ListDigest::default().identity(false)), expected }
    }

    /// The identity of the list as it is known now.
    pub(super) fn known(&self) -> ListIdentity {
        *self.known.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Records that the list is known as a whole.
    ///
    /// # Errors
    /// It is not the expected list.
    pub(super) fn know(
        &self,
        name: &str,
        epoch: u32,
        list: ListIdentity,
    ) -> Result<(), SourceError> {
        if let Some(expected) = &self.expected {
            check_list(name, epoch, expected, &list)?;
        }
        *self.known.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = list;
        Ok(())
    }

    /// Records that the list was read up to `digest`.
    ///
    /// # Errors
    /// It is not the expected list.
    pub(super) fn reached(
        &self,
        name: &str,
        epoch: u32,
        digest: &ListDigest,
        is_whole: bool,
    ) -> Result<(), SourceError> {
        let found = digest.identity(is_whole);
        if let Some(expected) = &self.expected {
            let is_due = match digest.objects().cmp(&expected.objects) {
                Ordering::Less => is_whole,
                Ordering::Equal => is_whole || !expected.is_whole,
                // A part that ends inside of a page can't be compared.
                Ordering::Greater => expected.is_whole || self.known().objects < expected.objects,
            };
            if is_due {
                check_list(name, epoch, expected, &found)?;
            }
        }
        *self.known.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = found;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A list of this many objects, in pages; one of the objects may have another tag.
    fn read(
        objects: usize,
        page: usize,
        changed: Option<usize>,
        expected: Option<ListIdentity>,
    ) -> Result<Vec<ListIdentity>, String> {
        let progress = ListProgress::new(expected);
        let (mut digest, mut known) = (ListDigest::default(), Vec::new());
        for start in (0..objects).step_by(page) {
            let end = objects.min(start + page);
            for number in start..end {
                let tag = if changed == Some(number) { "new" } else { "tag" };
                digest.add(&number.to_le_bytes(), tag.as_bytes());
            }
            let reached = progress.reached("s3://b/", 0, &digest, end == objects);
            reached.map_err(|error| error.message)?;
            known.push(progress.known());
        }
        Ok(known)
    }

    #[test]
    fn a_list_is_compared_where_a_state_knew_it() {
        let known = read(25, 10, None, None).unwrap();
        let flags: Vec<_> = known.iter().map(|one| (one.objects, one.is_whole)).collect();
        assert_eq!(flags, [(10, false), (20, false), (25, true)]);
        for (at, expected) in known.iter().enumerate() {
            let expect = |objects, changed| read(objects, 10, changed, Some(*expected));
            assert!(expect(25, None).is_ok());
            // The list may differ after the part that the state knew.
            assert_eq!(expect(26, None).is_ok(), at < 2);
            assert_eq!(expect(25, Some(24)).is_ok(), at < 2);
            assert_eq!(expect(25, Some(15)).is_ok(), at < 1);
            for objects in [1, 5, 9] {
                assert!(expect(objects, None).is_err());
            }
            assert!(expect(25, Some(3)).is_err());
        }
        assert!(read(15, 10, None, Some(known[0])).is_ok());
        assert!(read(25, 9, None, Some(known[0])).is_err(), "pages of another size");
        assert!(read(25, 9, None, Some(known[2])).is_ok());
    }
}
