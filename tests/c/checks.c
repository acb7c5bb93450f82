// The jobs that tests/c/test_c.py asks of the C library, one for each argument. The socket is in
// $PIPEMILL_SOCKET.

#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <pipemill.h>

static pipemill_error *error;

// Prints the error of the last call, and frees it.
static void say(const char *what) {
    printf("%s: %d: %s\n", what, pipemill_error_kind_of(error), pipemill_error_message(error));
    pipemill_error_free(error);
    error = NULL;
}

static pipemill_reader *connected(const pipemill_options *options) {
    pipemill_reader *reader = pipemill_connect(NULL, "train", options, &error);
    if (reader != NULL) return reader;
    say("connect");
    exit(1);
}

static void print_value(const pipemill_field *field, pipemill_bytes value) {
    printf(" %s=", field->name);
    if (value.data == NULL) {
        printf("absent");
    } else if (field->scalar == PIPEMILL_SCALAR_UTF8 && field->dimensions == 0) {
        printf("%.*s", (int)value.length, (const char *)value.data);
    } else if (field->scalar == PIPEMILL_SCALAR_INT64) {
        int64_t number;
        memcpy(&number, value.data, sizeof number);
        printf("%" PRId64, number);
    } else {
        printf("%zu bytes", value.length);
    }
}

// Reads each record of a batch in each of the ways to its values, which have to agree.
static void print_batch(const pipemill_batch *batch) {
    pipemill_bytes object = pipemill_batch_object(batch);
    printf("batch %" PRIu64 " of epoch %" PRIu32 ", %zu of %zu records, from record %" PRIu64 " of %.*s\n",
           pipemill_batch_number(batch), pipemill_batch_epoch(batch), pipemill_batch_valid(batch),
           pipemill_batch_records(batch), pipemill_batch_first_record(batch), (int)object.length,
           (const char *)object.data);
    pipemill_bytes payload = pipemill_batch_payload(batch);
    for (size_t record = 0; record < pipemill_batch_records(batch); record++) {
        for (size_t f = 0; f < pipemill_batch_fields(batch); f++) {
            pipemill_bytes value = pipemill_batch_value(batch, record, f);
            uint32_t offset = pipemill_batch_offsets(batch, f)[record];
            if ((value.data == NULL) != (offset == PIPEMILL_ABSENT)) abort();
            if (value.data != NULL && value.data != payload.data + offset) abort();
            if (value.length != pipemill_batch_lengths(batch, f)[record]) abort();
            pipemill_column column = pipemill_batch_column(batch, f);
            if (column.data != NULL && value.data != column.data + record * column.stride) abort();
            if (column.data != NULL && value.length != column.bytes) abort();
            print_value(pipemill_batch_field(batch, f), value);
        }
        printf("\n");
    }
}

// Reads everything until the channel's end; at most `most` batches.
static int records(const pipemill_options *options, int most) {
    pipemill_reader *reader = connected(options);
    while (most-- > 0) {
        pipemill_event event = pipemill_next(reader, &error);
        if (event.kind == PIPEMILL_EVENT_KIND_BATCH) {
            print_batch(event.batch);
            pipemill_release(event.batch);
        } else if (event.kind == PIPEMILL_EVENT_KIND_EPOCH_END) {
            most++;
            printf("end of epoch %" PRIu32 ": %" PRIu64 " batches, %" PRIu64 " records%s\n", event.epoch,
                   event.batches, event.records, event.early ? ", early" : "");
        } else {
            if (event.kind == PIPEMILL_EVENT_KIND_FAILED) say("next");
            else printf("end of the stream\n");
            // It is the same at each further call.
            if (pipemill_next(reader, NULL).kind != event.kind) abort();
            break;
        }
        fflush(stdout);
    }
    const char *state = pipemill_state(reader, &error);
    if (state != NULL) printf("state %s\n", state);
    else say("state");
    pipemill_close(reader);
    return 0;
}

