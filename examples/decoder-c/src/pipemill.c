// Connects decoder.c with the host: its functions become the exports of a WebAssembly component, and
// the imports become the functions of pipemill.h. It has nothing to do with the format; don't change
// it. The layouts of the structs are those of the component model's canonical ABI for
// wit/0.1/decoder.wit, wit/0.2/window.wit and wit/0.3/decoder.wit.

#include <stdarg.h>

// All of the header but its exports, which are those of the decoder's file. What no decoder uses, the
// linker leaves out.
#define PM_IMPLEMENTATION
#define PM_WITH_COMPANIONS
#define PM_WITH_PREPARE
#define PM_WITH_CARRY
#define PM_WITH_REST
#include "pipemill.h"

#define IMPORT(from, name) __attribute__((import_module(from), import_name(name)))
#define EXPORT(name) __attribute__((export_name(name)))
#define HOST "pipemill:decoder/host@0.1.0"
#define DECODER "pipemill:decoder/decoder@0.1.0"
#define WINDOW "pipemill:decoder/window@0.2.0"
#define BLOCKS "pipemill:decoder/blocks@0.3.0"
#define COLUMNS "pipemill:decoder/columns@0.3.0"

IMPORT(HOST, "log") void host_log(uint32_t level, const char *at, size_t length);
IMPORT(HOST, "set-schema") void host_set_schema(const void *fields, size_t count);
IMPORT(HOST, "set-metadata") void host_set_metadata(const char *key, size_t key_length,
                                                    const char *value, size_t value_length);
IMPORT(HOST, "emit") void host_emit(uint32_t records, const void *spans, size_t n,
                                    const void *payload, size_t bytes, const void *starts,
                                    size_t m);
IMPORT(HOST, "bad") uint32_t host_bad(uint32_t offset, uint32_t end, const char *message,
                                      size_t length);
IMPORT(HOST, "check-crc32c") void host_check_crc32c(const void *spans, size_t n,
                                                    const void *expected, size_t m, void *result);
IMPORT(HOST, "check-crc32") void host_check_crc32(const void *spans, size_t n, const void *expected,
                                                  size_t m, void *result);
IMPORT(HOST, "decompress") void host_decompress(const char *codec, size_t codec_length,
                                                uint64_t span, uint64_t skip, uint32_t max,
                                                void *result);
IMPORT(BLOCKS, "read") void host_read_block(const char *codec, size_t codec_length, uint64_t span,
                                            uint64_t skip, uint32_t max, void *result);
IMPORT(COLUMNS, "emit-columns") void host_emit_columns(uint32_t records, const void *columns,
                                                       size_t n, const void *payload, size_t bytes,
                                                       uint32_t start);
IMPORT("[export]" DECODER, "[resource-new]stream") uint32_t stream_new(uint32_t number);

// --- Memory: one stack that only grows during a call of the host. The first allocation of the next
// call resets it to its state when pm_open (or pm_prepare) returned. So memory that the host
// allocates for the guest, such as decompressed bytes, needs no call that frees it.

extern uint8_t __heap_base;
static uintptr_t kept = (uintptr_t)&__heap_base, top = (uintptr_t)&__heap_base;
static bool returned; // whether the last call of the host returned
// The window, which contains chunks: the stack continues after it.
static uintptr_t window_at, window_end;

// The names of the schema's fields, for messages: each has a zero byte after it.
static char *names;
static size_t names_length;

static void reset(void) {
    // The names are kept, even if the schema was set in pm_decode.
    if ((uintptr_t)names >= kept) {
        names = memmove((void *)kept, names, names_length);
        kept += names_length;
    }
    top = kept;
    returned = false;
}

static void *take(size_t length, size_t align) {
    if (returned) reset();
    uintptr_t at = (top + align - 1) & ~(uintptr_t)(align - 1);
    if (at < top || at + length < at) __builtin_trap();
    if (at < window_end && at + length > window_at) {
        at = window_end;
        if (at + length < at) __builtin_trap();
    }
    size_t pages = __builtin_wasm_memory_size(0), wanted = (at + length + 65535ull) >> 16;
    // The host itself reports that it refused memory.
    if (wanted > pages && __builtin_wasm_memory_grow(0, wanted - pages) == (size_t)-1)
        __builtin_trap();
    top = at + length;
    return (void *)at;
}

EXPORT("cabi_realloc")
void *cabi_realloc(void *old, size_t old_length, size_t align, size_t length) {
    if (length <= old_length) return old ? old : (void *)align;
    void *at = take(length, align);
    return old_length ? memcpy(at, old, old_length) : at;
}

void *pm_take(size_t length) {
    return memset(take(length, 16), 0, length);
}

// A list that grows. It starts in static memory, and continues on the stack.
typedef struct {
    uint8_t *at;
    size_t length, room;
} list;

