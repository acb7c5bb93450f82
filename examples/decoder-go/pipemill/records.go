package pipemill

import (
	"encoding/binary"
	"fmt"
	"math"
	"unsafe"
)

// Records receives the records of a stream, in the order of the input. They are passed to the host
// a few thousand at a time.
//
// Offsets count from the start of the chunk. `start` is the start of the record, including its
// framing. Bytes of the chunk are not copied. A range begins at `begin` and ends before `to`.
type Records struct {
	spans   []uint64
	starts  []uint32
	payload []byte
	// Those of the records that were ended.
	wholeSpans, wholePayload int
	wholeRecords             uint32
	// Bytes that this call of Decode has given to the host, or got from it.
	base       uint64
	wantStarts bool
	fields     []Field
}

const (
	flushSpans   = 4096
	flushPayload = 65536
	inPayload    = 1 << 63
	absent       = math.MaxUint64
)

// SetSchema sets the fields of every record: once, before the first record.
func (out *Records) SetSchema(fields ...Field) {
	if out.fields != nil {
		panic("the schema was set twice")
	}
	out.fields = fields
	setSchema(fields)
}

// SetMetadata reports a fact about the object to the consumers, before the first record. The key
// "pipemill.restart" is for the host, at any time: with the value "0", decoding can restart at the
// end of the bytes that this and later calls consume. With a header of N bytes, which must be
// passed first, it is N.
func (out *Records) SetMetadata(key, value string) {
	hostSetMetadata(key, value)
}

// Span emits a record of one field: bytes of the chunk.
func (out *Records) Span(start, begin, to int) {
	out.spans = append(out.spans, Pack(begin, to))
	out.EndRecord(start)
}

// Bytes emits a record of one field: bytes that you made.
func (out *Records) Bytes(start int, made []byte) {
	out.FieldBytes(made)
	out.EndRecord(start)
}

// Field adds the next field of a record: bytes of the chunk. EndRecord ends the record.
func (out *Records) Field(begin, to int) {
	out.spans = append(out.spans, Pack(begin, to))
}

// FieldIn adds the next field: bytes of a decompressed block. They are not copied again.
func (out *Records) FieldIn(block *Block, begin, to int) {
	if begin > to || to > len(block.Bytes) {
		panic(fmt.Sprintf("a field from %d to %d of a block of %d bytes", begin, to,
			len(block.Bytes)))
	}
	out.spans = append(out.spans, SpanIn(block, begin, to))
}

// made adds a field whose bytes are appended to the payload by the caller.
func (out *Records) made(length int) {
	at := out.base + uint64(len(out.payload))
	out.spans = append(out.spans, inPayload|at<<32|uint64(uint32(length)))
}

// FieldBytes adds the next field: bytes that you made.
func (out *Records) FieldBytes(bytes []byte) {
	out.made(len(bytes))
	out.payload = append(out.payload, bytes...)
}

// Text adds the next field: text that you made.
func (out *Records) Text(text string) {
	out.made(len(text))
	out.payload = append(out.payload, text...)
}

// Bool adds the next field: a boolean.
func (out *Records) Bool(value bool) {
	byte := uint8(0)
	if value {
		byte = 1
	}
	out.U8(byte)
}

// I8 adds the next field: a number. So do the next ones.
func (out *Records) I8(value int8) { out.U8(uint8(value)) }

func (out *Records) I16(value int16)   { out.U16(uint16(value)) }
func (out *Records) I32(value int32)   { out.U32(uint32(value)) }
func (out *Records) I64(value int64)   { out.U64(uint64(value)) }
func (out *Records) F32(value float32) { out.U32(math.Float32bits(value)) }
func (out *Records) F64(value float64) { out.U64(math.Float64bits(value)) }

func (out *Records) U8(value uint8) {
	out.made(1)
	out.payload = append(out.payload, value)
}

func (out *Records) U16(value uint16) {
	out.made(2)
	out.payload = binary.LittleEndian.AppendUint16(out.payload, value)
}

func (out *Records) U32(value uint32) {
	out.made(4)
	out.payload = binary.LittleEndian.AppendUint32(out.payload, value)
}

func (out *Records) U64(value uint64) {
	out.made(8)
	out.payload = binary.LittleEndian.AppendUint64(out.payload, value)
}

// Number is an element of a field with several numbers.
type Number interface {
	int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64 | float32 | float64
}

