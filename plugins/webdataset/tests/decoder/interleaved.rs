//! Members of a sample that are not next to each other, and files of macOS.

use pipemill_plugin::Level;
use pipemill_plugin::testing::Setup;

use crate::trailing::logged;
use crate::write::{end, file};
use crate::{outcome, texts};

fn setup(fields: &str) -> Setup {
    Setup::new(&[("fields", fields)])
}

/// All members of one extension, then all of the other.
fn interleaved(count: usize) -> Vec<u8> {
    let members = |extension: &str| {
        (0..count).flat_map(|n| file(&format!("d/{n:04}.{extension}"), b"1")).collect::<Vec<_>>()
    };
    [members("jpg"), members("cls"), end()].concat()
}

fn lines(setup: &Setup, input: &[u8]) -> Vec<(Level, String)> {
    logged(setup, input, true).0
}

#[test]
fn a_warning_says_that_members_are_not_next_to_each_other() {
    let setup = setup("jpg?,cls?");
    let found = lines(&setup, &interleaved(3));
    let first = "sample `d/0000`: a sample with this key came before, so its members are not next \
                 to each other, and become several records; sort the archive by name";
    let all = "3 samples of the archive had keys that came before: their members are not next to \
               each other; sort the archive by name";
    assert_eq!(found, [(Level::Warn, first.to_owned()), (Level::Warn, all.to_owned())]);
    assert_eq!(lines(&setup, &interleaved(1)), []);
    assert_eq!(lines(&setup, &interleaved(5000)).len(), 2);
    assert_eq!(
        texts(&outcome(&setup, &interleaved(2)))[..2],
        [["d/0000", "1", "-"], ["d/0001", "1", "-"]]
    );
}

#[test]
fn each_archive_may_have_the_same_keys() {
    let archive = [file("a.jpg", b"1"), file("b.jpg", b"2"), end()].concat();
    assert_eq!(lines(&setup("jpg"), &archive.repeat(3)), []);
}

#[test]
fn the_error_of_a_missing_member_says_that_the_key_came_before() {
    let outcome = outcome(&setup("jpg,cls").skipping(), &interleaved(2));
    assert_eq!(outcome.records, [[]; 0]);
    let messages: Vec<_> = outcome.errors.iter().map(|(.., message)| message.as_str()).collect();
    assert!(messages[0].contains("stands in another place of the archive"), "{messages:?}");
    assert!(messages[2].contains("a sample with this key came before"), "{messages:?}");
    assert!(messages[2].ends_with("sort the archive by name"), "{messages:?}");
}

#[test]
fn files_of_macos_are_left_out_and_counted() {
    let archive = [
        file("._a.jpg", b"x"),
        file("d/._a.jpg", b"x"),
        file("d/a.jpg", b"1"),
        file("d/.DS_Store", b"x"),
        file("d/._a.cls", b"x"),
        file("d/a.cls", b"2"),
        file("d/._b.jpg", b"x"),
        end(),
    ]
    .concat();
    let setup = setup("jpg,cls");
    assert_eq!(texts(&outcome(&setup, &archive)), [["d/a", "1", "2"]]);
    let line = "left out 5 files of macOS (`._…`, `.DS_Store`)".to_owned();
    assert_eq!(lines(&setup, &archive), [(Level::Info, line)]);
}
