// A pipemill decoder for a small format, to copy and change. A file is the magic `PSTR`, then
// records: a length (16 bits, little-endian), then that many bytes.

#include "pipemill.h"

namespace {

constexpr uint8_t MAGIC[4] = {'P', 'S', 'T', 'R'};
using length_type = uint16_t;
constexpr size_t LENGTH = sizeof(length_type);

// State that is kept between calls. Never keep a part of a record: the host passes unconsumed bytes
// again.
class Decoder {
  public:
    void open(const pm_info &info) {
        text = pm_is_on("text");
        max_record = info.max_record;
        pm_field_spec field = {};
        field.name = "string";
        field.scalar = text ? PM_UTF8 : PM_BYTES;
        pm_set_schema(&field, 1);
    }

    pm_answer decode(pm_chunk chunk) {
        const uint8_t *at = chunk.at;
        size_t place = 0;
        if (!magic_seen) {
            if (chunk.length < sizeof MAGIC) return pm_progress(0, sizeof MAGIC);
            if (memcmp(at, MAGIC, sizeof MAGIC) != 0)
                return pm_fatal(0, pm_format("expected the magic [50, 53, 54, 52], "
                                             "found [%02x, %02x, %02x, %02x]",
                                             at[0], at[1], at[2], at[3]));
            magic_seen = true;
            place = sizeof MAGIC;
        }
        while (chunk.length - place >= LENGTH) {
            length_type length; // little-endian, as all numbers in WebAssembly are
            memcpy(&length, at + place, LENGTH);
            size_t start = place + LENGTH;
            // 64 bits, because a length from the input may be anything.
            uint64_t end = uint64_t{start} + length;
            // A message says what was expected and what was found. pipemill adds file, offset and
            // record number.
            if (length > max_record) {
                const char *why =
                    pm_format("a string of %zu bytes is larger than max_record (%llu)",
                              size_t{length}, max_record);
                return pm_skippable(place, why, end);
            }
            if (end > chunk.length)
                // The chunk ends inside the record: leave it unconsumed, and say how many bytes it
                // has.
                return pm_progress(place, end - place);
            size_t valid = text ? pm_utf8(at + start, length) : length;
            if (valid < length) {
                const char *why =
                    pm_format("expected UTF-8, which ends at byte %zu of the string", valid);
                return pm_skippable(place, why, end);
            }
            // A span: the bytes stay in the chunk, nothing is copied.
            pm_span(place, start, end);
            place = end;
        }
        return pm_progress(place, LENGTH);
    }

  private:
    bool text = false;
    bool magic_seen = false;
    uint64_t max_record = 0;
};

// Each stream has its own instance with its own memory.
Decoder decoder;

} // namespace

void pm_options() {
    pm_option_spec text = {};
    text.name = "text";
    text.kind = "bool";
    text.standard = "false";
    text.help = "make the field text: strings must be UTF-8";
    pm_option(text);
}

const char *pm_open(const pm_info *info) {
    decoder.open(*info);
    return nullptr;
}

pm_answer pm_decode(pm_chunk chunk) { return decoder.decode(chunk); }

// Never called, because no error of this decoder is pm_searchable.
pm_resynced pm_resync(pm_chunk chunk) { return {chunk.length, false}; }
