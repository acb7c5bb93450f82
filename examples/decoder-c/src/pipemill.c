// Connects decoder.c with the host: its four functions become the exports of a WebAssembly
// component, and the imports become the functions of pipemill.h. It has nothing to do with the
// format; don't change it. The layouts of the structs are those of the component model's canonical
// ABI for wit/0.1/decoder.wit.

#include <stdarg.h>

#include "pipemill.h"

#define IMPORT(from, name) __attribute__((import_module(from), import_name(name)))
#define EXPORT(name) __attribute__((export_name(name)))
#define HOST "pipemill:decoder/host@0.1.0"
#define DECODER "pipemill:decoder/decoder@0.1.0"

IMPORT(HOST, "log") void host_log(uint32_t level, const char *at, size_t length);
IMPORT(HOST, "set-schema") void host_set_schema(const void *fields, size_t count);
IMPORT(HOST, "emit") void host_emit(uint32_t records, const void *spans, size_t n, const void *payload,
                                    size_t bytes, const void *starts, size_t m);
IMPORT(HOST, "check-crc32c") void host_check_crc32c(const void *spans, size_t n,
                                                    const void *expected, size_t m,
                                                    uint32_t result[2]);
IMPORT("[export]" DECODER, "[resource-new]stream") uint32_t stream_new(uint32_t number);

// --- Memory: one stack that only grows during a call of the host. The first allocation of the next
// call resets it to where it was when pm_open returned.

extern uint8_t __heap_base;
static uintptr_t kept = (uintptr_t)&__heap_base, top = (uintptr_t)&__heap_base;
static bool returned; // whether the last call of the host returned

