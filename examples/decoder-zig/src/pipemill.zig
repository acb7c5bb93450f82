//! Write a pipemill decoder in Zig. Version 0.3 of the interface.
//!
//! You write four functions, options, open, decode and resync, in src/decoder.zig, and more if you
//! want what `exportDecoder` calls optional. This file is their arguments and the functions that
//! they may call; src/pipemill.c connects them with the host. Don't change either. There are no
//! files, no clock and no `std.debug.print`; see "Memory" and "Text" instead.
//!
//! THE RULE. However the input is split into chunks, the records and the errors are the same. Keep
//! no part of a record between calls: leave its bytes unconsumed. The host passes them again,
//! followed by more bytes.
//!
//! Each stream (one object, or one epoch of a FIFO) has its own instance with its own memory. So
//! keep state in plain global variables: they have their first values when a stream starts.

const std = @import("std");

// --- What you write

/// Makes the functions of this file the decoder's:
///
///     pub fn options() void                        declares the options: calls `option` for each
///     pub fn open(info: *const Info) ?Text         starts a stream; see below
///     pub fn decode(chunk: Chunk) Answer           emits the records that are whole in the chunk
///     pub fn resync(chunk: Chunk) Resynced         searches for a record, after `searchable`
///
/// `open` reads the options, then calls `setSchema`. If only the input shows the fields, call it
/// later, before the first record. It returns null, or a text for the operator that says what is
/// wrong and what would be right.
///
/// `decode` returns how many bytes are finished. At the end of the input, the host reports
/// unconsumed bytes as an input that ends inside a record. For an empty object it is called once,
/// with an empty chunk that has `end`.
///
/// `resync` gets a chunk that starts at the position that the error named. It is called again with
/// the bytes after the consumed ones, until it finds a record or the input ends.
///
/// These are optional; docs/interface.md has the rules of each:
///
///     pub fn plan(info: *const Info, seen: []const Piece) Step
///     pub fn companions() ?Text                    calls `companion` for each; with `plan` only
///     pub fn prepare() ?Text
///     pub fn save() ?[]const u8
///     pub fn load(info: *const Info, saved: []const u8) ?Text
///     pub const keeps_rest = true;
///
/// `plan` chooses the bytes of an object that `decode` is shown, in steps: `seen` has the ranges that
/// earlier steps have asked for, in their order; nothing in the first one. The object has
/// `info.size` bytes. The answer depends on nothing but the arguments, so keep nothing between
/// steps. Objects that can't be read at any place (pipes, compressed files) have no plan: `decode` is
/// shown them as they are. `companions` declares objects beside each object that belong to it.
///
/// `prepare` makes what all streams of a channel have in common, in global variables and memory of
/// `allocator`: streams begin with a copy of both. It is called once, before `open`; a host that
/// knows only an earlier version of the interface never calls it. It depends on nothing but the
/// options and their files.
///
/// `save` returns what another stream must know to go on after the bytes that the last call of
/// `decode` consumed: at most 64 KiB, better a few hundred bytes, which begin with a version of your
/// own. null: it can't go on there. The call changes nothing. `load` starts a stream, as `open` does,
/// that gets the bytes after such a place and emits the same records as the first one. What it gets
/// is valid until the stream ends, and may have been changed by others, so check it.
///
/// With `keeps_rest`, chunks of calls that return `more` are not copied again.
pub fn exportDecoder(comptime decoder: type) void {
    const exports = struct {
        fn options() callconv(.c) void {
            decoder.options();
        }
        fn open(info: *const Info) callconv(.c) ?Text {
            return decoder.open(info);
        }
        fn decode(chunk: Chunk) callconv(.c) Answer {
            return decoder.decode(chunk);
        }
        fn resync(chunk: Chunk) callconv(.c) Resynced {
            return decoder.resync(chunk);
        }
    };
    @export(&exports.options, .{ .name = "pm_options" });
    @export(&exports.open, .{ .name = "pm_open" });
    @export(&exports.decode, .{ .name = "pm_decode" });
    @export(&exports.resync, .{ .name = "pm_resync" });
    if (@hasDecl(decoder, "plan")) exportPlan(decoder);
    if (@hasDecl(decoder, "prepare")) exportPrepare(decoder);
    if (@hasDecl(decoder, "save")) exportCarry(decoder);
    if (@hasDecl(decoder, "keeps_rest")) exportRest();
}

