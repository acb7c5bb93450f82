"""A rank of test_torch_passes_ranks.py: stops a Loader, resumes from a state, and writes down the
records that it received.
"""

import json
import os

import pipemill
from e2e import PATIENCE
from pipemill.torch import Loader

BATCH = 4


def _loader(source, settings):
    return Loader(source, "csv", options={"types": "int64"}, batch=BATCH, timeout=PATIENCE, **settings)


def _place(batch):
    return batch.epoch, batch["f0"].tolist()[: batch.valid]


def _deliver(loader, got, passes, batches):
    """This number of whole passes, and this number of batches of the next one. Its iterator,
    because a pass that is dropped ends its epoch, for all ranks."""
    for _ in range(passes):
        got += [_place(batch) for batch in loader]
    one = iter(loader)
    for _ in range(batches):
        batch = next(one, None)
        if batch is None:
            break
        got.append(_place(batch))
    return one


def _launched(rank, ranks, per_machine, job):
    """Sets torchrun's variables."""
    os.environ.update(
        RANK=str(rank), WORLD_SIZE=str(ranks), MASTER_PORT=job,
        LOCAL_RANK=str(rank % per_machine), LOCAL_WORLD_SIZE=str(per_machine),
    )  # fmt: skip


def stop(rank, ranks, per_machine, folder, source, settings, stops, wait):
    """Stops at each of `stops`, `(passes, batches)`, and leaves the state and the delivered records
    in the folder.
    """
    _launched(rank, ranks, per_machine, str(folder))
    for number, place in enumerate(stops):
        loader, got = _loader(source, settings), []
        one = _deliver(loader, got, *place)
        found = {"got": got, "state": loader.state_dict()}
        (folder / f"{number}.{rank}.json").write_text(json.dumps(found))
        wait()  # local rank 0 has the host
        del one
        loader.close()


def go_on(rank, ranks, per_machine, folder, source, settings, stops, of_rank_0, wait):
    """Resumes from each of these states, of this rank or all of rank 0, for 3 passes: the batches,
    or an error.
    """
    _launched(rank, ranks, per_machine, f"{folder} then")
    for number in range(stops):
        whose = 0 if of_rank_0 else rank
        state = json.loads((folder / f"{number}.{whose}.json").read_text())["state"]
        loader, got, error = _loader(source, settings), [], None
        try:
            loader.load_state_dict(state)
            _deliver(loader, got, 3, 0)
        except (ValueError, pipemill.PipemillError) as raised:
            error = str(raised)
        (folder / f"{number}.{rank}.then.json").write_text(json.dumps({"got": got, "error": error}))
        wait()
        loader.close()
