//! Where bytes come from.

mod fifo;
mod files;
mod s3;