/// The names of optional exports begin with this.
const interface = "pipemill:decoder/";

/// The argument or the result of a function that the host calls.
const Lowered = *const anyopaque;

fn yes() callconv(.c) u32 {
    return 1;
}

fn exportPlan(comptime decoder: type) void {
    const exports = struct {
        fn plan(info: *const Info, seen: ?[*]const Piece, count: usize) callconv(.c) Step {
            return decoder.plan(info, if (count == 0) &.{} else seen.?[0..count]);
        }
        fn step(arguments: Lowered) callconv(.c) Lowered {
            return pm_run_plan(arguments, &plan);
        }
        fn declare() callconv(.c) ?Text {
            return decoder.companions();
        }
        fn companions(given: ?Lowered, count: usize) callconv(.c) Lowered {
            const has = @hasDecl(decoder, "companions");
            return pm_run_companions(given, count, if (has) &declare else null);
        }
    };
    @export(&yes, .{ .name = interface ++ "plan@0.3.0#plans" });
    @export(&exports.companions, .{ .name = interface ++ "plan@0.3.0#companions" });
    @export(&exports.step, .{ .name = interface ++ "plan@0.3.0#step" });
}

fn exportPrepare(comptime decoder: type) void {
    const exports = struct {
        fn prepare() callconv(.c) ?Text {
            return decoder.prepare();
        }
        fn run(given: ?Lowered, count: usize, files: ?Lowered, n: usize) callconv(.c) Lowered {
            return pm_run_prepare(given, count, files, n, &prepare);
        }
    };
    @export(&yes, .{ .name = interface ++ "preparing@0.3.0#prepares" });
    @export(&exports.run, .{ .name = interface ++ "preparing@0.3.0#prepare" });
}

fn exportCarry(comptime decoder: type) void {
    const exports = struct {
        fn save() callconv(.c) String {
            const saved = decoder.save() orelse return .{ .at = null, .length = 0 };
            return .{ .at = saved.ptr, .length = saved.len };
        }
        fn load(info: *const Info, saved: String) callconv(.c) ?Text {
            return decoder.load(info, saved.slice());
        }
        fn runSave(_: u32) callconv(.c) Lowered {
            return pm_run_save(&save);
        }
        fn runLoad(arguments: Lowered) callconv(.c) Lowered {
            return pm_run_load(arguments, &load);
        }
    };
    @export(&yes, .{ .name = interface ++ "carry@0.3.0#carries" });
    @export(&exports.runSave, .{ .name = interface ++ "carry@0.3.0#save" });
    @export(&exports.runLoad, .{ .name = interface ++ "carry@0.3.0#load" });
}

fn exportRest() void {
    const exports = struct {
        fn decode(_: u32, end: u32) callconv(.c) Lowered {
            return pm_run_rest(end != 0);
        }
    };
    @export(&exports.decode, .{ .name = interface ++ "rest@0.3.0#decode" });
}

/// Text that ends with a zero byte: a literal, or the result of `format`.
pub const Text = [*:0]const u8;

/// Text, or bytes, of the host.
pub const String = extern struct {
    at: ?[*]const u8,
    length: usize,

    pub fn slice(self: String) []const u8 {
        return if (self.at) |at| at[0..self.length] else "";
    }
};

/// A fact about a stream.
pub const Extension = extern struct { key: String, value: String };

/// The context of a stream. The pointer and the texts stay valid until the stream ends.
pub const Info = extern struct {
    channel: String,
    epoch: u32,
    /// A path or a URL; for a FIFO, its path.
    object: String,
    /// The largest record that the channel accepts, in bytes.
    max_record: u64,
    /// Whether the next member is known.
    has_size: bool,
    /// The stored bytes of the object; a compressed one has more.
    size: u64,
    /// As the object's store has it; `at` is null if it has none.
    content_type: String,
    /// The same.
    etag: String,
    extension_list: ?[*]const Extension,
    extension_count: usize,

    /// More facts; ignore the keys that you don't know.
    pub fn extensions(self: *const Info) []const Extension {
        return if (self.extension_list) |it| it[0..self.extension_count] else &.{};
    }

    /// The value of a fact; null if the stream has no such fact.
    pub fn fact(self: *const Info, key: Text) ?[]const u8 {
        const value = pm_fact(self, key);
        return if (value.at == null) null else value.slice();
    }

    /// Whether the stream is shown the parts of a plan.
    pub fn isPlanned(self: *const Info) bool {
        return pm_is_planned(self);
    }

    /// The bytes of the companion with this number, from 1, for `plan`.
    pub fn companionSize(self: *const Info, which: u32) u64 {
        return pm_companion_size(self, which);
    }
};

