//! S3 as a source, against real servers, behind a proxy that makes them slow or lets them fail.
//! Those of the command are in tests/sources/s3.

mod blocks;
mod cache;
mod changes;
mod faults;
mod listed_once;
mod listing;
mod many;
mod other_servers;
mod pauses;
mod reading;
mod seek_points;
mod selection;
mod starts;
mod stops;
mod writing;