static int schema(void) {
    pipemill_reader *reader = connected(NULL);
    pipemill_event event = pipemill_next(reader, &error);
    for (size_t f = 0; f < pipemill_batch_fields(event.batch); f++) {
        const pipemill_field *field = pipemill_batch_field(event.batch, f);
        printf("%s %s %d %zu [", field->name, field->type_name, field->scalar, field->element_bytes);
        for (size_t d = 0; d < field->dimensions; d++) printf("%" PRIu32 ",", field->shape[d]);
        printf("] %s %s", field->nullable ? "nullable" : "always", field->logical);
        for (size_t c = 0; c < field->category_count; c++) printf(" %s", field->categories[c]);
        pipemill_column column = pipemill_batch_column(event.batch, f);
        printf("; column %s, stride %zu, %s\n", column.data ? "even" : "uneven", column.stride,
               column.aligned ? "aligned" : "not aligned");
    }
    if (pipemill_batch_field(event.batch, 99) != NULL) abort();
    if (pipemill_batch_offsets(event.batch, 99) != NULL) abort();
    if (pipemill_batch_value(event.batch, 0, 99).data != NULL) abort();
    if (pipemill_batch_value(event.batch, 1u << 30, 0).data != NULL) abort();
    if (pipemill_batch_column(event.batch, 99).data != NULL) abort();
    // Views outlive their reader.
    pipemill_close(reader);
    print_batch(event.batch);
    pipemill_release(event.batch);
    return 0;
}

static pipemill_options some(const char *tail, const char *across, uint32_t records) {
    pipemill_options options = {0};
    options.tail = tail;
    options.batch_across = across;
    options.batch_records = records;
    return options;
}

static void refused(const char *what, pipemill_options options) {
    if (pipemill_connect(NULL, "train", &options, &error) != NULL) abort();
    say(what);
}

static int misuse(void) {
    if (strcmp(pipemill_version(), PIPEMILL_VERSION) != 0) abort();
    // This prints what the host sends. The slot's earlier content is not read.
    error = (pipemill_error *)0x1;
    if (pipemill_connect(NULL, NULL, NULL, &error) != NULL) abort();
    say("no channel");
    if (pipemill_connect(NULL, NULL, NULL, NULL) != NULL) abort();
    if (pipemill_connect(NULL, "\xff", NULL, &error) != NULL) abort();
    say("not UTF-8");
    pipemill_options options = {0};
    options.wait_ms = 1;
    if (pipemill_connect("/nowhere/socket", "train", &options, &error) != NULL) abort();
    say("no host");
    options.wait_ms = -2;
    refused("wait", options);
    refused("tail", some("chop", NULL, 4));
    refused("across", some(NULL, "worlds", 4));
    refused("tail alone", some("drop", NULL, 0));
    options = some(NULL, NULL, 0);
    options.rank = 1;
    refused("rank", options);
    options = some(NULL, NULL, 0);
    options.state = "{";
    refused("state", options);
    if (pipemill_connect(NULL, "nothing", NULL, &error) != NULL) abort();
    say("no such channel");
    unsetenv("PIPEMILL_SOCKET");
    if (pipemill_connect(NULL, "train", NULL, &error) != NULL) abort();
    say("no socket");

    if (pipemill_next(NULL, &error).kind != PIPEMILL_EVENT_KIND_FAILED) abort();
    say("next");
    if (pipemill_state(NULL, &error) != NULL) abort();
    say("state");
    if (pipemill_end_epoch(NULL, 0, &error)) abort();
    say("end_epoch");
    if (pipemill_waits_for(NULL, &error) != NULL) abort();
    say("waits_for");
    if (pipemill_find_field(NULL, "x", &error) != -1) abort();
    say("find_field");
    if (pipemill_descriptor(NULL) != -1) abort();
    if (pipemill_batch_records(NULL) != 0 || pipemill_batch_valid(NULL) != 0) abort();
    if (pipemill_batch_number(NULL) != 0 || pipemill_batch_epoch(NULL) != 0) abort();
    if (pipemill_batch_fields(NULL) != 0 || pipemill_batch_field(NULL, 0) != NULL) abort();
    if (pipemill_batch_object(NULL).data != NULL || pipemill_batch_payload(NULL).data != NULL) abort();
    if (pipemill_batch_metadata(NULL).data != NULL || pipemill_batch_first_record(NULL) != 0) abort();
    if (pipemill_batch_offsets(NULL, 0) != NULL || pipemill_batch_lengths(NULL, 0) != NULL) abort();
    if (pipemill_batch_value(NULL, 0, 0).data != NULL) abort();
    if (pipemill_batch_column(NULL, 0).data != NULL) abort();
    pipemill_ack(NULL);
    pipemill_release(NULL);
    pipemill_close(NULL);
    pipemill_error_free(NULL);
    say("nothing");
    return 0;
}