/// A part of the input. It is valid until the call returns.
pub const Chunk = extern struct {
    at: [*]const u8,
    length: usize,
    /// No byte follows.
    end: bool,

    pub fn bytes(self: Chunk) []const u8 {
        return self.at[0..self.length];
    }
};

/// The result of `decode`: made by `progress`, `more` or one of the errors.
pub const Answer = extern struct {
    kind: u32,
    offset: u32,
    need: u32,
    more: bool,
    at: u64,
    message: String,
};

/// The result of `resync`: no record starts in the consumed bytes; `found` says whether a record
/// starts right after them.
pub const Resynced = extern struct { consumed: usize, found: bool };

/// `length` bytes from byte `offset` on: of the object if `of` is 0, else of its companion with this
/// number, from 1.
pub const Range = extern struct { of: u32 = 0, offset: u64, length: u64 };

/// Bytes that the host has read.
pub const Piece = extern struct {
    of: u32,
    offset: u64,
    at: ?[*]const u8,
    length: usize,

    pub fn slice(self: Piece) []const u8 {
        return if (self.at) |at| at[0..self.length] else "";
    }
};

/// Bytes that a stream is shown one after the other: the context, which is your own and has all that
/// `decode` must know of the directory, and then those of the ranges. Let the context begin with a
/// mark. A stream may begin at any part.
pub const Part = struct {
    context: []const u8 = "",
    ranges: []const Range = &.{},
    /// How many records `decode` emits of these bytes, if the directory says it. The host counts them,
    /// and another number is an error. `decode` then consumes all bytes of the part when it is shown
    /// them, without a byte of the next one.
    records: ?u64 = null,
};

/// The result of `plan`: made by `read`, `parts`, `whole` or `noPlan`.
pub const Step = extern struct { kind: u32, list: ?*const anyopaque, count: usize, why: ?Text };

/// Call `plan` again with these, too: 1 to 64 in a step, 32 MiB and 32 steps for an object. Ranges,
/// parts and contexts are copied.
pub fn read(ranges: []const Range) Step {
    return pm_read(ranges.ptr, ranges.len);
}

/// The plan. With no parts, the object has no records.
pub fn parts(all: []const Part) Step {
    const specs = allocator.alloc(PartSpec, all.len) catch unreachable;
    for (all, specs) |part, *spec| spec.* = .{
        .context = part.context.ptr,
        .context_length = part.context.len,
        .ranges = part.ranges.ptr,
        .range_count = part.ranges.len,
        .has_records = part.records != null,
        .records = part.records orelse 0,
    };
    return pm_parts(specs.ptr, specs.len);
}

/// Show the object as without a plan.
pub fn whole() Step {
    return pm_whole();
}

/// The decoder refuses the object, and the channel fails. For one that is damaged, make a part whose
/// context says so, and let `decode` report it.
pub fn noPlan(why: Text) Step {
    return pm_no_plan(why);
}

/// In `companions` only, at most 4 times: an object whose name ends with `object`, such as ".bin", has
/// a companion whose name has the end `beside`, such as ".idx", in place of it.
pub fn companion(object: Text, beside: Text) void {
    pm_companion(object, beside);
}

/// The content of the file that an option of the kind "file" names, from `prepare` on; null if the
/// operator has named none. `get` gives "sha256:" and its digest.
pub fn file(name: Text) ?[]const u8 {
    const content = pm_file(name);
    return if (content.at == null) null else content.slice();
}

/// A panic ends the stream, with its text as the reason. In src/decoder.zig:
/// `pub const panic = pm.panic;`
pub const panic = std.debug.FullPanic(panicked);

fn panicked(message: []const u8, _: ?usize) noreturn {
    // The text must not need memory: it may be what is missing.
    var buffer: [1000]u8 = undefined;
    const length = @min(message.len, buffer.len - 1);
    @memcpy(buffer[0..length], message[0..length]);
    buffer[length] = 0;
    fail(buffer[0..length :0]);
}

// --- Options

