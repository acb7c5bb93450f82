// pipemill's reader in C: batches of records in shared memory, without a copy. docs/c.md is the guide.
//
// A function that can fail takes the address of a `pipemill_error *`, or a null pointer. It writes
// null there, or an error that the program gives back. A handle is given back once, with the function
// that its type names, and not used after that. A null handle is an error, or gives nothing. Texts
// are UTF-8 and end with a zero byte, unless they are `pipemill_bytes`.
//
// Made by cbindgen of ring/c: change that, and run `make c-header`.

#ifndef PIPEMILL_H
#define PIPEMILL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if !defined(__linux__)
#error "pipemill needs Linux"
#endif

// The version of this header; `pipemill_version()` is that of the library.
#define PIPEMILL_VERSION "0.1.0"

// In `pipemill_batch_offsets`: the record does not have the field.
#define PIPEMILL_ABSENT UINT32_MAX

// The next event of a channel: a batch, an end or an error.
typedef enum {
  // There is no event: the call failed, and its error says why.
  PIPEMILL_EVENT_KIND_FAILED = 0,
  // A batch of records.
  PIPEMILL_EVENT_KIND_BATCH,
  // The end of an epoch: every batch of it was ACKed, by this consumer or others.
  PIPEMILL_EVENT_KIND_EPOCH_END,
  // The end of the stream. Nothing follows.
  PIPEMILL_EVENT_KIND_STREAM_END,
} pipemill_event_kind;

// The type of one element of a field. Numbers are little-endian.
typedef enum {
  // A string of bytes, of any length.
  PIPEMILL_SCALAR_BYTES = 1,
  // Text, of any length. The host does not check that it is UTF-8.
  PIPEMILL_SCALAR_UTF8,
  // One byte, 0 or 1.
  PIPEMILL_SCALAR_BOOLEAN,
  // `int8_t`
  PIPEMILL_SCALAR_INT8,
  // `int16_t`
  PIPEMILL_SCALAR_INT16,
  // `int32_t`
  PIPEMILL_SCALAR_INT32,
  // `int64_t`
  PIPEMILL_SCALAR_INT64,
  // `uint8_t`
  PIPEMILL_SCALAR_UINT8,
  // `uint16_t`
  PIPEMILL_SCALAR_UINT16,
  // `uint32_t`
  PIPEMILL_SCALAR_UINT32,
  // `uint64_t`
  PIPEMILL_SCALAR_UINT64,
  // IEEE 754, 2 bytes
  PIPEMILL_SCALAR_FLOAT16,
  // The upper 16 bits of a `float`
  PIPEMILL_SCALAR_BFLOAT16,
  // `float`
  PIPEMILL_SCALAR_FLOAT32,
  // `double`
  PIPEMILL_SCALAR_FLOAT64,
} pipemill_scalar;

// The kind of an error.
typedef enum {
  // There is no error.
  PIPEMILL_ERROR_KIND_NONE = 0,
  // An argument is wrong: it is null or out of its range, or another thread uses the reader.
  PIPEMILL_ERROR_KIND_ARGUMENT,
  // No host answers at the socket, or it belongs to another user.
  PIPEMILL_ERROR_KIND_CONNECT,
  // The host refused this consumer: there is no such channel, or the consumer may not read it
  // with these options.
  PIPEMILL_ERROR_KIND_REFUSED,
  // The host hung up before the end of the stream: it has crashed or was killed.
  PIPEMILL_ERROR_KIND_HOST_DIED,
  // The host sent something that the protocol does not allow, or its memory can't be mapped.
  PIPEMILL_ERROR_KIND_PROTOCOL,
  // This program did not receive all batches of the channel, so it has no state.
  PIPEMILL_ERROR_KIND_STATE,
  // The process was forked from the one that connected.
  PIPEMILL_ERROR_KIND_FORK,
  // The program asked for a batch while it held as many as its credits allow.
  PIPEMILL_ERROR_KIND_HELD,
  // The channel failed: the input does not fit its format.
  PIPEMILL_ERROR_KIND_DECODE,
  // The channel failed: the decoder does not support its options or the input.
  PIPEMILL_ERROR_KIND_DECODER_REFUSED,
  // The channel failed: the decoder failed or broke its contract.
  PIPEMILL_ERROR_KIND_PLUGIN,
  // The channel failed: the input can't be read.
  PIPEMILL_ERROR_KIND_SOURCE,
  // The channel failed: a limit of its configuration was hit.
  PIPEMILL_ERROR_KIND_LIMIT,
  // The channel failed: the host itself failed.
  PIPEMILL_ERROR_KIND_HOST,
  // The library failed. This is a bug in pipemill: please report it.
  PIPEMILL_ERROR_KIND_INTERNAL,
} pipemill_error_kind;

