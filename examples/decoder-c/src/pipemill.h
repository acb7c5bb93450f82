// pipemill.h: write a pipemill decoder in C or C++. Version 0.3 of the interface.
//
// You write four functions: pm_options, pm_open, pm_decode, pm_resync, and more if you want what is
// under "Optional". The rest of this header is their arguments and the functions that they may call.
// src/pipemill.c connects them with the host; don't change it. There is no libc: no files, no
// printf, no malloc; see "Memory" and "Text" instead.
//
// THE RULE. However the input is split into chunks, the records and the errors are the same. Keep
// no part of a record between calls: leave its bytes unconsumed. The host passes them again,
// followed by more bytes.
//
// Each stream (one object, or one epoch of a FIFO) has its own instance with its own memory. So
// keep state in plain static variables: they are zero when a stream starts.

#ifndef PIPEMILL_H
#define PIPEMILL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// --- What you write

// Text, or bytes. There is no zero byte after it.
typedef struct {
    const char *at;
    size_t length;
} pm_string;

// An option that the operator may set. The kind is "string", "bool", "int", "choice:a|b|c", "list"
// (words, separated by commas) or "file" (see pm_file). The host refuses other values, and options
// that are not declared.
typedef struct {
    const char *name;
    const char *kind;
    const char *standard; // the default; NULL for none
    const char *help;     // one line
    bool required;        // the operator must set it, and it has no default
} pm_option_spec;

// A fact about a stream.
typedef struct {
    pm_string key, value;
} pm_extension;

// The context of a stream. The pointer and the texts stay valid until the stream ends.
typedef struct {
    pm_string channel;
    uint32_t epoch;
    pm_string object;       // a path or a URL; for a FIFO, its path
    uint64_t max_record;    // the largest record that the channel accepts, in bytes
    bool has_size;          // whether the next member is known
    uint64_t size;          // the stored bytes of the object; a compressed one has more
    pm_string content_type; // as the object's store has it; `at` is NULL if it has none
    pm_string etag;         // the same
    const pm_extension *extensions; // more facts; ignore the keys that you don't know
    size_t extension_count;
} pm_info;

// A part of the input. It is valid until the call returns.
typedef struct {
    const uint8_t *at;
    size_t length;
    bool end; // no byte follows
} pm_chunk;

// The result of pm_decode: made by pm_progress, pm_more or one of the errors.
typedef struct {
    uint32_t kind, offset, need;
    bool more;
    uint64_t resume;
    pm_string message;
} pm_answer;

// The result of pm_resync: no record starts in the consumed bytes; `found` says whether a record
// starts right after them.
typedef struct {
    size_t consumed;
    bool found;
} pm_resynced;

// Declares the options: calls pm_option for each. There may be none.
void pm_options(void);

// Starts a stream: reads the options, then calls pm_set_schema. If only the input shows the fields,
// call pm_set_schema later, before the first record. Returns NULL, or a text for the operator that
// says what is wrong and what would be right.
const char *pm_open(const pm_info *info);

// Emits the records that are completely in the chunk, and returns how many bytes are finished. At
// the end of the input, the host reports unconsumed bytes as an input that ends inside a record.
// For an empty object it is called once, with an empty chunk that has `end`.
pm_answer pm_decode(pm_chunk chunk);

// Searches for the next record after an error of pm_searchable. The chunk starts at the position
// that the error named. It is called again with the bytes after the consumed ones, until it finds a
// record or the input ends. In a decoder without pm_searchable: return (pm_resynced){chunk.length,
// false};
pm_resynced pm_resync(pm_chunk chunk);

// --- Optional: define these names before the decoder's file includes this header
//
//     #define PM_WITH_PLAN          you write pm_plan: which bytes of an object it is shown
//     #define PM_WITH_COMPANIONS    and pm_companions: objects beside it that belong to it
//     #define PM_WITH_PREPARE       you write pm_prepare: what all objects have in common
//     #define PM_WITH_CARRY         you write pm_save and pm_load: a stream goes on inside an object
//     #define PM_WITH_REST          chunks of calls that return pm_more are not copied again
//
// Define them in one file of the project only. docs/interface.md has the rules of each.

// The value of a fact; `at` is NULL if the stream has no such fact.
pm_string pm_fact(const pm_info *info, const char *key);