/// An option that the operator may set. The kind is "string", "bool", "int", "choice:a|b|c", "list"
/// (words, separated by commas) or "file" (see `file`). The host refuses other values, and options
/// that are not declared.
pub const OptionSpec = extern struct {
    name: Text,
    kind: Text,
    /// The default; null for none.
    standard: ?Text = null,
    /// One line.
    help: Text,
    /// The operator must set it, and it has no default.
    required: bool = false,
};

/// In `options` only.
pub fn option(spec: OptionSpec) void {
    pm_option(spec);
}

/// The operator's value, else the default, else nothing.
pub fn get(name: Text) []const u8 {
    return pm_get(name).slice();
}

/// Whether the value is `true`.
pub fn isOn(name: Text) bool {
    return pm_is_on(name);
}

/// The value as a number, or 0.
pub fn int(name: Text) u64 {
    return pm_int(name);
}

/// The words of a "list", without the spaces around them; empty words are left out.
pub fn getList(name: Text) []const String {
    var count: usize = 0;
    const words = pm_get_list(name, &count);
    return if (count == 0) &.{} else words[0..count];
}

// --- Fields

/// The type of one element of a field. Numbers are little-endian, a boolean is one byte, 0 or 1.
pub const Scalar = enum(c_int) {
    bytes,
    utf8,
    boolean,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
    float16,
    bfloat16,
    float32,
    float64,
};

/// A fact for the consumer.
pub const Pair = extern struct { key: ?Text = null, value: ?Text = null };

/// One field of every record. Without a shape it is a single element. A dimension of 0 means any
/// size: it follows from the length of each value. `bytes` and `utf8` with one dimension are lists:
/// see `list`.
pub const Field = struct {
    name: Text,
    scalar: Scalar = .bytes,
    shape: []const u32 = &.{},
    /// Whether a record may lack it: see `absent`.
    nullable: bool = false,
    /// What the values mean, like "timestamp[us]"; null for nothing.
    logical: ?Text = null,
    /// The values are indices into this list.
    categories: []const Text = &.{},
    /// Facts for the consumer.
    metadata: []const Pair = &.{},
};

/// Sets the fields of every record: once, before the first record.
pub fn setSchema(fields: []const Field) void {
    const specs = allocator.alloc(FieldSpec, fields.len) catch unreachable;
    for (fields, specs) |given, *spec| spec.* = .{
        .name = given.name,
        .scalar = given.scalar,
        .dimensions = given.shape.len,
        .shape = given.shape.ptr,
        .nullable = given.nullable,
        .logical = given.logical,
        .categories = ended(?Text, given.categories, null),
        .metadata = ended(Pair, given.metadata, .{}),
    };
    pm_set_schema(specs.ptr, specs.len);
}

/// A copy of the list with an entry that ends it; null if it is empty.
fn ended(comptime T: type, given: anytype, end: T) ?[*]const T {
    if (given.len == 0) return null;
    const copy = allocator.alloc(T, given.len + 1) catch unreachable;
    for (given, copy[0..given.len]) |entry, *place| place.* = entry;
    copy[given.len] = end;
    return copy.ptr;
}

/// Reports a fact about the object to the consumers, before the first record. The key
/// "pipemill.restart" is for the host, at any time: with the value "0", decoding can restart at the
/// end of the bytes that this and later calls consume. With a header of N bytes, which must be
/// passed first, it is N.
pub fn setMetadata(key: Text, value: Text) void {
    pm_set_metadata(key, value);
}

// --- Records, in the order of the input
//
// Offsets count from the start of the chunk. `start` is the start of the record, including its
// framing. Bytes of the chunk are not copied.

/// Emits a record of one field: the bytes of the chunk from `begin` up to `to`, without `to`.
pub fn span(start: usize, begin: usize, to: usize) void {
    pm_span(start, begin, to);
}

/// The same, of bytes that you made.
pub fn bytes(start: usize, made: []const u8) void {
    pm_bytes(start, made.ptr, made.len);
}

// A record of several fields: one of these for each field, in the order of the schema, then
// endRecord.

/// Bytes of the chunk.
pub fn field(begin: usize, to: usize) void {
    pm_field(begin, to);
}

/// Bytes that you made.
pub fn fieldBytes(made: []const u8) void {
    pm_field_bytes(made.ptr, made.len);
}

/// The same: fill it before the next call.
pub fn fieldMade(length: usize) []u8 {
    return pm_field_made(length)[0..length];
}

