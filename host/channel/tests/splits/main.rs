//! Any split, same records: through the host, with the real plugins, in all kinds of pieces and
//! into memories of all sizes. The result is that of the whole input in one memory, and that of the
//! decoder's native core.

mod any_order;
mod batches;
mod blocks;
mod cached;
mod carry;
mod columns;
mod failures;
mod filled;
mod host;
mod inputs;
mod memory;
mod mix;
mod mixed;
mod native;
mod regressions;
mod shuffle;
mod sink;
mod source;

use host::{Bad, Bytes, Job, Setup};
use pipemill_plugin::Decoder;
use pipemill_source::SkippedRecords;
use pipemill_testing::BAD_PLUGIN;
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::Config;

fn config() -> Config {
    // Minimal cases that were found are in `regressions`.
    Config { failure_persistence: None, cases: 96, max_shrink_iters: 4000, ..Config::default() }
}

/// Settings without a size of the batches.
fn plain_way() -> impl Strategy<Value = Setup> {
    let piece = prop_oneof![
        1 => Just(0usize),
        4 => 1usize..20,
        4 => 1usize..400,
        2 => 1usize..9_000,
        1 => 1usize..200_000,
    ];
    let pieces = prop_oneof![
        1 => Just(Vec::new()),
        8 => prop::collection::vec(piece, 0..120),
        // All of a small input byte by byte.
        1 => Just(vec![1; 3_000]),
    ];
    let slot = prop_oneof![
        2 => 1usize..1_000,
        4 => 1_000usize..9_000,
        4 => 9_000usize..70_000,
        1 => 70_000usize..700_000,
    ];
    let workers = prop_oneof![2 => Just(1usize), 3 => 2usize..5];
    let section = prop_oneof![1 => Just(0usize), 2 => 1usize..100, 2 => 100usize..3_000];
    // Only workers that read an object each need concurrent reads.
    let sections = (workers, section, any::<bool>(), any::<bool>(), 0usize..6).prop_map(
        |(workers, section, rereads, has_places, extra)| Setup {
            workers,
            section,
            rereads: rereads || section == 0,
            has_places,
            extra,
            ..Setup::in_one_piece()
        },
    );
    let is_shared = prop_oneof![2 => Just(false), 1 => Just(true)];
    let pieces = (pieces, prop_oneof![3 => Just(false), 1 => Just(true)]);
    (pieces, slot, any::<bool>(), is_shared, any::<bool>(), sections).prop_map(
        |((pieces, come_at_once), slot, index_inside, is_shared, has_demand, way)| Setup {
            pieces,
            come_at_once,
            slot,
            index_inside,
            is_shared,
            has_demand,
            ..way
        },
    )
}

/// Settings with a size of the batches, or without; with records that are skipped, or without.
fn way() -> impl Strategy<Value = Setup> {
    let batch = prop::option::of((batches::size(), prop::option::of(shuffle::shuffle())));
    let skipped = prop_oneof![2 => Just(SkippedRecords::default()), 1 => skipped()];
    let is_cached = prop_oneof![7 => Just(false), 1 => Just(true)];
    (plain_way(), batch, skipped, is_cached).prop_map(|(way, batch, skipped, is_cached)| {
        let (batch, shuffle) = batch.map_or((None, None), |(size, shuffle)| (Some(size), shuffle));
        Setup { batch, shuffle, skipped, is_cached, ..way }
    })
}

/// Records of some objects: single ones, and ranges of many.
fn skipped() -> impl Strategy<Value = SkippedRecords> {
    let many = prop_oneof![3 => 1u64..4, 2 => 1u64..60, 1 => 1u64..5_000];
    let from = prop_oneof![2 => 0u64..30, 1 => 0u64..600];
    let range = (0u64..4, from, many).prop_map(|(object, from, many)| {
        let first = source::first_in_index(object) + from;
        first..first + many
    });
    prop::collection::vec(range, 1..40).prop_map(SkippedRecords::new)
}

