// pipemill.h: write a pipemill decoder in C. Version 0.1 of the interface.
//
// You write four functions: pm_options, pm_open, pm_decode, pm_resync. The rest of this header is what
// they are given and what they may call. src/pipemill.c is the way through the sandbox's wall; leave it
// as it is. There is no libc: no files, no printf, no malloc; see "Memory" and "Text" instead.
//
// THE RULE. However the input is split into chunks, the records are the same. Keep no part of a record
// between calls: leave its bytes unconsumed, and they are shown again with more behind them.
//
// Each stream (one object, or one epoch of a FIFO) has an instance of its own, with memory of its own.
// So keep what you must remember in plain static variables: they are zero when a stream starts.

#ifndef PIPEMILL_H
#define PIPEMILL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// --- What you write

// Bytes of text. There is no zero behind them.
typedef struct {
    const char *at;
    size_t length;
} pm_text;

// An option that the operator may set. The kind is "string", "bool", "int" or "choice:a|b|c"; the host
// refuses other values, and options that are not declared.
typedef struct {
    const char *name;
    const char *kind;
    const char *standard; // its default; NULL for none
    const char *help;     // one line
} pm_option_spec;

// What stream is opened. It may be kept: what pm_open is given stays where it is.
typedef struct {
    pm_text channel;
    uint32_t epoch;
    pm_text object;      // a path, or a FIFO's path
    uint64_t max_record; // the largest record that the channel takes, in bytes
} pm_info;

// A part of the input. It is gone when the call returns.
typedef struct {
    const uint8_t *at;
    size_t length;
    bool end; // no byte follows
} pm_chunk;

// What pm_decode answers: made by pm_progress, or by pm_fatal, pm_skippable or pm_searchable.
typedef struct {
    uint32_t kind, offset, need;
    uint64_t resume;
    pm_text message;
} pm_answer;

// What pm_resync answers: so many bytes hold no start of a record; whether one starts right behind them.
typedef struct {
    size_t consumed;
    bool found;
} pm_resynced;

// Says which options there are, by pm_option. Most decoders have few; none is fine.
void pm_options(void);

// Starts a stream: read the options, then say the fields by pm_schema (or later, before the first
// record, where only the input tells them). Answer NULL; or a text for the operator that says what is
// wrong and what would be right.
const char *pm_open(const pm_info *info);

// Emits the records that lie whole in the chunk, and says how far it came. What is left unconsumed at
// the end of the input is reported by the host, as an input that ends inside a record.
pm_answer pm_decode(pm_chunk chunk);

// After pm_searchable: looks for the next record. The chunk starts at the place that the error named.
// Called again with what follows the consumed bytes, until one is found or the input ends. A decoder
// that never answers pm_searchable writes: return (pm_resynced){chunk.length, false};
pm_resynced pm_resync(pm_chunk chunk);

// --- Options

void pm_option(pm_option_spec spec); // in pm_options only
pm_text pm_get(const char *option);  // the operator's value, or the default, or nothing
bool pm_is_on(const char *option);   // whether it is `true`
uint64_t pm_int(const char *option); // its number, or 0

// --- Fields

// The type of one element of a field. Numbers are little-endian, a boolean is one byte, 0 or 1.
typedef enum {
    PM_BYTES, PM_UTF8, PM_BOOLEAN, PM_INT32, PM_INT64, PM_FLOAT32, PM_FLOAT64
} pm_scalar;

// One field of every record. Without a shape it is a single element; a dimension of 0 is told by the
// length of each field.
typedef struct {
    const char *name;
    pm_scalar scalar;
    size_t dimensions;
    const uint32_t *shape;
} pm_field_spec;

// Says the fields of every record: once, before the first.
void pm_schema(const pm_field_spec *fields, size_t count);

// --- Records, in the order of the input
//
// Places are counted from the start of the chunk; `start` is where the record begins, its framing
// included. What lies in the chunk stays there: nothing is copied.

// A record of one field: chunk bytes from `begin` to before `end`.
void pm_span(size_t start, size_t begin, size_t end);

// A record of several fields: one of these for each, in the order of the schema, then pm_end_record.
void pm_field(size_t begin, size_t end);             // bytes of the chunk
void pm_field_copy(const void *bytes, size_t length); // bytes that you made
uint8_t *pm_field_made(size_t length);               // the same, to be filled at once by you
void pm_absent(void);                                // no value
void pm_end_record(size_t start);

// --- Answers

// `consumed` bytes are done with. `need` is the least number of bytes, counted from there, with which
// the next call can get further; 0 if that is not known. Say it where the format tells it.
pm_answer pm_progress(size_t consumed, size_t need);

// Errors: `offset` is where the bad record starts, the message says what was expected and what stood
// there. The host adds channel, object, place and record. Decoding can go on …
pm_answer pm_fatal(size_t offset, const char *message); // not in this object
pm_answer pm_skippable(size_t offset, const char *message, uint64_t resume); // at this place
pm_answer pm_searchable(size_t offset, const char *message, uint64_t from);  // where pm_resync says

// --- Memory

// Bytes for the time of this call, zeroed, aligned to 16. What is taken in pm_open stays for the whole
// stream. There is nothing to give back. Beyond the channel's limit, the stream ends with an error.
void *pm_take(size_t length);

// --- Text

// A text made as by printf, for as long as pm_take gives. It knows %s %.*s %c %d %u %zu %lld %llu %x
// %02x and %%; the compiler checks the types. The bytes of %.*s must be there, zeros or not.
const char *pm_format(const char *format, ...) __attribute__((format(printf, 1, 2)));

// A line for the operator, in the host's log.
typedef enum { PM_DEBUG = 1, PM_INFO, PM_WARN, PM_ERROR } pm_level;
void pm_log(pm_level level, const char *message);

// Ends the stream: for what can't happen. For bad input, there are pm_fatal and its kin.
_Noreturn void pm_fail(const char *why);

// --- Other help

// Index of the first span of the chunk whose CRC-32C is not the one expected, or -1: at the speed of
// the host's hardware, many at once. A span is pm_pack(begin, end).
int64_t pm_check_crc32c(const uint64_t *spans, const uint32_t *expected, size_t count);
static inline uint64_t pm_pack(size_t begin, size_t end) {
    return (uint64_t)begin << 32 | (uint64_t)(end - begin);
}

// Index of the first byte that is not part of UTF-8 text; `length` if all are.
size_t pm_utf8(const uint8_t *at, size_t length);

bool pm_equal(pm_text text, const char *other);
void *memcpy(void *to, const void *from, size_t length);
void *memmove(void *to, const void *from, size_t length);
void *memset(void *at, int byte, size_t length);
int memcmp(const void *a, const void *b, size_t length);
size_t strlen(const char *text);

#endif
