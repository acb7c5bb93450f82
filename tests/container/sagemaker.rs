//! A training container of SageMaker's: channels from its files, the environment of its toolkit, its failure file.

use std::fs;
use std::process::Command;

use pipemill_tests::inputs;
use pipemill_tests::process::{Ended, Process, finish};
use pipemill_tests::test_dir::TestDir;
use pipemill_tests::{consumer, pipemill};

/// A container's `/opt/ml`.
struct Job {
    place: TestDir,
}

impl Job {
    fn new(input_data_config: &str) -> Self {
        let place = TestDir::new();
        place.write("ml/input/config/inputdataconfig.json", input_data_config);
        let resources = r#"{"current_host": "algo-1", "hosts": ["algo-1", "algo-2"], "network_interface_name": "eth0"}"#;
        place.write("ml/input/config/resourceconfig.json", resources);
        place.write("ml/input/config/hyperparameters.json", r#"{"epochs": "2", "name": "x y"}"#);
        Self { place }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(pipemill!());
        for name in ["RANK", "WORLD_SIZE", "SLURM_PROCID", "JOB_COMPLETION_INDEX", "PIPEMILL_LOG"] {
            command.env_remove(name);
        }
        command.env("SAGEMAKER_BASE_DIR", self.place.path("ml"));
        command.env("XDG_RUNTIME_DIR", self.place.folder()).current_dir(self.place.folder());
        command.args(args);
        command
    }

    fn run(&self, args: &[&str]) -> Ended {
        finish(&mut self.command(args))
    }

    fn failure(&self) -> Option<String> {
        fs::read_to_string(self.place.path("ml/output/failure")).ok()
    }
}

fn numbered(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{number:08}")).collect()
}

const PIPE: &str = r#"{"train": {"TrainingInputMode": "Pipe", "ContentType": "application/x-tfrecord",
    "S3DistributionType": "FullyReplicated", "RecordWrapperType": "None"}}"#;

/// A command that ends after an epoch, as a script that has enough data.
const ONE_EPOCH: &str = "[[channel]]\nname = \"train\"\n";

#[test]
fn pipe_channels_go_on_where_the_process_before_was() {
    let job = Job::new(PIPE);
    job.place.write("one", inputs::tfrecord(&numbered(3)));
    let feed = |epochs: &str| {
        let to = job.place.text("ml/input/data");
        let from = job.place.text("one");
        let args = ["feed", "--from", &from, "--to", &to, "--channel", "train", "--epochs", epochs];
        Process::start(&mut job.command(&args))
    };
    let feeder = feed("2");
    job.place.write(
        "c.toml",
        ONE_EPOCH.to_owned()
            + "source = { fifo = \"ml/input/data\", epochs = 1, epoch_file = \"state\" }\n",
    );
    let ended = job.run(&["run", "-c", "c.toml", "--", consumer!(), "train", "train"]).with_code(0);
    assert!(ended.text().contains("epoch 0 3\n"), "{ended:#?}");
    assert_eq!(fs::read_to_string(job.place.path("state")).unwrap(), "1");
    // Its end of epochs is counted from the first one: the next process reads up to it.
    job.place.write(
        "c.toml",
        ONE_EPOCH.to_owned()
            + "source = { fifo = \"ml/input/data\", epochs = 2, epoch_file = \"state\" }\n",
    );
    let ended = job.run(&["run", "-c", "c.toml", "--", consumer!(), "train", "train"]).with_code(0);
    assert!(
        ended.text().contains("epoch 1 3\n") && !ended.text().contains("epoch 0"),
        "{ended:#?}"
    );
    feeder.wait().with_code(0);
}

#[test]
fn channels_need_no_configuration() {
    let job = Job::new(
        r#"{"train": {"TrainingInputMode": "Pipe", "ContentType": "application/x-tfrecord"},
            "test": {"TrainingInputMode": "FastFile", "ContentType": "text/plain"}}"#,
    );
    job.place.write("ml/input/data/test/a.txt", numbered(2).join("\n"));
    let ended = job.run(&["run", "--", consumer!(), "test"]).with_code(0);
    assert!(ended.text().contains("epoch 0 2\nend\n"), "{ended:#?}");
    assert_eq!(job.failure(), None);
}

