//! Options of each decoder that lead to its different branches. A fuzzer rarely finds them. It may
//! also write options as text.

use super::case::Preset;

pub(super) const ARRAY_RECORD: &[Preset] = &[&[]];
pub(super) const ARROW: &[Preset] =
    &[&[], &[("columns", "id,tags")], &[("columns", "user.name,word")], &[("columns", "id")]];
pub(super) const AUGMENTED_MANIFEST: &[Preset] = &[
    &[("attributes", "image-ref")],
    &[("attributes", "image-ref,label")],
    &[("attributes", "image-ref,label"), ("multipart", "concat")],
    &[("attributes", "a,b,c,d,e")],
];
pub(super) const AVRO: &[Preset] = &[&[], &[("fields", "id")], &[("fields", "name=user.name,id")]];
pub(super) const CSV: &[Preset] = &[
    &[],
    &[("emit", "row")],
    &[("columns", "2,0")],
    &[("header", "true"), ("drop_repeated_header", "true")],
    &[("flexible", "true"), ("names", "a,b,c")],
    &[("types", "f1:int64"), ("names", "f0,f1,f2")],
    &[("types", "float32")],
    &[("types", "bytes")],
    &[("types", "auto"), ("header", "auto"), ("flexible", "true")],
    &[("types", "bytes,f0:float64,f3:int32")],
    &[("emit", "dense")],
    &[("emit", "dense"), ("empty", "nan")],
    &[("emit", "dense"), ("label", "f0"), ("empty", "nan")],
    &[("emit", "dense"), ("header", "true"), ("label", "y")],
    &[("delimiter", "tab"), ("quote", "none")],
    &[("escape", "\\"), ("comment", "#"), ("double_quote", "false")],
    &[("lone_cr", "true"), ("comment", "#"), ("flexible", "true"), ("header", "true")],
];
pub(super) const FIXED: &[Preset] = &[
    &[("size", "1")],
    &[("size", "7"), ("header", "10")],
    &[("type", "float32"), ("shape", "2,3"), ("header", "5")],
    &[("fields", "a:int32,b:bytes[5]")],
    &[("size", "2"), ("sniff", "false")],
];
pub(super) const JSONL: &[Preset] = &[
    &[],
    &[("validate", "false")],
    &[("fields", "/a:bytes,/b:bytes?")],
    &[("fields", "/a:utf8?")],
    &[("fields", "/b:float32")],
    &[("fields", "v=/a:int32[]?,first=/b/0:int64?")],
    &[("fields", "/a:float64[2,2]?,/b:utf8[]?")],
    &[("fields", "/a:float32[0,2,0]?,/b:float64[]?"), ("nan", "true")],
];
pub(super) const LENGTH_PREFIXED: &[Preset] = &[
    &[],
    &[("prefix", "u32be")],
    &[("prefix", "u16le"), ("includes_prefix", "true")],
    &[("prefix", "u64be"), ("includes_prefix", "true")],
    &[("prefix", "u64le")],
    &[("prefix", "varint")],
    &[("prefix", "varint"), ("includes_prefix", "true")],
];
pub(super) const LINES: &[Preset] = &[
    &[],
    &[("utf8", "false")],
    &[("strip_cr", "false")],
    &[("skip_blank", "true"), ("utf8", "false")],
];
pub(super) const MDS: &[Preset] =
    &[&[], &[("columns", "id,text")], &[("columns", "any")], &[("columns", "tokens.shape,n=id")]];
pub(super) const MEGATRON: &[Preset] =
    &[&[], &[("records", "document")], &[("length", "3"), ("tail", "drop")], &[("length", "7")]];
pub(super) const MSGPACK: &[Preset] = &[
    &[],
    &[("fields", "id:int64,score:float64,name:utf8?")],
    &[("fields", "image:bytes,ok:bool,source=/meta/source:utf8")],
    &[("fields", "vec:float32[8],ids:int32[],tags:utf8[]?")],
    &[("fields", "id:uint8?,second=/meta/span/1:int16?,taken:timestamp?")],
    &[("fields", "id=0:uint8,x=1:float32,name=2:utf8?,data=3:bytes")],
];
pub(super) const NPY: &[Preset] = &[&[]];
pub(super) const NPZ: &[Preset] = &[
    &[],
    &[("verify", "false")],
    &[("array", "x"), ("verify", "false")],
    &[("fields", "x,label=y?"), ("verify", "false")],
    &[("fields", "x:float32[0,3],y:int64?"), ("verify", "false")],
];
pub(super) const PARQUET: &[Preset] = &[
    &[("verify", "false")],
    &[],
    &[("columns", "id,tags"), ("verify", "false")],
    &[("columns", "user"), ("verify", "false")],
];
pub(super) const RECORDIO: &[Preset] = &[&[], &[("multipart", "concat")]];
pub(super) const RECORDIO_PROTOBUF: &[Preset] = &[
    &[],
    &[("features", "values, image")],
    &[("features", "image:bytes, values:float32[]"), ("uid", "true")],
    &[("label", "values:int32"), ("features", "")],
    &[("sparse", "dense"), ("metadata", "true"), ("multipart", "concat")],
];
pub(super) const TF_EXAMPLE: &[Preset] = &[
    &[("features", "image:bytes, ids:int64[]?")],
    &[("features", "weight:float32, ids:int64[]"), ("verify", "false")],
    &[("features", "weight:float32")],
    &[("features", "a:int64[]?, b:float32[2]?, c:utf8?"), ("verify", "false")],
    &[("features", "a:float32[0,2]?, b:int64[2,0]?, c:bytes[]?"), ("verify", "false")],
];
pub(super) const TFRECORD: &[Preset] = &[&[], &[("verify", "false")]];
pub(super) const TOKENS: &[Preset] = &[
    &[("length", "4")],
    &[("length", "3"), ("type", "uint32"), ("tail", "drop")],
    &[("length", "2"), ("format", "llm.c"), ("tail", "drop")],
    &[("length", "5"), ("format", "llm.c"), ("type", "uint32")],
    &[("length", "3"), ("header", "7"), ("tail", "drop")],
];
pub(super) const WEBDATASET: &[Preset] = &[
    &[("fields", "a,b?")],
    &[("fields", "b"), ("key", "false")],
    &[("fields", "x=b;a")],
    &[("fields", "jpg?,cls:utf8?,json?")],
];