static void *grow(list *list, size_t bytes) {
    size_t room = (list->length + bytes) * 2;
    if (room < bytes) __builtin_trap();
    list->at = memcpy(take(room, 16), list->at, list->length);
    list->room = room;
    list->length += bytes;
    return list->at + list->length - bytes;
}

static inline void *add(list *list, size_t bytes) {
    if (list->room - list->length < bytes) return grow(list, bytes);
    list->length += bytes;
    return list->at + list->length - bytes;
}

// --- Records: gathered and passed to the host a few thousand at a time, because one call of the
// host costs as much as framing ten records.

enum { FLUSH_SPANS = 4096, FLUSH_PAYLOAD = 65536, MAX_FIELDS = 65536 };
static const uint64_t IN_PAYLOAD = 1ull << 63, ABSENT = ~0ull;

static uint64_t first_spans[FLUSH_SPANS + 64];
static uint32_t first_starts[FLUSH_SPANS + 64];
static _Alignas(16) uint8_t first_payload[FLUSH_PAYLOAD + 1024];
static list spans, starts, payload;
static size_t whole_spans, whole_payload; // bytes of the records that were ended
static uint32_t whole_records;
static uint32_t base; // bytes that this call of pm_decode has given to the host, or got from it
static bool want_starts;
static size_t field_count; // 0 until the schema is set
static uint8_t nullable[MAX_FIELDS / 8]; // one bit for each field

static void begin_records(void) {
    spans = (list){(uint8_t *)first_spans, 0, sizeof first_spans};
    starts = (list){(uint8_t *)first_starts, 0, sizeof first_starts};
    payload = (list){first_payload, 0, sizeof first_payload};
    whole_spans = whole_payload = whole_records = base = 0;
}

// Number of fields of the unfinished record.
static inline size_t fields_so_far(void) {
    return (spans.length - whole_spans) / 8;
}

void pm_abandon_record(void) {
    spans.length = whole_spans;
    payload.length = whole_payload;
}

void pm_flush(void) {
    pm_abandon_record();
    if (!whole_records) return;
    host_emit(whole_records, spans.at, whole_spans / 8, payload.at, whole_payload, starts.at,
              starts.length / 4);
    base += whole_payload;
    spans.length = starts.length = payload.length = whole_spans = whole_payload = 0;
    whole_records = 0;
}

static inline void add_span(uint64_t span) {
    *(uint64_t *)add(&spans, 8) = span;
}

static const char *field_name(size_t index) {
    const char *name = names;
    while (index--) name += strlen(name) + 1;
    return name;
}

// A record was ended that does not have the fields of the schema.
__attribute__((cold, noinline)) static _Noreturn void fail_fields(void) {
    size_t given = fields_so_far();
    if (!field_count)
        pm_fail("a record was emitted before the schema was set: see pm_set_schema");
    if (given < field_count)
        pm_fail(pm_format("a record was ended after %zu of its %zu fields: `%s` is missing; call "
                          "pm_absent for a field without a value",
                          given, field_count, field_name(given)));
    pm_fail(pm_format("a record was ended after %zu values, but the schema has %zu fields; the "
                      "last one is `%s`",
                      given, field_count, field_name(field_count - 1)));
}

void pm_end_record(size_t start) {
    if (fields_so_far() != field_count) fail_fields();
    if (want_starts) *(uint32_t *)add(&starts, 4) = start;
    whole_spans = spans.length;
    whole_payload = payload.length;
    whole_records++;
    if (whole_spans >= FLUSH_SPANS * 8 || whole_payload >= FLUSH_PAYLOAD) pm_flush();
}

void pm_span(size_t start, size_t begin, size_t end) {
    add_span(pm_pack(begin, end));
    pm_end_record(start);
}

void pm_bytes(size_t start, const void *bytes, size_t length) {
    pm_field_bytes(bytes, length);
    pm_end_record(start);
}

void pm_field(size_t begin, size_t end) {
    add_span(pm_pack(begin, end));
}

uint8_t *pm_field_made(size_t length) {
    add_span(IN_PAYLOAD | (uint64_t)(base + payload.length) << 32 | length);
    return add(&payload, length);
}

void pm_field_bytes(const void *bytes, size_t length) {
    memcpy(pm_field_made(length), bytes, length);
}

void pm_text(const char *text) {
    pm_field_bytes(text, strlen(text));
}

void pm_bool(bool value) {
    *pm_field_made(1) = value;
}

#define NUMBERS(name, type)                                                                        \
    void pm_##name(type value) { pm_field_bytes(&value, sizeof value); }                           \
    void pm_##name##s(const type *values, size_t count) {                                          \
        pm_field_bytes(values, count * sizeof *values);                                            \
    }
