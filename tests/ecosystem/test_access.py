"""Random access in the `DataLoader` of PyTorch: any sampler, any number of workers."""

import os

import pipemill
import pytest
import torch
from e2e import PATIENCE, run
from killing import hosts
from torch.utils.data import BatchSampler, DataLoader, DistributedSampler, Subset, WeightedRandomSampler

ROWS = 3000


@pytest.fixture
def index(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    for number in range(3):
        rows = range(number * 1000, number * 1000 + 1000)
        (folder / f"{number}.csv").write_text("n,x,t\n" + "".join(f"{row},{row}.5,row {row}\n" for row in rows))
    path = tmp_path / "train.index"
    finished = run("index", folder, "--out", path, "--distance", "4KiB", "-o", "header=true", "-o", "types=auto")
    assert finished.returncode == 0, finished.stderr
    return path


def check(batch, numbers):
    assert batch["n"].tolist() == numbers
    assert batch["x"].tolist() == [number + 0.5 for number in numbers]
    assert batch["t"] == [f"row {number}" for number in numbers]


@pytest.mark.parametrize("workers, method", [(0, None), (2, "fork"), (2, "spawn"), (2, "forkserver")])
def test_a_sampler_chooses_the_records(index, workers, method):
    dataset = pipemill.Dataset(index, workers=1)
    weights = torch.zeros(ROWS)
    weights[::7] = 1
    sampler = list(WeightedRandomSampler(weights, 500, generator=torch.Generator().manual_seed(3)))
    before = hosts()
    loader = DataLoader(
        dataset, 64, sampler=sampler, num_workers=workers, multiprocessing_context=method, timeout=PATIENCE if workers else 0
    )
    for at, batch in enumerate(loader):
        check(batch, sampler[64 * at : 64 * at + 64])
    assert at == 7 and hosts() == before


def test_workers_that_stay_keep_their_hosts(index):
    dataset = pipemill.Dataset(index, workers=1, fields=["n"])
    loader = DataLoader(dataset, 100, shuffle=True, num_workers=2, persistent_workers=True, timeout=PATIENCE)
    epochs = [[batch["n"].tolist() for batch in loader] for _ in range(2)]
    for epoch in epochs:
        assert sorted(number for batch in epoch for number in batch) == list(range(ROWS))
    assert epochs[0] != epochs[1]


def test_other_datasets_over_it(index):
    dataset = pipemill.Dataset(index)
    train, test = dataset.split([0.9, 0.1], seed=1)
    seen = [number for part in (train, test) for batch in DataLoader(part, 250) for number in batch["n"].tolist()]
    assert sorted(seen) == list(range(ROWS)) and len(test) < 500
    check(next(iter(DataLoader(Subset(dataset, [5, 2, 2999]), 3))), [5, 2, 2999])
    batches = DataLoader(dataset, batch_sampler=BatchSampler(range(10), 4, False))
    assert [batch["n"].tolist() for batch in batches] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    ranks = [DistributedSampler(dataset, num_replicas=2, rank=rank, shuffle=False) for rank in range(2)]
    dealt = [[number for batch in DataLoader(dataset, 500, sampler=rank) for number in batch["n"].tolist()] for rank in ranks]
    assert dealt == [list(range(0, ROWS, 2)), list(range(1, ROWS, 2))]
    assert dataset[torch.tensor(7)]["n"] == 7 and [record["n"] for record in dataset[torch.tensor([7, 3])]] == [7, 3]


def test_an_error_of_a_worker_reaches_the_program(index):
    dataset = pipemill.Dataset(index, workers=1)
    changed = index.parent / "data/1.csv"
    time = changed.stat().st_mtime_ns
    changed.write_bytes(changed.read_bytes().replace(b"row 1000", b"row 100!"))
    os.utime(changed, ns=(time, time + 1))
    with pytest.raises(pipemill.RefusedError, match="1.csv.*has changed since the index"):
        list(DataLoader(dataset, 100, num_workers=1, timeout=PATIENCE))
