//! The `SM_…` variables of SageMaker's training toolkit, for scripts that were written for it. The
//! platform itself sets none of them.
//! <https://github.com/aws/sagemaker-training-toolkit/blob/master/ENVIRONMENT_VARIABLES.md>

use serde_json::{Map, Value, json};

use super::platform::Platform;

/// The variables and their values, without those that are set already.
pub(super) fn environment(platform: &Platform) -> Vec<(String, String)> {
    let mut all = Vec::new();
    let mut set = |name: &str, value: String| all.push((name.to_owned(), value));
    let path = |rest: &str| platform.base.join(rest).to_string_lossy().into_owned();
    set("SM_INPUT_DIR", path("input"));
    set("SM_INPUT_CONFIG_DIR", path("input/config"));
    set("SM_MODEL_DIR", path("model"));
    set("SM_OUTPUT_DIR", path("output"));
    set("SM_OUTPUT_DATA_DIR", path("output/data"));
    set("SM_OUTPUT_INTERMEDIATE_DIR", path("output/intermediate"));
    set(
        "SM_NUM_CPUS",
        std::thread::available_parallelism().map_or(1, |count| count.get()).to_string(),
    );
    let names: Vec<&String> = platform.channels.keys().collect();
    set("SM_CHANNELS", json!(names).to_string());
    for name in names {
        let variable = format!("SM_CHANNEL_{}", variable_name(name));
        set(&variable, path(&format!("input/data/{name}")));
    }
    let hyperparameters = hyperparameters(platform);
    for (name, value) in &hyperparameters {
        set(&format!("SM_HP_{}", variable_name(name)), variable_text(value));
    }
    set("SM_HPS", Value::Object(hyperparameters).to_string());
    if let Some(resources) = &platform.resources {
        set("SM_HOSTS", json!(resources.hosts).to_string());
        set("SM_CURRENT_HOST", resources.current_host.clone());
        set("SM_RESOURCE_CONFIG", resources.whole.to_string());
        if let Some(name) = &resources.network_interface_name {
            set("SM_NETWORK_INTERFACE_NAME", name.clone());
        }
        if let Some(kind) = &resources.current_instance_type {
            set("SM_CURRENT_INSTANCE_TYPE", kind.clone());
        }
    }
    // No variable can hold a NUL, which JSON can.
    all.retain(|(name, value)| !value.contains('\0') && std::env::var_os(name).is_none());
    all
}

/// A name as part of a variable's name: capitals, and `_` for other characters.
fn variable_name(name: &str) -> String {
    name.chars()
        .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' })
        .collect()
}

/// The hyperparameters. The platform writes strings; the toolkit parses those that are JSON.
fn hyperparameters(platform: &Platform) -> Map<String, Value> {
    let value = |text: &String| serde_json::from_str(text).unwrap_or_else(|_| json!(text));
    platform.hyperparameters.iter().map(|(name, text)| (name.clone(), value(text))).collect()
}

/// The value as the text of a variable: strings have no quotes.
fn variable_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sagemaker::input_data_config::input_data_config;
    use crate::sagemaker::resource_config::resource_config;

    #[test]
    fn the_variables_are_those_of_the_training_toolkit() {
        let platform = Platform {
            base: "/opt/ml".into(),
            describes_channels: true,
            channels: input_data_config(r#"{"my-train.1": {"TrainingInputMode": "Pipe"}}"#)
                .unwrap(),
            resources: Some(
                resource_config(r#"{"current_host": "algo-1", "hosts": ["algo-1", "algo-2"]}"#)
                    .unwrap(),
            ),
            hyperparameters: [
                ("batch-size", "32"),
                ("name", "x"),
                ("layers", "[1, 2]"),
                ("nul", "\0"),
            ]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
        };
        let all = environment(&platform);
        for (name, value) in [
            ("SM_CHANNELS", r#"["my-train.1"]"#),
            ("SM_CHANNEL_MY_TRAIN_1", "/opt/ml/input/data/my-train.1"),
            ("SM_HOSTS", r#"["algo-1","algo-2"]"#),
            ("SM_CURRENT_HOST", "algo-1"),
            ("SM_HP_BATCH_SIZE", "32"),
            ("SM_HP_NAME", "x"),
            ("SM_HPS", r#"{"batch-size":32,"layers":[1,2],"name":"x","nul":"\u0000"}"#),
            ("SM_MODEL_DIR", "/opt/ml/model"),
        ] {
            let found = all.iter().find(|(other, _)| other == name);
            assert_eq!(found.map(|(_, value)| value.as_str()), Some(value), "{name}");
        }
        assert!(all.iter().all(|(name, _)| name != "SM_HP_NUL"), "no variable can hold it");
    }
}
