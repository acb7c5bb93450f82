//! Keeps panics on this side of the boundary: C can't unwind.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The result of `work`; if it panics, the result of `otherwise` for the panic's text.
///
/// The state that a panic leaves is never seen again: a reader's lock is poisoned then, and a batch
/// does not change.
pub(crate) fn guarded<T>(otherwise: impl FnOnce(&str) -> T, work: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| otherwise(text_of(&*panic)))
}

/// The result of `work`; if it panics, the default.
pub(crate) fn or_default<T: Default>(work: impl FnOnce() -> T) -> T {
    guarded(|_| T::default(), work)
}

fn text_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("a panic")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_a_value() {
        assert_eq!(guarded(str::to_owned, || panic!("with {}", 7)), "with 7");
        assert_eq!(guarded(str::to_owned, || panic!("as it is")), "as it is");
        assert_eq!(or_default::<u32>(|| panic!()), 0);
        assert_eq!(or_default(|| 5), 5);
    }
}