type Options = Vec<(&'static str, String)>;

fn job(
    decoder: &'static str,
    options: impl Strategy<Value = Options> + 'static,
    file: impl Strategy<Value = Vec<u8>> + 'static,
) -> impl Strategy<Value = Job> {
    let file =
        (file, inputs::damages()).prop_map(|(file, damages)| Bytes(inputs::damage(file, &damages)));
    let on_error = prop_oneof![Just(Bad::Fail), Just(Bad::Skip), Just(Bad::Quarantine)];
    let max_record = prop_oneof![3 => Just(64u64 << 20), 1 => 1u64..3_000];
    let max_errors = prop_oneof![6 => Just(1_000_000u64), 1 => 0u64..4];
    let objects = prop::collection::vec(file, 1..5);
    (options, objects, on_error, max_record, max_errors).prop_map(
        move |(options, objects, on_error, max_record, max_errors)| Job {
            decoder,
            options,
            objects,
            on_error,
            max_record,
            max_errors,
        },
    )
}

/// The property of the host alone: pieces, memories and sizes of batches change nothing else.
/// Returns the result of the whole input in one piece.
fn same_in_pieces(job: &Job, way: &Setup) -> Result<host::Observed, TestCaseError> {
    let with_lines = host::run(job, &Setup::in_one_piece());
    let whole = with_lines.clone();
    let whole = if job.tells_lines(way) { whole } else { whole.without_lines() };
    let had_records = !whole.records.is_empty();
    let whole = whole.without(&way.skipped);
    if had_records && whole.records.is_empty() && whole.decode_errors > 0 {
        // Without a record, a channel that skipped errors fails.
        return Ok(with_lines);
    }
    let split = host::run(job, &Setup { batch: None, shuffle: None, ..way.clone() });
    if let Some(difference) = whole.difference(&split) {
        return Err(TestCaseError::fail(format!("the whole, then in pieces: {difference}")));
    }
    let folder = tempfile::tempdir().expect("a folder for a cache");
    let way = &match way.is_cached {
        true => Setup { cache: Some(folder.path().join("cache")), ..way.clone() },
        false => way.clone(),
    };
    if way.is_cached {
        cached::check(job, way, &whole)?;
    }
    match (way.batch, way.shuffle) {
        (Some(size), Some(shuffle)) => shuffle::check(job, way, size, shuffle, &whole)?,
        (Some(size), None) => batches::check(job, way, size, &whole)?,
        (None, _) => {}
    }
    Ok(with_lines)
}

/// The property itself.
fn same<D: Decoder>(job: &Job, way: &Setup) -> Result<(), TestCaseError> {
    native::compare::<D>(job, &same_in_pieces(job, way)?)?;
    native::compare_restarts::<D>(job, &way.pieces);
    Ok(())
}

fn flag(name: &'static str) -> impl Strategy<Value = Options> {
    any::<bool>().prop_map(move |on| vec![(name, on.to_string())])
}

fn fixed(options: &[(&'static str, &str)]) -> Just<Options> {
    Just(options.iter().map(|(name, value)| (*name, (*value).to_owned())).collect())
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn tfrecord(job in job("tfrecord", flag("verify"), inputs::tfrecord()), way in way()) {
        same::<pipemill_tfrecord::TfRecord>(&job, &way)?;
    }

    #[test]
    fn recordio(
        job in job(
            "recordio",
            prop_oneof![fixed(&[("multipart", "dmlc")]), fixed(&[("multipart", "concat")])],
            inputs::recordio(),
        ),
        way in way(),
    ) {
        same::<pipemill_recordio::RecordIo>(&job, &way)?;
    }

    #[test]
    fn recordio_protobuf(
        job in job(
            "recordio-protobuf",
            prop_oneof![
                fixed(&[]),
                fixed(&[("features", "values, image")]),
                fixed(&[("features", "image:bytes, values:float32[]"), ("uid", "true")]),
                fixed(&[("label", "values:int32"), ("features", "")]),
            ],
            inputs::recordio_protobuf(),
        ),
        way in way(),
    ) {
        same::<pipemill_recordio_protobuf::RecordIoProtobuf>(&job, &way)?;
    }

    #[test]
    fn augmented_manifest(
        job in job(
            "augmented-manifest",
            prop_oneof![
                fixed(&[("attributes", "image-ref")]),
                fixed(&[("attributes", "image-ref,label"), ("multipart", "concat")]),
                fixed(&[("attributes", "a,b,c,d,e")]),
            ],
            inputs::recordio(),
        ),
        way in way(),
    ) {
        same::<pipemill_augmented_manifest::AugmentedManifest>(&job, &way)?;
    }

    #[test]
    fn tf_example(
        job in job(
            "tf-example",
            prop_oneof![
                fixed(&[("features", "image:bytes, ids:int64[]?")]),
                fixed(&[("features", "weight:float32, ids:int64[]"), ("verify", "false")]),
                fixed(&[("features", "weight:float32")]),
            ],
            inputs::tf_example(),
        ),
        way in way(),
    ) {
        same::<pipemill_tf_example::TfExample>(&job, &way)?;
    }

    #[test]
    fn lines(
        job in job(
            "lines",
            (flag("strip_cr"), flag("skip_blank"), flag("utf8"))
                .prop_map(|(a, b, c)| [a, b, c].concat()),
            inputs::lines(),
        ),
        way in way(),
    ) {
        same::<pipemill_lines::Lines>(&job, &way)?;
    }

    #[test]
    fn fixed_size(
        job in job(
            "fixed",
            prop_oneof![
                fixed(&[("size", "1")]),
                fixed(&[("size", "700"), ("header", "10000")]),
                fixed(&[("type", "float32"), ("shape", "2,3"), ("header", "5")]),
                fixed(&[("fields", "a:int32,b:bytes[5]")]),
            ],
            inputs::fixed(),
        )
        // A maximum that no record can have is refused before anything is read.
        .prop_map(|job| Job { max_record: job.max_record.max(700), ..job }),
        way in way(),
    ) {
        same::<pipemill_fixed::Fixed>(&job, &way)?;
    }

    #[test]
    fn jsonl(
        job in job(
            "jsonl",
            prop_oneof![
                fixed(&[]),
                fixed(&[("validate", "false")]),
                fixed(&[("fields", "/a:bytes,/b:bytes?")]),
                fixed(&[("fields", "/a:utf8?")]),
                fixed(&[("fields", "/b:float32")]),
                fixed(&[("fields", "v=/a:int32[]?,first=/b/0:int64?")]),
            ],
            inputs::jsonl(),
        ),
        way in way(),
    ) {
        same::<pipemill_jsonl::Jsonl>(&job, &way)?;
    }

    #[test]
    fn length_prefixed(
        job in job("length-prefixed", fixed(&[("prefix", "u32le")]), inputs::length_prefixed()),
        way in way(),
    ) {
        same::<pipemill_length_prefixed::LengthPrefixed>(&job, &way)?;
    }

    #[test]
    fn delimited(
        job in job("length-prefixed", fixed(&[("prefix", "varint")]), inputs::delimited()),
        way in way(),
    ) {
        same::<pipemill_length_prefixed::LengthPrefixed>(&job, &way)?;
    }

    #[test]
    fn webdataset(
        job in job(
            "webdataset",
            prop_oneof![
                fixed(&[("fields", "a,b?")]),
                fixed(&[("fields", "b"), ("key", "false")]),
                fixed(&[("fields", "x=b;a")]),
            ],
            inputs::webdataset(),
        ),
        way in way(),
    ) {
        same::<pipemill_webdataset::WebDataset>(&job, &way)?;
    }

    #[test]
    fn csv_text(
        job in job(
            "csv",
            prop_oneof![
                fixed(&[]),
                fixed(&[("emit", "row")]),
                fixed(&[("columns", "2,0")]),
                fixed(&[("header", "true"), ("drop_repeated_header", "true")]),
                fixed(&[("flexible", "true"), ("names", "a,b,c")]),
                fixed(&[("types", "f1:int64"), ("names", "f0,f1,f2")]),
                fixed(&[("types", "bytes")]),
                fixed(&[("types", "auto"), ("header", "auto"), ("flexible", "true")]),
            ],
            inputs::csv(3, false),
        ),
        way in way(),
    ) {
        same::<pipemill_csv::Csv>(&job, &way)?;
    }

    #[test]
    fn csv_numbers(
        job in job(
            "csv",
            prop_oneof![
                fixed(&[("types", "float32")]),
                fixed(&[("types", "auto")]),
                fixed(&[("types", "bytes,f0:float64,f3:int32")]),
            ],
            inputs::csv(4, true),
        ),
        way in way(),
    ) {
        same::<pipemill_csv::Csv>(&job, &way)?;
    }

    #[test]
    fn csv_dense(
        job in job(
            "csv",
            prop_oneof![
                fixed(&[("emit", "dense")]),
                fixed(&[("emit", "dense"), ("empty", "nan")]),
                fixed(&[("emit", "dense"), ("label", "f0"), ("empty", "nan")]),
            ],
            inputs::csv(9, true),
        ),
        way in way(),
    ) {
        same::<pipemill_csv::Csv>(&job, &way)?;
    }

    /// The sandboxed decoder reads four numbers at once with instructions that the native one does
    /// not have.
    #[test]
    fn csv_near_middle(
        job in job("csv", fixed(&[("emit", "dense")]), inputs::csv_near_middle()),
        way in way(),
    ) {
        same::<pipemill_csv::Csv>(&job, &way)?;
    }

    #[test]
    fn all_kinds_of_fields(
        objects in prop::collection::vec(mix::objects(), 1..3),
        way in way(),
    ) {
        let job = Job {
            decoder: BAD_PLUGIN,
            options: vec![("do", "mix-schema".to_owned())],
            objects: objects.iter().map(|object| Bytes(object.bytes())).collect(),
            on_error: Bad::Fail,
            max_record: 64 << 20,
            max_errors: 0,
        };
        mix::check(&objects, &same_in_pieces(&job, &way)?)?;
    }

    /// Records that are emitted field by field: in the chunk, made, or both, and between others
    /// that are emitted one by one.
    #[test]
    fn records_in_columns(
        objects in prop::collection::vec(columns::blocks(), 1..3),
        way in way(),
    ) {
        let job = Job {
            decoder: BAD_PLUGIN,
            options: vec![("do", "columns-schema".to_owned())],
            objects: objects.iter().map(|blocks| Bytes(columns::bytes(blocks))).collect(),
            on_error: Bad::Fail,
            max_record: 64 << 20,
            max_errors: 0,
        };
        columns::check(&objects, &same_in_pieces(&job, &way)?)?;
    }

    /// Blocks that take several calls, errors inside a call, lists: all items, and each error once.
    #[test]
    fn blocks_and_errors_inside_a_call(items in blocks::items(), way in way()) {
        let job = Job {
            decoder: BAD_PLUGIN,
            options: vec![("do", "blocks-schema".to_owned())],
            objects: vec![Bytes(blocks::bytes(&items))],
            on_error: Bad::Quarantine,
            max_record: 64 << 20,
            max_errors: u64::MAX,
        };
        blocks::check(&items, &same_in_pieces(&job, &way)?)?;
    }

    /// The same, damaged, and with any policy: the result does not depend on the split.
    #[test]
    fn damaged_blocks(
        job in job(
            BAD_PLUGIN,
            fixed(&[("do", "blocks-schema")]),
            blocks::items().prop_map(|items| blocks::bytes(&items)),
        ),
        way in way(),
    ) {
        same_in_pieces(&job, &way)?;
    }

    /// Records that are numbered from the start: a run goes on inside of an object with what the
    /// decoder has saved there.
    #[test]
    fn state_that_is_saved(
        job in job(BAD_PLUGIN, fixed(&[("do", "framed-carry")]), carry::framed()),
        way in way(),
        distance in prop_oneof![Just(1u64), 1u64..200, 200u64..5_000],
    ) {
        same_in_pieces(&job, &Setup { saves: Some(distance), ..way })?;
    }

    /// An epoch that is left early gives a part of its records, and those in order.
    #[test]
    fn an_epoch_that_is_left_early_gives_a_part_in_order(
        job in job("recordio", fixed(&[("multipart", "dmlc")]), inputs::recordio()),
        way in plain_way(),
        after in 0usize..6,
    ) {
        let whole = host::run(&job, &way);
        let left = host::run(&job, &Setup { leaves_after: Some(after), ..way });
        prop_assert!(whole.records.starts_with(&left.records));
        if left.epochs == [(0, true)] {
            prop_assert_eq!(left.end, host::End::Ended);
        } else {
            prop_assert_eq!(whole.difference(&left), None);
        }
    }

    /// Records that are complete before the place where reading fails are delivered, however they
    /// arrived.
    #[test]
    fn a_source_that_fails_gives_all_records_before_it(
        // Otherwise the decoder gives nothing before it has seen whether the object is of another
        // format.
        job in job("lines", fixed(&[("utf8", "false"), ("sniff", "false")]), inputs::lines()),
        way in plain_way(),
        at in any::<Index>(),
    ) {
        let at = at.index(job.objects[0].0.len() + 1);
        let job = Job { max_record: 64 << 20, on_error: Bad::Fail, ..job };
        let whole = host::run(&job, &Setup { fails_at: Some(at), ..Setup::in_one_piece() });
        let split = host::run(&job, &Setup { fails_at: Some(at), ..way });
        prop_assert_eq!(whole.difference(&split), None);
        let ended = job.objects[0].0[..at].iter().filter(|byte| **byte == b'\n').count();
        prop_assert_eq!(split.records.len(), ended);
        let host::End::Failed { offset, kind, message, .. } = split.end else {
            return Err(TestCaseError::fail("reading failed, but not the channel"));
        };
        let expected = (Some(at as u64), "source", "the disk is gone");
        prop_assert_eq!((offset, kind, message.as_str()), expected);
    }
}
