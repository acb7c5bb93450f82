//! Judges the facts. It is pure: facts go in, findings come out.

use indicatif::BinaryBytes;

use super::facts::{
    Configuration, Credentials, Facts, Gpu, Interpreter, Limit, Listed, Memory, Python, S3Source,
    Socket,
};
use super::finding::Finding;

/// The oldest kernel: it has seals against future writes.
const OLDEST_KERNEL: (u32, u32) = (5, 1);
/// The oldest Python that the package supports.
const OLDEST_PYTHON: [u32; 2] = [3, 9];
/// A number of open files that is enough for a host and its consumers.
const ENOUGH_FILES: u64 = 1024;
/// This program's version.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The findings, in the order in which they are shown.
pub fn findings(facts: &Facts) -> Vec<Finding> {
    let mut all = vec![
        Finding::ok("pipemill", VERSION),
        kernel(&facts.kernel),
        ring(&facts.ring),
        open_files(facts.open_files),
        locked_memory(facts.locked_memory),
        shm(facts.shm),
        memory(&facts.memory, facts.exceeds.as_deref()),
        socket(&facts.socket),
    ];
    all.extend(facts.configuration.as_ref().map(configuration));
    all.push(credentials(&facts.credentials));
    all.extend(facts.sources.iter().map(s3));
    all.push(gpu(&facts.gpu));
    all.extend(python(&facts.python));
    all
}

fn kernel(release: &str) -> Finding {
    let mut numbers =
        release.split(|c: char| !c.is_ascii_digit()).map(|number| number.parse().ok());
    let found = format!("Linux {release}");
    match (numbers.next().flatten(), numbers.next().flatten()) {
        (Some(major), Some(minor)) if (major, minor) < OLDEST_KERNEL => {
            let (major, minor) = OLDEST_KERNEL;
            Finding::wrong("kernel", found).remedy(format!("use Linux {major}.{minor} or later"))
        }
        (Some(_), Some(_)) => Finding::ok("kernel", found),
        _ => Finding::note("kernel", format!("its release `{release}` is not understood")),
    }
}

fn ring(made: &Result<(), String>) -> Finding {
    match made {
        Ok(()) => Finding::ok("shared memory", "a ring can be made in a sealed memfd"),
        Err(error) => Finding::wrong("shared memory", format!("no ring can be made: {error}"))
            .remedy(
                "if memory is not short: let the container's seccomp profile allow memfd_create, \
                 and set the sysctl vm.memfd_noexec below 2",
            ),
    }
}

fn open_files(limit: Limit) -> Finding {
    let number = |limit: Option<u64>| limit.map_or("any number".to_owned(), |n| n.to_string());
    let (soft, hard) = (number(limit.soft), number(limit.hard));
    let found =
        if soft == hard { soft } else { format!("{soft}; `pipemill run` takes {hard} for itself") };
    if limit.hard.is_some_and(|hard| hard < ENOUGH_FILES) {
        return Finding::wrong("open files", found)
            .remedy(format!("raise the hard limit to {ENOUGH_FILES} (`ulimit -Hn`)"));
    }
    Finding::ok("open files", found)
}

fn locked_memory(limit: Limit) -> Finding {
    let found = limit.soft.map_or("no limit".to_owned(), |bytes| format!("{}", BinaryBytes(bytes)));
    Finding::ok("locked memory", format!("{found}: pipemill locks none"))
}

fn shm(bytes: Option<u64>) -> Finding {
    let found = bytes.map_or("not there".to_owned(), |bytes| BinaryBytes(bytes).to_string());
    Finding::ok(
        "/dev/shm",
        format!("{found}: pipemill needs none, its rings are memory of its own"),
    )
}

fn memory(memory: &Memory, exceeds: Option<&str>) -> Finding {
    let groups = memory.cgroup.map_or("no cgroups".to_owned(), |v| format!("cgroup v{v}"));
    let limit = match memory.limit {
        Some(limit) => format!("this container may have {} ({groups})", BinaryBytes(limit)),
        None => format!("no limit of a container ({groups})"),
    };
    let found = match memory.available {
        Some(available) => format!("{limit}, {} available", BinaryBytes(available)),
        None => limit,
    };
    match exceeds {
        // The error's text contains the remedy.
        Some(why) => Finding::wrong("memory", why),
        None => Finding::ok("memory", found),
    }
}