/// A list of bytes or text.
pub fn list(elements: []const []const u8) void {
    const strings = allocator.alloc(String, elements.len) catch unreachable;
    for (elements, strings) |element, *it| it.* = .{ .at = element.ptr, .length = element.len };
    pm_list(strings.ptr, strings.len);
}

/// Nothing, in a field that is nullable.
pub fn absent() void {
    pm_absent();
}

/// One number or boolean: `number(u32, 7)`.
pub fn number(comptime T: type, value: T) void {
    numbers(T, &.{value});
}

/// Several numbers.
pub fn numbers(comptime T: type, values: []const T) void {
    fieldBytes(std.mem.sliceAsBytes(values));
}

pub fn endRecord(start: usize) void {
    pm_end_record(start);
}

/// Removes the fields of the record that was not ended.
pub fn abandonRecord() void {
    pm_abandon_record();
}

/// The same, and passes the records to the host; you need not call it.
pub fn flush() void {
    pm_flush();
}

// --- Results

/// `consumed` bytes are finished. `need` is the smallest number of bytes, counted from the first
/// unconsumed one, with which the next call can make progress; 0 if that is not known. Set it if
/// the format shows it.
pub fn progress(consumed: usize, need: u64) Answer {
    return pm_progress(consumed, need);
}

/// The bytes after the consumed ones have more records than were emitted: `decode` is called again
/// with exactly these bytes. This call must have emitted a record or consumed something. For
/// compressed blocks.
pub fn more(consumed: usize) Answer {
    return pm_more(consumed);
}

// Errors: `offset` is the start of the bad record. The message says what was expected and what was
// found; the host adds channel, object, position and record. Decoding can go on …

/// … not in this object.
pub fn fatal(offset: usize, message: Text) Answer {
    return pm_fatal(offset, message);
}

/// … at this place.
pub fn skippable(offset: usize, message: Text, place: u64) Answer {
    return pm_skippable(offset, message, place);
}

/// … where `resync` finds a record, from this place on.
pub fn searchable(offset: usize, message: Text, from: u64) Answer {
    return pm_searchable(offset, message, from);
}

/// An input that the decoder does not support, or that does not fit the options: an unknown codec,
/// a column that the header does not have. The channel fails, regardless of the operator's policy
/// for bad records.
pub fn refused(offset: usize, message: Text) Answer {
    return pm_refused(offset, message);
}

/// Reports that the bytes from `begin` up to `to` can't be decoded, without leaving `decode`. An
/// unfinished record is abandoned. If the result is true, continue at `to`. If it is false, return
/// `skippable(begin, message, to)`.
pub fn bad(begin: usize, to: usize, message: Text) bool {
    return pm_bad(begin, to, message);
}

// --- Compressed blocks, and checksums

/// Decompressed bytes, or an error. They are valid until this call of `decode` ends.
pub const Block = extern struct {
    at: ?[*]const u8,
    length: usize,
    /// Whether the block ends with them.
    last: bool,
    /// What is wrong with the block; null if nothing is.
    failure: ?Text,
    /// Where they lie in the payload of the call.
    base: u32,

    pub fn slice(self: Block) []const u8 {
        return if (self.at) |at| at[0..self.length] else "";
    }
};

/// Decompresses a block: the bytes of the chunk from `begin` up to `to`. The codec is "deflate"
/// (without a header), "zlib", "gzip", "zstd", "lz4" (a frame), "lz4-block" (one block without
/// framing), "brotli" or "snappy" (one block without framing). Don't call it between the fields of a
/// record. If `last` is false, the block has more bytes than limits.output leaves for this call.
pub fn decompress(codec: Text, begin: usize, to: usize) Block {
    return pm_decompress(codec, begin, to);
}

/// At most `max` of its decompressed bytes, after the first `skip`: for blocks of any size. Emit
/// the records that are complete in a part. The next part begins at the first record that was not
/// complete. After some parts return `more`. Always ask for the same `max`, so that the parts do
/// not depend on how the input was split.
pub fn decompressPart(codec: Text, begin: usize, to: usize, skip: u64, max: u32) Block {
    return pm_decompress_part(codec, begin, to, skip, max);
}

/// The same as decompressPart, for decoders that make other values of the bytes: no field can refer
/// to them (`base` has no meaning), and they don't count against limits.output. It needs a host of
/// version 0.3.
pub fn readBlock(codec: Text, begin: usize, to: usize, skip: u64, max: u32) Block {
    return pm_read_block(codec, begin, to, skip, max);
}

