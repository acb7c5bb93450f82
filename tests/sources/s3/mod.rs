//! The command reads S3: credentials, answers that mean harm, states, signals. The source itself is tested
//! in host/source/tests/s3.

mod command;
mod credentials;
mod doctor;
mod feed;
mod first_rows;
mod hostile;
mod resumed;
mod stops;