fn socket(socket: &Socket) -> Finding {
    let path = socket.path.display();
    match (&socket.error, &socket.foreign) {
        (None, None) => Finding::ok("socket", path.to_string()),
        // The error's text contains the remedy.
        (None, Some(why)) => Finding::wrong("socket", why),
        (Some((folder, error)), _) => {
            let folder = folder.display();
            Finding::wrong("socket", format!("{path}: nothing can be made in {folder}: {error}"))
                .remedy(
                    "set `socket` in the configuration to a path in a folder that can be written, \
                     such as one on a tmpfs",
                )
        }
    }
}

fn configuration(configuration: &Configuration) -> Finding {
    let file = &configuration.file;
    match configuration.faults.as_slice() {
        [] => Finding::ok("configuration", file)
            .remedy(format!("`pipemill config check --try {file}` also tries its decoders")),
        faults => Finding::wrong("configuration", faults.join("; "))
            .remedy(format!("see `pipemill config check {file}`")),
    }
}

/// The first source in the order in which AWS's tools look.
fn credentials(found: &Credentials) -> Finding {
    const SUBJECT: &str = "credentials";
    match (found.access_key, found.secret_key) {
        (true, true) => {
            return Finding::ok(SUBJECT, "those of the environment, AWS_ACCESS_KEY_ID");
        }
        (false, false) => {}
        (key, _) => {
            let names = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"];
            let [there, lacks] = if key { names } else { [names[1], names[0]] };
            return Finding::wrong(SUBJECT, format!("{there} is set, and {lacks} is not"))
                .remedy("set both or none");
        }
    }
    let name = found.profile.as_deref().unwrap_or("default");
    match (found.profiles.get(name), &found.profile) {
        (Some(true), _) => return Finding::ok(SUBJECT, format!("those of the profile `{name}`")),
        (None, Some(_)) => {
            let names: Vec<_> = found.profiles.keys().map(String::as_str).collect();
            let there = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            return Finding::wrong(
                SUBJECT,
                format!("AWS_PROFILE names `{name}`, which is not there"),
            )
            .remedy(format!("name one of the profiles in ~/.aws: {there}"));
        }
        _ => {}
    }
    match &found.token_file {
        Some((file, false)) => {
            return Finding::wrong(
                SUBJECT,
                format!("AWS_WEB_IDENTITY_TOKEN_FILE names {file}, which can't be read"),
            )
            .remedy("mount it, or let this user read it");
        }
        Some(_) if !found.role => {
            return Finding::wrong(
                SUBJECT,
                "AWS_WEB_IDENTITY_TOKEN_FILE is set, and AWS_ROLE_ARN is not",
            )
            .remedy("set the role");
        }
        Some(_) => return Finding::ok(SUBJECT, "a web identity, AWS_WEB_IDENTITY_TOKEN_FILE"),
        None => {}
    }
    if found.container {
        return Finding::ok(SUBJECT, "those of the container's role");
    }
    let machine = if found.metadata_disabled {
        "none"
    } else {
        "none, unless this machine has a role: its metadata service is asked when S3 is read"
    };
    Finding::note(SUBJECT, machine).remedy(
        "to read S3, set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a profile, or \
         `anonymous` for public buckets",
    )
}

fn s3(source: &S3Source) -> Finding {
    const SUBJECT: &str = "S3";
    let name = &source.name;
    match &source.outcome {
        Listed::First(object, size) => Finding::ok(
            SUBJECT,
            format!("{name}: the first object is {object}, {}", BinaryBytes(*size)),
        ),
        Listed::Nothing => Finding::note(SUBJECT, format!("{name}: there is no object")),
        // The file may contain the address itself.
        Listed::Failed(error) if error.starts_with(name) => Finding::wrong(SUBJECT, error),
        Listed::Failed(error) => Finding::wrong(SUBJECT, format!("{name}: {error}")),
        Listed::TimedOut(limit) => {
            Finding::wrong(SUBJECT, format!("{name}: no answer within {limit:?}")).remedy(
                "check `endpoint`, `region`, a proxy, and that this machine reaches the server",
            )
        }
    }
}

