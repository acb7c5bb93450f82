// Package pipemill is for decoders of pipemill, which are plugins in WebAssembly. Version 0.3 of
// the interface. Don't change it.
//
// You call Export in an init function, and write a Decoder. There are no files, no clock, no
// network and no randomness: the functions of Go that need them return errors, the same moment each
// time, and the same numbers in each process. What a decoder prints is written to the host's log.
//
// THE RULE. However the input is split into chunks, the records and the errors are the same. Keep
// no part of a record between calls: leave its bytes unconsumed. The host passes them again,
// followed by more bytes.
package pipemill

import "unicode/utf8"

// Plugin is what a decoder has before it sees an input.
type Plugin struct {
	// The options that the operator may set. There may be none.
	Options []OptionSpec
	// Open starts a stream: one object, or one epoch of a FIFO. It reads the options, then calls
	// SetSchema. If only the input shows the fields, the decoder calls SetSchema later, before the
	// first record. The error is a text for the operator that says what is wrong and what would be
	// right.
	Open func(options Options, info *StreamInfo, out *Records) (Decoder, error)

	// The rest is optional; docs/interface.md has the rules of each.

	// Plan chooses the bytes of an object that Decode is shown, in steps: `seen` has the ranges that
	// earlier steps have asked for, in their order; nothing in the first one. Their bytes are valid
	// until Plan returns. The object has info.Size bytes. The answer depends on nothing but the
	// arguments. Objects that can't be read at any place (pipes, compressed files) have no plan:
	// Decode is shown them as they are. The error is for an object that the decoder refuses; the
	// channel fails. For one that is damaged, make a part whose context says so, and let Decode
	// report it.
	Plan func(options Options, info *StreamInfo, seen []Piece) (Step, error)
	// Companions declares objects beside each object that belong to it, at most 4. With Plan only.
	Companions func(options Options) ([]Companion, error)
	// Prepare makes what all streams of a channel have in common, in variables of the package. It
	// may keep the files. The host calls it before Open; a host that knows only an earlier version
	// of the interface never does. It depends on nothing but its arguments.
	Prepare func(options Options, files Files) error
	// Load starts a stream, as Open does, that gets the bytes after the place at which another one
	// was saved, and emits the same records as that one: see Saver. What was saved may have been
	// changed by others, so check it.
	Load func(options Options, info *StreamInfo, saved []byte, out *Records) (Decoder, error)
}

// Decoder decodes a stream. Each stream has its own instance of the plugin, with its own memory.
type Decoder interface {
	// Decode emits the records that are completely in the chunk, and returns how many bytes are
	// finished. At the end of the input, the host reports unconsumed bytes as an input that ends
	// inside a record. For an empty object it is called once, with an empty chunk and `end`. The
	// chunk is valid until Decode returns.
	Decode(chunk []byte, end bool, out *Records) (Progress, *DecodeError)
	// Resync searches for the next record after an error of Searchable. The chunk starts at the
	// position that the error named. It is called again with the bytes after the consumed ones,
	// until it finds a record or the input ends. In a decoder without Searchable: return
	// Resynced{Consumed: len(chunk)}.
	Resync(chunk []byte, end bool) Resynced
}

// Export makes a plugin the decoder of this module. Call it once, in an init function.
func Export(plugin Plugin) {
	exported = plugin
}

// OptionSpec is an option that the operator may set.
type OptionSpec struct {
	Name string
	// "string", "bool", "int", "choice:a|b|c", "list" (words, separated by commas) or "file" (see
	// Plugin.Prepare; the value is "sha256:" and a digest). The host refuses other values, and
	// options that are not declared.
	Kind string
	// "" for none.
	Default string
	// One line.
	Help string
	// The operator must set it, and it has no default.
	Required bool
}

// StreamInfo is the context of a stream.
type StreamInfo struct {
	Channel string
	Epoch   uint32
	// A path or a URL; for a FIFO, its path.
	Object string
	// The largest record that the channel accepts, in bytes.
	MaxRecord uint64
	// The stored bytes of the object; a compressed one has more. -1 if that is not known.
	Size int64
	// As the object's store has them; "" if it has none.
	ContentType, ETag string
	// More facts; ignore the keys that you don't know.
	Extensions []Pair
}