// Records of one epoch, in shared memory. Any thread may read it, several threads concurrently,
// too. Return it with `pipemill_release`; all pointers that were obtained from it are invalid
// then.
typedef struct pipemill_batch pipemill_batch;

// Why a function failed. Return it with `pipemill_error_free`.
typedef struct pipemill_error pipemill_error;

// One consumer of one channel. One thread at a time may use it. Close it with `pipemill_close`.
typedef struct pipemill_reader pipemill_reader;

// The requests of a consumer. 0 or null is the default of each: begin with `pipemill_options
// options = {0};`.
typedef struct {
  // Number of batches that the program may hold at once. 0: four. A loop needs two, the current
  // one and the next one; with four it seldom waits for the host.
  uint32_t credits;
  // Number of records of each batch, 1 to 1,048,576, if the channel's configuration does not set
  // it. The first consumer of a channel decides. 0: the channel's setting.
  uint32_t batch_records;
  // The fate of the last records if they do not fill a batch: "keep", "drop" or "pad". Null:
  // "keep". It applies only with `batch_records`.
  const char *tail;
  // The unit whose last records these are: each "epoch" or each "object". Null: "epoch". It
  // applies only with `batch_records`.
  const char *batch_across;
  // With `world`: this program gets the batches whose number modulo `world` is `rank`.
  uint32_t rank;
  // Number of programs that divide the batches, at most 256. 0: they are not divided in this
  // way.
  uint32_t world;
  // The value that `pipemill_state` returned, in this or another process: the first batch is the
  // next one after it. Null: the current position of the channel.
  const char *state;
  // Milliseconds to wait for a host that has not started yet. 0: ten seconds. -1: not at all.
  int32_t wait_ms;
  // Milliseconds to wait for the release of a batch, if the program holds as many as its credits
  // allow and asks for another. 0: ten seconds. -1: for ever.
  int32_t hold_ms;
  // Whether the host may belong to any user. By default it must belong to this user or to root:
  // a host's memory is trusted.
  bool allow_other_users;
} pipemill_options;

// The result of `pipemill_next`.
typedef struct {
  // Its kind.
  pipemill_event_kind kind;
  // Number of the epoch, of a batch or of an epoch's end; from 0.
  uint32_t epoch;
  // The batch. Return it with `pipemill_release`. Null for all other kinds.
  pipemill_batch *batch;
  // For an epoch's end: number of delivered batches, to all consumers together.
  uint64_t batches;
  // For an epoch's end: number of records in these batches.
  uint64_t records;
  // For an epoch's end: whether part of the epoch was skipped, or not read.
  bool early;
} pipemill_event;

// Bytes in the shared memory, or none.
typedef struct {
  // The first byte; null if there is no such value. It is not aligned. No zero byte follows.
  const uint8_t *data;
  // Number of bytes.
  size_t length;
} pipemill_bytes;

