//! The framings that several decoders share: where records lie, not what they mean.

pub mod recordio;
pub mod tfrecord;