#if defined(PM_WITH_COMPANIONS) && !defined(PM_WITH_PLAN)
#define PM_WITH_PLAN
#endif

#ifdef PM_WITH_PLAN
// `length` bytes from byte `offset` on: of the object if `of` is 0, else of its companion with this
// number, from 1.
typedef struct {
    uint32_t of;
    uint64_t offset, length;
} pm_range;

// Bytes that the host has read.
typedef struct {
    uint32_t of;
    uint64_t offset;
    const uint8_t *at;
    size_t length;
} pm_piece;

// Bytes that a stream is shown one after the other: the context, which is your own and has all that
// pm_decode must know of the directory, and then those of the ranges. Let the context begin with a
// mark. A stream may begin at any part.
typedef struct {
    const void *context;
    size_t context_length;
    const pm_range *ranges;
    size_t range_count;
    // How many records pm_decode emits of these bytes, if `has_records`: if the directory says it.
    // The host counts them, and another number is an error. pm_decode then consumes all bytes of the
    // part when it is shown them, without a byte of the next one.
    bool has_records;
    uint64_t records;
} pm_part;

// The result of pm_plan, made by one of the functions below it.
typedef struct {
    uint32_t kind;
    const void *list;
    size_t count;
    const char *why;
} pm_step;

// Makes the plan of an object, in steps: `seen` has the ranges that earlier steps have asked for, in
// their order; nothing in the first one. The object has info->size bytes. The answer depends on
// nothing but the arguments, so keep nothing between steps. Objects that can't be read at any place
// (pipes, compressed files) have no plan: pm_decode is shown them as they are.
pm_step pm_plan(const pm_info *info, const pm_piece *seen, size_t count);

// Call pm_plan again with these, too: 1 to 64 in a step, 32 MiB and 32 steps for an object. Ranges,
// parts and contexts are copied.
pm_step pm_read(const pm_range *ranges, size_t count);
// The plan. With no parts, the object has no records.
pm_step pm_parts(const pm_part *parts, size_t count);
// Show the object as without a plan.
pm_step pm_whole(void);
// The decoder refuses the object, and the channel fails. For one that is damaged, make a part whose
// context says so, and let pm_decode report it.
pm_step pm_no_plan(const char *why);

// Whether the stream is shown the parts of a plan.
bool pm_is_planned(const pm_info *info);

#ifdef PM_WITH_COMPANIONS
// Calls pm_companion for each rule, at most 4 times. Returns NULL, or what is wrong with the options.
const char *pm_companions(void);
// An object whose name ends with `object`, such as ".bin", has a companion whose name has the end
// `companion`, such as ".idx", in place of it. The first rule's companions have the number 1.
void pm_companion(const char *object, const char *companion);
// The bytes of the companion with this number, for pm_plan.
uint64_t pm_companion_size(const pm_info *info, uint32_t number);
#endif
#endif

#ifdef PM_WITH_PREPARE
// Makes what all streams of a channel have in common, in static variables and memory of pm_take:
// streams begin with a copy of both. It is called once, before pm_open; a host that knows only an
// earlier version of the interface never calls it. The options are those of the streams. Returns
// NULL, or a text for the operator. It depends on nothing but the options and their files.
const char *pm_prepare(void);
// The content of the file that an option of the kind "file" names, also in streams; `at` is NULL if
// the operator has named none. pm_get gives "sha256:" and its digest.
pm_string pm_file(const char *option);
#endif

#ifdef PM_WITH_CARRY
// What another stream must know to go on after the bytes that the last call of pm_decode consumed: at
// most 64 KiB, better a few hundred bytes. They begin with a version of your own. {NULL, 0}: it can't
// go on there. The call changes nothing.
pm_string pm_save(void);
// Starts a stream, as pm_open does, that gets the bytes after such a place and emits the same records
// as the first one. `saved` is valid until the stream ends. It may have been changed by others, so
// check it. Returns NULL, or a text for the operator.
const char *pm_load(const pm_info *info, pm_string saved);
#endif

// --- Options

void pm_option(pm_option_spec spec);  // in pm_options only
pm_string pm_get(const char *option); // the operator's value, else the default, else nothing
bool pm_is_on(const char *option);    // whether the value is `true`
uint64_t pm_int(const char *option);  // the value as a number, or 0
// The words of a "list", without the spaces around them; empty words are left out.
const pm_string *pm_get_list(const char *option, size_t *count);

