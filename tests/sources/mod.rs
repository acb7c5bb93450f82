//! Where bytes come from. `s3` is a program of its own.

mod fifo;
mod files;