NUMBERS(i8, int8_t)
NUMBERS(i16, int16_t)
NUMBERS(i32, int32_t)
NUMBERS(i64, int64_t)
NUMBERS(u8, uint8_t)
NUMBERS(u16, uint16_t)
NUMBERS(u32, uint32_t)
NUMBERS(u64, uint64_t)
NUMBERS(f32, float)
NUMBERS(f64, double)

// n + 1 offsets from the start of the value, then the elements.
void pm_list(const pm_string *elements, size_t count) {
    uint64_t length = 4 * ((uint64_t)count + 1);
    for (size_t i = 0; i < count; i++) length += elements[i].length;
    if (length > UINT32_MAX) pm_fail("a list of 4 GiB or more");
    uint8_t *value = pm_field_made(length);
    uint32_t offset = 4 * (count + 1);
    memcpy(value, &offset, 4);
    for (size_t i = 0; i < count; i++) {
        memcpy(value + offset, elements[i].at, elements[i].length);
        offset += elements[i].length;
        memcpy(value + 4 * (i + 1), &offset, 4);
    }
}

void pm_absent(void) {
    size_t index = fields_so_far();
    if (index < field_count && !(nullable[index / 8] >> index % 8 & 1))
        pm_fail(pm_format("field `%s` is absent, but it is not declared nullable",
                          field_name(index)));
    add_span(ABSENT);
}

void pm_field_in(const pm_block *block, size_t begin, size_t end) {
    if (begin > end || end > block->length)
        pm_fail(pm_format("a field from %zu to %zu of a block of %zu bytes", begin, end,
                          block->length));
    add_span(pm_span_in(block, begin, end));
}

// --- Results

// The cases of `resume` in the interface; an answer without an error has the kind after them.
enum { AT, SCAN, NONE, REFUSED, PROGRESS };

pm_answer pm_progress(size_t consumed, uint64_t need) {
    uint32_t most = need > UINT32_MAX ? UINT32_MAX : need;
    return (pm_answer){.kind = PROGRESS, .offset = consumed, .need = most};
}

pm_answer pm_more(size_t consumed) {
    return (pm_answer){.kind = PROGRESS, .offset = consumed, .more = true};
}

static pm_answer error(uint32_t kind, size_t offset, const char *message, uint64_t resume) {
    return (pm_answer){kind, offset, 0, false, resume, {message, strlen(message)}};
}

pm_answer pm_skippable(size_t offset, const char *message, uint64_t resume) {
    return error(AT, offset, message, resume);
}

pm_answer pm_searchable(size_t offset, const char *message, uint64_t from) {
    return error(SCAN, offset, message, from);
}

pm_answer pm_fatal(size_t offset, const char *message) {
    return error(NONE, offset, message, 0);
}

pm_answer pm_refused(size_t offset, const char *message) {
    return error(REFUSED, offset, message, 0);
}

bool pm_bad(size_t begin, size_t end, const char *message) {
    pm_flush();
    return host_bad(begin, end, message, strlen(message));
}

// --- Options

typedef struct {
    pm_string name, kind;
    uint8_t has_standard;
    pm_string standard;
    bool required;
    pm_string help;
} lowered_option;
_Static_assert(sizeof(lowered_option) == 40 && offsetof(lowered_option, standard) == 20 &&
                   offsetof(lowered_option, required) == 28 && offsetof(lowered_option, help) == 32,
               "option-spec");

typedef struct {
    pm_string name, value;
} given_option;

static list specs;
static const given_option *given;
static size_t given_count;

static pm_string string(const char *at) {
    return at ? (pm_string){at, strlen(at)} : (pm_string){"", 0};
}

void pm_option(pm_option_spec spec) {
    *(lowered_option *)add(&specs, sizeof(lowered_option)) = (lowered_option){
        string(spec.name), string(spec.kind), spec.standard != NULL, string(spec.standard),
        spec.required, string(spec.help)};
}

pm_string pm_get(const char *option) {
    for (size_t i = given_count; i-- > 0;)
        if (pm_equal(given[i].name, option)) return given[i].value;
    const lowered_option *spec = (const lowered_option *)specs.at;
    for (size_t i = 0; i < specs.length / sizeof *spec; i++)
        if (pm_equal(spec[i].name, option)) return spec[i].standard;
    pm_fail(pm_format("pm_options does not declare the option `%s`", option));
}

bool pm_is_on(const char *option) {
    return pm_equal(pm_get(option), "true");
}

// The host has checked that the value is a number of 64 bits.
uint64_t pm_int(const char *option) {
    pm_string digits = pm_get(option);
    uint64_t number = 0;
    for (size_t i = digits.length && digits.at[0] == '+'; i < digits.length; i++)
        number = number * 10 + (uint64_t)(digits.at[i] - '0');
    return number;
}

static bool is_space(char c) {
    return c == ' ' || (c >= '\t' && c <= '\r');
}