// One field that each record of a batch has. All pointers live as long as the batch. A zero byte
// in a text is the character U+FFFD here.
typedef struct {
  // Name, unique in the batch.
  const char *name;
  // The type of one element.
  pipemill_scalar scalar;
  // The type in words, as in a configuration: "float32".
  const char *type_name;
  // Size of one element in bytes: 1, 2, 4 or 8.
  size_t element_bytes;
  // Number of elements in each dimension. 0 stands for a dimension that follows from the length
  // of each value. Bytes and text with one dimension are lists: docs/ring.md has their bytes.
  const uint32_t *shape;
  // Number of dimensions; 0 for a single element.
  size_t dimensions;
  // Whether a record may lack the field.
  bool nullable;
  // The meaning of the values, for example "timestamp[us]"; "" if it is not known.
  const char *logical;
  // If there are categories, each value is an index into this list of texts.
  const char *const *categories;
  // Number of categories; usually 0.
  size_t category_count;
} pipemill_field;

// The values of one field in all records of a batch, if they are evenly spaced in the memory.
typedef struct {
  // The value of the first record. Null if the values are not evenly spaced or not equally long,
  // if a record does not have the field, and if there is no record.
  const uint8_t *data;
  // Distance in bytes from one value to the next.
  size_t stride;
  // Size of each value in bytes.
  size_t bytes;
  // Whether each value is aligned for its C type. Otherwise copy it with `memcpy` before you use
  // it.
  bool aligned;
} pipemill_column;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The version of the library, for example "0.1.0". It is valid for ever.
const char *pipemill_version(void);

// Connects to a channel of a host.
//
// `socket`: path of the host's socket; null for the path in the environment variable
// `PIPEMILL_SOCKET`, which pipemill sets for the command that it starts. `channel`: its name in
// the host's configuration. `options`: null for the default of each.
//
// Returns null if it fails. If so, `*error` says why, unless `error` is null: no host answers, it
// belongs to another user, or it refuses this consumer with a reason. Waits for a host that has
// not started yet, ten seconds unless the options set another time.
pipemill_reader *pipemill_connect(const char *socket,
                                  const char *channel,
                                  const pipemill_options *options,
                                  pipemill_error **error);

// Waits for the next event: a batch, the end of an epoch, or the end of the stream.
//
// It first ACKs the batch that the last call returned, if that was not done: the program has
// processed it. Batches of earlier calls stay readable until they are released, but each takes one
// of the credits.
//
// The event's kind is `PIPEMILL_EVENT_KIND_FAILED` if it fails. If so, `*error` says why, unless
// `error` is null: the channel failed, the host died, or the program holds too many batches. After
// an end or a failure of the channel, every further call returns the same. A signal does not end
// the wait; to wait for something else, too, poll `pipemill_descriptor`.
pipemill_event pipemill_next(const pipemill_reader *reader, pipemill_error **error);

// The socket, for `poll`: if it is readable, `pipemill_next` does not wait long, because the host
// has sent something or hung up. -1 if `reader` is null. Do not read from it or close it.
int32_t pipemill_descriptor(const pipemill_reader *reader);

// The position from which this program resumes if it is started again: after the last batch that
// it received. It is JSON, for `state` of the options, and for `pipemill run --resume`.
//
// It is valid until the next call of this function, or `pipemill_close`. Null if it fails; if so,
// `*error` says why, unless `error` is null: this program did not receive all batches, because the
// channel has other consumers.
const char *pipemill_state(const pipemill_reader *reader, pipemill_error **error);

// The reason why the channel waits, according to the host, in words for a message: the rank that
// has left or has not come, the writer of a FIFO, an object. It is meant for a program whose
// `poll` of `pipemill_descriptor` has timed out for some seconds.
//
// It is valid until the next call of this function, or `pipemill_close`. Null if the channel does
// not wait, or the host does not answer within 5 seconds; and if it fails: `*error` then says why,
// unless `error` is null: another thread uses the reader, or it is null.
const char *pipemill_waits_for(const pipemill_reader *reader, pipemill_error **error);

