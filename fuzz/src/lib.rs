//! Fuzz targets. Each is a function of arbitrary bytes that panics if a promise is broken. libFuzzer
//! drives them with coverage (`make fuzz`); the test `replay` runs the committed corpora and some
//! mutants of them on any build.

#![forbid(unsafe_code)]

mod decoders;
mod host;
mod reference;

/// A target.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Name of the target and of its folder in `corpus/`.
    pub name: &'static str,
    /// Checks one input.
    ///
    /// # Panics
    /// If a promise is broken, which is a bug.
    pub run: fn(&[u8]),
}

/// All targets, in the order in which `make fuzz` runs them.
pub const TARGETS: &[Target] = &[
    Target { name: "array-record", run: decoders::array_record },
    Target { name: "arrow", run: decoders::arrow },
    Target { name: "augmented-manifest", run: decoders::augmented_manifest },
    Target { name: "avro", run: decoders::avro },
    Target { name: "csv", run: decoders::csv },
    Target { name: "fixed", run: decoders::fixed },
    Target { name: "jsonl", run: decoders::jsonl },
    Target { name: "length-prefixed", run: decoders::length_prefixed },
    Target { name: "lines", run: decoders::lines },
    Target { name: "mds", run: decoders::mds },
    Target { name: "megatron", run: decoders::megatron },
    Target { name: "msgpack", run: decoders::msgpack },
    Target { name: "npy", run: decoders::npy },
    Target { name: "npz", run: decoders::npz },
    Target { name: "parquet", run: decoders::parquet },
    Target { name: "recordio", run: decoders::recordio },
    Target { name: "recordio-protobuf", run: decoders::recordio_protobuf },
    Target { name: "tf-example", run: decoders::tf_example },
    Target { name: "tfrecord", run: decoders::tfrecord },
    Target { name: "tokens", run: decoders::tokens },
    Target { name: "webdataset", run: decoders::webdataset },
    Target { name: "block", run: host::block },
    Target { name: "inflate", run: host::inflate },
    Target { name: "seek-point", run: host::seek_point },
    Target { name: "config", run: host::config },
    Target { name: "sagemaker", run: host::sagemaker },
    Target { name: "manifest", run: host::manifest },
    Target { name: "messages", run: host::messages },
    Target { name: "hello", run: host::hello },
    Target { name: "emit", run: host::emit },
    Target { name: "budget", run: host::budget },
    Target { name: "component", run: host::component },
    Target { name: "table", run: pipemill_ring::host::check_table },
];

/// The target of this name.
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}