const pm_string *pm_get_list(const char *option, size_t *count) {
    pm_string words = pm_get(option);
    list out = {0};
    for (size_t at = 0, end; at < words.length; at = end + 1) {
        for (end = at; end < words.length && words.at[end] != ',';) end++;
        size_t from = at, to = end;
        while (from < to && is_space(words.at[from])) from++;
        while (from < to && is_space(words.at[to - 1])) to--;
        if (from < to)
            *(pm_string *)add(&out, sizeof(pm_string)) = (pm_string){words.at + from, to - from};
    }
    *count = out.length / sizeof(pm_string);
    return (const pm_string *)out.at;
}

// --- Exports

typedef struct {
    const void *at;
    size_t length;
} lowered_list;

// Runs the constructors of C++'s static objects, once. Without this call, the linker would run them in
// each call of the host.
extern void __wasm_call_ctors(void);
static void construct(void) {
    static bool constructed;
    if (!constructed) __wasm_call_ctors();
    constructed = true;
}

EXPORT(DECODER "#options") const lowered_list *export_options(void) {
    construct();
    static lowered_list result;
    specs = (list){0};
    pm_options();
    result = (lowered_list){specs.at, specs.length / sizeof(lowered_option)};
    returned = true;
    return &result;
}

typedef struct {
    uint8_t given;
    pm_string value;
} lowered_text;

// The arguments of `open`, and the first ones of `load` and `step`. They are more than the 16 values
// that can be passed directly, so they are in memory.
typedef struct {
    const given_option *options;
    size_t count;
    struct {
        pm_string channel;
        uint32_t epoch;
        pm_string object;
        uint64_t max_record;
        bool offsets;
        struct { uint8_t given; uint64_t value; } size;
        lowered_text content_type, etag;
        const pm_extension *extensions;
        size_t extension_count;
    } info;
} open_arguments;
_Static_assert(sizeof(open_arguments) == 96 && offsetof(open_arguments, info.max_record) == 32 &&
                   offsetof(open_arguments, info.offsets) == 40 &&
                   offsetof(open_arguments, info.size.value) == 56 &&
                   offsetof(open_arguments, info.content_type) == 64 &&
                   offsetof(open_arguments, info.etag) == 76 &&
                   offsetof(open_arguments, info.extensions) == 88,
               "stream-info");

static pm_string given_text(const lowered_text *text) {
    return text->given ? text->value : (pm_string){NULL, 0};
}

// Begins a call that has options.
static void use_options(const given_option *options, size_t count) {
    construct();
    given = options, given_count = count;
    specs = (list){0};
    pm_options();
}

// Begins a call that has options and a stream's context. The result is the same memory each time.
static const pm_info *use_info(const open_arguments *arguments) {
    static pm_info info;
    use_options(arguments->options, arguments->count);
    want_starts = arguments->info.offsets;
    info = (pm_info){.channel = arguments->info.channel,
                     .epoch = arguments->info.epoch,
                     .object = arguments->info.object,
                     .max_record = arguments->info.max_record,
                     .has_size = arguments->info.size.given,
                     .size = arguments->info.size.given ? arguments->info.size.value : 0,
                     .content_type = given_text(&arguments->info.content_type),
                     .etag = given_text(&arguments->info.etag),
                     .extensions = arguments->info.extensions,
                     .extension_count = arguments->info.extension_count};
    return &info;
}

// The result of a function that returns a stream, or why there is none. Its memory is kept.
static const void *opened(const char *why) {
    static struct { uint8_t failed; union { uint32_t stream; pm_string why; }; } result;
    result.failed = why != NULL;
    if (why) result.why = string(why);
    else result.stream = stream_new(1);
    kept = top;
    returned = true;
    return &result;
}

EXPORT(DECODER "#[static]stream.open") const void *export_open(const open_arguments *arguments) {
    begin_records();
    return opened(pm_open(use_info(arguments)));
}

typedef struct {
    uint8_t failed;
    union {
        struct { uint32_t consumed, need; bool more; } progress;
        struct {
            uint32_t offset;
            pm_string message;
            struct { uint8_t kind; uint64_t place; } resume;
        } error;
    };
} lowered_answer;
_Static_assert(sizeof(lowered_answer) == 40 && offsetof(lowered_answer, progress) == 8 &&
                   offsetof(lowered_answer, progress.more) == 16 &&
                   offsetof(lowered_answer, error.message) == 12 &&
                   offsetof(lowered_answer, error.resume) == 24 &&
                   offsetof(lowered_answer, error.resume.place) == 32,
               "result<progress, decode-error>");

// The chunk of the last call, without the bytes that it has consumed.
static pm_chunk rest;

