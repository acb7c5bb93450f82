// The built-in decoders, in the order of `docs/decoders.md`: the name, the version of the records,
// and a line for `pipemill plugin list`. The build script and the library include this file, each
// with its own macro `builtins`.
builtins! {
    "array-record", 1, "ArrayRecord and Riegeli files: the records as bytes, hashes verified";
    "arrow", 1, "Arrow IPC streams and files: a row as a record, with the columns as fields";
    "augmented-manifest", 1, "SageMaker's augmented manifests: RecordIO records in groups";
    "avro", 1, "Avro object container files: the fields of the writer's schema";
    "csv", 1, "rows of delimited text, as fields, typed columns or dense float32";
    "fixed", 1, "records of a fixed size after a header, as bytes or numbers";
    "jsonl", 1, "JSON Lines, whole or by JSON pointer";
    "length-prefixed", 1, "records that each follow their length: an integer or a varint";
    "lines", 1, "lines of text";
    "mds", 1, "shards of MosaicML's streaming datasets: the columns of a sample as fields";
    "megatron", 1, "Megatron-LM's indexed datasets, .bin and .idx: sequences or documents";
    "msgpack", 1, "MessagePack values, whole or by key or JSON pointer";
    "npy", 1, "NumPy's .npy files: the rows of an array";
    "npz", 1, "NumPy's .npz archives: the rows of an array, or an archive as a record";
    "parquet", 1, "Parquet files: a row as a record, with the columns of the file as fields";
    "recordio", 1, "MXNet RecordIO, both multi-part dialects";
    "recordio-protobuf", 1, "SageMaker's RecordIO-protobuf: tensors as typed fields";
    "tf-example", 1, "tf.train.Example in TFRecord: features as typed fields";
    "tfrecord", 1, "TensorFlow's TFRecord, checksums verified";
    "tokens", 1, "tokens for language models: windows of raw integers";
    "webdataset", 1, "samples of WebDataset's tar archives";
}