// Pair is a fact.
type Pair struct{ Key, Value string }

// Progress is how far a call of Decode came.
type Progress struct {
	// Bytes that are finished.
	Consumed int
	// The smallest number of bytes, counted from the first unconsumed one, with which the next call
	// can make progress; 0 if that is not known. Set it if the format shows it.
	Need uint64
	// The bytes after the consumed ones have more records than were emitted: Decode is called again
	// with exactly these bytes. This call must have emitted a record or consumed something. For
	// compressed blocks.
	More bool
}

// Resynced is the result of Resync: no record starts in the consumed bytes; Found says whether a
// record starts right after them.
type Resynced struct {
	Consumed int
	Found    bool
}

// DecodeError is made by Fatal, Skippable, Searchable or Refused.
type DecodeError struct {
	offset, kind uint32
	message      string
	place        uint64
}

// The cases of `resume` in the interface.
const (
	resumeAt = iota
	resumeScan
	resumeNone
	resumeRefused
)

func failure(kind uint32, offset int, message string, place uint64) (Progress, *DecodeError) {
	return Progress{}, &DecodeError{uint32(offset), kind, message, place}
}

// Fatal: the record at `offset` is bad, and decoding can't go on in this object. The message says
// what was expected and what was found; the host adds channel, object, position and record.
func Fatal(offset int, message string) (Progress, *DecodeError) {
	return failure(resumeNone, offset, message, 0)
}

// Skippable: as Fatal, but the next record starts at this place.
func Skippable(offset int, message string, place uint64) (Progress, *DecodeError) {
	return failure(resumeAt, offset, message, place)
}

// Searchable: as Fatal, but Resync finds the next record, from this place on.
func Searchable(offset int, message string, from uint64) (Progress, *DecodeError) {
	return failure(resumeScan, offset, message, from)
}

// Refused: an input that the decoder does not support, or that does not fit the options: an unknown
// codec, a column that the header does not have. The channel fails, regardless of the operator's
// policy for bad records.
func Refused(offset int, message string) (Progress, *DecodeError) {
	return failure(resumeRefused, offset, message, 0)
}

// Scalar is the type of one element of a field. Numbers are little-endian, a boolean is one byte, 0
// or 1.
type Scalar string

// The types of elements.
const (
	Bytes    Scalar = "bytes"
	UTF8     Scalar = "utf8"
	Boolean  Scalar = "boolean"
	Int8     Scalar = "int8"
	Int16    Scalar = "int16"
	Int32    Scalar = "int32"
	Int64    Scalar = "int64"
	Uint8    Scalar = "uint8"
	Uint16   Scalar = "uint16"
	Uint32   Scalar = "uint32"
	Uint64   Scalar = "uint64"
	Float16  Scalar = "float16"
	BFloat16 Scalar = "bfloat16"
	Float32  Scalar = "float32"
	Float64  Scalar = "float64"
)

// Field is one field of every record.
type Field struct {
	Name   string
	Scalar Scalar
	// Without a shape it is a single element. A dimension of 0 means any size: it follows from the
	// length of each value. Bytes and UTF8 with one dimension are lists: see List.
	Shape []uint32
	// Whether a record may lack it: see Absent.
	Nullable bool
	// What the values mean, like "timestamp[us]"; "" for nothing.
	Logical string
	// The values are indices into this list.
	Categories []string
	// Facts for the consumer.
	Metadata []Pair
}

// Level is the importance of a line in the host's log.
type Level uint32

// The levels of the log.
const (
	Debug Level = iota + 1
	Info
	Warn
	Error
)

// Log writes a line to the host's log, for the operator.
func Log(level Level, message string) {
	hostLog(uint32(level), message)
}

// ValidUTF8 is the index of the first byte that is not valid UTF-8; the length if all bytes are.
func ValidUTF8(text []byte) int {
	if utf8.Valid(text) {
		return len(text)
	}
	at := 0
	for at < len(text) {
		char, size := utf8.DecodeRune(text[at:])
		if char == utf8.RuneError && size <= 1 {
			break
		}
		at += size
	}
	return at
}
