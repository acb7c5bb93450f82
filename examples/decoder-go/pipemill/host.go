package pipemill

import (
	"errors"
	"runtime"
	"strings"
	"unsafe"
)

// This file connects the decoder with the host. The layouts are those of the component model's
// canonical ABI for wit/0.1/decoder.wit, wit/0.2/window.wit and wit/0.3/decoder.wit. The collector of
// Go moves nothing but stacks, so no address of a stack is passed.

//go:wasmimport pipemill:decoder/host@0.1.0 log
func hostLog(level uint32, message string)

//go:wasmimport pipemill:decoder/host@0.1.0 set-schema
func hostSetSchema(fields unsafe.Pointer, count uint32)

//go:wasmimport pipemill:decoder/host@0.1.0 set-metadata
func hostSetMetadata(key, value string)

//go:wasmimport pipemill:decoder/host@0.1.0 emit
func hostEmit(records uint32, spans unsafe.Pointer, n uint32, payload unsafe.Pointer, bytes uint32,
	starts unsafe.Pointer, m uint32)

//go:wasmimport pipemill:decoder/host@0.1.0 bad
func hostBad(offset, end uint32, message string) uint32

//go:wasmimport pipemill:decoder/host@0.1.0 check-crc32c
func hostCheckCRC32C(spans unsafe.Pointer, n uint32, expected unsafe.Pointer, m uint32,
	result unsafe.Pointer)

//go:wasmimport pipemill:decoder/host@0.1.0 check-crc32
func hostCheckCRC32(spans unsafe.Pointer, n uint32, expected unsafe.Pointer, m uint32,
	result unsafe.Pointer)

//go:wasmimport pipemill:decoder/host@0.1.0 decompress
func hostDecompress(codec string, span, skip uint64, max uint32, result unsafe.Pointer)

//go:wasmimport pipemill:decoder/blocks@0.3.0 read
func hostReadBlock(codec string, span, skip uint64, max uint32, result unsafe.Pointer)

//go:wasmimport pipemill:decoder/columns@0.3.0 emit-columns
func hostEmitColumns(records uint32, columns unsafe.Pointer, n uint32, payload unsafe.Pointer,
	bytes uint32, start uint32)

//go:wasmimport [export]pipemill:decoder/decoder@0.1.0 [resource-new]stream
func streamNew(number uint32) uint32

// --- Memory that the host asks for: arguments, and decompressed bytes. It is used again after each
// call.

type block []uint64

var (
	blocks   []block
	used     uint32 // bytes of the last block
	returned bool   // whether the last call of the host returned
)

const blockBytes = 1 << 16

//go:wasmexport cabi_realloc
func cabiRealloc(old, oldLength, align, length uint32) uint32 {
	if length <= oldLength {
		if old == 0 {
			return align
		}
		return old
	}
	at := take(length)
	copy(unsafe.Slice((*byte)(at), length), bytesAt(old, oldLength))
	return uint32(uintptr(at))
}

// take returns memory that is aligned to 8 bytes, which is the most that the interface needs.
func take(length uint32) unsafe.Pointer {
	if returned {
		returned, used = false, 0
		// Of several blocks the last one is the largest.
		if n := len(blocks); n > 1 {
			blocks[0] = blocks[n-1]
			clear(blocks[1:])
			blocks = blocks[:1]
		}
	}
	words := (uint64(length) + 7) / 8
	if n := len(blocks); n == 0 || uint64(used)/8+words > uint64(len(blocks[n-1])) {
		size := max(words, blockBytes/8)
		if n > 0 {
			size = max(size, 2*uint64(len(blocks[n-1])))
		}
		blocks, used = append(blocks, make(block, size)), 0
	}
	at := unsafe.Pointer(&blocks[len(blocks)-1][used/8])
	used += uint32(words * 8)
	return at
}

// release gives the memory of this call to those that still refer to it.
func release() {
	blocks, used = nil, 0
}

// pointer is the address that the host gave.
func pointer(at uint32) unsafe.Pointer {
	return unsafe.Add(unsafe.Pointer(nil), at)
}

func bytesAt(at, length uint32) []byte {
	if length == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(pointer(at)), length)
}

// lower copies a text to memory that has no other owner until the call ends.
func lower(text string) (uint32, uint32) {
	if text == "" {
		return 1, 0
	}
	at := take(uint32(len(text)))
	copy(unsafe.Slice((*byte)(at), len(text)), text)
	return uint32(uintptr(at)), uint32(len(text))
}

// words is memory of 32-bit words.
func words(count int) []uint32 {
	if count == 0 {
		return nil
	}
	list := unsafe.Slice((*uint32)(take(uint32(4*count))), count)
	clear(list)
	return list
}

// address of a list of words; an empty one has any that is aligned.
func address(list []uint32) uint32 {
	if len(list) == 0 {
		return 8
	}
	return uint32(uintptr(unsafe.Pointer(&list[0])))
}

