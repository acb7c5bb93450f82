//! Channels that are mixed: where they end up, and what is wrong with them.

use pipemill_channel::Until;

use super::*;
use crate::{Source, show};

const MIX: &str = "[[channel]]\nname = 'train'\nbatch = 8\n";
const WEB: &str = "[[channel]]\nname = 'web'\nsource = { folder = 'w' }\ndecoder = 'lines'\n";
const CODE: &str = "[[channel]]\nname = 'code'\nsource = { file = 'c' }\ndecoder = 'lines'\n";

/// A file with a mix of this source, of `web` and `code`.
fn with_mix(source: &str) -> String {
    format!("{MIX}source = {{ {source} }}\n{WEB}{CODE}")
}

#[test]
fn channels_move_into_their_mix_in_the_order_of_their_names() {
    for (source, until, epochs) in [
        ("mix = { web = 0.7, code = 3 }", Until::First, 1),
        ("mix = { web = 0.7, code = 3.0 }, until = 'all', epochs = 4", Until::All, 4),
        ("mix = { web = 7e-1, code = 3 }, until = 9", Until::Records(9), u32::MAX),
    ] {
        let config = parse_bare(&with_mix(source)).expect("it is right");
        let [channel] = &config.channels[..] else { panic!("{:?}", config.channels) };
        let Source::Mix(mix) = &channel.source else { panic!("{:?}", channel.source) };
        let inputs: Vec<_> =
            mix.inputs.iter().map(|input| (input.channel.name.as_str(), input.weight)).collect();
        assert_eq!(inputs, [("code", 3_000_000), ("web", 700_000)]);
        assert_eq!(mix.until, until);
        for input in &mix.inputs {
            let Source::Files { reading, .. } = &input.channel.source else { panic!("{input:?}") };
            assert_eq!(reading.epochs, epochs, "{source}");
        }
        let shown = parse_bare(&show(&config)).expect("it is right again");
        assert_eq!(show(&shown), show(&config));
        let Source::Mix(again) = &shown.channels[0].source else { panic!("{shown:?}") };
        assert_eq!((again.until, again.epochs, again.inputs.len()), (until, mix.epochs, 2));
    }
}

#[test]
fn what_is_fed_is_not_mixed() {
    let text = with_mix("mix = { web = 1, code = 1 }");
    let config = parse_to_feed(&text, "f", &|_| None).expect("it is right");
    let names: Vec<_> = config.channels.iter().map(|channel| channel.name.as_str()).collect();
    assert_eq!(names, ["web", "code"]);
}

#[test]
fn a_mix_names_what_is_wrong() {
    let mix = "mix = { web = 1, code = 1 }";
    let both = format!("{WEB}{CODE}");
    let cases = [
        (
            with_mix("mix = { web = 1, cod = 1 }"),
            "channel `train`: source.mix.cod: the file has no such channel that can be mixed; \
             did you mean `code`?",
        ),
        (
            with_mix("mix = { web = 1, code = 0 }"),
            "channel `train`: source.mix.code: expected a number from 0.000001 to 1000000, \
             found 0",
        ),
        (
            with_mix("mix = { web = 1, code = 'x' }"),
            "channel `train`: source.mix.code: expected a number from 0.000001 to 1000000, \
             found \"x\"",
        ),
        (
            with_mix("mix = { web = 1 }"),
            "channel `train`: source.mix: expected 2 to 16 channels, found 1",
        ),
        (
            with_mix(&format!("{mix}, until = 'last'")),
            "channel `train`: source.until: expected \"first\", \"all\", or a whole number of \
             records from 1 to 1000000000000, found \"last\"",
        ),
        (
            with_mix(&format!("{mix}, compression = 'gzip'")),
            "channel `train`: source.compression: does not go with `mix`; it goes with `fifo`, \
             `file`, `files`, `glob`, `folder`, `s3`, `s3_object`, `manifest`, \
             `augmented_manifest` or `stdin`",
        ),
        (
            format!("[[channel]]\nname = 'train'\nsource = {{ {mix} }}\n{both}"),
            "channel `train`: source: a mix needs `batch`; give the number of records of each \
             batch, such as batch = 256",
        ),
        (
            format!("{MIX}source = {{ {mix} }}\ndecoder = 'lines'\n{both}"),
            "channel `train`: decoder: a mix decodes nothing; set it in the channels that are \
             mixed",
        ),
        (
            format!("{MIX}source = {{ {mix} }}\nbatch_across = 'object'\n{both}"),
            "channel `train`: batch_across: a mix has no objects; leave it out: batches reach \
             across objects then",
        ),
        (
            format!("{MIX}source = {{ {mix} }}\nshuffle = {{ seed = 1 }}\n{both}"),
            "channel `train`: shuffle: the source has one object at a time, so there is \
             nothing to shuffle; add a window, such as window = \"256MiB\", to shuffle its \
             records, or leave this out",
        ),
        (
            format!("{}workers = 2\norder = 'any'\n", with_mix(mix)),
            "channel `code`: order: this channel is mixed into `train`, whose order follows from \
             that of its channels; leave it out",
        ),
        (
            format!("{}mode = 'broadcast'\n", with_mix(mix)),
            "channel `code`: mode: this channel is mixed into `train`, and has no consumers; \
             set it in `train`",
        ),
        (
            format!("{}batch = 2\n", with_mix(mix)),
            "channel `code`: batch: this channel is mixed into `train`, and has no consumers; \
             set it in `train`",
        ),
        (
            with_mix(mix).replace("folder = 'w'", "folder = 'w', epochs = 2"),
            "channel `web`: source.epochs: this channel has the epochs of the mix `train`; \
             leave it out, or set `epochs` in `train`",
        ),
        (
            format!(
                "{}[[channel]]\nname = 'two'\nbatch = 8\nsource = {{ {mix} }}\n",
                with_mix(mix)
            ),
            "channel `two`: source.mix.web: is mixed into `train` already; a channel can be \
             mixed once; give each mix channels of its own",
        ),
    ];
    for (text, expected) in cases {
        let found = messages(&text);
        let is_it =
            |fault: &String| fault.split_once(": ").is_some_and(|(_, rest)| rest == expected);
        assert!(found.iter().any(is_it), "{text}\nexpected {expected}\nfound {found:#?}");
    }
}
