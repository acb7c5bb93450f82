"""A rank of test_torch_unequal_ends.py: trains on a Loader of its own host, in a process group of gloo, and writes down
how many steps of each pass it took, and how it ended."""

import contextlib
import json
import logging
import os

import pipemill
import torch
import torch.distributed as distributed
from e2e import PATIENCE
from pipemill.torch import Loader

BATCH = 4


def train(rank, world, port, folder, source, how, passes, every, gates):
    """Takes this number of passes, and synchronizes after each `every` steps. 0: never.

    how: arguments of the Loader, or a list with those of each rank. "state": the number of steps of
    an earlier Loader, from whose state this one resumes. gates: events. By (rank, step): that rank
    waits for it before it asks for this step. By ("opens", rank, step, end): it sets it with this
    step, or with the end of the pass after it. By ("fails", rank): it sets it with an error.
    """
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(world), MASTER_PORT=str(port))
    # As on several machines of 2 ranks.
    os.environ.update(LOCAL_RANK=str(rank % 2), LOCAL_WORLD_SIZE=str(min(world, 2)))
    store = distributed.PrefixStore("run", distributed.TCPStore("127.0.0.1", port, is_master=False))
    distributed.init_process_group("gloo", store=store, rank=rank, world_size=world)
    how = dict(how[rank] if isinstance(how, list) else how)
    before = how.pop("state", 0)

    def loader():
        more = {"batch": BATCH, "tail": "drop", "timeout": PATIENCE, **how}
        return Loader(source, "csv", options={"types": "int64"}, **more)

    data, taken, log = loader(), [], []
    shown = logging.Handler()
    shown.emit = lambda record: log.append(record.getMessage())
    logging.getLogger("pipemill").addHandler(shown)
    if before:
        one = iter(data)
        for _ in range(before):
            next(one)
        state = data.state_dict()
        data.close()
        data = loader()
        data.load_state_dict(state)
    try:
        for _ in range(passes):
            taken.append(0)
            _one_pass(rank, data, taken, every, gates)
        ended = "done"
    except pipemill.PipemillError as error:
        ended = f"{type(error).__name__}: {error}"
        if ("fails", rank) in gates:
            gates["fails", rank].set()
    except RuntimeError as error:
        # Another rank has ended its process, and gloo reports it.
        ended = f"cut off: {error}"
    (folder / f"{rank}.json").write_text(json.dumps({"taken": taken, "ended": ended, "state": data.state_dict(), "log": log}))
    if ended == "done":
        with contextlib.suppress(RuntimeError):  # another rank has got an error since
            distributed.barrier()
    data.close()


def _one_pass(rank, data, taken, every, gates):
    batches = iter(data)
    while True:
        gate = gates.get((rank, taken[-1] + 1))
        if gate is not None:
            gate.wait(PATIENCE)
        if next(batches, None) is None:
            taken_all = True
        else:
            taken_all = False
            taken[-1] += 1
        opened = gates.get(("opens", rank, taken[-1], taken_all))
        if opened is not None:
            opened.set()
        if taken_all:
            return
        if every and taken[-1] % every == 0:
            distributed.all_reduce(torch.ones(1))