// --- Fields

// The type of one element of a field. Numbers are little-endian, a boolean is one byte, 0 or 1.
typedef enum {
    PM_BYTES, PM_UTF8, PM_BOOLEAN, PM_INT8, PM_INT16, PM_INT32, PM_INT64, PM_UINT8, PM_UINT16,
    PM_UINT32, PM_UINT64, PM_FLOAT16, PM_BFLOAT16, PM_FLOAT32, PM_FLOAT64
} pm_scalar;

typedef struct {
    const char *key, *value;
} pm_pair;

// One field of every record. Without a shape it is a single element. A dimension of 0 means any
// size: it follows from the length of each value. PM_BYTES and PM_UTF8 with one dimension are
// lists: see pm_list.
typedef struct {
    const char *name;
    pm_scalar scalar;
    size_t dimensions;
    const uint32_t *shape;
    bool nullable;                 // whether a record may lack it: see pm_absent
    const char *logical;           // what the values mean, like "timestamp[us]"; NULL for nothing
    const char *const *categories; // the values are indices into this list; the last entry is NULL
    const pm_pair *metadata;       // facts for the consumer; the last entry is {NULL, NULL}
} pm_field_spec;

// Sets the fields of every record: once, before the first record.
void pm_set_schema(const pm_field_spec *fields, size_t count);

// Reports a fact about the object to the consumers, before the first record. The key
// "pipemill.restart" is for the host, at any time: with the value "0", decoding can restart at the
// end of the bytes that this and later calls consume. With a header of N bytes, which must be
// passed first, it is N.
void pm_set_metadata(const char *key, const char *value);

// --- Records, in the order of the input
//
// Offsets count from the start of the chunk. `start` is the start of the record, including its
// framing. Bytes of the chunk are not copied.

// Emits a record of one field: the bytes of the chunk from `begin` up to `end`, without `end`.
void pm_span(size_t start, size_t begin, size_t end);
// The same, of bytes that you made.
void pm_bytes(size_t start, const void *bytes, size_t length);

// A record of several fields: one of these for each field, in the order of the schema, then
// pm_end_record.
void pm_field(size_t begin, size_t end);               // bytes of the chunk
void pm_field_bytes(const void *bytes, size_t length); // bytes that you made
uint8_t *pm_field_made(size_t length);                 // the same: fill it before the next call
void pm_text(const char *text);                        // text that you made
void pm_list(const pm_string *elements, size_t count); // a list of bytes or text
void pm_absent(void);                                  // nothing, in a field that is nullable
void pm_bool(bool value);                              // one number …
void pm_i8(int8_t value);
void pm_i16(int16_t value);
void pm_i32(int32_t value);
void pm_i64(int64_t value);
void pm_u8(uint8_t value);
void pm_u16(uint16_t value);
void pm_u32(uint32_t value);
void pm_u64(uint64_t value);
void pm_f32(float value);
void pm_f64(double value);
void pm_i8s(const int8_t *values, size_t count); // … or several
void pm_i16s(const int16_t *values, size_t count);
void pm_i32s(const int32_t *values, size_t count);
void pm_i64s(const int64_t *values, size_t count);
void pm_u8s(const uint8_t *values, size_t count);
void pm_u16s(const uint16_t *values, size_t count);
void pm_u32s(const uint32_t *values, size_t count);
void pm_u64s(const uint64_t *values, size_t count);
void pm_f32s(const float *values, size_t count);
void pm_f64s(const double *values, size_t count);
void pm_end_record(size_t start);

void pm_abandon_record(void); // removes the fields of the record that was not ended
void pm_flush(void); // the same, and passes the records to the host; you need not call it

// --- Results

// `consumed` bytes are finished. `need` is the smallest number of bytes, counted from the first
// unconsumed one, with which the next call can make progress; 0 if that is not known. Set it if the
// format shows it.
pm_answer pm_progress(size_t consumed, uint64_t need);

// The bytes after the consumed ones have more records than were emitted: pm_decode is called again
// with exactly these bytes. This call must have emitted a record or consumed something. For
// compressed blocks.
pm_answer pm_more(size_t consumed);

// Errors: `offset` is the start of the bad record. The message says what was expected and what was
// found; the host adds channel, object, position and record. Decoding can go on …
pm_answer pm_fatal(size_t offset, const char *message); // not in this object
pm_answer pm_skippable(size_t offset, const char *message, uint64_t resume); // at this place
pm_answer pm_searchable(size_t offset, const char *message, uint64_t from);  // by pm_resync