fn gpu(gpu: &Gpu) -> Finding {
    const SUBJECT: &str = "GPU";
    let models = || {
        let mut counted: Vec<(usize, &str)> = Vec::new();
        for model in &gpu.models {
            match counted.iter_mut().find(|(_, other)| other == model) {
                Some((count, _)) => *count += 1,
                None => counted.push((1, model)),
            }
        }
        let words: Vec<_> =
            counted.iter().map(|(count, model)| format!("{count} × {model}")).collect();
        words.join(", ")
    };
    match (&gpu.driver, gpu.devices) {
        (None, 0) => Finding::ok(SUBJECT, "none of NVIDIA: pipemill needs none"),
        (None, devices) => {
            Finding::note(SUBJECT, format!("{devices} in /dev, but NVIDIA's driver is not loaded"))
        }
        (Some(driver), 0) => {
            let found = format!("{}, driver {driver}, but none in /dev", models());
            Finding::note(SUBJECT, found)
                .remedy("if training needs it, start the container with `--gpus all`")
        }
        (Some(driver), devices) => {
            let devices = match (devices, gpu.models.len()) {
                (devices, models) if devices == models => String::new(),
                (devices, _) => format!(", of which {devices} in /dev"),
            };
            Finding::ok(SUBJECT, format!("{}, driver {driver}{devices}", models()))
        }
    }
}

fn python(python: &Python) -> Vec<Finding> {
    const SUBJECT: &str = "Python";
    let only = match python {
        Python::Found(interpreter) => return found_python(interpreter),
        Python::NotFound => Finding::note(SUBJECT, "no `python3` on the PATH")
            .remedy("consumers in Python need it, those in other languages don't"),
        Python::TimedOut(limit) => {
            Finding::wrong(SUBJECT, format!("`python3` gave no answer within {limit:?}"))
                .remedy("see what `python3 -c 'import pipemill'` waits for")
        }
        Python::Failed(why) => Finding::wrong(SUBJECT, format!("`python3` can't be asked: {why}"))
            .remedy("see what `python3 -c 'import sys'` says"),
    };
    vec![only]
}