static const void *decode(pm_chunk chunk) {
    static lowered_answer result;
    begin_records();
    pm_answer answer = pm_decode(chunk);
    pm_flush();
    result.failed = answer.kind != PROGRESS;
    if (result.failed) {
        result.error.offset = answer.offset, result.error.message = answer.message;
        result.error.resume.kind = answer.kind, result.error.resume.place = answer.resume;
    } else {
        result.progress.consumed = answer.offset, result.progress.need = answer.need;
        result.progress.more = answer.more;
        rest = (pm_chunk){chunk.at + answer.offset, chunk.length - answer.offset, chunk.end};
    }
    returned = true;
    return &result;
}

EXPORT(DECODER "#[method]stream.decode")
const void *export_decode(uint32_t stream, const uint8_t *at, size_t length, uint32_t end) {
    (void)stream;
    return decode((pm_chunk){at, length, end});
}

EXPORT(WINDOW "#set-aside")
uintptr_t export_set_aside(size_t size) {
    size_t pages = __builtin_wasm_memory_grow(0, size >> 16);
    if (pages == (size_t)-1) return 0;
    uintptr_t at = pages << 16;
    if (at + size < at) return 0;
    window_at = at, window_end = at + size;
    return at;
}

EXPORT(WINDOW "#decode")
const void *export_decode_in_window(uint32_t stream, const uint8_t *at, size_t length,
                                    uint32_t end) {
    return export_decode(stream, at, length, end);
}

EXPORT(DECODER "#[method]stream.resync")
const void *export_resync(uint32_t stream, const uint8_t *at, size_t length, uint32_t end) {
    static struct { uint32_t consumed; bool found; } result;
    (void)stream;
    pm_resynced resynced = pm_resync((pm_chunk){at, length, end});
    result.consumed = resynced.consumed, result.found = resynced.found;
    returned = true;
    return &result;
}

// --- Optional exports: the header has those of a decoder that wants them

pm_string pm_fact(const pm_info *info, const char *key) {
    for (size_t i = 0; i < info->extension_count; i++)
        if (pm_equal(info->extensions[i].key, key)) return info->extensions[i].value;
    return (pm_string){NULL, 0};
}

bool pm_is_planned(const pm_info *info) {
    return pm_fact(info, "planned").at != NULL;
}

// A list, or a text that says why there is none.
typedef struct {
    uint8_t failed;
    union { lowered_list list; pm_string why; };
} lowered_answers;
_Static_assert(sizeof(lowered_answers) == 12 && offsetof(lowered_answers, why) == 4,
               "result<list<companion>, string> and result<_, string>");

typedef struct {
    pm_string object, companion;
} lowered_companion;

static list companion_rules;

void pm_companion(const char *object, const char *companion) {
    *(lowered_companion *)add(&companion_rules, sizeof(lowered_companion)) =
        (lowered_companion){string(object), string(companion)};
}

const void *pm_run_companions(const void *options, size_t count, const char *(*companions)(void)) {
    static lowered_answers result;
    use_options(options, count);
    companion_rules = (list){0};
    const char *why = companions ? companions() : NULL;
    result.failed = why != NULL;
    if (why) result.why = string(why);
    else
        result.list = (lowered_list){companion_rules.at,
                                     companion_rules.length / sizeof(lowered_companion)};
    returned = true;
    return &result;
}

uint64_t pm_companion_size(const pm_info *info, uint32_t number) {
    pm_string sizes = pm_fact(info, "companions");
    uint64_t size = 0;
    for (size_t i = 0, of = 1; i < sizes.length && of <= number; i++) {
        if (sizes.at[i] == ' ') of++;
        else if (of == number) size = size * 10 + (uint64_t)(sizes.at[i] - '0');
    }
    return size;
}

// The cases of `next` in the interface; a refusal has the kind after them.
enum { READ, PARTS, WHOLE, NO_PLAN };

pm_step pm_whole(void) {
    return (pm_step){.kind = WHOLE};
}

pm_step pm_no_plan(const char *why) {
    return (pm_step){.kind = NO_PLAN, .why = why};
}

typedef struct {
    lowered_list context, ranges;
    struct { uint8_t given; uint64_t value; } records;
} lowered_part;
_Static_assert(sizeof(lowered_part) == 32 && offsetof(lowered_part, records) == 16 &&
                   offsetof(lowered_part, records.value) == 24,
               "part");
_Static_assert(sizeof(pm_range) == 24 && offsetof(pm_range, offset) == 8 &&
                   offsetof(pm_range, length) == 16,
               "range");
_Static_assert(sizeof(pm_piece) == 24 && offsetof(pm_piece, offset) == 8 &&
                   offsetof(pm_piece, at) == 16 && offsetof(pm_piece, length) == 20,
               "piece");

static void *copy(const void *from, size_t length, size_t align) {
    return memcpy(take(length, align), from, length);
}

