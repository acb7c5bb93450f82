// Sums a field of a channel. Usage: sum CHANNEL FIELD, as the command of `pipemill run`.

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <pipemill.h>

// Adds the values of a field in all records of a batch.
static bool add(const pipemill_batch *batch, const char *name, double *sum, pipemill_error **error) {
    ptrdiff_t field = pipemill_find_field(batch, name, error);
    if (field < 0) return false;
    const pipemill_field *about = pipemill_batch_field(batch, field);
    bool whole = about->scalar == PIPEMILL_SCALAR_INT64;
    if ((!whole && about->scalar != PIPEMILL_SCALAR_FLOAT64) || about->dimensions > 0) {
        fprintf(stderr, "sum: expected int64 or float64, found %s as the type of %s\n",
                about->type_name, name);
        return false;
    }
    // If the values are evenly spaced, reads them all at once; otherwise, one by one.
    pipemill_column column = pipemill_batch_column(batch, field);
    for (size_t record = 0; record < pipemill_batch_valid(batch); record++) {
        const uint8_t *value = column.data ? column.data + record * column.stride
                                           : pipemill_batch_value(batch, record, field).data;
        if (value == NULL) continue; // the record does not have the field
        int64_t integer;
        double number;
        memcpy(&integer, value, sizeof integer);
        memcpy(&number, value, sizeof number);
        *sum += whole ? (double)integer : number;
    }
    return true;
}

// Reads the channel to its end. Returns false if that fails; an error may say why.
static bool read_all(pipemill_reader *reader, const char *field, pipemill_error **error) {
    double sum = 0;
    unsigned long long records = 0;
    for (;;) {
        pipemill_event event = pipemill_next(reader, error);
        switch (event.kind) {
        case PIPEMILL_EVENT_KIND_BATCH: {
            bool added = add(event.batch, field, &sum, error);
            records += pipemill_batch_valid(event.batch);
            // This is also an ACK, so it is left out if the batch was not processed: another
            // consumer gets it then.
            if (!added) return false;
            pipemill_release(event.batch);
            break;
        }
        case PIPEMILL_EVENT_KIND_EPOCH_END:
            break;
        case PIPEMILL_EVENT_KIND_STREAM_END:
            printf("the sum of %s in %llu records is %g\n", field, records, sum);
            return true;
        case PIPEMILL_EVENT_KIND_FAILED:
            return false;
        }
    }
}

int main(int count, char **arguments) {
    if (count != 3) {
        fprintf(stderr, "usage: sum CHANNEL FIELD\n");
        return 64;
    }
    pipemill_error *error = NULL;
    // NULL: the socket in $PIPEMILL_SOCKET, and no options.
    pipemill_reader *reader = pipemill_connect(NULL, arguments[1], NULL, &error);
    bool done = reader != NULL && read_all(reader, arguments[2], &error);
    if (error != NULL) fprintf(stderr, "sum: %s\n", pipemill_error_message(error));
    pipemill_error_free(error);
    pipemill_close(reader);
    return done ? EXIT_SUCCESS : EXIT_FAILURE;
}