// Numbers adds the next field: several numbers.
func Numbers[T Number](out *Records, values []T) {
	var one T
	at := (*byte)(unsafe.Pointer(unsafe.SliceData(values)))
	// The memory of WebAssembly is little-endian.
	out.FieldBytes(unsafe.Slice(at, len(values)*int(unsafe.Sizeof(one))))
}

// List adds the next field: a list of bytes or text.
func List[T []byte | string](out *Records, elements []T) {
	length := 4 * (len(elements) + 1)
	for _, element := range elements {
		length += len(element)
	}
	out.made(length)
	offset := uint32(4 * (len(elements) + 1))
	out.payload = binary.LittleEndian.AppendUint32(out.payload, offset)
	for _, element := range elements {
		offset += uint32(len(element))
		out.payload = binary.LittleEndian.AppendUint32(out.payload, offset)
	}
	for _, element := range elements {
		out.payload = append(out.payload, element...)
	}
}

// Absent adds nothing as the next field, which must be nullable.
func (out *Records) Absent() {
	index := len(out.spans) - out.wholeSpans
	if index < len(out.fields) && !out.fields[index].Nullable {
		panic(fmt.Sprintf("field `%s` is absent, but it is not declared nullable",
			out.fields[index].Name))
	}
	out.spans = append(out.spans, absent)
}

// EndRecord ends a record.
func (out *Records) EndRecord(start int) {
	if len(out.spans)-out.wholeSpans != len(out.fields) || len(out.fields) == 0 {
		out.failFields()
	}
	if out.wantStarts {
		out.starts = append(out.starts, uint32(start))
	}
	out.wholeSpans, out.wholePayload = len(out.spans), len(out.payload)
	out.wholeRecords++
	if out.wholeSpans >= flushSpans || out.wholePayload >= flushPayload {
		out.Flush()
	}
}

// failFields: a record was ended that does not have the fields of the schema.
func (out *Records) failFields() {
	given, fields := len(out.spans)-out.wholeSpans, out.fields
	switch {
	case len(fields) == 0:
		panic("a record was emitted before the schema was set: see SetSchema")
	case given < len(fields):
		panic(fmt.Sprintf("a record was ended after %d of its %d fields: `%s` is missing; call "+
			"Absent for a field without a value", given, len(fields), fields[given].Name))
	default:
		panic(fmt.Sprintf("a record was ended after %d values, but the schema has %d fields; the "+
			"last one is `%s`", given, len(fields), fields[len(fields)-1].Name))
	}
}

// AbandonRecord removes the fields of the record that was not ended.
func (out *Records) AbandonRecord() {
	out.spans, out.payload = out.spans[:out.wholeSpans], out.payload[:out.wholePayload]
}

// Flush does the same, and passes the records to the host; you need not call it.
func (out *Records) Flush() {
	out.AbandonRecord()
	if out.wholeRecords == 0 {
		return
	}
	hostEmit(out.wholeRecords, unsafe.Pointer(unsafe.SliceData(out.spans)), uint32(len(out.spans)),
		unsafe.Pointer(unsafe.SliceData(out.payload)), uint32(len(out.payload)),
		unsafe.Pointer(unsafe.SliceData(out.starts)), uint32(len(out.starts)))
	out.base += uint64(len(out.payload))
	out.spans, out.payload, out.starts = out.spans[:0], out.payload[:0], out.starts[:0]
	out.wholeSpans, out.wholePayload, out.wholeRecords = 0, 0, 0
}

// begin starts a call of Decode.
func (out *Records) begin() {
	out.spans, out.payload, out.starts = out.spans[:0], out.payload[:0], out.starts[:0]
	out.wholeSpans, out.wholePayload, out.wholeRecords, out.base = 0, 0, 0, 0
}

// Bad reports that bytes of the chunk can't be decoded, without leaving Decode. An unfinished
// record is abandoned. If the result is true, continue at `to`. If it is false, return
// Skippable(begin, message, to).
func (out *Records) Bad(begin, to int, message string) bool {
	out.Flush()
	return hostBad(uint32(begin), uint32(to), message) != 0
}

// Block has decompressed bytes. They are valid until Decode returns.
type Block struct {
	Bytes []byte
	// Whether the block ends with them.
	Last bool
	// Where they lie in the payload of the call.
	base uint64
}

// Decompress decompresses a block: bytes of the chunk. The codec is "deflate" (without a header),
// "zlib", "gzip", "zstd", "lz4" (a frame), "lz4-block" (one block without framing), "brotli" or
// "snappy" (one block without framing). Don't call it between the fields of a record. If Last is false, the block has more bytes than limits.output
// leaves for this call. The error says what is wrong with the block.
func (out *Records) Decompress(codec string, begin, to int) (Block, error) {
	return out.DecompressPart(codec, begin, to, 0, math.MaxUint32)
}

