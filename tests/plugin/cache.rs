//! The cache of compiled plugins: used if it can be trusted and is whole; otherwise pipemill runs
//! as if it did not exist.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, SystemTime};

use pipemill_tests::BAD_PLUGIN;
use pipemill_tests::test_dir::TestDir;

use super::{plugin, run};

/// The one file in the cache.
fn cached(place: &TestDir) -> std::path::PathBuf {
    let names = place.names("cache");
    assert_eq!(names.len(), 1, "{names:?}");
    place.path("cache").join(&names[0])
}

fn decodes(place: &TestDir) -> String {
    let said = run(place, &["cat", "-d", BAD_PLUGIN, "--output", "count", "data"]).with_code(0);
    assert_eq!(said.text(), "records=2 bytes=2\n");
    said.stderr
}

#[test]
fn a_plugin_is_compiled_once() {
    let place = TestDir::new();
    place.write("data", "ab");
    let compiled = plugin(&place, &["compile", BAD_PLUGIN, "csv"]).with_code(0).text();
    assert!(compiled.contains("compiled, in "), "{compiled}");
    assert!(compiled.contains("csv: comes compiled with pipemill"), "{compiled}");
    let file = cached(&place);
    let before = fs::metadata(&file).expect("it is there").len();
    decodes(&place);
    assert_eq!(cached(&place), file);
    assert_eq!(fs::metadata(&file).expect("it is there").len(), before);
}

#[test]
fn a_damaged_cache_file_is_compiled_again() {
    let place = TestDir::new();
    place.write("data", "ab");
    decodes(&place);
    let file = cached(&place);
    let good = fs::read(&file).expect("it can be read");
    let mut damaged = good.clone();
    damaged[good.len() / 2] ^= 1;
    for bad in [&damaged[..], &good[..good.len() / 2], b""] {
        fs::write(&file, bad).expect("it can be written");
        let said = decodes(&place);
        assert!(said.contains("is not used: it is damaged"), "{said}");
        assert_eq!(fs::read(cached(&place)).expect("it can be read"), good);
    }
}

#[test]
fn a_cache_that_others_can_write_to_is_not_used() {
    let place = TestDir::new();
    place.write("data", "ab");
    decodes(&place);
    let file = cached(&place);
    fs::set_permissions(&file, Permissions::from_mode(0o666)).expect("it is ours");
    let said = decodes(&place);
    assert!(said.contains("it can be written by others (mode 0666)"), "{said}");
    fs::set_permissions(place.path("cache"), Permissions::from_mode(0o777)).expect("it is ours");
    let said = decodes(&place);
    assert!(said.contains("its folder can be written by others (mode 0777)"), "{said}");
}

/// A plugin that was compiled and could not be stored is no success, because `compile` has no other
/// use.
#[test]
fn a_cache_that_keeps_nothing_is_an_error() {
    let place = TestDir::new();
    place.write("file", "text");
    let open = place.make_folder("open");
    fs::set_permissions(&open, Permissions::from_mode(0o777)).expect("it is ours");
    for (folder, why) in [
        (place.path("file"), "Not a directory"),
        (place.path("file/cache"), "Not a directory"),
        // Not even root can make a folder there.
        ("/proc/pipemill".into(), "No such file or directory"),
        (open, "its folder can be written by others (mode 0777)"),
    ] {
        let mut command = std::process::Command::new(pipemill_tests::pipemill!());
        command.args(["plugin", "compile", BAD_PLUGIN]).env("PIPEMILL_CACHE", &folder);
        let ended = pipemill_tests::process::finish(&mut command).with_code(71);
        let start = format!("compiled, but can't be kept in {}: ", folder.display());
        let remedy = "; set PIPEMILL_CACHE to a folder that only this user can write";
        assert_eq!(ended.says(&[&start, why, remedy]).text(), "", "{folder:?}");
    }
}

/// The folder may be shared with other users.
#[test]
fn only_the_caches_own_files_are_swept() {
    let place = TestDir::new();
    place.write("data", "ab");
    decodes(&place);
    let kept = place.names("cache");
    let long_ago = SystemTime::now() - Duration::from_secs(100 * 24 * 3600);
    let own = format!("{}-{}.code", "0123456789abcdef".repeat(4), "0".repeat(16));
    let foreign = ["notes.code", "my.code.txt", "file"].map(str::to_owned);
    for name in foreign.iter().chain([&own, &format!(".{own}.17")]) {
        let file = place.write(&format!("cache/{name}"), "text");
        let file = File::options().write(true).open(file).expect("it is ours");
        file.set_modified(long_ago).expect("it is ours");
    }
    // A plugin that is not there yet makes the cache write, and sweep.
    fs::remove_file(place.path("cache").join(&kept[0])).expect("it is ours");
    decodes(&place);
    let mut expected = [kept, foreign.to_vec()].concat();
    expected.sort();
    let mut found = place.names("cache");
    found.sort();
    assert_eq!(found, expected);
}

#[test]
fn a_plugin_can_be_found_by_its_name_and_pinned() {
    let place = TestDir::new();
    let folder = place.make_folder("plugins");
    fs::copy(BAD_PLUGIN, folder.join("mine.wasm")).expect("it can be copied");
    place.write("data", "ab");
    let config = |sha256: &str| {
        place.write(
            "pipemill.toml",
            format!(
                "[[channel]]\nname = \"a\"\nsource = {{ file = \"data\" }}\ndecoder = \"mine\"\n\
                 sha256 = \"{sha256}\"\n"
            ),
        );
        let mut command = std::process::Command::new(pipemill_tests::pipemill!());
        command.current_dir(place.folder()).args(["config", "check", "pipemill.toml"]);
        command.env("PIPEMILL_CACHE", "off").env("PIPEMILL_PLUGIN_PATH", "nowhere:plugins");
        pipemill_tests::process::Process::start(&mut command).wait()
    };
    let other = "0123456789abcdef".repeat(4);
    let refused = config(&other).with_code(64);
    let refused = refused.says(&["pipemill.toml:4:", "channel `a`", "asks for 0123456789abcdef"]);
    let words: Vec<_> = refused.stderr.split_whitespace().collect();
    let at = words.iter().position(|word| *word == "SHA-256").expect("it says the digest");
    config(words[at + 2].trim_end_matches(',')).with_code(0);
    config("beef").with_code(64).says(&[
        "pipemill.toml:5:",
        "64 hexadecimal digits",
        "4 characters",
    ]);
}