// put stores a text in two words.
func put(at []uint32, text string) {
	at[0], at[1] = lower(text)
}

// --- Exports

var (
	exported Plugin
	decoder  Decoder
	out      Records
	// The result of a call, aligned to 8 bytes.
	result [6]uint64
)

func resultWords() []uint32 {
	clear(result[:])
	return unsafe.Slice((*uint32)(unsafe.Pointer(&result)), len(result)*2)
}

func resultAt() uint32 {
	returned = true
	return uint32(uintptr(unsafe.Pointer(&result)))
}

func check() {
	if exported.Open == nil {
		panic("there is no decoder: call pipemill.Export in an init function")
	}
}

//go:wasmexport pipemill:decoder/decoder@0.1.0#options
func exportOptions() uint32 {
	check()
	const size = 10
	specs := words(size * len(exported.Options))
	for i, option := range exported.Options {
		spec := specs[i*size:][:size]
		put(spec[0:], option.Name)
		put(spec[2:], option.Kind)
		if option.Default != "" {
			spec[4] = 1
			put(spec[5:], option.Default)
		}
		if option.Required {
			spec[7] = 1
		}
		put(spec[8:], option.Help)
	}
	answer := resultWords()
	answer[0], answer[1] = address(specs), uint32(len(exported.Options))
	return resultAt()
}

// The words that the options and the context of a stream have in memory.
const openWords = 24

func wide(at []uint32) uint64 { return uint64(at[0]) | uint64(at[1])<<32 }

// context returns the options and the context of a stream.
func context(args []uint32) (Options, *StreamInfo) {
	text := func(i int) string { return strings.Clone(unsafeText(args[i], args[i+1])) }
	given := func(i int) string {
		if args[i]&0xff == 0 {
			return ""
		}
		return text(i + 1)
	}
	info := StreamInfo{
		Channel:     text(2),
		Epoch:       args[4],
		Object:      text(5),
		MaxRecord:   wide(args[8:]),
		Size:        -1,
		ContentType: given(16),
		ETag:        given(19),
		Extensions:  pairs(args[22], args[23]),
	}
	if args[12]&0xff != 0 {
		info.Size = int64(wide(args[14:]))
	}
	return Options{pairs(args[0], args[1])}, &info
}

// open starts a stream by this function.
func open(args []uint32, start func(Options, *StreamInfo) (Decoder, error)) uint32 {
	options, info := context(args)
	out = Records{wantStarts: args[10]&0xff != 0}
	opened, err := start(options, info)
	answer := resultWords()
	if err != nil {
		answer[0] = 1
		put(answer[1:], err.Error())
	} else {
		decoder = opened
		answer[1] = streamNew(1)
	}
	return resultAt()
}

// The arguments are more than the 16 values that can be passed directly, so they are in memory.
//
//go:wasmexport pipemill:decoder/decoder@0.1.0#[static]stream.open
func exportOpen(at uint32) uint32 {
	check()
	args := unsafe.Slice((*uint32)(pointer(at)), openWords)
	return open(args, func(options Options, info *StreamInfo) (Decoder, error) {
		return exported.Open(options, info, &out)
	})
}

// decode returns the decoder's progress, and the address of the result.
func decode(chunk []byte, end bool) (Progress, uint32) {
	out.begin()
	progress, err := decoder.Decode(chunk, end, &out)
	out.Flush()
	answer := resultWords()
	if err != nil {
		answer[0], answer[2] = 1, err.offset
		put(answer[3:], err.message)
		answer[6] = err.kind
		answer[8], answer[9] = uint32(err.place), uint32(err.place>>32)
		return Progress{}, resultAt()
	}
	answer[2], answer[3] = uint32(progress.Consumed), uint32(min(progress.Need, 1<<32-1))
	answer[4] = asBool(progress.More)
	return progress, resultAt()
}

//go:wasmexport pipemill:decoder/decoder@0.1.0#[method]stream.decode
func exportDecode(stream, at, length, end uint32) uint32 {
	return decodeAndKeep(bytesAt(at, length), end != 0)
}

//go:wasmexport pipemill:decoder/decoder@0.1.0#[method]stream.resync
func exportResync(stream, at, length, end uint32) uint32 {
	resynced := decoder.Resync(bytesAt(at, length), end != 0)
	answer := resultWords()
	answer[0] = uint32(resynced.Consumed)
	if resynced.Found {
		answer[1] = 1
	}
	return resultAt()
}

// The window, into which the host maps chunks. Go does not look into memory without pointers.
var window []byte

const wasmPage = 1 << 16

//go:wasmexport pipemill:decoder/window@0.2.0#set-aside
func exportSetAside(size uint32) uint32 {
	window = make([]byte, uint64(size)+wasmPage)
	at := uintptr(unsafe.Pointer(unsafe.SliceData(window)))
	return uint32((at + wasmPage - 1) &^ (wasmPage - 1))
}

