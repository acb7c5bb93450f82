//! An artifact in a registry of container images, as `wkg` and `oras` push it: a manifest names the
//! digest of the WebAssembly file. Registries that want a token for public artifacts give one to
//! anybody; other credentials are not sent. The protocol is that of the [OCI Distribution
//! Specification](https://github.com/opencontainers/distribution-spec/blob/main/spec.md).

use std::fmt;

use pipemill_types::printable;
use serde::Deserialize;
use sha2::{Digest, Sha256};
use url::Url;

use super::WebError;
use super::client::{AUTHORIZATION, Answer, Client};

/// The scheme of the address of an artifact.
const SCHEME: &str = "oci://";
/// The media type of a manifest.
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
/// The media type of a WebAssembly file.
const WASM: &str = "application/wasm";
/// Largest size of a manifest and of a token in bytes.
const MAX_JSON_BYTES: u64 = 1 << 20;

/// The address of an artifact: `oci://registry/repository:tag`, or with `@sha256:…`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Artifact {
    registry: String,
    repository: String,
    /// A tag, or `sha256:` and the digest of the manifest.
    reference: String,
}

impl Artifact {
    /// Parses an address that begins with `oci://`.
    ///
    /// # Errors
    /// It has another form. The error says which one is expected.
    pub fn of_name(name: &str) -> Result<Self, &'static str> {
        const FORM: &str = "write it as oci://registry/repository:tag";
        let (registry, rest) =
            name.strip_prefix(SCHEME).and_then(|rest| rest.split_once('/')).ok_or(FORM)?;
        let (repository, reference) = match rest.split_once('@') {
            Some((repository, digest)) => {
                let (before, _) = repository.split_once(':').unwrap_or((repository, ""));
                (before, digest)
            }
            None => rest.split_once(':').unwrap_or((rest, "latest")),
        };
        let is_word = |text: &str, marks: &str| {
            let is_good = |c: char| c.is_ascii_alphanumeric() || marks.contains(c);
            !text.is_empty() && text.chars().all(is_good) && !text.split('/').any(|it| it == "..")
        };
        let is_good = is_word(registry, ".-:[]")
            && is_word(repository, "._-/")
            && match rest.contains('@') {
                true => digest_of(reference).is_some(),
                false => is_word(reference, "._-"),
            };
        let artifact = Self {
            registry: registry.to_owned(),
            repository: repository.to_owned(),
            reference: reference.to_owned(),
        };
        // A registry that is no host is refused here, too.
        let is_good = is_good && artifact.url("manifests", reference).is_some();
        is_good.then_some(artifact).ok_or(FORM)
    }

    /// The last part of the repository's name.
    pub fn last_name(&self) -> &str {
        self.repository.rsplit('/').next().unwrap_or_default()
    }

    /// The address of something in the repository. As other tools for registries do, it is
    /// requested without encryption on this machine only.
    fn url(&self, kind: &str, reference: &str) -> Option<Url> {
        let (registry, repository) = (&self.registry, &self.repository);
        let url = format!("https://{registry}/v2/{repository}/{kind}/{reference}");
        let mut url = Url::parse(&url).ok()?;
        if is_local(&url) {
            let port = url.port().unwrap_or(80);
            let plain = format!("http://{}:{port}{}", url.host_str()?, url.path());
            url = Url::parse(&plain).ok()?;
        }
        Some(url)
    }
}

impl fmt::Display for Artifact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { registry, repository, reference } = self;
        let mark = if reference.contains(':') { '@' } else { ':' };
        write!(f, "{SCHEME}{registry}/{repository}{mark}{reference}")
    }
}

#[derive(Deserialize)]
struct Manifest {
    #[serde(default)]
    layers: Vec<Layer>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Layer {
    media_type: String,
    digest: String,
    size: u64,
}

#[derive(Deserialize)]
struct Token {
    token: Option<String>,
    access_token: Option<String>,
}

/// Reads the WebAssembly file of an artifact.
pub(super) async fn read(artifact: &Artifact, max_bytes: u64) -> Result<Vec<u8>, WebError> {
    let mut session = Session { client: Client::new()?, artifact, token: None };
    let manifest = session.get("manifests", &artifact.reference).await?;
    let manifest = manifest.body(MAX_JSON_BYTES).await?;
    if artifact.reference.contains(':') {
        check_digest("its manifest", &manifest, &artifact.reference)?;
    }
    let manifest: Manifest = serde_json::from_slice(&manifest).map_err(|why| {
        let message = format!("its manifest can't be read: {}", printable(&why.to_string()));
        WebError::new(message, "push it again, for example with `wkg oci push`")
    })?;
    let mut layers = manifest.layers.iter().filter(|layer| layer.media_type == WASM);
    let (Some(layer), None) = (layers.next(), layers.next()) else {
        let message = format!(
            "its manifest has not one layer of type {WASM}, but {}",
            manifest.layers.iter().filter(|layer| layer.media_type == WASM).count()
        );
        return Err(WebError::new(message, "push the plugin with `wkg oci push`"));
    };
    if layer.size > max_bytes {
        let message = format!("has {} bytes; at most {max_bytes} are read", layer.size);
        return Err(WebError::new(message, "check the address"));
    }
    if digest_of(&layer.digest).is_none() {
        let message = format!("its manifest names the digest {}", printable(&layer.digest));
        return Err(WebError::new(message, "push it with a digest by SHA-256"));
    }
    let bytes = session.get("blobs", &layer.digest).await?.body(max_bytes).await?;
    check_digest("its file", &bytes, &layer.digest)?;
    Ok(bytes)
}

/// Requests to one repository.
struct Session<'a> {
    client: Client,
    artifact: &'a Artifact,
    token: Option<String>,
}

