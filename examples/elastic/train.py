"""A job that loses half of its ranks in the middle of an epoch, and goes on with the others.

Four ranks learn a linear model from CSV files, in plain numpy: each computes a gradient of its
batches, and the parent takes the mean. After some steps, two of them are killed. The parent goes on
with two, from the last state. Each record comes once in the epoch, in the same global batches as if
nothing had happened, so the weights are those of a job of one rank.
"""

import json
import os
import signal
import sys
import tempfile
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pipemill

GLOBAL_BATCH = 96  # records of all ranks in a step
SHARDS = 4  # any number of ranks that divides it can read them
LOST_AFTER = 100  # steps
FEATURES = ("x", "y", "z")


def write_data(folder):
    """Eight files with 5,000 rows each: an id, three features, and a target that depends on them."""
    numbers = np.random.default_rng(7)
    for file in range(8):
        features = numbers.normal(size=(5000, 3))
        target = features @ [1.5, -2.0, 0.5] + 3 + numbers.normal(scale=0.1, size=5000)
        rows = np.column_stack([file * 5000 + np.arange(5000), features, target])
        header = ",".join(("id", *FEATURES, "target"))
        np.savetxt(folder / f"{file}.csv", rows, "%d,%.6f,%.6f,%.6f,%.6f", header=header, comments="")


def rank(index, number, world, state, weights, parent):
    """A rank: sends a gradient of each of its batches, and gets the weights after the step."""
    with pipemill.open(
        index, batch=GLOBAL_BATCH // world, tail="drop", rank=(number, world), state=state,
        shuffle={"seed": 7, "blocks": "64KiB", "shards": SHARDS},
    ) as stream:
        for batch in stream:
            columns = {name: np.asarray(batch[name]) for name in ("id", *FEATURES, "target")}
            features = np.column_stack([columns[name] for name in FEATURES] + [np.ones(len(batch))])
            error = features @ weights - columns["target"]
            gradient = features.T @ error / GLOBAL_BATCH
            # The state of any rank is good for all of them.
            parent.send((gradient, columns["id"].astype(int).tolist(), stream.state_dict()))
            weights = parent.recv()
    parent.send(None)


def train(index, world, checkpoint, lose_after=None):
    """Trains with this many ranks to the end of the epoch, or until half of them are lost."""
    context = get_context("spawn")
    weights, state, seen = checkpoint["weights"], checkpoint["state"], checkpoint["seen"]
    ends, ranks = [], []
    for number in range(world):
        end, other = context.Pipe()
        arguments = (index, number, world, state, np.array(weights), other)
        ranks.append(context.Process(target=rank, args=arguments, daemon=True))
        ranks[-1].start()
        other.close()
        ends.append(end)
    try:
        while True:
            answers = [end.recv() for end in ends]
            if answers[0] is None:
                return True
            weights = weights - 0.1 * sum(gradient for gradient, _, _ in answers)
            seen = seen + [record for _, ids, _ in answers for record in ids]
            checkpoint.update(weights=weights, seen=seen, state=json.loads(json.dumps(answers[-1][2])))
            if lose_after is not None and len(seen) == lose_after * GLOBAL_BATCH:
                for lost in ranks[: world // 2]:
                    os.kill(lost.pid, signal.SIGKILL)
                    lost.join()
            for end in ends:
                end.send(weights)
    except (EOFError, ConnectionError):
        return False  # a rank is gone
    finally:
        for one in ranks:
            one.kill()
            one.join()


def main():
    with tempfile.TemporaryDirectory() as folder:
        data, index = Path(folder) / "data", Path(folder) / "train.index"
        data.mkdir()
        write_data(data)
        pipemill.index(data, index, distance="16KiB")

        start = {"weights": np.zeros(4), "state": None, "seen": []}
        alone = dict(start)
        train(index, 1, alone)

        job = dict(start)
        finished = train(index, 4, job, lose_after=LOST_AFTER)
        steps = len(job["seen"]) // GLOBAL_BATCH
        print(f"4 ranks: {steps} steps, then two of them were killed")
        assert not finished
        print(f"the state, of {len(json.dumps(job['state']))} bytes: {json.dumps(job['state'])}")
        train(index, 2, job)
        print(f"2 ranks: {len(job['seen']) // GLOBAL_BATCH - steps} steps more")

    seen, once = job["seen"], len(set(job["seen"])) == len(job["seen"])
    print(f"{len(seen):,} records, {'each of them once' if once else 'some of them twice'}")
    print(f"the same records in the same steps as one rank: {'yes' if seen == alone['seen'] else 'no'}")
    difference = np.abs(job["weights"] - alone["weights"]).max()
    print(f"weights {np.round(job['weights'], 2).tolist()}, one rank's differ by {difference:.0e} at most")
    return 0 if once and seen == alone["seen"] and difference < 1e-9 else 1


if __name__ == "__main__":
    sys.exit(main())
