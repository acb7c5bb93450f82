//! The options that say how S3 is reached, of all commands that read from there.

use std::process::ExitCode;

use super::exit;
use pipemill_source::s3::{Access, Address, check_endpoint};

/// What is left out is found as AWS's own tools find it: in `AWS_…` variables, in ~/.aws, or from the machine.
#[derive(clap::Args, Clone)]
#[command(next_help_heading = "S3")]
pub(super) struct S3Args {
    /// The bucket's region
    #[arg(long, value_name = "NAME")]
    region: Option<String>,
    /// The server's URL, if it is not Amazon's
    #[arg(long, value_name = "URL", value_parser = endpoint)]
    endpoint: Option<String>,
    /// A profile of ~/.aws/config
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    /// Ask without credentials: for public buckets
    #[arg(long)]
    anonymous: bool,
    /// Agree to pay for the requests
    #[arg(long)]
    requester_pays: bool,
}

fn endpoint(url: &str) -> Result<String, &'static str> {
    check_endpoint(url).map(|()| url.to_owned())
}

impl S3Args {
    /// A configuration says itself how its sources are reached.
    pub(super) fn refuse_beside_config(&self) -> Result<(), ExitCode> {
        if self.access() == Access::default() {
            return Ok(());
        }
        let why = "with --config, the configuration's sources say how S3 is reached: set `region`, `endpoint`, \
                   `profile`, `anonymous` and `requester_pays` there";
        Err(exit::because(exit::USAGE, why))
    }

    pub(super) fn access(&self) -> Access {
        Access {
            region: self.region.clone(),
            endpoint: self.endpoint.clone(),
            profile: self.profile.clone(),
            anonymous: self.anonymous,
            requester_pays: self.requester_pays,
            ..Access::default()
        }
    }
}

/// A remedy names keys of the configuration.
pub(super) fn in_words_of_the_command(error: &str) -> String {
    // There is no such option: who types a name means that there is something.
    let error = error.replace("; where it may be empty, set `allow_empty`", "");
    let keys = ["region", "endpoint", "profile", "anonymous", "requester_pays"];
    keys.iter().fold(error, |error, key| {
        error.replace(&format!("`{key}`"), &format!("`--{}`", key.replace('_', "-")))
    })
}

/// Refuses what is meant as an address and is none.
pub(super) fn check_addresses(names: &[String]) -> Result<(), ExitCode> {
    names
        .iter()
        .filter(|name| Address::is_meant_by(name))
        .try_for_each(|name| address(name).map(drop))
}

/// Reads an address.
pub(super) fn address(name: &str) -> Result<Address, ExitCode> {
    name.parse().map_err(|why| {
        let why = format!("`{name}` is no address in S3: {why}; write it as s3://bucket/key");
        exit::because(exit::USAGE, why)
    })
}
