package pipemill

import (
	"strconv"
	"strings"
	"unsafe"
)

// This file is for what a decoder may have, and need not: plans, companions, what is prepared, and
// saved state. The layouts are those of wit/0.3/decoder.wit.

// Saver is a Decoder whose state is more than the first bytes of an object. Its plugin has Load.
type Saver interface {
	// Save returns what another stream must know to go on after the bytes that the last call of
	// Decode consumed: at most 64 KiB, better a few hundred bytes, which begin with a version of
	// your own. false: it can't go on there. The call changes nothing.
	Save() ([]byte, bool)
}

// Range has `Length` bytes from byte `Offset` on: of the object if `Of` is 0, else of its companion
// with this number, from 1.
type Range struct {
	Of             uint32
	Offset, Length uint64
}

// Piece has bytes that the host has read for a plan.
type Piece struct {
	Of     uint32
	Offset uint64
	Bytes  []byte
}

// Part has bytes that a stream is shown one after the other: the context, which is your own and has
// all that Decode must know of the directory, and then those of the ranges. Let the context begin
// with a mark. A stream may begin at any part.
type Part struct {
	Context []byte
	Ranges  []Range
	// How many records Decode emits of these bytes, if HasRecords: if the directory says it. The
	// host counts them, and another number is an error. Decode then consumes all bytes of the part
	// when it is shown them, without a byte of the next one.
	HasRecords bool
	Records    uint64
}

// Companion says where an object lies that belongs to another one: the companion of an object whose
// name ends with `Object`, such as ".bin", has a name with the end `Companion`, such as ".idx", in
// place of it.
type Companion struct{ Object, Companion string }

// Step is the next step of a plan, made by Read, Parts or Whole.
type Step struct {
	kind   uint32
	ranges []Range
	parts  []Part
}

// The cases of `next` in the interface.
const (
	stepRead = iota
	stepParts
	stepWhole
)

// Read says: call Plan again with these, too; 1 to 64 in a step, 32 MiB and 32 steps for an object.
func Read(ranges ...Range) Step { return Step{kind: stepRead, ranges: ranges} }

// Parts is the plan. With no parts, the object has no records.
func Parts(parts ...Part) Step { return Step{kind: stepParts, parts: parts} }

// Whole says: show the object as without a plan.
func Whole() Step { return Step{kind: stepWhole} }

// Fact returns the value of a fact of Extensions, and whether the stream has it.
func (info *StreamInfo) Fact(key string) (string, bool) {
	for _, fact := range info.Extensions {
		if fact.Key == key {
			return fact.Value, true
		}
	}
	return "", false
}

// IsPlanned returns whether the stream is shown the parts of a plan.
func (info *StreamInfo) IsPlanned() bool {
	_, planned := info.Fact("planned")
	return planned
}

// CompanionSize returns the bytes of the companion with this number, from 1, for Plan; 0 if there is
// none.
func (info *StreamInfo) CompanionSize(number int) uint64 {
	sizes, _ := info.Fact("companions")
	if words := strings.Fields(sizes); number >= 1 && number <= len(words) {
		size, _ := strconv.ParseUint(words[number-1], 10, 64)
		return size
	}
	return 0
}

// Files has the content of the files that options of the kind "file" name.
type Files map[string][]byte

// --- Exports

func asBool(value bool) uint32 {
	if value {
		return 1
	}
	return 0
}

//go:wasmexport pipemill:decoder/plan@0.3.0#plans
func exportPlans() uint32 {
	check()
	return asBool(exported.Plan != nil)
}

//go:wasmexport pipemill:decoder/plan@0.3.0#companions
func exportCompanions(at, count uint32) uint32 {
	check()
	var rules []Companion
	var err error
	if exported.Companions != nil {
		rules, err = exported.Companions(Options{pairs(at, count)})
	}
	answer := resultWords()
	if err != nil {
		answer[0] = 1
		put(answer[1:], err.Error())
		return resultAt()
	}
	lowered := words(4 * len(rules))
	for i, rule := range rules {
		put(lowered[4*i:], rule.Object)
		put(lowered[4*i+2:], rule.Companion)
	}
	answer[1], answer[2] = address(lowered), uint32(len(rules))
	return resultAt()
}

