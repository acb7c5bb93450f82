// The way through the sandbox's wall: the four functions of decoder.c as the exports of a WebAssembly
// component, pipemill's interface as the functions of pipemill.h. No part of the format; leave it as it is.
// The offsets below are those of the component model's canonical ABI for wit/0.1/decoder.wit.

#include <stdarg.h>

#include "pipemill.h"

#define IMPORT(from, name) __attribute__((import_module(from), import_name(name)))
#define EXPORT(name) __attribute__((export_name(name)))
#define HOST "pipemill:decoder/host@0.1.0"
#define DECODER "pipemill:decoder/decoder@0.1.0"

IMPORT(HOST, "log") void host_log(uint32_t level, const char *at, size_t length);
IMPORT(HOST, "set-schema") void host_set_schema(const void *fields, size_t count);
IMPORT(HOST, "emit") void host_emit(const void *spans, size_t n, const void *payload, size_t bytes,
                                    const void *starts, size_t records);
IMPORT(HOST, "check-crc32c") void host_check_crc32c(const void *spans, size_t n, const void *expected,
                                                    size_t m, uint32_t answer[2]);
IMPORT("[export]" DECODER, "[resource-new]stream") uint32_t stream_new(uint32_t number);

// --- Memory: one pile. All that lies on it is taken away when the call after the answer begins, but for
// what lay there when pm_open answered.

extern uint8_t __heap_base;
static uintptr_t kept = (uintptr_t)&__heap_base, top = (uintptr_t)&__heap_base;
static bool answered;

static void *take(size_t length, size_t align) {
    if (answered) top = kept;
    answered = false;
    uintptr_t at = (top + align - 1) & ~(uintptr_t)(align - 1);
    if (at < top || at + length < at) __builtin_trap();
    size_t pages = __builtin_wasm_memory_size(0), wanted = (at + length + 65535ull) >> 16;
    // The host knows that it refused memory, and says so.
    if (wanted > pages && __builtin_wasm_memory_grow(0, wanted - pages) == (size_t)-1) __builtin_trap();
    top = at + length;
    return (void *)at;
}

EXPORT("cabi_realloc") void *cabi_realloc(void *old, size_t old_length, size_t align, size_t length) {
    if (length <= old_length) return old ? old : (void *)align;
    void *at = take(length, align);
    return old_length ? memcpy(at, old, old_length) : at;
}

void *pm_take(size_t length) {
    return memset(take(length, 16), 0, length);
}

// What grows: begins in memory of its own, goes on on the pile.
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

// --- Records: gathered, and handed over a few thousand at a time, as a call through the wall costs as
// much as framing ten of them.

enum { FLUSH_SPANS = 4096, FLUSH_PAYLOAD = 65536 };
static const uint64_t MADE = 1ull << 63, ABSENT = ~0ull;

static uint64_t first_spans[FLUSH_SPANS + 64];
static uint32_t first_starts[FLUSH_SPANS + 64];
static _Alignas(16) uint8_t first_payload[FLUSH_PAYLOAD + 1024];
static list spans, starts, payload;
static size_t whole_spans, whole_payload; // of records that were ended
static bool want_starts;

static void begin_records(void) {
    spans = (list){(uint8_t *)first_spans, 0, sizeof first_spans};
    starts = (list){(uint8_t *)first_starts, 0, sizeof first_starts};
    payload = (list){first_payload, 0, sizeof first_payload};
    whole_spans = whole_payload = 0;
}

// A record that was not ended is left out.
static void flush(void) {
    if (whole_spans)
        host_emit(spans.at, whole_spans / 8, payload.at, whole_payload, starts.at, starts.length / 4);
    spans.length = starts.length = payload.length = whole_spans = whole_payload = 0;
}

static inline void add_span(uint64_t span) {
    *(uint64_t *)add(&spans, 8) = span;
}

void pm_end_record(size_t start) {
    if (want_starts) *(uint32_t *)add(&starts, 4) = start;
    whole_spans = spans.length;
    whole_payload = payload.length;
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
    add_span(MADE | (uint64_t)payload.length << 32 | length);
    return add(&payload, length);
}

void pm_field_copy(const void *bytes, size_t length) {
    memcpy(pm_field_made(length), bytes, length);
}

void pm_absent(void) {
    add_span(ABSENT);
}

// --- Answers

