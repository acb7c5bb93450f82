//! HTTP/1.1 over rustls, through a proxy if the environment names one, trusting what the system trusts or, as other
//! tools for AWS do, the certificates in `AWS_CA_BUNDLE`.

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

/// Clients for those who are asked.
pub(super) struct Clients {
    /// For S3.
    pub(super) s3: SharedHttpClient,
    /// For who tells credentials and region: the same, but what is on this machine is asked directly.
    pub(super) credentials: SharedHttpClient,
}

impl Clients {
    pub(super) fn new() -> Result<Self, String> {
        let mut trust = TrustStore::default();
        if let Some(path) = std::env::var_os("AWS_CA_BUNDLE").filter(|path| !path.is_empty()) {
            let pem = std::fs::read(&path)
                .map_err(|error| format!("can't read AWS_CA_BUNDLE={}: {error}", path.display()))?;
            trust = TrustStore::empty().with_pem_certificate(pem);
        }
        let tls = TlsContext::builder()
            .with_trust_store(trust)
            .build()
            .map_err(|error| format!("can't use the trusted certificates: {error}"))?;
        let s3 = client(tls.clone(), ProxyConfig::from_env());
        let direct = client(tls, ProxyConfig::disabled());
        let credentials = SharedHttpClient::new(ByHost { direct, others: s3.clone() });
        Ok(Self { s3, credentials })
    }
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

/// Asks this machine directly, and all others as they are.
#[derive(Debug)]
struct ByHost<T> {
    direct: T,
    others: T,
}

impl HttpClient for ByHost<SharedHttpClient> {
    fn http_connector(
        &self,
        settings: &HttpConnectorSettings,
        components: &RuntimeComponents,
    ) -> SharedHttpConnector {
        SharedHttpConnector::new(ByHost {
            direct: self.direct.http_connector(settings, components),
            others: self.others.http_connector(settings, components),
        })
    }
}

impl HttpConnector for ByHost<SharedHttpConnector> {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let connector = if is_here(request.uri()) { &self.direct } else { &self.others };
        connector.call(request)
    }
}

/// Whether an URL is of this machine, or of the services that each machine of AWS's has for itself: no proxy gets
/// there, and none should see their answers.
fn is_here(url: &str) -> bool {
    let Some((_, rest)) = url.split_once("://") else { return false };
    let host = rest.split(['/', '?']).next().unwrap_or(rest);
    let host = match host.strip_prefix('[') {
        Some(address) => address.split(']').next().unwrap_or(address),
        None => host.split(':').next().unwrap_or(host),
    };
    match host.parse() {
        Ok(IpAddr::V4(address)) => address.is_loopback() || address.is_link_local(),
        // fd00:ec2::254 and its like.
        Ok(IpAddr::V6(address)) => {
            address.is_loopback() || address.segments().starts_with(&[0xfd00, 0xec2])
        }
        Err(_) => host == "localhost",
    }
}

#[cfg(test)]
mod tests {
    use super::is_here;

    #[test]
    fn what_is_here() {
        for url in [
            "http://169.254.169.254/latest/api/token",
            "http://169.254.170.23:80/v1/credentials?a",
            "http://[fd00:ec2::254]/latest",
            "http://127.0.0.1:4000",
            "http://[::1]:80/",
            "http://localhost:1/a",
        ] {
            assert!(is_here(url), "{url}");
        }
        for url in [
            "https://sts.eu-west-1.amazonaws.com/",
            "https://localhost.example.com/",
            "http://10.0.0.1/169.254.169.254",
            "https://[2600:1f13::1]/",
            "localhost",
        ] {
            assert!(!is_here(url), "{url}");
        }
    }
}
