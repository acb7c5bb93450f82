// A pipemill decoder for a small format, to copy and change. A file is the magic `PSTR`, then
// records: a length (16 bits, little-endian), then that many bytes.
package main

import (
	"encoding/binary"
	"fmt"

	"pascal/pipemill"
)

const magic = "PSTR"

// The size of a length in bytes.
const lengthBytes = 2

// State that is kept between calls. Never keep a part of a record: the host passes unconsumed bytes
// again.
type decoder struct {
	text      bool
	maxRecord uint64
	magicSeen bool
}

func init() {
	pipemill.Export(pipemill.Plugin{
		Options: []pipemill.OptionSpec{{
			Name:    "text",
			Kind:    "bool",
			Default: "false",
			Help:    "make the field text: strings must be UTF-8",
		}},
		Open: open,
	})
}

func main() {}

func open(
	options pipemill.Options, info *pipemill.StreamInfo, out *pipemill.Records,
) (pipemill.Decoder, error) {
	it := &decoder{text: options.IsOn("text"), maxRecord: info.MaxRecord}
	scalar := pipemill.Bytes
	if it.text {
		scalar = pipemill.UTF8
	}
	out.SetSchema(pipemill.Field{Name: "string", Scalar: scalar})
	return it, nil
}

func (it *decoder) Decode(
	chunk []byte, end bool, out *pipemill.Records,
) (pipemill.Progress, *pipemill.DecodeError) {
	place := 0
	if !it.magicSeen {
		if len(chunk) < len(magic) {
			return pipemill.Progress{Need: uint64(len(magic))}, nil
		}
		if found := chunk[:len(magic)]; string(found) != magic {
			why := fmt.Sprintf("expected the magic [50, 53, 54, 52], found [%02x, %02x, %02x, %02x]",
				found[0], found[1], found[2], found[3])
			return pipemill.Fatal(0, why)
		}
		it.magicSeen = true
		place = len(magic)
	}
	for len(chunk)-place >= lengthBytes {
		start := place + lengthBytes
		length := uint64(binary.LittleEndian.Uint16(chunk[place:]))
		// 64 bits, because a length from the input may be anything.
		next := uint64(start) + length
		// A message says what was expected and what was found. pipemill adds file, offset and
		// record number.
		if length > it.maxRecord {
			why := fmt.Sprintf("a string of %d bytes is larger than max_record (%d)",
				length, it.maxRecord)
			return pipemill.Skippable(place, why, next)
		}
		if next > uint64(len(chunk)) {
			// The chunk ends inside the record: leave it unconsumed, and say how many bytes it has.
			return pipemill.Progress{Consumed: place, Need: next - uint64(place)}, nil
		}
		if it.text {
			if valid := pipemill.ValidUTF8(chunk[start:next]); uint64(valid) < length {
				why := fmt.Sprintf("expected UTF-8, which ends at byte %d of the string", valid)
				return pipemill.Skippable(place, why, next)
			}
		}
		// A span: the bytes stay in the chunk, nothing is copied.
		out.Span(place, start, int(next))
		place = int(next)
	}
	return pipemill.Progress{Consumed: place, Need: lengthBytes}, nil
}

// Never called, because no error of this decoder is searchable.
func (it *decoder) Resync(chunk []byte, end bool) pipemill.Resynced {
	return pipemill.Resynced{Consumed: len(chunk)}
}