// DecompressPart returns at most `max` of its decompressed bytes, after the first `skip`: for
// blocks of any size. Emit the records that are complete in a part. The next part begins at the
// first record that was not complete. After some parts return a Progress with More. Always ask for
// the same `max`, so that the parts do not depend on how the input was split.
func (out *Records) DecompressPart(
	codec string, begin, to int, skip uint64, max uint32,
) (Block, error) {
	if len(out.spans) != out.wholeSpans {
		panic("Decompress was called inside a record")
	}
	out.Flush()
	bytes, last, err := readParts(hostDecompress, codec, Pack(begin, to), skip, max)
	if err != nil {
		return Block{}, err
	}
	block := Block{Bytes: bytes, Last: last, base: out.base}
	out.base += uint64(len(bytes))
	return block, nil
}

// ReadBlock is DecompressPart for decoders that make other values of the bytes: no field can refer
// to them, and they don't count against limits.output. The second result says whether the block ends
// with them. It needs a host of version 0.3.
func (out *Records) ReadBlock(
	codec string, begin, to int, skip uint64, max uint32,
) ([]byte, bool, error) {
	return readParts(hostReadBlock, codec, Pack(begin, to), skip, max)
}

// Place is where bytes of a column lie: made by InChunk, InMade or InBlock.
type Place struct {
	span uint64
	made bool
}

// InChunk is a place in the chunk.
func InChunk(begin, to int) Place { return Place{Pack(begin, to), false} }

// InMade is a place in the bytes that you made.
func InMade(begin, to int) Place { return Place{Pack(begin, to), true} }

// InBlock is a place in a decompressed block.
func InBlock(block *Block, begin, to int) Place { return Place{SpanIn(block, begin, to), false} }

// Column has the values of one field of many records.
type Column struct {
	// One after the other; a record that lacks the field has one, too.
	Values Place
	// Where each value begins and ends in them: one more 32-bit little-endian number than there are
	// records, none less than the one before it. Place{} if all have the size of the field's type.
	Offsets Place
	// A bit for each record, the lowest one first, set if it has the field. Place{} if all have it.
	Present Place
}

// Columns emits many records at once: one column for each field of the schema. `made` has the bytes
// that you made. Let a column of them begin at a multiple of 64, so that consumers need not copy it.
// All records begin at `start`, as those of a compressed block do. Emit thousands of records in a
// call. It needs a host of version 0.3.
func (out *Records) Columns(records int, columns []Column, made []byte, start int) {
	if len(out.spans) != out.wholeSpans {
		panic("Columns was called inside a record")
	}
	if len(columns) != len(out.fields) {
		panic(fmt.Sprintf("%d columns for %d fields", len(columns), len(out.fields)))
	}
	out.Flush()
	// The host puts what was made at a multiple of 64 bytes.
	if len(made) > 0 {
		out.base = (out.base + 63) &^ 63
	}
	lowered := make([]uint64, 0, 3*len(columns))
	for _, column := range columns {
		for _, place := range []Place{column.Values, column.Offsets, column.Present} {
			if place.made {
				place.span = inPayload | (place.span + out.base<<32)
			}
			lowered = append(lowered, place.span)
		}
	}
	hostEmitColumns(uint32(records), unsafe.Pointer(unsafe.SliceData(lowered)),
		uint32(len(columns)), unsafe.Pointer(unsafe.SliceData(made)), uint32(len(made)),
		uint32(start))
	out.base += uint64(len(made))
}

// Pack makes a span of the chunk, for the checksums.
func Pack(begin, to int) uint64 {
	return uint64(begin)<<32 | uint64(uint32(to-begin))
}

// SpanIn makes a span of a block, for the checksums.
func SpanIn(block *Block, begin, to int) uint64 {
	return inPayload | (block.base+uint64(begin))<<32 | uint64(uint32(to-begin))
}

// CheckCRC32C returns the index of the first span whose CRC-32C differs from the expected one, or
// -1. The host computes fast; check many spans in one call.
func (out *Records) CheckCRC32C(spans []uint64, expected []uint32) int {
	return checkCRC(hostCheckCRC32C, spans, expected)
}

// CheckCRC32 does the same with CRC-32, which gzip and PNG have.
func (out *Records) CheckCRC32(spans []uint64, expected []uint32) int {
	return checkCRC(hostCheckCRC32, spans, expected)
}
