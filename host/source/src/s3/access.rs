//! How a bucket is reached and who asks: region, endpoint, credentials. Makes the SDK's client, whose own
//! retries and time limits are off: `fetch` has its own, which know how far a body came.

use std::time::Duration;

use aws_config::environment::EnvironmentVariableRegionProvider;
use aws_config::imds::region::ImdsRegionProvider;
use aws_config::meta::region::RegionProviderChain;
use aws_config::profile::{ProfileFileCredentialsProvider, ProfileFileRegionProvider};
use aws_config::provider_config::ProviderConfig;
use aws_config::retry::RetryConfig;
use aws_config::stalled_stream_protection::StalledStreamProtectionConfig;
use aws_config::timeout::TimeoutConfig;
use aws_config::{AppName, BehaviorVersion, Region, SdkConfig};
use aws_sdk_s3::config::{ProvideCredentials, ResponseChecksumValidation, SharedHttpClient};

use super::error::causes;
use super::http::Clients;

/// How a bucket is reached and who asks. What is left out is for the SDK to find: in `AWS_…` variables, in
/// `~/.aws`, or from the machine.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Access {
    /// The bucket's region.
    pub region: Option<String>,
    /// The server's URL, for servers other than Amazon's.
    pub endpoint: Option<String>,
    /// A profile of `~/.aws/config` and `~/.aws/credentials`.
    pub profile: Option<String>,
    /// How a bucket's name goes into the request.
    pub addressing: Addressing,
    /// Asks without credentials: for public buckets.
    pub anonymous: bool,
    /// Agrees to pay for the requests.
    pub requester_pays: bool,
}

/// How a bucket's name goes into a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Addressing {
    /// As a path on servers other than Amazon's, as a host's name on Amazon's.
    #[default]
    Auto,
    /// As the path's first part.
    Path,
    /// As the first part of the host's name.
    Virtual,
}

/// A TCP connection takes at most so long to open.
const CONNECT: Duration = Duration::from_millis(3_100);

impl Access {
    /// Finds out what is not given, and makes a client. The error says what is missing.
    pub(super) async fn client(&self) -> Result<aws_sdk_s3::Client, String> {
        let clients = Clients::new()?;
        let sdk = self.sdk_config(&clients.credentials).await?;
        if !self.anonymous {
            check_credentials(&sdk).await.map_err(|error| match &self.profile {
                Some(profile) => format!("{error} (profile `{profile}`)"),
                None => error,
            })?;
        }
        let endpoint = self.own_endpoint(&sdk);
        let path_style = match self.addressing {
            Addressing::Path => true,
            Addressing::Virtual => false,
            Addressing::Auto => {
                endpoint.as_deref().is_some_and(|url| !url.contains(".amazonaws.com"))
            }
        };
        let mut config = aws_sdk_s3::config::Builder::from(&sdk)
            .http_client(clients.s3)
            .force_path_style(path_style)
            // A range's answer may carry the sum of the whole object; `checksum` knows which one it has.
            .response_checksum_validation(ResponseChecksumValidation::WhenRequired);
        if self.anonymous {
            config = config.allow_no_auth();
        }
        Ok(aws_sdk_s3::Client::from_conf(config.build()))
    }

    async fn sdk_config(&self, http: &SharedHttpClient) -> Result<SdkConfig, String> {
        if let Some(endpoint) = self.endpoint.clone().or_else(endpoint_variable) {
            check_endpoint(&endpoint).map_err(|what| format!("the server's URL {what}"))?;
        }
        let provider = ProviderConfig::default().with_http_client(http.clone());
        let mut loader = aws_config::defaults(BehaviorVersion::v2026_01_12())
            .http_client(http.clone())
            .retry_config(RetryConfig::disabled())
            .timeout_config(TimeoutConfig::builder().connect_timeout(CONNECT).build())
            // Bodies are taken as they come, and `fetch` watches them.
            .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
            .app_name(AppName::new("pipemill").expect("it has letters only"))
            .region(self.find_region(&provider).await);
        if let Some(profile) = &self.profile {
            // One that is named is meant, whatever the environment holds.
            let credentials = ProfileFileCredentialsProvider::builder().profile_name(profile);
            loader = loader
                .profile_name(profile)
                .credentials_provider(credentials.configure(&provider).build());
        }
        if let Some(endpoint) = &self.endpoint {
            loader = loader.endpoint_url(endpoint);
        }
        if self.anonymous {
            loader = loader.no_credentials();
        }
        let sdk = loader.load().await;
        if sdk.region().is_none() {
            return Err("no region is set: set `region`, or AWS_REGION".to_owned());
        }
        Ok(sdk)
    }

    /// As the SDK's chain, but a server that is not Amazon's needs no region that means anything, and no
    /// wait for the metadata of a machine that is not Amazon's either.
    async fn find_region(&self, provider: &ProviderConfig) -> Option<Region> {
        let mut profile = ProfileFileRegionProvider::builder().configure(provider);
        if let Some(name) = &self.profile {
            profile = profile.profile_name(name);
        }
        let chain = RegionProviderChain::first_try(self.region.clone().map(Region::new))
            .or_else(EnvironmentVariableRegionProvider::new())
            .or_else(profile.build());
        match self.endpoint.clone().or_else(endpoint_variable) {
            Some(_) => chain.or_else("us-east-1").region().await,
            None => {
                let machine = ImdsRegionProvider::builder().configure(provider).build();
                chain.or_else(machine).region().await
            }
        }
    }

    fn own_endpoint(&self, sdk: &SdkConfig) -> Option<String> {
        let known = || sdk.endpoint_url().map(str::to_owned);
        self.endpoint.clone().or_else(endpoint_variable).or_else(known)
    }
}

/// What a server's URL must be; the error says what is wrong with it, and not what it is: there may be a password
/// in it.
///
/// # Errors
/// In words that follow its name.
pub fn check_endpoint(url: &str) -> Result<(), &'static str> {
    let rest = ["http://", "https://"].iter().find_map(|scheme| url.strip_prefix(scheme));
    let host = rest.and_then(|rest| rest.split('/').next()).filter(|host| !host.is_empty());
    match host {
        None => Err("is no URL that begins with http:// or https://"),
        Some(host) if host.contains('@') => {
            Err("has a user or password in it: give credentials by the environment or a profile")
        }
        Some(_) => Ok(()),
    }
}

fn endpoint_variable() -> Option<String> {
    let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    variable("AWS_ENDPOINT_URL_S3").or_else(|| variable("AWS_ENDPOINT_URL"))
}

/// Asks for credentials before the first request does: what each link of the chain lacks is known here only.
async fn check_credentials(sdk: &SdkConfig) -> Result<(), String> {
    let provider = sdk.credentials_provider().ok_or("there is no source of credentials")?;
    match provider.provide_credentials().await {
        Ok(_) => Ok(()),
        // A line for each link of the chain.
        Err(error) => {
            let links: Vec<_> = causes(&error).lines().map(str::trim).map(str::to_owned).collect();
            Err(format!(
                "no credentials: {}",
                links.join("; ").replace("Attempted:;", "attempted:")
            ))
        }
    }
}