fn found_python(found: &Interpreter) -> Vec<Finding> {
    let [major, minor, micro] = found.version;
    let version = format!("{major}.{minor}.{micro}, {}", found.path);
    let [oldest_major, oldest_minor] = OLDEST_PYTHON;
    let interpreter = if [major, minor] < OLDEST_PYTHON {
        Finding::wrong("Python", version)
            .remedy(format!("the package needs Python {oldest_major}.{oldest_minor} or later"))
    } else {
        Finding::ok("Python", version)
    };
    let install = "install that of this release: `python3 -m pip install ./python` in pipemill's \
                   repository";
    let package = match (&found.package, &found.error) {
        (Some(version), _) if version == VERSION => {
            let numpy = match &found.numpy {
                Some(version) => format!("with numpy {version}"),
                None => "without numpy: arrays are memoryviews".to_owned(),
            };
            Finding::ok("package", format!("pipemill {version}, {numpy}"))
        }
        (Some(version), _) => Finding::wrong(
            "package",
            format!("pipemill {version} in Python, but this program is {VERSION}"),
        )
        .remedy(install),
        (None, error) => {
            let error = error.as_deref().unwrap_or("it has no version");
            Finding::wrong("package", format!("Python can't import pipemill: {error}"))
                .remedy(install)
        }
    };
    vec![interpreter, package]
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::finding::Level;
    use super::*;

    /// A machine on which everything is fine, and nothing noteworthy.
    fn sound() -> Facts {
        Facts {
            kernel: "6.1.0-18-amd64".to_owned(),
            ring: Ok(()),
            open_files: Limit { soft: Some(1024), hard: Some(1 << 20) },
            locked_memory: Limit { soft: Some(8 << 20), hard: None },
            shm: Some(64 << 20),
            memory: Memory { cgroup: Some(2), limit: Some(1 << 30), available: Some(3 << 30) },
            exceeds: None,
            socket: Socket { path: "/tmp/p.sock".into(), error: None, foreign: None },
            gpu: Gpu {
                driver: Some("570.86.15".to_owned()),
                models: vec!["NVIDIA H100".to_owned(); 2],
                devices: 2,
            },
            credentials: Credentials { access_key: true, secret_key: true, ..Default::default() },
            sources: vec![S3Source {
                name: "s3://b/p".to_owned(),
                outcome: Listed::First("s3://b/p/1".to_owned(), 10),
            }],
            python: Python::Found(interpreter()),
            configuration: Some(Configuration { file: "p.toml".to_owned(), faults: Vec::new() }),
        }
    }

    fn interpreter() -> Interpreter {
        Interpreter {
            path: "/usr/bin/python3".to_owned(),
            version: [3, 11, 7],
            package: Some(VERSION.to_owned()),
            error: None,
            numpy: Some("2.1.0".to_owned()),
        }
    }

    /// The one finding that is not `Ok`, after this change of the sound machine.
    #[track_caller]
    fn only(change: impl FnOnce(&mut Facts)) -> Finding {
        let mut facts = sound();
        change(&mut facts);
        let mut found: Vec<_> =
            findings(&facts).into_iter().filter(|finding| finding.level != Level::Ok).collect();
        assert_eq!(found.len(), 1, "{found:?}");
        found.remove(0)
    }

    #[track_caller]
    fn assert_wrong(finding: &Finding, words: &[&str]) {
        assert_eq!(finding.level, Level::Wrong, "{finding}");
        assert_has(finding, words);
    }

    #[track_caller]
    fn assert_has(finding: &Finding, words: &[&str]) {
        let text = finding.to_string();
        words.iter().for_each(|word| assert!(text.contains(word), "no {word:?} in {text}"));
    }

    #[test]
    fn nothing_is_wrong_at_a_sound_machine() {
        let found = findings(&sound());
        assert!(found.iter().all(|finding| finding.level == Level::Ok), "{found:?}");
        let text: Vec<_> = found.iter().map(ToString::to_string).collect();
        for words in [
            "ok     kernel         Linux 6.1.0-18-amd64",
            "1024; `pipemill run` takes 1048576 for itself",
            "8.00 MiB: pipemill locks none",
            "this container may have 1.00 GiB (cgroup v2), 3.00 GiB available",
            "2 × NVIDIA H100, driver 570.86.15",
            "with numpy 2.1.0",
        ] {
            assert!(text.iter().any(|line| line.contains(words)), "{words}: {text:#?}");
        }
    }

    #[test]
    fn kernels() {
        for release in ["5.1", "5.10.0", "6.18.44-fc-v657", "10.0.0+"] {
            assert_eq!(kernel(release).level, Level::Ok, "{release}");
        }
        for release in ["5.0.21", "4.19.0-25", "3.10.0-1160.el7"] {
            assert_wrong(&kernel(release), &[release, "use Linux 5.1 or later"]);
        }
        assert_eq!(kernel("strange").level, Level::Note);
    }

    #[test]
    fn a_machine_that_gives_no_ring() {
        let error = "0 bytes of shared memory: creating it failed: EPERM".to_owned();
        let finding = only(|facts| facts.ring = Err(error));
        assert_wrong(&finding, &["EPERM", "seccomp", "vm.memfd_noexec"]);
    }

    #[test]
    fn limits() {
        let few = Limit { soft: Some(256), hard: Some(512) };
        assert_wrong(&only(|facts| facts.open_files = few), &["256", "512", "ulimit -Hn"]);
        let none = Limit { soft: None, hard: None };
        assert_has(&open_files(none), &["any number"]);
        assert_has(&locked_memory(none), &["no limit"]);
    }

    #[test]
    fn memory_of_old_and_of_no_containers() {
        let v1 = Memory { cgroup: Some(1), limit: Some(512 << 20), available: None };
        assert_has(&memory(&v1, None), &["may have 512.00 MiB (cgroup v1)"]);
        let bare = Memory { cgroup: None, limit: None, available: Some(1 << 30) };
        assert_has(&memory(&bare, None), &["no limit of a container (no cgroups), 1.00 GiB"]);
        let why = "the rings take 1GiB: give it more memory".to_owned();
        assert_wrong(&only(|facts| facts.exceeds = Some(why)), &["the rings take 1GiB"]);
        assert_has(&shm(None), &["not there", "needs none"]);
    }

    #[test]
    fn a_root_that_can_not_be_written() {
        let error = Some(("/".into(), "Read-only file system".to_owned()));
        let finding = only(|facts| facts.socket.error = error);
        assert_wrong(&finding, &["/tmp/p.sock", "in /: Read-only", "set `socket`", "tmpfs"]);
    }

    #[test]
    fn a_configuration_with_faults() {
        let faults = vec!["p.toml: 2 things are wrong".to_owned()];
        let broken = Configuration { file: "p.toml".to_owned(), faults };
        let finding = only(|facts| facts.configuration = Some(broken));
        assert_wrong(&finding, &["2 things are wrong", "pipemill config check p.toml"]);
    }

    fn of(change: impl FnOnce(&mut Credentials)) -> Finding {
        let mut found = Credentials::default();
        change(&mut found);
        credentials(&found)
    }

    #[test]
    fn half_of_a_key_is_wrong() {
        assert_wrong(&of(|c| c.access_key = true), &["AWS_SECRET_ACCESS_KEY is not"]);
        assert_wrong(&of(|c| c.secret_key = true), &["AWS_ACCESS_KEY_ID is not", "set both"]);
    }

    #[test]
    fn profiles() {
        let profiles = || [("default".to_owned(), false), ("work".to_owned(), true)].into();
        let named = |name: &str, c: &mut Credentials| {
            c.profiles = profiles();
            c.profile = Some(name.to_owned());
        };
        assert_has(&of(|c| named("work", c)), &["ok ", "profile `work`"]);
        assert_wrong(&of(|c| named("nope", c)), &["`nope`, which is not there", "default, work"]);
        // A profile that has only a region is skipped: the next source is used.
        let finding = of(|c| {
            c.profiles = profiles();
            c.container = true;
        });
        assert_has(&finding, &["ok ", "the container's role"]);
        // A key in the environment comes before a profile.
        let finding = of(|c| {
            named("nope", c);
            (c.access_key, c.secret_key) = (true, true);
        });
        assert_has(&finding, &["ok ", "AWS_ACCESS_KEY_ID"]);
    }

    #[test]
    fn web_identities_and_machines() {
        let token = |is_readable| Some(("/token".to_owned(), is_readable));
        assert_wrong(&of(|c| c.token_file = token(false)), &["/token, which can't be read"]);
        assert_wrong(&of(|c| c.token_file = token(true)), &["AWS_ROLE_ARN is not"]);
        let finding = of(|c| (c.token_file, c.role) = (token(true), true));
        assert_has(&finding, &["ok ", "a web identity"]);
        assert_has(&of(|_| ()), &["note ", "metadata service", "to read S3, set"]);
        assert_has(&of(|c| c.metadata_disabled = true), &["note ", "none; to read S3"]);
    }

    #[test]
    fn sources_in_s3() {
        let with = |outcome| {
            only(|facts| facts.sources = vec![S3Source { name: "s3://b/p".to_owned(), outcome }])
        };
        let failed = Listed::Failed("403; check the credentials".to_owned());
        assert_wrong(&with(failed), &["s3://b/p: 403; check the credentials"]);
        let failed = with(Listed::Failed("s3://b/p: 404".to_owned()));
        assert_eq!(failed.found, "s3://b/p: 404");
        let late = Listed::TimedOut(Duration::from_secs(20));
        assert_wrong(&with(late), &["no answer within 20s", "check `endpoint`"]);
        assert_has(&with(Listed::Nothing), &["note ", "there is no object"]);
    }

    #[test]
    fn gpus() {
        assert_has(&gpu(&Gpu::default()), &["ok ", "none of NVIDIA"]);
        let hidden = Gpu { devices: 0, ..sound().gpu };
        assert_has(&gpu(&hidden), &["note ", "2 × NVIDIA H100", "--gpus all"]);
        let some = Gpu { devices: 1, ..sound().gpu };
        assert_has(&gpu(&some), &["ok ", "of which 1 in /dev"]);
        let undriven = Gpu { devices: 1, ..Gpu::default() };
        assert_has(&gpu(&undriven), &["note ", "driver is not loaded"]);
    }

    #[test]
    fn pythons() {
        let with = |change: fn(&mut Interpreter)| {
            let mut found = interpreter();
            change(&mut found);
            only(|facts| facts.python = Python::Found(found))
        };
        assert_wrong(&with(|p| p.version = [3, 8, 10]), &["3.8.10", "3.9 or later"]);
        let old = with(|p| p.package = Some("0.0.9".to_owned()));
        assert_wrong(&old, &["pipemill 0.0.9 in Python", VERSION, "pip install ./python"]);
        let missing = with(|p| {
            p.package = None;
            p.error = Some("ModuleNotFoundError: No module named 'pipemill'".to_owned());
        });
        assert_wrong(&missing, &["No module named 'pipemill'", "pip install ./python"]);
        let plain = Interpreter { numpy: None, ..interpreter() };
        let found = findings(&Facts { python: Python::Found(plain), ..sound() });
        assert!(found.iter().any(|finding| finding.found.contains("without numpy")));
        assert_has(&only(|facts| facts.python = Python::NotFound), &["note ", "no `python3`"]);
        let late = Python::TimedOut(Duration::from_secs(20));
        assert_wrong(&only(|facts| facts.python = late), &["no answer within 20s"]);
        let failed = Python::Failed("broken".to_owned());
        assert_wrong(&only(|facts| facts.python = failed), &["can't be asked: broken"]);
    }
}