#[test]
fn the_word_train_is_not_handed_on_to_the_command() {
    let job = Job::new(PIPE);
    let words = |args: &[&str]| job.run(args).with_code(0).text();
    assert_eq!(words(&["run", "--", "echo", "a", "train"]), "a\n");
    assert_eq!(words(&["run", "train", "--", "echo", "a"]), "a\n");
    assert_eq!(words(&["run", "--", "echo", "train", "train"]), "train\n");
    // In other places it is a word like any other.
    job.place.write(
        "c.toml",
        "[[channel]]\nname = \"a\"\ndecoder = \"lines\"\nsource = { file = \"c.toml\" }\n",
    );
    let mut command = job.command(&["run", "-c", "c.toml", "--", "echo", "train"]);
    command.env("SAGEMAKER_BASE_DIR", job.place.path("nothing"));
    assert_eq!(finish(&mut command).with_code(0).text(), "train\n");
}

#[test]
fn scripts_for_the_toolkit_find_its_variables() {
    let job = Job::new(PIPE);
    let mut command = job.command(&["run", "--", "env"]);
    command.env("SM_MODEL_DIR", "/mine");
    let text = finish(&mut command).with_code(0).text();
    for line in [
        "SM_CHANNELS=[\"train\"]",
        &format!("SM_CHANNEL_TRAIN={}", job.place.text("ml/input/data/train")),
        "SM_HP_EPOCHS=2",
        "SM_HP_NAME=x y",
        "SM_HOSTS=[\"algo-1\",\"algo-2\"]",
        "SM_CURRENT_HOST=algo-1",
        "SM_MODEL_DIR=/mine",
    ] {
        assert!(text.lines().any(|other| other == line), "no {line} in {text}");
    }
}

#[test]
fn the_configuration_overrides_channel_by_channel() {
    let job = Job::new(
        r#"{"a": {"TrainingInputMode": "File", "ContentType": "image/jpeg"},
            "b": {"TrainingInputMode": "File", "ContentType": "text/plain"}}"#,
    );
    job.place.write("ml/input/data/a/1", numbered(2).join("\n"));
    job.place.write("ml/input/data/b/1", numbered(3).join("\n"));
    job.run(&["run", "--", "true"]).with_code(64).says(&[
        "inputdataconfig.json: channel `a`: no decoder goes with the ContentType \"image/jpeg\"",
        "[[channel]] with `name` and `decoder`",
    ]);
    fs::remove_file(job.place.path("ml/output/failure")).unwrap();
    job.place.write("c.toml", "[[channel]]\nname = \"a\"\ndecoder = \"lines\"\n");
    for (channel, records) in [("a", 2), ("b", 3)] {
        let ended = job.run(&["run", "-c", "c.toml", "--", consumer!(), channel]).with_code(0);
        assert!(ended.text().contains(&format!("epoch 0 {records}\nend\n")), "{ended:#?}");
    }
}

#[test]
fn each_failure_leaves_its_reason() {
    let broken = inputs::tfrecord(&["12345678"])[..20].to_vec();
    let reason = |config: &str, words: &[&str]| {
        let job = Job::new(config);
        job.place.write("ml/input/data/train/1", &broken);
        let ended = job.run(&[&["run", "--"], words].concat());
        let why = job.failure().unwrap_or_default();
        let base = job.place.text("ml");
        (ended.code.unwrap_or(-1), why.replace(&base, "BASE"))
    };
    let file = PIPE.replace("Pipe", "File");
    let cases: [(&str, &[&str], i32, &str); 5] = [
        ("{", &["true"], 64, "BASE/input/config/inputdataconfig.json: EOF while parsing"),
        (
            &PIPE.replace("Pipe", "Tube"),
            &["true"],
            64,
            "expected Pipe, File or FastFile, found \"Tube\"",
        ),
        (&file, &["no-such-command"], 127, "the command `no-such-command` can't be started"),
        (&file, &["sh", "-c", "exit 7"], 7, "the command `sh -c exit 7` ended with code 7"),
        (
            &file,
            &[consumer!(), "train", "train"],
            3,
            "channel `train`, epoch 0, object BASE/input/data/train/1, byte offset 0",
        ),
    ];
    for (config, words, code, says) in cases {
        let (ended, why) = reason(config, words);
        assert_eq!(ended, code, "{words:?}: {why}");
        assert!(why.contains(says), "{words:?}: {why}");
    }
    // The command's own message stays.
    let job = Job::new(PIPE);
    let script = "mkdir -p ml/output; echo mine >ml/output/failure; exit 1";
    job.run(&["run", "--", "sh", "-c", script]).with_code(1);
    assert_eq!(job.failure().as_deref(), Some("mine\n"));
    // It says nothing about the next run.
    job.run(&["run", "--", "sh", "-c", "exit 7"]).with_code(7);
    let says = "the command `sh -c exit 7` ended with code 7";
    assert_eq!(job.failure().as_deref(), Some(says));
    job.run(&["run", "--", "true"]).with_code(0).says(&["ml/output/failure: removed"]);
    assert_eq!(job.failure(), None);
}

