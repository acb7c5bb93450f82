//! Access to a bucket: region, endpoint, credentials. Makes the SDK's client. Its retries and
//! timeouts are disabled: `fetch` has its own, which continue in the middle of a body.

use std::time::Duration;

use aws_config::environment::EnvironmentVariableRegionProvider;
use aws_config::imds::region::ImdsRegionProvider;
use aws_config::meta::region::RegionProviderChain;
use aws_config::profile::{self, ProfileFileCredentialsProvider, ProfileFileRegionProvider};
use aws_config::provider_config::ProviderConfig;
use aws_config::retry::RetryConfig;
use aws_config::stalled_stream_protection::StalledStreamProtectionConfig;
use aws_config::timeout::TimeoutConfig;
use aws_config::{AppName, BehaviorVersion, Region, SdkConfig};
use aws_sdk_s3::config::{ProvideCredentials, ResponseChecksumValidation, SharedHttpClient};
use aws_types::os_shim_internal::{Env, Fs};

use super::error::causes;
use super::http::Clients;
use super::limit::LimitBodies;
use super::runtime::Connected;

/// Region, endpoint and credentials. The SDK finds what is not set: in `AWS_…` variables, in
/// `~/.aws`, or from the machine's metadata service.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Access {
    /// Region of the bucket.
    pub region: Option<String>,
    /// URL of the server, for servers other than Amazon's.
    pub endpoint: Option<String>,
    /// Name of a profile in `~/.aws/config` and `~/.aws/credentials`.
    pub profile: Option<String>,
    /// The part of a request that names the bucket.
    pub addressing: Addressing,
    /// Whether to send requests without credentials, for public buckets.
    pub anonymous: bool,
    /// Whether to agree to pay for the requests.
    pub requester_pays: bool,
}

/// The part of a request that names the bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Addressing {
    /// `Virtual` on Amazon's servers, `Path` on others.
    #[default]
    Auto,
    /// In the path: `https://host/bucket/key`.
    Path,
    /// In the host name: `https://bucket.host/key`.
    Virtual,
}

/// Time limit for opening a TCP connection.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(3_100);

impl Access {
    /// Finds the settings that are not given, and makes a client. The error says what is missing.
    pub(super) async fn client(&self) -> Result<Connected, String> {
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
            .interceptor(LimitBodies)
            .force_path_style(path_style)
            // The response to a range may have the checksum of the whole object. `checksum` handles
            // it.
            .response_checksum_validation(ResponseChecksumValidation::WhenRequired);
        if self.anonymous {
            config = config.allow_no_auth();
        }
        let region = || sdk.region().map(|region| region.to_string()).unwrap_or_default();
        let server = endpoint.as_deref().map(same_server).unwrap_or_else(region);
        Ok(Connected { client: aws_sdk_s3::Client::from_conf(config.build()), server })
    }

    async fn sdk_config(&self, http: &SharedHttpClient) -> Result<SdkConfig, String> {
        let (endpoint, set_by) = match (&self.endpoint, endpoint_variable()) {
            (Some(endpoint), _) => (Some(endpoint.clone()), "`endpoint`"),
            (None, Some((variable, endpoint))) => (Some(endpoint), variable),
            (None, None) => (None, ""),
        };
        if let Some(endpoint) = endpoint {
            check_endpoint(&endpoint)
                .map_err(|reason| format!("the server's URL, set by {set_by}, {reason}"))?;
        }
        if let Some(profile) = &self.profile {
            check_profile(profile).await?;
        }
        let provider = ProviderConfig::default().with_http_client(http.clone());
        let mut loader = aws_config::defaults(BehaviorVersion::v2026_01_12())
            .http_client(http.clone())
            .retry_config(RetryConfig::disabled())
            .timeout_config(TimeoutConfig::builder().connect_timeout(CONNECT_TIMEOUT).build())
            // `fetch` detects stalled bodies.
            .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
            .app_name(AppName::new("pipemill").expect("it has letters only"))
            .region(self.find_region(&provider).await);
        if let Some(profile) = &self.profile {
            // A configured profile takes precedence over credentials in the environment.
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

    /// The SDK's chain of region providers, with one change: if an endpoint is set, the last link
    /// is a fixed region. Other servers than Amazon's ignore the region, and the metadata service,
    /// the SDK's last link, would only time out.
    async fn find_region(&self, provider: &ProviderConfig) -> Option<Region> {
        let mut of_profile = ProfileFileRegionProvider::builder().configure(provider);
        if let Some(name) = &self.profile {
            of_profile = of_profile.profile_name(name);
        }
        let chain = RegionProviderChain::first_try(self.region.clone().map(Region::new))
            .or_else(EnvironmentVariableRegionProvider::new())
            .or_else(of_profile.build());
        match self.endpoint.clone().or_else(endpoint_of_environment) {
            Some(_) => chain.or_else("us-east-1").region().await,
            None => {
                let machine = ImdsRegionProvider::builder().configure(provider).build();
                chain.or_else(machine).region().await
            }
        }
    }

    /// The configured endpoint: of the settings, the environment or the profile.
    fn own_endpoint(&self, sdk: &SdkConfig) -> Option<String> {
        let of_profile = || sdk.endpoint_url().map(str::to_owned);
        self.endpoint.clone().or_else(endpoint_of_environment).or_else(of_profile)
    }
}

/// Checks the URL of a server.
///
/// # Errors
/// What is wrong, in words that follow the setting's name. It does not quote the URL, which may
/// contain a password.
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

/// A URL in the spelling that all URLs of its server have.
fn same_server(url: &str) -> String {
    url.trim_end_matches('/').to_ascii_lowercase()
}

/// The environment variable that sets the endpoint, and its value.
fn endpoint_variable() -> Option<(&'static str, String)> {
    let variable = |name| Some((name, std::env::var(name).ok().filter(|it| !it.is_empty())?));
    variable("AWS_ENDPOINT_URL_S3").or_else(|| variable("AWS_ENDPOINT_URL"))
}

fn endpoint_of_environment() -> Option<String> {
    endpoint_variable().map(|(_, endpoint)| endpoint)
}

/// Checks that there is a profile of this name. The SDK says of one that does not exist that it
/// lacks a region, or credentials.
async fn check_profile(name: &str) -> Result<(), String> {
    // The files that the SDK reads, too.
    let known = profile::load(&Fs::real(), &Env::real(), &Default::default(), None).await;
    // The SDK reports a file that can't be read.
    let Ok(known) = known else { return Ok(()) };
    if known.get_profile(name).is_some() {
        return Ok(());
    }
    let mut names: Vec<_> = known.profiles().collect();
    names.sort_unstable();
    let there = if names.is_empty() {
        "there is none".to_owned()
    } else {
        format!("there are: {}", names.join(", "))
    };
    Err(format!("no profile `{name}` in ~/.aws/config and ~/.aws/credentials; {there}"))
}

/// Loads the credentials before the first request. Only this error says what each link of the chain
/// lacks.
async fn check_credentials(sdk: &SdkConfig) -> Result<(), String> {
    let provider = sdk.credentials_provider().ok_or("there is no source of credentials")?;
    match provider.provide_credentials().await {
        Ok(_) => Ok(()),
        // The error has a line for each link of the chain.
        Err(error) => {
            let links: Vec<_> = causes(&error).lines().map(str::trim).map(str::to_owned).collect();
            Err(format!(
                "no credentials: {}",
                links.join("; ").replace("Attempted:;", "attempted:")
            ))
        }
    }
}