// An input that the decoder does not support, or that does not fit the options: an unknown codec, a
// column that the header does not have. The channel fails, regardless of the operator's policy for
// bad records.
pm_answer pm_refused(size_t offset, const char *message);

// Reports that the bytes from `begin` up to `end` can't be decoded, without leaving pm_decode. An
// unfinished record is abandoned. If the result is true, continue at `end`. If it is false, return
// pm_skippable(begin, message, end).
bool pm_bad(size_t begin, size_t end, const char *message);

// --- Compressed blocks, and checksums

// Decompressed bytes, or an error. They are valid until this call of pm_decode ends.
typedef struct {
    const uint8_t *at;
    size_t length;
    bool last;         // whether the block ends with them
    const char *error; // what is wrong with the block; NULL if nothing is
    uint32_t base;     // where they lie in the payload of the call
} pm_block;

// Decompresses a block: the bytes of the chunk from `begin` up to `end`. The codec is "deflate"
// (without a header), "zlib", "gzip", "zstd", "lz4" (a frame), "lz4-block" (one block without
// framing), "brotli" or "snappy" (one block without framing). Don't call it between the fields of a
// record. If `last` is false, the block has more bytes than limits.output leaves for this call.
pm_block pm_decompress(const char *codec, size_t begin, size_t end);
// At most `max` of its decompressed bytes, after the first `skip`: for blocks of any size. Emit the
// records that are complete in a part. The next part begins at the first record that was not
// complete. After some parts return pm_more. Always ask for the same `max`, so that the parts do
// not depend on how the input was split.
pm_block pm_decompress_part(const char *codec, size_t begin, size_t end, uint64_t skip,
                            uint32_t max);

// The same as pm_decompress_part, for decoders that make other values of the bytes: no field can
// refer to them (`base` has no meaning), and they don't count against limits.output. It needs a host
// of version 0.3.
pm_block pm_read_block(const char *codec, size_t begin, size_t end, uint64_t skip, uint32_t max);

// Adds the next field: the bytes of the block from `begin` up to `end`. They are not copied again.
void pm_field_in(const pm_block *block, size_t begin, size_t end);

// Index of the first span whose CRC-32C (or CRC-32, which gzip and PNG have) differs from the
// expected one, or -1. The host computes fast; check many spans in one call. A span is
// pm_pack(begin, end) in the chunk, or pm_span_in(&block, begin, end) in a block.
int64_t pm_check_crc32c(const uint64_t *spans, const uint32_t *expected, size_t count);
int64_t pm_check_crc32(const uint64_t *spans, const uint32_t *expected, size_t count);
static inline uint64_t pm_pack(size_t begin, size_t end) {
    return (uint64_t)begin << 32 | (uint64_t)(end - begin);
}
static inline uint64_t pm_span_in(const pm_block *block, size_t begin, size_t end) {
    return 1ull << 63 | pm_pack(block->base + begin, block->base + end);
}

// --- Columns: many records at once, field by field. They need a host of version 0.3.

// Bytes of a column: made by pm_in_chunk, pm_in_made or pm_in_block.
typedef struct {
    uint64_t span;
    bool made;
} pm_place;

// The values of one field of many records.
typedef struct {
    pm_place values; // one after the other; a record that lacks the field has one, too
    // Where each value begins and ends in them: one more 32-bit number than there are records, none
    // less than the one before it. {0} if all have the size of the field's type.
    pm_place offsets;
    // A bit for each record, the lowest one first, set if it has the field. {0} if all have it.
    pm_place present;
} pm_column;

// Emits `records` records: one column for each field of the schema. `made` has the bytes that you
// made. Let a column of them begin at a multiple of 64, so that consumers need not copy it. All
// records begin at `start`, as those of a compressed block do. Emit thousands of records in a call.
void pm_columns(uint32_t records, const pm_column *columns, const void *made, size_t length,
                size_t start);

static inline pm_place pm_in_chunk(size_t begin, size_t end) {
    pm_place place = {pm_pack(begin, end), false};
    return place;
}
static inline pm_place pm_in_made(size_t begin, size_t end) {
    pm_place place = {pm_pack(begin, end), true};
    return place;
}
static inline pm_place pm_in_block(const pm_block *block, size_t begin, size_t end) {
    pm_place place = {pm_span_in(block, begin, end), false};
    return place;
}

