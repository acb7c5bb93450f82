//! The framings that several decoders share: where records lie, not what they mean.
//!
//! A crate of its own, because a plugin can't be a library of another one: both would export the
//! interface.

pub mod recordio;
pub mod tfrecord;
