//! Options for the access to S3: for all commands that read from there.

use std::ffi::{OsStr, OsString};
use std::process::ExitCode;

use pipemill_source::s3::{Access, Address, check_endpoint};
use pipemill_source::{Location, OtherAddress, other_address};

use super::exit;

/// What is left out is found in the same way as by AWS's tools: in `AWS_…` variables, in ~/.aws, or
/// from the machine.
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
    /// Send requests without credentials: for public buckets
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
    /// Refuses these options together with `--config`: each source in a configuration has its own
    /// keys.
    pub(super) fn refuse_with_config(&self) -> Result<(), ExitCode> {
        if self.access() == Access::default() {
            return Ok(());
        }
        let why = "with --config, the configuration's sources say how S3 is reached: set \
                   `region`, `endpoint`, `profile`, `anonymous` and `requester_pays` there";
        Err(exit::because(exit::USAGE, why))
    }

    /// The access that these options describe.
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

/// Replaces keys of the configuration in a remedy by the options of the command line.
pub(super) fn with_option_names(error: &str) -> String {
    // There is no option for `allow_empty`: a name on the command line means that an object exists.
    let error = error.replace("; where it may be empty, set `allow_empty`", "");
    let keys = ["region", "endpoint", "profile", "anonymous", "requester_pays"];
    keys.iter().fold(error, |error, key| {
        error.replace(&format!("`{key}`"), &format!("`--{}`", key.replace('_', "-")))
    })
}

/// Refuses names that look like an address in S3 but are not valid, and addresses of stores that
/// are not read.
pub(super) fn check_addresses(names: &[OsString]) -> Result<(), ExitCode> {
    if let Some((name, other)) =
        names.iter().find_map(|name| other_address(name).map(|other| (name, other)))
    {
        let OtherAddress { what, remedy } = other;
        let why = format!("`{}` is {what}; {remedy}", name.to_string_lossy());
        return Err(exit::because(exit::USAGE, with_option_names(&why)));
    }
    names
        .iter()
        .filter(|name| Address::is_s3_url(name))
        .try_for_each(|name| address(name).map(drop))
}

/// Parses the name of an index: a path, or an address of an object in S3. An error is reported; the
/// exit code is returned.
pub(super) fn location(name: impl AsRef<OsStr>) -> Result<Location, ExitCode> {
    let name = name.as_ref();
    check_addresses(&[name.to_owned()])?;
    Location::of_name(name).map_err(|why| {
        let name = name.to_string_lossy();
        let why = format!("`{name}` is no address of an index: {why}; write it as s3://bucket/key");
        exit::because(exit::USAGE, why)
    })
}

/// Parses an address. An error is reported; the exit code is returned.
pub(super) fn address(name: &OsStr) -> Result<Address, ExitCode> {
    Address::of_name(name).map_err(|why| {
        let name = name.to_string_lossy();
        let why = format!("`{name}` is no address in S3: {why}; write it as s3://bucket/key");
        exit::because(exit::USAGE, why)
    })
}
