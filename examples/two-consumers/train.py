"""Two processes learn to recognize digits from one pipemill channel, and average their weights.

Each batch goes to one of the two, whichever is ready. At the end of an epoch both send their
weights to the parent, which averages them, weighted by the number of rows that each has read. Every
fifth row is not used for learning; the accuracy is measured on these.
"""

import multiprocessing
import sys
import time

import numpy as np
import pipemill

import softmax

CONSUMERS = 2
RECORD = np.dtype([("pixels", "<f4", 64), ("digit", "<i4")])  # as in write_tfrecord.py


def consumer(pipe, all_connected):
    """One of the two processes. It makes its own connection, because a connection is one consumer.
    """
    weights = softmax.new_weights()
    kept = [np.empty(0, RECORD)]
    with pipemill.connect("train") as stream:
        # Without this, one process may read everything before the other has connected.
        all_connected.wait(timeout=60)
        for epoch in stream.epochs():
            rows, learning = 0, 0.0
            for batch in epoch:
                begun = time.perf_counter()
                records = batch.dense("data").view(RECORD)[:, 0]  # still no copy
                held = (batch.first_record + np.arange(len(batch))) % 5 == 0
                if epoch.number == 0:
                    kept.append(records[held])  # a selection: a copy, which needs no batch
                softmax.learn(weights, records["pixels"][~held], records["digit"][~held])
                rows += len(batch)
                learning += time.perf_counter() - begun
            pipe.send((weights, rows, learning))
            weights = pipe.recv()
            mine = np.concatenate(kept)
            pipe.send((softmax.right(weights, mine["pixels"], mine["digit"]), len(mine)))


def average_epochs(pipes):
    """Averages the weights of each epoch until the consumers end; returns the last accuracy."""
    accuracy, records, learning, started = 0.0, 0, [0.0] * len(pipes), None
    read, held = [0] * len(pipes), 0
    print("accuracy after each epoch:", end="", flush=True)
    for number in range(sys.maxsize):
        try:
            weights, rows, busy = zip(*[pipe.recv() for pipe in pipes])
        except EOFError:
            break
        started = started or time.perf_counter()  # the start of Python is not measured
        average = sum(w * n for w, n in zip(weights, rows)) / sum(rows)
        for pipe in pipes:
            pipe.send(average.astype(np.float32))
        right, held = map(sum, zip(*[pipe.recv() for pipe in pipes]))
        accuracy = right / held
        print(f" {accuracy:.3f}", end="", flush=True)
        read = [total + new for total, new in zip(read, rows)]
        if number > 0:
            records += sum(rows)
            learning = [total + new for total, new in zip(learning, busy)]
    seconds = max(time.perf_counter() - (started or 0), 1e-9)
    print(f", on {held} rows not learned from")
    rate = f"{records / seconds:,.0f} records/s since the first epoch"
    shares = " and ".join(f"{1 - busy / seconds:.0%}" for busy in learning)
    waited = f"the two waited {shares} of the time for batches and each other"
    print(f"{' + '.join(f'{rows:,}' for rows in read)} records read, {rate}; {waited}")
    return accuracy


def main():
    context = multiprocessing.get_context("spawn")
    all_connected = context.Barrier(CONSUMERS)
    pipes, processes = [], []
    for _ in range(CONSUMERS):
        ours, theirs = context.Pipe()
        process = context.Process(target=consumer, args=(theirs, all_connected), daemon=True)
        process.start()
        theirs.close()  # so that the end of the process is the end of the pipe here
        pipes.append(ours)
        processes.append(process)
    accuracy = average_epochs(pipes)
    for pipe, process in zip(pipes, processes):
        pipe.close()
        process.join()
    if any(process.exitcode for process in processes):
        sys.exit("train.py: a consumer failed; its output is above")
    if not accuracy > softmax.EXPECTED:
        sys.exit(f"train.py: accuracy {accuracy:.3f}, expected more than {softmax.EXPECTED}")


if __name__ == "__main__":
    main()