//go:wasmexport pipemill:decoder/window@0.2.0#decode
func exportDecodeInWindow(stream, at, length, end uint32) uint32 {
	_, result := decode(bytesAt(at, length), end != 0)
	return result
}

// --- Arguments

func unsafeText(at, length uint32) string {
	if length == 0 {
		return ""
	}
	return unsafe.String((*byte)(pointer(at)), length)
}

func pairs(at, count uint32) []Pair {
	var all []Pair
	if count > 0 {
		list := unsafe.Slice((*uint32)(pointer(at)), 4*count)
		for ; len(list) > 0; list = list[4:] {
			key, value := unsafeText(list[0], list[1]), unsafeText(list[2], list[3])
			all = append(all, Pair{strings.Clone(key), strings.Clone(value)})
		}
	}
	return all
}

// Options are those that the operator set.
type Options struct{ given []Pair }

// Get returns the operator's value, else the default, else nothing.
func (options Options) Get(name string) string {
	for i := len(options.given) - 1; i >= 0; i-- {
		if options.given[i].Key == name {
			return options.given[i].Value
		}
	}
	for _, spec := range exported.Options {
		if spec.Name == name {
			return spec.Default
		}
	}
	panic("the plugin does not declare the option `" + name + "`")
}

// IsOn returns whether the value is `true`.
func (options Options) IsOn(name string) bool {
	return options.Get(name) == "true"
}

// Int returns the value as a number, or 0.
func (options Options) Int(name string) uint64 {
	// The host has checked that the value is a number of 64 bits.
	number := uint64(0)
	for _, digit := range strings.TrimPrefix(options.Get(name), "+") {
		number = number*10 + uint64(digit-'0')
	}
	return number
}

// List returns the words of a "list", without the spaces around them; empty words are left out.
func (options Options) List(name string) []string {
	var words []string
	for word := range strings.SplitSeq(options.Get(name), ",") {
		if word = strings.TrimSpace(word); word != "" {
			words = append(words, word)
		}
	}
	return words
}

// --- Calls of the host

func setSchema(fields []Field) {
	const size = 13
	lowered := words(size * len(fields))
	for i, field := range fields {
		it := lowered[i*size:][:size]
		put(it[0:], field.Name)
		put(it[2:], string(field.Scalar))
		shape := words(len(field.Shape))
		copy(shape, field.Shape)
		it[4], it[5] = address(shape), uint32(len(shape))
		if field.Nullable {
			it[6] = 1
		}
		put(it[7:], field.Logical)
		categories := words(2 * len(field.Categories))
		for j, word := range field.Categories {
			put(categories[2*j:], word)
		}
		it[9], it[10] = address(categories), uint32(len(field.Categories))
		metadata := words(4 * len(field.Metadata))
		for j, fact := range field.Metadata {
			put(metadata[4*j:], fact.Key)
			put(metadata[4*j+2:], fact.Value)
		}
		it[11], it[12] = address(metadata), uint32(len(field.Metadata))
	}
	hostSetSchema(pointer(address(lowered)), uint32(len(fields)))
}

// The result of a call of the host.
var answered [4]uint32

func checkCRC(
	call func(unsafe.Pointer, uint32, unsafe.Pointer, uint32, unsafe.Pointer),
	spans []uint64, expected []uint32,
) int {
	// Copies, because the caller's lists may lie on a stack.
	wide := words(2 * len(spans))
	for i, span := range spans {
		wide[2*i], wide[2*i+1] = uint32(span), uint32(span>>32)
	}
	narrow := words(len(expected))
	copy(narrow, expected)
	call(pointer(address(wide)), uint32(len(spans)), pointer(address(narrow)),
		uint32(len(expected)), unsafe.Pointer(&answered))
	if answered[0]&0xff == 0 {
		return -1
	}
	return int(answered[1])
}

// readParts reads at most `max` bytes of a block after the first `skip`, by a function of the host,
// which returns a part of them at a time. The second result says whether the block ends with them.
func readParts(
	read func(string, uint64, uint64, uint32, unsafe.Pointer), codec string, span, skip uint64,
	max uint32,
) ([]byte, bool, error) {
	var all []byte
	for {
		read(codec, span, skip+uint64(len(all)), max-uint32(len(all)), unsafe.Pointer(&answered))
		runtime.KeepAlive(codec)
		if answered[0]&0xff != 0 {
			return nil, false, errors.New(strings.Clone(unsafeText(answered[1], answered[2])))
		}
		part, last := bytesAt(answered[1], answered[2]), answered[3]&0xff != 0
		all = append(all, part...)
		if last || len(part) == 0 || uint32(len(all)) >= max {
			return all, last, nil
		}
	}
}