// --- Memory

// Memory that is valid until this call ends, zeroed, aligned to 16 bytes. Memory from pm_open,
// pm_load and pm_prepare is valid until the stream ends. You need not free it. More than the channel's limit ends the stream
// with an error.
void *pm_take(size_t length);

// --- Text

// Formats a text like printf, in memory of pm_take. It knows %s %.*s %c %d %u %zu %lld %llu %x %02x
// and %%; the compiler checks the types. %.*s copies exactly that many bytes, even zeros.
const char *pm_format(const char *format, ...) __attribute__((format(printf, 1, 2)));

// Writes a line to the host's log, for the operator.
typedef enum { PM_DEBUG = 1, PM_INFO, PM_WARN, PM_ERROR } pm_level;
void pm_log(pm_level level, const char *message);

// Ends the stream with this reason, for bugs. For bad input use pm_fatal, pm_skippable or
// pm_searchable; for input that you don't support pm_refused.
__attribute__((noreturn)) void pm_fail(const char *why);

// --- Other help

// Index of the first byte that is not valid UTF-8; `length` if all bytes are valid.
size_t pm_utf8(const uint8_t *at, size_t length);

bool pm_equal(pm_string text, const char *other);
void *memcpy(void *to, const void *from, size_t length);
void *memmove(void *to, const void *from, size_t length);
void *memset(void *at, int byte, size_t length);
int memcmp(const void *a, const void *b, size_t length);
size_t strlen(const char *text);

// --- The exports of what is optional: nothing to read for you

#define PM_EXPORT(name) __attribute__((export_name("pipemill:decoder/" name)))

#ifdef PM_WITH_PLAN
const void *pm_run_companions(const void *options, size_t count, const char *(*companions)(void));
const void *pm_run_plan(const void *arguments,
                        pm_step (*plan)(const pm_info *, const pm_piece *, size_t));
#ifndef PM_IMPLEMENTATION
PM_EXPORT("plan@0.3.0#plans") uint32_t pm_export_plans(void) {
    return 1;
}
PM_EXPORT("plan@0.3.0#companions")
const void *pm_export_companions(const void *options, size_t count) {
#ifdef PM_WITH_COMPANIONS
    return pm_run_companions(options, count, pm_companions);
#else
    return pm_run_companions(options, count, NULL);
#endif
}
PM_EXPORT("plan@0.3.0#step") const void *pm_export_step(const void *arguments) {
    return pm_run_plan(arguments, pm_plan);
}
#endif
#endif

#ifdef PM_WITH_PREPARE
const void *pm_run_prepare(const void *options, size_t count, const void *files, size_t file_count,
                           const char *(*prepare)(void));
#ifndef PM_IMPLEMENTATION
PM_EXPORT("preparing@0.3.0#prepares") uint32_t pm_export_prepares(void) {
    return 1;
}
PM_EXPORT("preparing@0.3.0#prepare")
const void *pm_export_prepare(const void *options, size_t count, const void *files,
                              size_t file_count) {
    return pm_run_prepare(options, count, files, file_count, pm_prepare);
}
#endif
#endif

#ifdef PM_WITH_CARRY
const void *pm_run_save(pm_string (*save)(void));
const void *pm_run_load(const void *arguments, const char *(*load)(const pm_info *, pm_string));
#ifndef PM_IMPLEMENTATION
PM_EXPORT("carry@0.3.0#carries") uint32_t pm_export_carries(void) {
    return 1;
}
PM_EXPORT("carry@0.3.0#save") const void *pm_export_save(uint32_t stream) {
    (void)stream;
    return pm_run_save(pm_save);
}
PM_EXPORT("carry@0.3.0#load") const void *pm_export_load(const void *arguments) {
    return pm_run_load(arguments, pm_load);
}
#endif
#endif

#ifdef PM_WITH_REST
const void *pm_run_rest(bool end);
#ifndef PM_IMPLEMENTATION
PM_EXPORT("rest@0.3.0#decode") const void *pm_export_rest(uint32_t stream, uint32_t end) {
    (void)stream;
    return pm_run_rest(end != 0);
}
#endif
#endif

#ifdef __cplusplus
}
#endif

#endif
