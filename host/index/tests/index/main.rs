//! What an index says is true, and a file that was changed is no index.

mod file;
mod places;
mod reading;