static void *take(size_t length, size_t align) {
    if (returned) top = kept;
    returned = false;
    uintptr_t at = (top + align - 1) & ~(uintptr_t)(align - 1);
    if (at < top || at + length < at) __builtin_trap();
    size_t pages = __builtin_wasm_memory_size(0), wanted = (at + length + 65535ull) >> 16;
    // The host reports by itself that it refused memory.
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

enum { FLUSH_SPANS = 4096, FLUSH_PAYLOAD = 65536 };
static const uint64_t IN_PAYLOAD = 1ull << 63, ABSENT = ~0ull;

static uint64_t first_spans[FLUSH_SPANS + 64];
static uint32_t first_starts[FLUSH_SPANS + 64];
static _Alignas(16) uint8_t first_payload[FLUSH_PAYLOAD + 1024];
static list spans, starts, payload;
static size_t whole_spans, whole_payload; // bytes of the records that were ended
static uint32_t whole_records;
static bool want_starts;

static void begin_records(void) {
    spans = (list){(uint8_t *)first_spans, 0, sizeof first_spans};
    starts = (list){(uint8_t *)first_starts, 0, sizeof first_starts};
    payload = (list){first_payload, 0, sizeof first_payload};
    whole_spans = whole_payload = whole_records = 0;
}

// Passes all records to the host, except one that was not ended.
static void flush(void) {
    if (whole_spans)
        host_emit(whole_records, spans.at, whole_spans / 8, payload.at, whole_payload, starts.at,
                  starts.length / 4);
    spans.length = starts.length = payload.length = whole_spans = whole_payload = 0;
    whole_records = 0;
}

static inline void add_span(uint64_t span) {
    *(uint64_t *)add(&spans, 8) = span;
}

void pm_end_record(size_t start) {
    if (want_starts) *(uint32_t *)add(&starts, 4) = start;
    whole_spans = spans.length;
    whole_payload = payload.length;
    whole_records++;
    if (whole_spans >= FLUSH_SPANS * 8 || whole_payload >= FLUSH_PAYLOAD) flush();
}

void pm_span(size_t start, size_t begin, size_t end) {
    add_span(pm_pack(begin, end));
    pm_end_record(start);
}

void pm_field(size_t begin, size_t end) {
    add_span(pm_pack(begin, end));
}

uint8_t *pm_field_made(size_t length) {
    add_span(IN_PAYLOAD | (uint64_t)payload.length << 32 | length);
    return add(&payload, length);
}

void pm_field_copy(const void *bytes, size_t length) {
    memcpy(pm_field_made(length), bytes, length);
}

void pm_absent(void) {
    add_span(ABSENT);
}

// --- Results

// The cases of `resume` in the interface; an answer without an error has the kind after them.
enum { AT, SCAN, NONE, REFUSED, PROGRESS };

pm_answer pm_progress(size_t consumed, size_t need) {
    return (pm_answer){.kind = PROGRESS, .offset = consumed, .need = need};
}

static pm_answer error(uint32_t kind, size_t offset, const char *message, uint64_t resume) {
    return (pm_answer){kind, offset, 0, resume, {message, strlen(message)}};
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

// --- Options

typedef struct {
    pm_text name, kind;
    uint32_t has_standard;
    pm_text standard, help;
} lowered_option;

typedef struct {
    pm_text name, value;
} given_option;

static list specs;
static const given_option *given;
static size_t given_count;

static pm_text text(const char *at) {
    return at ? (pm_text){at, strlen(at)} : (pm_text){"", 0};
}

void pm_option(pm_option_spec spec) {
    *(lowered_option *)add(&specs, sizeof(lowered_option)) = (lowered_option){
        text(spec.name), text(spec.kind), spec.standard != NULL, text(spec.standard),
        text(spec.help)};
}

pm_text pm_get(const char *option) {
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
    pm_text digits = pm_get(option);
    uint64_t number = 0;
    for (size_t i = digits.length && digits.at[0] == '+'; i < digits.length; i++)
        number = number * 10 + (uint64_t)(digits.at[i] - '0');
    return number;
}

// --- Exports

typedef struct {
    const void *at;
    size_t length;
} lowered_list;

EXPORT(DECODER "#options") const lowered_list *export_options(void) {
    static lowered_list result;
    specs = (list){0};
    pm_options();
    result = (lowered_list){specs.at, specs.length / sizeof(lowered_option)};
    returned = true;
    return &result;
}

EXPORT(DECODER "#[static]stream.open")
const void *export_open(const given_option *options, size_t count, const char *channel,
                        size_t channel_length, uint32_t epoch, const char *object,
                        size_t object_length, uint64_t max_record, uint32_t offsets) {
    static struct { uint32_t failed; union { uint32_t stream; pm_text why; }; } result;
    static pm_info info;
    begin_records();
    given = options, given_count = count, want_starts = offsets;
    pm_options();
    info = (pm_info){{channel, channel_length}, epoch, {object, object_length}, max_record};
    const char *why = pm_open(&info);
    result.failed = why != NULL;
    if (why) result.why = text(why);
    else result.stream = stream_new(1);
    kept = top;
    returned = true;
    return &result;
}

EXPORT(DECODER "#[method]stream.decode")
const void *export_decode(uint32_t stream, const uint8_t *at, size_t length, uint32_t end) {
    static struct {
        uint32_t failed, align;
        union {
            struct { uint32_t consumed, need; };
            struct { uint32_t offset; pm_text message; uint32_t gap, kind; uint64_t resume; };
        };
    } result;
    (void)stream;
    begin_records();
    pm_answer answer = pm_decode((pm_chunk){at, length, end});
    flush();
    result.failed = answer.kind != PROGRESS;
    result.offset = answer.offset; // or `consumed`, which has the same offset in the union
    if (result.failed) {
        result.message = answer.message, result.kind = answer.kind, result.resume = answer.resume;
    } else {
        result.need = answer.need;
    }
    returned = true;
    return &result;
}

EXPORT(DECODER "#[method]stream.resync")
const void *export_resync(uint32_t stream, const uint8_t *at, size_t length, uint32_t end) {
    static struct { uint32_t consumed, found; } result;
    (void)stream;
    pm_resynced resynced = pm_resync((pm_chunk){at, length, end});
    result.consumed = resynced.consumed, result.found = resynced.found;
    returned = true;
    return &result;
}

_Static_assert(sizeof(lowered_option) == 36 && sizeof(pm_text) == 8, "sizes of the canonical ABI");

// --- Calls of the host

typedef struct {
    pm_text name;
    uint32_t scalar;
    const uint32_t *shape;
    size_t dimensions;
} lowered_field;

void pm_schema(const pm_field_spec *fields, size_t count) {
    lowered_field *lowered = pm_take(count * sizeof *lowered);
    for (size_t i = 0; i < count; i++)
        lowered[i] = (lowered_field){text(fields[i].name), fields[i].scalar,
                                     fields[i].dimensions ? fields[i].shape : (const uint32_t *)4,
                                     fields[i].dimensions};
    host_set_schema(lowered, count);
}

void pm_log(pm_level level, const char *message) {
    host_log(level, message, strlen(message));
}

_Noreturn void pm_fail(const char *why) {
    pm_log(PM_ERROR, why);
    __builtin_trap();
}

int64_t pm_check_crc32c(const uint64_t *spans, const uint32_t *expected, size_t count) {
    uint32_t result[2];
    host_check_crc32c(spans, count, expected, count, result);
    return (uint8_t)result[0] ? (int64_t)result[1] : -1;
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

bool pm_equal(pm_text text, const char *other) {
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
