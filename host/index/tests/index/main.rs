//! What an index says is true, and a file that was changed is no index.

mod file;
mod hosts;
mod places;
mod reading;
mod workers;
