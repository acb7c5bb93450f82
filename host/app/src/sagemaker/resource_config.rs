//! `input/config/resourceconfig.json`: the job's hosts.

use serde::Deserialize;
use serde_json::Value;

/// The job's hosts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resources {
    /// This host's name.
    pub current_host: String,
    /// All hosts' names, in the platform's order made one that all hosts agree on: sorted.
    pub hosts: Vec<String>,
    /// Which of them this one is, from 0, and how many there are.
    pub rank: (u32, u32),
    /// The network interface between hosts, if told.
    pub network_interface_name: Option<String>,
    /// The kind of machine, if told.
    pub current_instance_type: Option<String>,
    /// All of the file, as it stands there.
    pub whole: Value,
}

#[derive(Deserialize)]
struct Written {
    current_host: String,
    hosts: Vec<String>,
    network_interface_name: Option<String>,
    current_instance_type: Option<String>,
}

/// Reads the file's text.
///
/// # Errors
/// What is wrong with it, in words.
pub fn resource_config(text: &str) -> Result<Resources, String> {
    let whole: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let written: Written =
        serde_json::from_value(whole.clone()).map_err(|error| error.to_string())?;
    let Written { current_host, mut hosts, .. } = written;
    hosts.sort_by(|a, b| natural(a).cmp(&natural(b)));
    hosts.dedup();
    let index = hosts.iter().position(|host| *host == current_host).ok_or_else(|| {
        format!(
            "current_host: expected one of hosts ({}), found {current_host:?}",
            hosts.join(", ")
        )
    })?;
    Ok(Resources {
        // As many as a job has hosts.
        rank: (index as u32, hosts.len() as u32),
        current_host,
        hosts,
        network_interface_name: written.network_interface_name,
        current_instance_type: written.current_instance_type,
        whole,
    })
}

/// `algo-2` comes before `algo-10`.
fn natural(name: &str) -> (&str, u64) {
    let digits = name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    (&name[..digits], name[digits..].parse().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_agreed_on() {
        let hosts = "\"algo-10\", \"algo-2\", \"algo-1\"";
        for (host, rank) in [("algo-1", 0), ("algo-2", 1), ("algo-10", 2)] {
            let text = format!(r#"{{"current_host": "{host}", "hosts": [{hosts}], "new": {{}}}}"#);
            assert_eq!(resource_config(&text).unwrap().rank, (rank, 3));
        }
    }

    #[test]
    fn mangled() {
        for (text, says) in [
            ("", "EOF"),
            ("{}", "missing field `current_host`"),
            (r#"{"current_host": "a", "hosts": "a"}"#, "expected a sequence"),
            (r#"{"current_host": "a", "hosts": ["b"]}"#, "expected one of hosts (b), found \"a\""),
        ] {
            let error = resource_config(text).unwrap_err();
            assert!(error.contains(says), "{error}");
        }
    }
}
