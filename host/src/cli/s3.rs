//! The options that say how S3 is reached, of all commands that read from there.

use crate::source::s3::Access;

/// What is left out is found as AWS's own tools find it: in `AWS_…` variables, in ~/.aws, or from the machine.
#[derive(clap::Args, Clone)]
#[command(next_help_heading = "S3")]
pub(super) struct S3Args {
    /// The bucket's region
    #[arg(long, value_name = "NAME")]
    region: Option<String>,
    /// The server's URL, if it is not Amazon's
    #[arg(long, value_name = "URL")]
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

impl S3Args {
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
    ["region", "endpoint", "profile", "anonymous", "requester_pays"]
        .iter()
        .fold(error.to_owned(), |error, key| {
            error.replace(&format!("`{key}`"), &format!("`--{}`", key.replace('_', "-")))
        })
}