pm_step pm_read(const pm_range *ranges, size_t count) {
    return (pm_step){READ, copy(ranges, count * sizeof *ranges, 8), count, NULL};
}

pm_step pm_parts(const pm_part *parts, size_t count) {
    lowered_part *lowered = take(count * sizeof *lowered, 8);
    for (size_t i = 0; i < count; i++) {
        const pm_part *part = &parts[i];
        const pm_range *ranges = copy(part->ranges, part->range_count * sizeof *ranges, 8);
        lowered[i] = (lowered_part){
            {copy(part->context, part->context_length, 1), part->context_length},
            {ranges, part->range_count},
            {part->has_records, part->records}};
    }
    return (pm_step){PARTS, lowered, count, NULL};
}

typedef struct {
    open_arguments open;
    const pm_piece *seen;
    size_t count;
} step_arguments;
_Static_assert(offsetof(step_arguments, seen) == 96, "the arguments of step");

typedef struct {
    uint8_t failed;
    union {
        struct { uint8_t kind; lowered_list list; } next;
        pm_string why;
    };
} lowered_step;
_Static_assert(sizeof(lowered_step) == 16 && offsetof(lowered_step, next.kind) == 4 &&
                   offsetof(lowered_step, next.list) == 8 && offsetof(lowered_step, why) == 4,
               "result<next, string>");

const void *pm_run_plan(const void *at,
                        pm_step (*plan)(const pm_info *, const pm_piece *, size_t)) {
    static lowered_step result;
    const step_arguments *arguments = at;
    pm_step step = plan(use_info(&arguments->open), arguments->seen, arguments->count);
    result.failed = step.kind == NO_PLAN;
    if (result.failed) result.why = string(step.why);
    else {
        result.next.kind = step.kind;
        result.next.list = (lowered_list){step.list, step.count};
    }
    returned = true;
    return &result;
}

// A file, by the name of its option.
typedef struct {
    pm_string option, content;
} given_file;

static const given_file *files;
static size_t file_count;

const void *pm_run_prepare(const void *options, size_t count, const void *given_files,
                           size_t given_file_count, const char *(*prepare)(void)) {
    static lowered_answers result;
    use_options(options, count);
    files = given_files, file_count = given_file_count;
    const char *why = prepare();
    result.failed = why != NULL;
    if (why) result.why = string(why);
    kept = top;
    returned = true;
    return &result;
}

pm_string pm_file(const char *option) {
    for (size_t i = 0; i < file_count; i++)
        if (pm_equal(files[i].option, option)) return files[i].content;
    return (pm_string){NULL, 0};
}

typedef struct {
    open_arguments open;
    pm_string saved;
} load_arguments;
_Static_assert(offsetof(load_arguments, saved) == 96, "the arguments of load");

const void *pm_run_save(pm_string (*save)(void)) {
    static lowered_text result;
    result.value = save();
    result.given = result.value.at != NULL;
    returned = true;
    return &result;
}

const void *pm_run_load(const void *at, const char *(*load)(const pm_info *, pm_string)) {
    const load_arguments *arguments = at;
    begin_records();
    return opened(load(use_info(&arguments->open), arguments->saved));
}

const void *pm_run_rest(bool end) {
    uintptr_t chunk_end = (uintptr_t)rest.at + rest.length;
    // The call begins with the memory after the chunk, and after names that were set with it.
    if (!(chunk_end > window_at && chunk_end <= window_end)) {
        returned = false;
        top = chunk_end > kept ? chunk_end : kept;
        if ((uintptr_t)names >= kept && (uintptr_t)names + names_length > top)
            top = (uintptr_t)names + names_length;
    }
    return decode((pm_chunk){rest.at, rest.length, end});
}

// --- Calls of the host

typedef struct {
    pm_string name, scalar;
    const uint32_t *shape;
    size_t dimensions;
    bool nullable;
    pm_string logical;
    const pm_string *categories;
    size_t category_count;
    const pm_extension *metadata;
    size_t metadata_count;
} lowered_field;
_Static_assert(sizeof(lowered_field) == 52 && offsetof(lowered_field, shape) == 16 &&
                   offsetof(lowered_field, nullable) == 24 &&
                   offsetof(lowered_field, logical) == 28 &&
                   offsetof(lowered_field, categories) == 36 &&
                   offsetof(lowered_field, metadata) == 44,
               "field");

// In the order of pm_scalar.
static const char *const SCALARS[] = {
    "bytes",  "utf8",   "boolean", "int8",    "int16",    "int32",   "int64",  "uint8",
    "uint16", "uint32", "uint64",  "float16", "bfloat16", "float32", "float64"};

