//! The HTTP/1.1 clients, over rustls. They use the proxy that the environment names, if any. They
//! trust the system's certificates, or those in `AWS_CA_BUNDLE` if it is set, as other tools for
//! AWS do.

use std::net::IpAddr;

use aws_sdk_s3::config::{HttpClient, RuntimeComponents, SharedHttpClient};
use aws_smithy_http_client::proxy::ProxyConfig;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;
use aws_smithy_http_client::tls::{Provider, TlsContext, TrustStore};
use aws_smithy_http_client::{Builder, Connector};
use aws_smithy_runtime_api::client::http::{
    HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;

use super::limit::limit;

/// The HTTP clients of one SDK client.
pub(super) struct Clients {
    /// For requests to S3.
    pub(super) s3: SharedHttpClient,
    /// For credentials and region: as `s3`, but without the proxy for services of this machine.
    pub(super) credentials: SharedHttpClient,
}

impl Clients {
    pub(super) fn new() -> Result<Self, String> {
        let tls = trusted()?;
        let s3 = client(tls.clone(), ProxyConfig::from_env());
        let direct = client(tls, ProxyConfig::disabled());
        let credentials = SharedHttpClient::new(ByHost { direct, default: s3.clone() });
        Ok(Self { s3, credentials })
    }
}

/// A connector for requests that are not the SDK's.
pub(crate) fn connector() -> Result<Connector, String> {
    Ok(Connector::builder()
        .proxy_config(ProxyConfig::from_env())
        .tls_provider(Provider::Rustls(CryptoMode::Ring))
        .tls_context(trusted()?)
        .build())
}

/// The certificates that are trusted.
fn trusted() -> Result<TlsContext, String> {
    let mut trust = TrustStore::default();
    if let Some(path) = std::env::var_os("AWS_CA_BUNDLE").filter(|path| !path.is_empty()) {
        let pem = std::fs::read(&path)
            .map_err(|error| format!("can't read AWS_CA_BUNDLE={}: {error}", path.display()))?;
        trust = TrustStore::empty().with_pem_certificate(pem);
    }
    TlsContext::builder()
        .with_trust_store(trust)
        .build()
        .map_err(|error| format!("can't use the trusted certificates: {error}"))
}

fn client(tls: TlsContext, proxy: ProxyConfig) -> SharedHttpClient {
    Builder::new().build_with_connector_fn(move |settings, components| {
        let mut connector = Connector::builder().proxy_config(proxy.clone());
        if let Some(settings) = settings {
            connector = connector.connector_settings(settings.clone());
        }
        if let Some(sleep) = components.and_then(|components| components.sleep_impl()) {
            connector = connector.sleep_impl(sleep);
        }
        connector
            .enable_tcp_nodelay(true)
            .tls_provider(Provider::Rustls(CryptoMode::Ring))
            .tls_context(tls.clone())
            .build()
    })
}

/// Uses `direct` for services of this machine, and `default` for all other hosts. Limits the bodies
/// of all responses.
#[derive(Debug)]
struct ByHost<T> {
    direct: T,
    default: T,
}

impl HttpClient for ByHost<SharedHttpClient> {
    fn http_connector(
        &self,
        settings: &HttpConnectorSettings,
        components: &RuntimeComponents,
    ) -> SharedHttpConnector {
        SharedHttpConnector::new(ByHost {
            direct: self.direct.http_connector(settings, components),
            default: self.default.http_connector(settings, components),
        })
    }
}

impl HttpConnector for ByHost<SharedHttpConnector> {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let connector = if is_local(request.uri()) { &self.direct } else { &self.default };
        let response = connector.call(request);
        HttpConnectorFuture::new(async move {
            let mut response = response.await?;
            limit(&mut response);
            Ok(response)
        })
    }
}

/// Whether a URL is on this machine, or on a link-local service of AWS such as the metadata
/// service. A proxy can't reach these, and must not see the credentials in their responses.
fn is_local(url: &str) -> bool {
    let Some((_, rest)) = url.split_once("://") else { return false };
    let host = rest.split(['/', '?']).next().unwrap_or(rest);
    let host = match host.strip_prefix('[') {
        Some(address) => address.split(']').next().unwrap_or(address),
        None => host.split(':').next().unwrap_or(host),
    };
    match host.parse() {
        Ok(IpAddr::V4(address)) => address.is_loopback() || address.is_link_local(),
        // AWS's own prefix, for example fd00:ec2::254.
        Ok(IpAddr::V6(address)) => {
            address.is_loopback() || address.segments().starts_with(&[0xfd00, 0xec2])
        }
        Err(_) => host == "localhost",
    }
}

#[cfg(test)]
mod tests {
    use super::is_local;

    #[test]
    fn what_is_local() {
        for url in [
            "http://169.254.169.254/latest/api/token",
            "http://169.254.170.23:80/v1/credentials?a",
            "http://[fd00:ec2::254]/latest",
            "http://127.0.0.1:4000",
            "http://[::1]:80/",
            "http://localhost:1/a",
        ] {
            assert!(is_local(url), "{url}");
        }
        for url in [
            "https://sts.eu-west-1.amazonaws.com/",
            "https://localhost.example.com/",
            "http://10.0.0.1/169.254.169.254",
            "https://[2600:1f13::1]/",
            "localhost",
        ] {
            assert!(!is_local(url), "{url}");
        }
    }
}
