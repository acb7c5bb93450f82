//! Keys with a new name: the old name is refused, and the message says the new one.

use super::super::keys::RENAMED;
use super::*;

/// For each old key: a configuration in which it is the only fault, and the message for it.
const OLD_KEYS: &[(&str, &str, &str)] = &[
    (
        "idle",
        "source = { fifo = '/data', idle = '10s' }",
        "pipemill.toml:4:28: channel `a`: source.idle: unknown key; \
         it is called `idle_timeout` now",
    ),
    (
        "part",
        "source = { s3 = 's3://bucket/', part = '8MiB' }",
        "pipemill.toml:4:33: channel `a`: source.part: unknown key; it is called `part_size` now",
    ),
    (
        "pipe",
        "source = { fifo = '/data', pipe = '1MiB' }",
        "pipemill.toml:4:28: channel `a`: source.pipe: unknown key; it is called `pipe_size` now",
    ),
    (
        "retry",
        "source = { s3 = 's3://bucket/', retry = '60s' }",
        "pipemill.toml:4:33: channel `a`: source.retry: unknown key; \
         it is called `retry_timeout` now",
    ),
    (
        "slot",
        "source = { fifo = '/data' }\n[channel.ring]\nslot = '4MiB'",
        "pipemill.toml:6:1: channel `a`: ring.slot: unknown key; it is called `slot_size` now",
    ),
    (
        "stall",
        "source = { s3 = 's3://bucket/', stall = '10s' }",
        "pipemill.toml:4:33: channel `a`: source.stall: unknown key; \
         it is called `stall_timeout` now",
    ),
    (
        "time",
        "source = { fifo = '/data' }\n[channel.limits]\ntime = '10s'",
        "pipemill.toml:6:1: channel `a`: limits.time: unknown key; it is called `call_timeout` now",
    ),
    (
        "wait",
        "source = { fifo = '/data', wait = '10m' }",
        "pipemill.toml:4:28: channel `a`: source.wait: unknown key; \
         it is called `open_timeout` now",
    ),
];

#[test]
fn each_old_key_is_refused_with_the_new_one_named() {
    for (key, source, expected) in OLD_KEYS {
        let text = format!("[[channel]]\nname = 'a'\ndecoder = 'lines'\n{source}\n");
        assert_eq!(messages(&text), [*expected], "for `{key}`");
    }
}

#[test]
fn shuffle_is_refused_in_its_old_place_with_the_new_one_named() {
    let source = "source = { folder = '/data', shuffle = { seed = 1 } }";
    let text = format!("[[channel]]\nname = 'a'\ndecoder = 'lines'\n{source}\n");
    let expected = "pipemill.toml:4:30: channel `a`: source.shuffle: unknown key; it belongs in \
                    [[channel]]";
    assert_eq!(messages(&text), [expected]);
}

#[test]
fn each_new_key_is_accepted_in_the_place_of_the_old_one() {
    for (key, source, _) in OLD_KEYS {
        let (_, new) = RENAMED.iter().find(|(old, _)| old == key).expect("a renamed key");
        let source = source.replace(&format!("{key} = "), &format!("{new} = "));
        let text = format!("[[channel]]\nname = 'a'\ndecoder = 'lines'\n{source}\n");
        assert_eq!(messages(&text), [""; 0], "for `{new}`");
    }
}

#[test]
fn each_renamed_key_has_a_test() {
    let renamed = RENAMED.map(|(old, _)| old);
    let tested: Vec<_> = OLD_KEYS.iter().map(|(key, ..)| *key).collect();
    assert_eq!(tested, renamed);
}
