//! The origin of credentials for S3: the names of variables and profiles. Their values are not
//! kept, and no server is asked.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::facts::Credentials;

/// Keys of a profile that are credentials, or that lead to them.
const WAYS: [&str; 7] = [
    "aws_access_key_id",
    "role_arn",
    "sso_session",
    "sso_start_url",
    "credential_process",
    "web_identity_token_file",
    "login_session",
];

/// Collects them from this environment.
pub(super) fn collect(variable: &dyn Fn(&str) -> Option<String>) -> Credentials {
    let variable = |name: &str| variable(name).filter(|value| !value.is_empty());
    let is_set = |name: &str| variable(name).is_some();
    let file = |name: &str, default: &str| {
        let home = || variable("HOME").map(|home| PathBuf::from(home).join(".aws").join(default));
        variable(name).map(PathBuf::from).or_else(home)
    };
    let mut profiles = BTreeMap::new();
    for file in
        [file("AWS_CONFIG_FILE", "config"), file("AWS_SHARED_CREDENTIALS_FILE", "credentials")]
    {
        let text = file.and_then(|file| std::fs::read_to_string(file).ok());
        add_profiles(&text.unwrap_or_default(), &mut profiles);
    }
    let token_file = variable("AWS_WEB_IDENTITY_TOKEN_FILE").map(|file| {
        let is_readable = std::fs::File::open(&file).is_ok();
        (file, is_readable)
    });
    Credentials {
        access_key: is_set("AWS_ACCESS_KEY_ID"),
        secret_key: is_set("AWS_SECRET_ACCESS_KEY"),
        profile: variable("AWS_PROFILE"),
        profiles,
        token_file,
        role: is_set("AWS_ROLE_ARN"),
        container: is_set("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")
            || is_set("AWS_CONTAINER_CREDENTIALS_FULL_URI"),
        metadata_disabled: variable("AWS_EC2_METADATA_DISABLED")
            .is_some_and(|value| value.eq_ignore_ascii_case("true")),
    }
}

/// Adds the profiles of a file of `~/.aws`, and whether each leads to credentials.
fn add_profiles(text: &str, profiles: &mut BTreeMap<String, bool>) {
    let mut current = None;
    for line in text.lines() {
        let header = line.trim().strip_prefix('[').and_then(|rest| rest.split(']').next());
        if let Some(header) = header {
            let name = header.trim();
            let name = name.strip_prefix("profile ").unwrap_or(name).trim();
            // Other sections, such as `sso-session NAME`, are not profiles.
            current = (!name.contains(char::is_whitespace)).then(|| name.to_owned());
            if let Some(name) = &current {
                profiles.entry(name.clone()).or_insert(false);
            }
        } else if let (Some(name), Some((key, _))) = (&current, line.split_once('='))
            && WAYS.contains(&key.trim().to_ascii_lowercase().as_str())
        {
            profiles.insert(name.clone(), true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_are_found_with_their_ways_to_credentials() {
        let mut profiles = BTreeMap::new();
        let config = "[default]\nregion = eu-west-1\n[profile work]\nrole_arn=arn:x\n\
                      source_profile = default\n[sso-session s]\nsso_start_url = u\n";
        add_profiles(config, &mut profiles);
        add_profiles("[default]\nAWS_ACCESS_KEY_ID = x\n\n[old]\n", &mut profiles);
        let found: Vec<_> = profiles.iter().map(|(name, way)| (name.as_str(), *way)).collect();
        assert_eq!(found, [("default", true), ("old", false), ("work", true)]);
    }

    #[test]
    fn an_empty_variable_is_not_set() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().to_str().unwrap().to_owned();
        std::fs::create_dir(folder.path().join(".aws")).unwrap();
        std::fs::write(folder.path().join(".aws/credentials"), "[a]\n").unwrap();
        let found = collect(&|name| match name {
            "HOME" => Some(home.clone()),
            "AWS_ACCESS_KEY_ID" | "AWS_PROFILE" => Some(String::new()),
            "AWS_SECRET_ACCESS_KEY" => Some("s".to_owned()),
            "AWS_WEB_IDENTITY_TOKEN_FILE" => Some(format!("{home}/missing")),
            _ => None,
        });
        assert!(!found.access_key && found.secret_key && found.profile.is_none());
        assert_eq!(found.profiles.keys().collect::<Vec<_>>(), ["a"]);
        assert!(found.token_file.is_some_and(|(_, is_readable)| !is_readable));
    }
}