static lowered_field lower_field(const pm_field_spec *field) {
    size_t categories = 0, facts = 0;
    while (field->categories && field->categories[categories]) categories++;
    while (field->metadata && field->metadata[facts].key) facts++;
    pm_string *words = pm_take(categories * sizeof *words);
    for (size_t i = 0; i < categories; i++) words[i] = string(field->categories[i]);
    pm_extension *pairs = pm_take(facts * sizeof *pairs);
    for (size_t i = 0; i < facts; i++)
        pairs[i] = (pm_extension){string(field->metadata[i].key), string(field->metadata[i].value)};
    const uint32_t *shape = field->dimensions ? field->shape : (const uint32_t *)4;
    return (lowered_field){.name = string(field->name),
                           .scalar = string(SCALARS[field->scalar]),
                           .shape = shape,
                           .dimensions = field->dimensions,
                           .nullable = field->nullable,
                           .logical = string(field->logical),
                           .categories = words,
                           .category_count = categories,
                           .metadata = pairs,
                           .metadata_count = facts};
}

void pm_set_schema(const pm_field_spec *fields, size_t count) {
    if (field_count) pm_fail("the schema was set twice");
    lowered_field *lowered = pm_take(count * sizeof *lowered);
    list all = {0};
    for (size_t i = 0; i < count; i++) {
        lowered[i] = lower_field(&fields[i]);
        pm_string name = lowered[i].name;
        memcpy(add(&all, name.length + 1), name.at, name.length + 1);
        if (fields[i].nullable && i < MAX_FIELDS) nullable[i / 8] |= 1 << i % 8;
    }
    names = (char *)all.at, names_length = all.length;
    field_count = count;
    host_set_schema(lowered, count);
}

void pm_set_metadata(const char *key, const char *value) {
    host_set_metadata(key, strlen(key), value, strlen(value));
}

void pm_log(pm_level level, const char *message) {
    host_log(level, message, strlen(message));
}

_Noreturn void pm_fail(const char *why) {
    pm_log(PM_ERROR, why);
    __builtin_trap();
}

typedef struct {
    uint8_t differs;
    uint32_t index;
} lowered_index;

int64_t pm_check_crc32c(const uint64_t *spans, const uint32_t *expected, size_t count) {
    lowered_index result;
    host_check_crc32c(spans, count, expected, count, &result);
    return result.differs ? (int64_t)result.index : -1;
}

int64_t pm_check_crc32(const uint64_t *spans, const uint32_t *expected, size_t count) {
    lowered_index result;
    host_check_crc32(spans, count, expected, count, &result);
    return result.differs ? (int64_t)result.index : -1;
}

typedef struct {
    uint8_t failed;
    union {
        struct { const uint8_t *at; size_t length; bool last; } block;
        pm_string why;
    };
} lowered_block;
_Static_assert(sizeof(lowered_block) == 16 && offsetof(lowered_block, block) == 4 &&
                   offsetof(lowered_block, block.last) == 12,
               "result<decompressed, string>");

typedef void block_reader(const char *codec, size_t codec_length, uint64_t span, uint64_t skip,
                          uint32_t max, void *result);

static inline pm_block read_parts(block_reader *read, const char *codec, uint64_t span,
                                  uint64_t skip, uint32_t max) {
    pm_block block = {0};
    lowered_block part;
    // The host returns a part of the block at a time. The parts are adjacent in memory, because
    // nothing else is allocated between them.
    do {
        read(codec, strlen(codec), span, skip + block.length, max - block.length, &part);
        if (part.failed)
            return (pm_block){.error = pm_format("%.*s", (int)part.why.length, part.why.at)};
        if (!block.length) block.at = part.block.at;
        block.length += part.block.length;
        block.last = part.block.last;
    } while (!block.last && part.block.length && block.length < max);
    return block;
}

pm_block pm_decompress_part(const char *codec, size_t begin, size_t end, uint64_t skip,
                            uint32_t max) {
    if (fields_so_far()) pm_fail("pm_decompress was called inside a record");
    pm_flush();
    pm_block block = read_parts(host_decompress, codec, pm_pack(begin, end), skip, max);
    block.base = base;
    base += block.length;
    return block;
}

pm_block pm_decompress(const char *codec, size_t begin, size_t end) {
    return pm_decompress_part(codec, begin, end, 0, UINT32_MAX);
}

pm_block pm_read_block(const char *codec, size_t begin, size_t end, uint64_t skip, uint32_t max) {
    return read_parts(host_read_block, codec, pm_pack(begin, end), skip, max);
}

typedef struct {
    uint64_t values, offsets, present;
} lowered_column;

