//! A pipemill decoder for a small format, to copy and change. A file is the magic `PSTR`, then
//! records: a length (16 bits, little-endian), then that many bytes.

const std = @import("std");
const pm = @import("pipemill.zig");

pub const panic = pm.panic;

comptime {
    pm.exportDecoder(@This());
}

const magic = "PSTR";
const Length = u16;

// State that is kept between calls. Never keep a part of a record: the host passes unconsumed bytes
// again.
var text = false;
var max_record: u64 = 0;
var magic_seen = false;

pub fn options() void {
    pm.option(.{
        .name = "text",
        .kind = "bool",
        .standard = "false",
        .help = "make the field text: strings must be UTF-8",
    });
}

pub fn open(info: *const pm.Info) ?pm.Text {
    text = pm.isOn("text");
    max_record = info.max_record;
    pm.setSchema(&.{.{ .name = "string", .scalar = if (text) .utf8 else .bytes }});
    return null;
}

pub fn decode(chunk: pm.Chunk) pm.Answer {
    const bytes = chunk.bytes();
    var place: usize = 0;
    if (!magic_seen) {
        if (bytes.len < magic.len) return pm.progress(0, magic.len);
        const found = bytes[0..magic.len];
        if (!std.mem.eql(u8, found, magic)) {
            const why = "expected the magic [50, 53, 54, 52], " ++
                "found [{x:0>2}, {x:0>2}, {x:0>2}, {x:0>2}]";
            return pm.fatal(0, pm.format(why, .{ found[0], found[1], found[2], found[3] }));
        }
        magic_seen = true;
        place = magic.len;
    }
    while (bytes.len - place >= @sizeOf(Length)) {
        const start = place + @sizeOf(Length);
        const length = std.mem.readInt(Length, bytes[place..][0..@sizeOf(Length)], .little);
        // 64 bits, because a length from the input may be anything.
        const end = @as(u64, start) + length;
        // A message says what was expected and what was found. pipemill adds file, offset and
        // record number.
        if (length > max_record) {
            const why = "a string of {} bytes is larger than max_record ({})";
            return pm.skippable(place, pm.format(why, .{ length, max_record }), end);
        }
        // The chunk ends inside the record: leave it unconsumed, and say how many bytes it has.
        if (end > bytes.len) return pm.progress(place, end - place);
        const valid = if (text) pm.utf8(bytes[start..][0..length]) else length;
        if (valid < length) {
            const why = "expected UTF-8, which ends at byte {} of the string";
            return pm.skippable(place, pm.format(why, .{valid}), end);
        }
        // A span: the bytes stay in the chunk, nothing is copied.
        pm.span(place, start, @intCast(end));
        place = @intCast(end);
    }
    return pm.progress(place, @sizeOf(Length));
}

// Never called, because no error of this decoder is `searchable`.
pub fn resync(chunk: pm.Chunk) pm.Resynced {
    return .{ .consumed = chunk.length, .found = false };
}