//go:wasmexport pipemill:decoder/plan@0.3.0#step
func exportStep(at uint32) uint32 {
	check()
	args := unsafe.Slice((*uint32)(pointer(at)), openWords+2)
	options, info := context(args)
	var seen []Piece
	const size = 6
	if count := args[openWords+1]; count > 0 {
		list := unsafe.Slice((*uint32)(pointer(args[openWords])), size*count)
		for ; len(list) > 0; list = list[size:] {
			seen = append(seen, Piece{list[0], wide(list[2:]), bytesAt(list[4], list[5])})
		}
	}
	step, err := exported.Plan(options, info, seen)
	answer := resultWords()
	if err != nil {
		answer[0] = 1
		put(answer[1:], err.Error())
		return resultAt()
	}
	answer[1] = step.kind
	switch step.kind {
	case stepRead:
		answer[2], answer[3] = lowerRanges(step.ranges)
	case stepParts:
		answer[2], answer[3] = lowerParts(step.parts)
	}
	return resultAt()
}

func lowerRanges(ranges []Range) (uint32, uint32) {
	const size = 6
	lowered := words(size * len(ranges))
	for i, it := range ranges {
		at := lowered[i*size:]
		at[0] = it.Of
		at[2], at[3] = uint32(it.Offset), uint32(it.Offset>>32)
		at[4], at[5] = uint32(it.Length), uint32(it.Length>>32)
	}
	return address(lowered), uint32(len(ranges))
}

func lowerParts(parts []Part) (uint32, uint32) {
	const size = 8
	lowered := words(size * len(parts))
	for i, part := range parts {
		at := lowered[i*size:]
		at[0], at[1] = lower(unsafe.String(unsafe.SliceData(part.Context), len(part.Context)))
		at[2], at[3] = lowerRanges(part.Ranges)
		at[4] = asBool(part.HasRecords)
		at[6], at[7] = uint32(part.Records), uint32(part.Records>>32)
	}
	return address(lowered), uint32(len(parts))
}

//go:wasmexport pipemill:decoder/preparing@0.3.0#prepares
func exportPrepares() uint32 {
	check()
	return asBool(exported.Prepare != nil)
}

//go:wasmexport pipemill:decoder/preparing@0.3.0#prepare
func exportPrepare(at, count, filesAt, fileCount uint32) uint32 {
	files := Files{}
	if fileCount > 0 {
		list := unsafe.Slice((*uint32)(pointer(filesAt)), 4*fileCount)
		for ; len(list) > 0; list = list[4:] {
			files[strings.Clone(unsafeText(list[0], list[1]))] = bytesAt(list[2], list[3])
		}
	}
	// The decoder may keep the files, so their memory is not used again.
	options := Options{pairs(at, count)}
	release()
	err := exported.Prepare(options, files)
	answer := resultWords()
	if err != nil {
		answer[0] = 1
		put(answer[1:], err.Error())
	}
	return resultAt()
}

//go:wasmexport pipemill:decoder/carry@0.3.0#carries
func exportCarries() uint32 {
	check()
	return asBool(exported.Load != nil)
}

//go:wasmexport pipemill:decoder/carry@0.3.0#save
func exportSave(stream uint32) uint32 {
	var saved []byte
	var can bool
	if saver, is := decoder.(Saver); is {
		saved, can = saver.Save()
	}
	answer := resultWords()
	if can {
		answer[0] = 1
		put(answer[1:], string(saved))
	}
	return resultAt()
}

//go:wasmexport pipemill:decoder/carry@0.3.0#load
func exportLoad(at uint32) uint32 {
	check()
	args := unsafe.Slice((*uint32)(pointer(at)), openWords+2)
	saved := []byte(unsafeText(args[openWords], args[openWords+1]))
	return open(args, func(options Options, info *StreamInfo) (Decoder, error) {
		return exported.Load(options, info, saved, &out)
	})
}

// The chunk of the last call, if it returned More, without the bytes that it consumed.
var rest []byte

// decodeAndKeep decodes a chunk that was copied. If the call returns More, the chunk is kept.
func decodeAndKeep(chunk []byte, end bool) uint32 {
	progress, at := decode(chunk, end)
	if rest = nil; progress.More {
		rest = chunk[progress.Consumed:]
		release()
	}
	return at
}

//go:wasmexport pipemill:decoder/rest@0.3.0#decode
func exportDecodeRest(stream, end uint32) uint32 {
	return decodeAndKeep(rest, end != 0)
}