pm_answer pm_progress(size_t consumed, size_t need) {
    return (pm_answer){.kind = 3, .offset = consumed, .need = need};
}

static pm_answer error(uint32_t kind, size_t offset, const char *message, uint64_t resume) {
    return (pm_answer){kind, offset, 0, resume, {message, strlen(message)}};
}

pm_answer pm_skippable(size_t offset, const char *message, uint64_t resume) {
    return error(0, offset, message, resume);
}

pm_answer pm_searchable(size_t offset, const char *message, uint64_t from) {
    return error(1, offset, message, from);
}

pm_answer pm_fatal(size_t offset, const char *message) {
    return error(2, offset, message, 0);
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
        text(spec.name), text(spec.kind), spec.standard != NULL, text(spec.standard), text(spec.help)};
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

// The host has checked that it is a number that fits.
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

EXPORT(DECODER "#options") const lowered_list *wall_options(void) {
    static lowered_list answer;
    specs = (list){0};
    pm_options();
    answer = (lowered_list){specs.at, specs.length / sizeof(lowered_option)};
    answered = true;
    return &answer;
}

EXPORT(DECODER "#[static]stream.open")
const void *wall_open(const given_option *options, size_t count, const char *channel, size_t channel_length,
                 uint32_t epoch, const char *object, size_t object_length, uint64_t max_record,
                 uint32_t offsets) {
    static struct { uint32_t failed; union { uint32_t stream; pm_text why; }; } answer;
    static pm_info info;
    begin_records();
    given = options, given_count = count, want_starts = offsets;
    pm_options();
    info = (pm_info){{channel, channel_length}, epoch, {object, object_length}, max_record};
    const char *why = pm_open(&info);
    answer.failed = why != NULL;
    if (why) answer.why = text(why);
    else answer.stream = stream_new(1);
    kept = top;
    answered = true;
    return &answer;
}

EXPORT(DECODER "#[method]stream.decode")
const void *wall_decode(uint32_t stream, const uint8_t *at, size_t length, uint32_t end) {
    static struct {
        uint32_t failed, align;
        union {
            struct { uint32_t consumed, need; };
            struct { uint32_t offset; pm_text message; uint32_t gap, kind; uint64_t resume; };
        };
    } answer;
    (void)stream;
    begin_records();
    pm_answer said = pm_decode((pm_chunk){at, length, end});
    flush();
    answer.failed = said.kind != 3;
    answer.offset = said.offset; // or `consumed`, at the same place
    if (answer.failed) {
        answer.message = said.message, answer.kind = said.kind, answer.resume = said.resume;
    } else {
        answer.need = said.need;
    }
    answered = true;
    return &answer;
}

EXPORT(DECODER "#[method]stream.resync")
const void *wall_resync(uint32_t stream, const uint8_t *at, size_t length, uint32_t end) {
    static struct { uint32_t consumed, found; } answer;
    (void)stream;
    pm_resynced said = pm_resync((pm_chunk){at, length, end});
    answer.consumed = said.consumed, answer.found = said.found;
    answered = true;
    return &answer;
}

_Static_assert(sizeof(lowered_option) == 36 && sizeof(pm_text) == 8, "as the canonical ABI has them");

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
    uint32_t answer[2];
    host_check_crc32c(spans, count, expected, count, answer);
    return (uint8_t)answer[0] ? (int64_t)answer[1] : -1;
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
        // Number 0 is the width, number 1 the precision.
        uint32_t numbers[2] = {0, 0}, longs = 0;
        bool precise = false;
        for (format++;; format++) {
            uint32_t *number = &numbers[precise];
            if (*format >= '0' && *format <= '9') *number = *number * 10 + (uint32_t)(*format - '0');
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
            *(char *)add(&out, 1) = *format; // %%
            if (!*format) break;
        }
    }
    va_end(args);
    *(char *)add(&out, 1) = 0;
    return (const char *)out.at;
}

static bool follows(uint8_t byte, uint8_t from, uint8_t to) {
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
        if (!follows(at[i + 1], low, high)) return i;
        for (size_t n = 2; n <= more; n++)
            if (!follows(at[i + n], 0x80, 0xbf)) return i;
        i += more + 1;
    }
    return i;
}

bool pm_equal(pm_text text, const char *other) {
    return text.length == strlen(other) && memcmp(text.at, other, text.length) == 0;
}

// An instruction each; the compiler must not take the functions for calls of themselves.
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