/// Adds the next field: the bytes of the block from `begin` up to `to`. They are not copied again.
pub fn fieldIn(block: *const Block, begin: usize, to: usize) void {
    pm_field_in(block, begin, to);
}

/// A span of the chunk, for the checksums.
pub fn pack(begin: usize, to: usize) u64 {
    return @as(u64, begin) << 32 | (to - begin);
}

/// A span of a block, for the checksums.
pub fn spanIn(block: *const Block, begin: usize, to: usize) u64 {
    return 1 << 63 | pack(block.base + begin, block.base + to);
}

/// Index of the first span whose CRC-32C differs from the expected one, or null. The host computes
/// fast; check many spans in one call.
pub fn checkCrc32c(spans: []const u64, expected: []const u32) ?usize {
    return index(pm_check_crc32c(spans.ptr, expected.ptr, spans.len));
}

/// The same with CRC-32, which gzip and PNG have.
pub fn checkCrc32(spans: []const u64, expected: []const u32) ?usize {
    return index(pm_check_crc32(spans.ptr, expected.ptr, spans.len));
}

fn index(found: i64) ?usize {
    return if (found < 0) null else @intCast(found);
}

// --- Columns: many records at once, field by field. They need a host of version 0.3.

/// Bytes of a column: made by `inChunk`, `inMade` or `inBlock`.
pub const Place = extern struct { span: u64 = 0, made: bool = false };

/// The values of one field of many records.
pub const Column = extern struct {
    /// One after the other; a record that lacks the field has one, too.
    values: Place,
    /// Where each value begins and ends in them: one more 32-bit number than there are records, none
    /// less than the one before it. `.{}` if all have the size of the field's type.
    offsets: Place = .{},
    /// A bit for each record, the lowest one first, set if it has the field. `.{}` if all have it.
    present: Place = .{},
};

/// Emits `records` records: one column for each field of the schema. `made` has the bytes that you
/// made. Let a column of them begin at a multiple of 64, so that consumers need not copy it. All
/// records begin at `start`, as those of a compressed block do. Emit thousands of records in a call.
pub fn columns(records: u32, all: []const Column, made: []const u8, start: usize) void {
    pm_columns(records, all.ptr, made.ptr, made.len, start);
}

pub fn inChunk(begin: usize, to: usize) Place {
    return .{ .span = pack(begin, to) };
}

pub fn inMade(begin: usize, to: usize) Place {
    return .{ .span = pack(begin, to), .made = true };
}

pub fn inBlock(block: *const Block, begin: usize, to: usize) Place {
    return .{ .span = spanIn(block, begin, to) };
}

// --- Memory

/// Memory that is valid until this call ends; memory from `open`, `load` and `prepare` is valid until
/// the stream ends. It is freed as a whole. More than the channel's limit ends the stream with an error. There is no
/// other allocator: that of `std.heap` would take the same memory.
pub const allocator: std.mem.Allocator = .{ .ptr = undefined, .vtable = &.{
    .alloc = alloc,
    .resize = std.mem.Allocator.noResize,
    .remap = std.mem.Allocator.noRemap,
    .free = std.mem.Allocator.noFree,
} };

/// The alignment of pm_take.
const aligned = 16;

fn alloc(_: *anyopaque, length: usize, alignment: std.mem.Alignment, _: usize) ?[*]u8 {
    const align_bytes = alignment.toByteUnits();
    if (align_bytes <= aligned) return pm_take(length);
    const place = std.mem.alignForward(usize, @intFromPtr(pm_take(length + align_bytes)), align_bytes);
    return @ptrFromInt(place);
}

// --- Text

/// Formats a text like `std.fmt`, in memory of `allocator`.
pub fn format(comptime template: []const u8, values: anytype) Text {
    return std.fmt.allocPrintSentinel(allocator, template, values, 0) catch unreachable;
}

pub const Level = enum(c_int) { debug = 1, info, warn, @"error" };

/// Writes a line to the host's log, for the operator.
pub fn log(level: Level, message: Text) void {
    pm_log(level, message);
}

/// Ends the stream with this reason, for bugs. For bad input use `fatal`, `skippable` or
/// `searchable`; for input that you don't support `refused`.
pub fn fail(why: Text) noreturn {
    pm_fail(why);
}