// Asks for a batch while it holds all that it may, then continues.
static int hold(void) {
    pipemill_options options = {0};
    options.credits = 1;
    options.hold_ms = 1;
    pipemill_reader *reader = connected(&options);
    pipemill_batch *batch = pipemill_next(reader, &error).batch;
    if (pipemill_next(reader, &error).kind != PIPEMILL_EVENT_KIND_FAILED) abort();
    say("held");
    // A null pointer: the caller does not want the error.
    if (pipemill_next(reader, NULL).kind != PIPEMILL_EVENT_KIND_FAILED) abort();
    if (pipemill_find_field(batch, "nothing", &error) != -1) abort();
    say("field");
    pipemill_release(batch);
    pipemill_event event = pipemill_next(reader, &error);
    printf("then batch %" PRIu64 "\n", pipemill_batch_number(event.batch));
    pipemill_release(event.batch);
    pipemill_close(reader);
    return 0;
}

static void *next_in_a_thread(void *reader) {
    pipemill_error *mine;
    pipemill_event event;
    // The reader does not close while the other thread asks for the state.
    do {
        sched_yield();
        event = pipemill_next(reader, &mine);
        pipemill_error_free(mine);
    } while (event.kind == PIPEMILL_EVENT_KIND_FAILED);
    printf("the thread got event %d\n", event.kind);
    pipemill_release(event.batch);
    return NULL;
}

// Two threads in one reader, while the host has nothing to send: the second one is told.
static int threads(void) {
    pipemill_reader *reader = connected(NULL);
    pthread_t thread;
    if (pthread_create(&thread, NULL, next_in_a_thread, reader) != 0) abort();
    while (pipemill_state(reader, &error) != NULL) sched_yield();
    say("busy");
    fflush(stdout);
    pthread_join(thread, NULL);
    pipemill_close(reader);
    return 0;
}

static int in_a_child(void) {
    pipemill_reader *reader = connected(NULL);
    // `poll` tells when the host has sent something.
    struct pollfd polled = {.fd = pipemill_descriptor(reader), .events = POLLIN};
    if (poll(&polled, 1, -1) != 1) abort();
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        if (pipemill_next(reader, &error).kind != PIPEMILL_EVENT_KIND_FAILED) abort();
        say("child");
        fflush(stdout);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    pipemill_event event = pipemill_next(reader, &error);
    printf("the parent got event %d\n", event.kind);
    pipemill_release(event.batch);
    pipemill_close(reader);
    return 0;
}

// Says what the channel waits for, as soon as it waits for something.
static int waits(void) {
    pipemill_reader *reader = connected(NULL);
    const char *what;
    while ((what = pipemill_waits_for(reader, &error)) == NULL) sched_yield();
    printf("waits for %s\n", what);
    pipemill_close(reader);
    return 0;
}

// Skips the rest of the first epoch at its first batch.
static int skip(void) {
    pipemill_reader *reader = connected(NULL);
    for (;;) {
        pipemill_event event = pipemill_next(reader, &error);
        if (event.kind == PIPEMILL_EVENT_KIND_BATCH) {
            if (event.epoch == 0 && !pipemill_end_epoch(reader, 0, &error)) abort();
            pipemill_ack(event.batch);
            pipemill_release(event.batch);
        } else if (event.kind == PIPEMILL_EVENT_KIND_EPOCH_END) {
            printf("epoch %" PRIu32 " ended %s\n", event.epoch, event.early ? "early" : "as it should");
        } else {
            printf("event %d\n", event.kind);
            break;
        }
    }
    pipemill_close(reader);
    return 0;
}

int main(int count, char **arguments) {
    const char *job = count > 1 ? arguments[1] : "";
    pipemill_options options = {0};
    // records [BATCHES [STATE]]: in batches of three records, padded.
    if (strcmp(job, "records") == 0) {
        options = some("pad", NULL, 3);
        options.state = count > 3 ? arguments[3] : NULL;
        return records(&options, count > 2 ? atoi(arguments[2]) : 1000);
    }
    // any: a batch of a host of any user.
    if (strcmp(job, "any") == 0) {
        options = some("pad", NULL, 3);
        options.allow_other_users = true;
        return records(&options, 1);
    }
    // rank RANK WORLD: two batches of two records, padded.
    if (strcmp(job, "rank") == 0) {
        options = some("pad", "epoch", 2);
        options.rank = (uint32_t)atoi(arguments[2]);
        options.world = (uint32_t)atoi(arguments[3]);
        return records(&options, 2);
    }
    if (strcmp(job, "schema") == 0) return schema();
    if (strcmp(job, "misuse") == 0) return misuse();
    if (strcmp(job, "hold") == 0) return hold();
    if (strcmp(job, "threads") == 0) return threads();
    if (strcmp(job, "child") == 0) return in_a_child();
    if (strcmp(job, "skip") == 0) return skip();
    if (strcmp(job, "waits") == 0) return waits();
    fprintf(stderr, "usage: checks records|any|rank|schema|misuse|hold|threads|child|skip|waits\n");
    return 64;
}