#[test]
fn a_file_of_the_platform_that_is_absent_is_named() {
    let job = Job::new("{}");
    let file = job.place.text("ml/input/config/inputdataconfig.json");
    let remedy = "; describe one in a --config: [[channel]] with `name`, `source` and `decoder`";
    let said = job.run(&["run", "--", "true"]).with_code(64).stderr;
    assert_eq!(said, format!("pipemill: {file} describes no channel{remedy}\n"));
    fs::remove_file(&file).unwrap();
    let absent = format!("there is no {file}, in which the platform describes the job's channels");
    let said = job.run(&["run", "--", "true"]).with_code(64).stderr;
    assert!(said.ends_with(&format!("pipemill: {absent}{remedy}\n")), "{said}");
    assert!(job.failure().is_some_and(|why| why.starts_with(&absent)));
    // A configuration that relies on it.
    job.place.write("c.toml", ONE_EPOCH);
    let ended = job.run(&["run", "-c", "c.toml", "--", "true"]).with_code(64);
    ended.says(&["c.toml:1:1: ", "source", &absent]);
    // One that does not.
    let channel = "decoder = \"lines\"\nsource = { file = \"c.toml\" }\n";
    job.place.write("c.toml", ONE_EPOCH.to_owned() + channel);
    job.run(&["run", "-c", "c.toml", "--", "true"]).with_code(0);
}

#[test]
fn each_machine_reads_its_part() {
    let job = Job::new("{}");
    for number in 0..7 {
        job.place.write(&format!("data/{number}"), "x\n");
    }
    let channel = "[[channel]]\nname = \"a\"\ndecoder = \"lines\"\n\
                   shuffle = { seed = 1 }\n\
                   source = { folder = \"data\", part = \"rank\" }\n";
    let part = |config: &str, variables: &[(&str, &str)]| {
        job.place.write("c.toml", config);
        let mut command = job.command(&["ls", "-c", "c.toml", "--channel", "a"]);
        finish(command.envs(variables.iter().copied()))
    };
    let whole = |config: &str, count: usize, of: &dyn Fn(&str) -> Vec<(&'static str, String)>| {
        let mut all = Vec::new();
        for index in 0..count {
            let variables = of(&index.to_string());
            let variables: Vec<_> =
                variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
            all.extend(part(config, &variables).with_code(0).text().lines().map(str::to_owned));
        }
        all.sort();
        assert_eq!(all.len(), 7, "{all:?}");
        all.dedup();
        assert_eq!(all.len(), 7, "an object was read twice");
    };
    whole(channel, 3, &|index| vec![("RANK", index.to_owned()), ("WORLD_SIZE", "3".to_owned())]);
    whole(channel, 2, &|index| {
        vec![
            ("SLURM_PROCID", index.to_owned()),
            ("SLURM_NTASKS", "2".to_owned()),
            ("SLURM_STEP_ID", "0".to_owned()),
        ]
    });
    let by_size = channel.replace("part =", "balance = \"size\", part =");
    whole(&by_size, 3, &|index| vec![("RANK", index.to_owned()), ("WORLD_SIZE", "3".to_owned())]);
    let counted = format!("[rank]\nworld = 4\n{channel}");
    whole(&counted, 4, &|index| vec![("JOB_COMPLETION_INDEX", index.to_owned())]);
    part(channel, &[("JOB_COMPLETION_INDEX", "0")])
        .with_code(64)
        .says(&["set `world` in the table [rank]"]);
    part(channel, &[("RANK", "3"), ("WORLD_SIZE", "3")])
        .with_code(64)
        .says(&["RANK is 3, but WORLD_SIZE is 3"]);
    part(channel, &[("RANK", "x"), ("WORLD_SIZE", "3")])
        .with_code(64)
        .says(&["RANK is \"x\", not a number"]);
    part(channel, &[]).with_code(64).says(&["the number of this machine is not known"]);
    let other = channel.replace("\"rank\"", "\"ranks\"");
    part(&other, &[]).with_code(64).says(&["or \"rank\", found \"ranks\""]);
    let table = format!("[rank]\nrank = 2\nworld = 2\n{channel}");
    part(&table, &[]).with_code(64).says(&["2 of 2, which are numbered from 0"]);
}