impl Session<'_> {
    /// Requests something of the repository. If the registry wants a token, the first request gets
    /// one.
    async fn get(&mut self, kind: &str, reference: &str) -> Result<Answer, WebError> {
        let url = self.artifact.url(kind, reference);
        let url = url.ok_or_else(|| WebError::new("is no valid address", "correct it"))?;
        let answer = self.send(&url).await?;
        if answer.status() != 401 || self.token.is_some() {
            return answer.check();
        }
        let Some(asked) = answer.header("www-authenticate").and_then(Challenge::parse) else {
            return answer.check();
        };
        self.token = Some(self.fetch_token(&asked).await?);
        self.send(&url).await?.check()
    }

    async fn send(&self, url: &Url) -> Result<Answer, WebError> {
        let mut headers = vec![("accept", format!("{MANIFEST}, {WASM}, */*;q=0.1"))];
        if let Some(token) = &self.token {
            headers.push((AUTHORIZATION, format!("Bearer {token}")));
        }
        self.client.get(url, &headers).await
    }

    /// Asks for the token that anybody gets.
    async fn fetch_token(&self, asked: &Challenge) -> Result<String, WebError> {
        let refused = |message: &str| {
            WebError::new(message, "only public artifacts are read: pull it, and give its path")
        };
        let mut url = Url::parse(&asked.realm)
            .ok()
            .filter(|url| url.scheme() == "https" || (url.scheme() == "http" && is_local(url)))
            .ok_or_else(|| refused("the registry wants a token of no valid address"))?;
        let scope = format!("repository:{}:pull", self.artifact.repository);
        url.query_pairs_mut().append_pair("scope", &scope);
        if let Some(service) = &asked.service {
            url.query_pairs_mut().append_pair("service", service);
        }
        let answer = self.client.get(&url, &[]).await?.check()?;
        let token: Option<Token> = serde_json::from_slice(&answer.body(MAX_JSON_BYTES).await?).ok();
        let token = token.and_then(|token| token.token.or(token.access_token));
        token.ok_or_else(|| refused("the registry gave no token"))
    }
}

/// A registry's demand for a token.
struct Challenge {
    realm: String,
    service: Option<String>,
}

impl Challenge {
    /// Parses `Bearer realm="…",service="…"`. `None` for other schemes.
    fn parse(text: &str) -> Option<Self> {
        let (scheme, mut rest) = text.split_once(' ')?;
        let (mut realm, mut service) = (None, None);
        while let Some((key, value)) = rest.split_once("=\"") {
            let (value, after) = value.split_once('"')?;
            match key.trim_matches([',', ' ']).to_ascii_lowercase().as_str() {
                "realm" => realm = Some(value.to_owned()),
                "service" => service = Some(value.to_owned()),
                _ => {}
            }
            rest = after;
        }
        let realm = realm.filter(|_| scheme.eq_ignore_ascii_case("bearer"))?;
        Some(Self { realm, service })
    }
}

/// Whether an address is on this machine.
fn is_local(url: &Url) -> bool {
    match url.host() {
        Some(url::Host::Domain(name)) => name == "localhost",
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

/// The hexadecimal digits of a digest by SHA-256.
fn digest_of(text: &str) -> Option<&str> {
    let digits = text.strip_prefix("sha256:")?;
    let is_hex = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
    (digits.len() == 64 && digits.chars().all(is_hex)).then_some(digits)
}

fn check_digest(what: &str, bytes: &[u8], expected: &str) -> Result<(), WebError> {
    let found: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    if digest_of(expected) == Some(&found) {
        return Ok(());
    }
    let message = format!("{what} has the digest sha256:{found}, and {expected} was expected");
    Err(WebError::new(message, "try again; if it stays so, ask who runs the registry"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_artifacts() {
        let digest = "a".repeat(64);
        for (name, shown) in [
            ("oci://ghcr.io/a/b:1.0", "oci://ghcr.io/a/b:1.0"),
            ("oci://ghcr.io/a/b", "oci://ghcr.io/a/b:latest"),
            ("oci://localhost:5000/b:x", "oci://localhost:5000/b:x"),
            (&*format!("oci://h/b@sha256:{digest}"), &*format!("oci://h/b@sha256:{digest}")),
            (&*format!("oci://h/b:1@sha256:{digest}"), &*format!("oci://h/b@sha256:{digest}")),
        ] {
            assert_eq!(Artifact::of_name(name).expect(name).to_string(), shown);
        }
        for name in [
            "oci://",
            "oci://h",
            "oci://h/",
            "oci://h/a:",
            "oci://u@h/a",
            "oci://h/a b",
            "oci://h/../x",
            "oci://h/a@sha256:12",
            "oci://h/a?x",
            "https://h/a",
            "oci://[/a",
        ] {
            assert!(Artifact::of_name(name).is_err(), "{name}");
        }
        let url = |name: &str| Artifact::of_name(name).unwrap().url("blobs", "x").unwrap();
        assert_eq!(url("oci://ghcr.io/a/b").as_str(), "https://ghcr.io/v2/a/b/blobs/x");
        assert_eq!(url("oci://localhost:5000/b").as_str(), "http://localhost:5000/v2/b/blobs/x");
    }

    #[test]
    fn challenges_for_a_token() {
        let found = Challenge::parse(
            "Bearer realm=\"https://auth/token\",service=\"registry, one\",scope=\"a:b:pull\"",
        );
        let found = found.expect("a challenge");
        assert_eq!(found.realm, "https://auth/token");
        assert_eq!(found.service.as_deref(), Some("registry, one"));
        for text in ["", "Bearer", "Basic realm=\"x\"", "Bearer realm=\"x", "Bearer service=\"x\""]
        {
            assert!(Challenge::parse(text).is_none(), "{text}");
        }
    }
}