/// Index of the first byte that is not valid UTF-8; the length if all bytes are valid.
pub fn utf8(text: []const u8) usize {
    return pm_utf8(text.ptr, text.len);
}

// --- src/pipemill.c

const FieldSpec = extern struct {
    name: Text,
    scalar: Scalar,
    dimensions: usize,
    shape: ?[*]const u32,
    nullable: bool,
    logical: ?Text,
    categories: ?[*]const ?Text,
    metadata: ?[*]const Pair,
};

const PartSpec = extern struct {
    context: ?[*]const u8,
    context_length: usize,
    ranges: ?[*]const Range,
    range_count: usize,
    has_records: bool,
    records: u64,
};

extern fn pm_fact(info: *const Info, key: Text) String;
extern fn pm_read(ranges: [*]const Range, count: usize) Step;
extern fn pm_parts(parts: [*]const PartSpec, count: usize) Step;
extern fn pm_whole() Step;
extern fn pm_no_plan(why: Text) Step;
extern fn pm_is_planned(info: *const Info) bool;
extern fn pm_companion(object: Text, companion: Text) void;
extern fn pm_companion_size(info: *const Info, number: u32) u64;
extern fn pm_file(option: Text) String;
extern fn pm_run_companions(options: ?Lowered, count: usize, companions: ?*const fn () callconv(.c) ?Text) Lowered;
extern fn pm_run_plan(arguments: Lowered, plan: *const fn (*const Info, ?[*]const Piece, usize) callconv(.c) Step) Lowered;
extern fn pm_run_prepare(options: ?Lowered, count: usize, files: ?Lowered, file_count: usize, prepare: *const fn () callconv(.c) ?Text) Lowered;
extern fn pm_run_save(save: *const fn () callconv(.c) String) Lowered;
extern fn pm_run_load(arguments: Lowered, load: *const fn (*const Info, String) callconv(.c) ?Text) Lowered;
extern fn pm_run_rest(end: bool) Lowered;
extern fn pm_option(spec: OptionSpec) void;
extern fn pm_get(option: Text) String;
extern fn pm_is_on(option: Text) bool;
extern fn pm_int(option: Text) u64;
extern fn pm_get_list(option: Text, count: *usize) [*]const String;
extern fn pm_set_schema(fields: [*]const FieldSpec, count: usize) void;
extern fn pm_set_metadata(key: Text, value: Text) void;
extern fn pm_span(start: usize, begin: usize, end: usize) void;
extern fn pm_bytes(start: usize, bytes: [*]const u8, length: usize) void;
extern fn pm_field(begin: usize, end: usize) void;
extern fn pm_field_bytes(bytes: [*]const u8, length: usize) void;
extern fn pm_field_made(length: usize) [*]u8;
extern fn pm_list(elements: [*]const String, count: usize) void;
extern fn pm_absent() void;
extern fn pm_end_record(start: usize) void;
extern fn pm_abandon_record() void;
extern fn pm_flush() void;
extern fn pm_progress(consumed: usize, need: u64) Answer;
extern fn pm_more(consumed: usize) Answer;
extern fn pm_fatal(offset: usize, message: Text) Answer;
extern fn pm_skippable(offset: usize, message: Text, at: u64) Answer;
extern fn pm_searchable(offset: usize, message: Text, from: u64) Answer;
extern fn pm_refused(offset: usize, message: Text) Answer;
extern fn pm_bad(begin: usize, end: usize, message: Text) bool;
extern fn pm_decompress(codec: Text, begin: usize, end: usize) Block;
extern fn pm_decompress_part(codec: Text, begin: usize, end: usize, skip: u64, max: u32) Block;
extern fn pm_read_block(codec: Text, begin: usize, end: usize, skip: u64, max: u32) Block;
extern fn pm_field_in(block: *const Block, begin: usize, end: usize) void;
extern fn pm_check_crc32c(spans: [*]const u64, expected: [*]const u32, count: usize) i64;
extern fn pm_check_crc32(spans: [*]const u64, expected: [*]const u32, count: usize) i64;
extern fn pm_columns(records: u32, columns: [*]const Column, made: [*]const u8, length: usize, start: usize) void;
extern fn pm_take(length: usize) [*]u8;
extern fn pm_log(level: Level, message: Text) void;
extern fn pm_fail(why: Text) noreturn;
extern fn pm_utf8(at: [*]const u8, length: usize) usize;