// Requests to skip the rest of this epoch. Batches that were granted before still come, followed
// by the epoch's end. It has no effect if the epoch is not the current one.
//
// Returns false if it fails; if so, `*error` says why, unless `error` is null.
bool pipemill_end_epoch(const pipemill_reader *reader, uint32_t epoch, pipemill_error **error);

// Ends the consumer. Null is allowed. Batches that are not released stay readable, and the
// connection ends with the last of them.
//
// The last batch is not ACKed here: release it, or ACK it, if it was processed.
void pipemill_close(pipemill_reader *reader);

// Number of the batch in the channel, from 0.
uint64_t pipemill_batch_number(const pipemill_batch *batch);

// Number of the epoch, from 0.
uint32_t pipemill_batch_epoch(const pipemill_batch *batch);

// Number of records.
size_t pipemill_batch_records(const pipemill_batch *batch);

// Number of real records. The records after them are copies of the last real one, which fill the
// batch if the tail is "pad". In all other cases, all records are real.
size_t pipemill_batch_valid(const pipemill_batch *batch);

// Name of the object (a file, an S3 key) that contains the first record, in UTF-8.
pipemill_bytes pipemill_batch_object(const pipemill_batch *batch);

// Facts about the object that its decoder reported: a JSON object of texts, or no bytes.
pipemill_bytes pipemill_batch_metadata(const pipemill_batch *batch);

// Number, in its object, of the first record, from 0.
uint64_t pipemill_batch_first_record(const pipemill_batch *batch);

// Number of fields of each record.
size_t pipemill_batch_fields(const pipemill_batch *batch);

// The description of a field. Null if there is no such field. It lives as long as the batch.
const pipemill_field *pipemill_batch_field(const pipemill_batch *batch, size_t field);

// Number of the field with this name, from 0. -1 if there is none: `*error` then names the
// existing fields, unless `error` is null.
ptrdiff_t pipemill_find_field(const pipemill_batch *batch,
                              const char *name,
                              pipemill_error **error);

// The bytes of one field of one record, in the shared memory. `data` is null if the record does
// not have the field, and if there is no such record or field.
pipemill_bytes pipemill_batch_value(const pipemill_batch *batch, size_t record, size_t field);

// One field of all records, in the shared memory, if they are evenly spaced: always so for
// non-nullable numbers of a fixed size when `batch` is set; usually so otherwise. It may examine
// each record: call it once per batch.
pipemill_column pipemill_batch_column(const pipemill_batch *batch, size_t field);

// An array with the start of one field in the payload, in bytes, for each record;
// `PIPEMILL_ABSENT` if a record does not have the field. Null if there is no such field. The first
// call may make the array.
const uint32_t *pipemill_batch_offsets(const pipemill_batch *batch, size_t field);

// An array with the length of one field, in bytes, for each record. Null if there is no such
// field. The first call may make the array.
const uint32_t *pipemill_batch_lengths(const pipemill_batch *batch, size_t field);

// All bytes of the batch, to which the offsets refer: the fields, and the bytes between them in
// the input.
pipemill_bytes pipemill_batch_payload(const pipemill_batch *batch);

// ACKs the batch: the program has processed it, and the host delivers it to nobody else. The batch
// stays readable. `pipemill_next` does this for the batch that it returned before.
void pipemill_ack(const pipemill_batch *batch);

// Returns the batch, and ACKs it if that was not done. Null is allowed. Pointers that were
// obtained from it must not be used any more.
//
// A program that ends without this, and without an ACK, has not processed the batch: the host
// delivers it to another consumer.
void pipemill_release(pipemill_batch *batch);

// The whole text of an error, for a person, in UTF-8: where it happened, what was expected, what
// was found and what to do. It lives as long as the error. "no error" if `error` is null.
const char *pipemill_error_message(const pipemill_error *error);

// The kind of an error.
pipemill_error_kind pipemill_error_kind_of(const pipemill_error *error);

// Frees an error. Null is allowed.
void pipemill_error_free(pipemill_error *error);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* PIPEMILL_H */
