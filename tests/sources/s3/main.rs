//! S3 as a source, against real servers, behind a proxy that makes them slow or lets them fail.

mod changes;
mod command;
mod credentials;
mod doctor;
mod faults;
mod feed;
mod first_rows;
mod hostile;
mod many;
mod other_servers;
mod pauses;
mod reading;
mod resumed;
mod selection;
mod starts;
mod stops;
