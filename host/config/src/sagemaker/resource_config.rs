//! `input/config/resourceconfig.json`: the job's hosts.

use serde::Deserialize;
use serde_json::Value;

use crate::Rank;

/// The job's hosts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resources {
    /// This host's name.
    pub current_host: String,
    /// The names of all hosts, sorted: so all hosts have the same order.
    pub hosts: Vec<String>,
    /// The index of this host in `hosts`, and the number of hosts.
    pub rank: Rank,
    /// The network interface between hosts, if the file names it.
    pub network_interface_name: Option<String>,
    /// The type of the machine, if the file names it.
    pub current_instance_type: Option<String>,
    /// The whole file.
    pub whole: Value,
}

/// The file as JSON.
#[derive(Deserialize)]
struct ResourcesJson {
    current_host: String,
    hosts: Vec<String>,
    network_interface_name: Option<String>,
    current_instance_type: Option<String>,
}

/// Parses the file's text.
///
/// # Errors
/// The text is not as documented; the error says what is wrong.
pub fn resource_config(text: &str) -> Result<Resources, String> {
    let whole: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let written: ResourcesJson =
        serde_json::from_value(whole.clone()).map_err(|error| error.to_string())?;
    let ResourcesJson { current_host, mut hosts, .. } = written;
    hosts.sort_by(|a, b| sort_key(a).cmp(&sort_key(b)));
    hosts.dedup();
    let index = hosts.iter().position(|host| *host == current_host).ok_or_else(|| {
        format!(
            "current_host: expected one of hosts ({}), found {current_host:?}",
            hosts.join(", ")
        )
    })?;
    Ok(Resources {
        // A job has far fewer hosts than fit into a `u32`.
        rank: (index as u32, hosts.len() as u32),
        current_host,
        hosts,
        network_interface_name: written.network_interface_name,
        current_instance_type: written.current_instance_type,
        whole,
    })
}

/// The key for sorting: `algo-2` comes before `algo-10`.
fn sort_key(name: &str) -> (&str, u64) {
    let digits = name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    (&name[..digits], name[digits..].parse().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_hosts_agree_on_their_ranks() {
        let hosts = "\"algo-10\", \"algo-2\", \"algo-1\"";
        for (host, rank) in [("algo-1", 0), ("algo-2", 1), ("algo-10", 2)] {
            let text = format!(r#"{{"current_host": "{host}", "hosts": [{hosts}], "new": {{}}}}"#);
            assert_eq!(resource_config(&text).unwrap().rank, (rank, 3));
        }
    }

    #[test]
    fn a_wrong_file_gives_an_error_that_names_the_key() {
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