void pm_columns(uint32_t records, const pm_column *columns, const void *made, size_t length,
                size_t start) {
    if (fields_so_far()) pm_fail("pm_columns was called inside a record");
    if (!field_count) pm_fail("columns were emitted before the schema was set: see pm_set_schema");
    pm_flush();
    // The host puts what was made at a multiple of 64 bytes.
    if (length) base = (base + 63) & ~63u;
    lowered_column *lowered = take(field_count * sizeof *lowered, 8);
    for (size_t i = 0; i < field_count; i++) {
        const pm_place *places[] = {&columns[i].values, &columns[i].offsets, &columns[i].present};
        uint64_t spans[3];
        for (size_t n = 0; n < 3; n++)
            spans[n] = places[n]->made ? IN_PAYLOAD | (places[n]->span + ((uint64_t)base << 32))
                                       : places[n]->span;
        lowered[i] = (lowered_column){spans[0], spans[1], spans[2]};
    }
    host_emit_columns(records, lowered, field_count, made, length, start);
    base += length;
}

// --- Text and bytes

static void add_number(list *out, uint64_t number, uint32_t base, uint32_t width) {
    char digits[20];
    size_t n = sizeof digits;
    do digits[--n] = "0123456789abcdef"[number % base];
    while ((number /= base) || sizeof digits - n < width);
    memcpy(add(out, sizeof digits - n), digits + n, sizeof digits - n);
}

const char *pm_format(const char *format, ...) {
    list out = {0};
    va_list args;
    va_start(args, format);
    for (; *format; format++) {
        if (*format != '%') {
            *(char *)add(&out, 1) = *format;
            continue;
        }
        // numbers[0] is the width, numbers[1] the precision.
        uint32_t numbers[2] = {0, 0}, longs = 0;
        bool precise = false;
        for (format++;; format++) {
            uint32_t *number = &numbers[precise];
            if (*format >= '0' && *format <= '9')
                *number = *number * 10 + (uint32_t)(*format - '0');
            else if (*format == '*') *number = (uint32_t)va_arg(args, int);
            else if (*format == 'l') longs++;
            else if (*format == '.') precise = true;
            else if (*format != 'z') break;
        }
        uint32_t width = numbers[0] > 16 ? 16 : numbers[0];
        if (*format == 's') {
            const char *at = va_arg(args, const char *);
            size_t length = precise ? numbers[1] : strlen(at);
            memcpy(add(&out, length), at, length);
        } else if (*format == 'c') {
            *(char *)add(&out, 1) = (char)va_arg(args, int);
        } else if (*format == 'd') {
            int64_t number = longs > 1 ? va_arg(args, long long) : va_arg(args, int);
            if (number < 0) *(char *)add(&out, 1) = '-';
            add_number(&out, number < 0 ? -(uint64_t)number : (uint64_t)number, 10, width);
        } else if (*format == 'u' || *format == 'x') {
            uint64_t number = longs > 1 ? va_arg(args, unsigned long long) : va_arg(args, unsigned);
            add_number(&out, number, *format == 'x' ? 16 : 10, width);
        } else {
            *(char *)add(&out, 1) = *format; // a percent sign
            if (!*format) break;
        }
    }
    va_end(args);
    *(char *)add(&out, 1) = 0;
    return (const char *)out.at;
}

static bool in_range(uint8_t byte, uint8_t from, uint8_t to) {
    return byte >= from && byte <= to;
}

size_t pm_utf8(const uint8_t *at, size_t length) {
    size_t i = 0;
    while (i < length) {
        uint64_t eight;
        if (length - i >= 8 && (memcpy(&eight, at + i, 8), (eight & 0x8080808080808080) == 0)) {
            i += 8;
            continue;
        }
        uint8_t first = at[i];
        if (first < 0x80) {
            i++;
            continue;
        }
        size_t more = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : 1;
        if (first < 0xc2 || first > 0xf4 || length - i <= more) return i;
        uint8_t low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
        uint8_t high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
        if (!in_range(at[i + 1], low, high)) return i;
        for (size_t n = 2; n <= more; n++)
            if (!in_range(at[i + n], 0x80, 0xbf)) return i;
        i += more + 1;
    }
    return i;
}

bool pm_equal(pm_string text, const char *other) {
    return text.length == strlen(other) && memcmp(text.at, other, text.length) == 0;
}

// The first three compile to one instruction each. In the last two, no_builtin keeps the compiler
// from replacing the loop by a call of the same function.
void *memcpy(void *to, const void *from, size_t length) {
    return __builtin_memcpy(to, from, length);
}

void *memmove(void *to, const void *from, size_t length) {
    return __builtin_memmove(to, from, length);
}

void *memset(void *at, int byte, size_t length) {
    return __builtin_memset(at, byte, length);
}

__attribute__((no_builtin)) int memcmp(const void *a, const void *b, size_t length) {
    const uint8_t *x = a, *y = b;
    for (size_t i = 0; i < length; i++)
        if (x[i] != y[i]) return x[i] < y[i] ? -1 : 1;
    return 0;
}

__attribute__((no_builtin)) size_t strlen(const char *text) {
    size_t length = 0;
    while (text[length]) length++;
    return length;
}
