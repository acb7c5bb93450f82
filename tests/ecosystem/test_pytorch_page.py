"""The examples of docs/pytorch.md, as they stand there."""

import copy
import io
import json
import os
import pathlib
import re
import subprocess
import sys
import tarfile

import pytest
import torch
from e2e import PATIENCE
from pipemill.torch import Loader

PAGE = pathlib.Path(__file__).parents[2] / "docs/pytorch.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
RECORDS = 600


@pytest.fixture(autouse=True)
def data(tmp_path, monkeypatch):
    """A folder with 600 records in data/a.tar and data/b.tar, and 600 in data/a.csv and data/b.csv."""
    (tmp_path / "data").mkdir()
    for name, first, end in (("a", 0, 400), ("b", 400, RECORDS)):
        rows = "".join(f"{n},{n}.5\n" for n in range(first, end))
        (tmp_path / f"data/{name}.csv").write_text(rows)
        with tarfile.open(tmp_path / f"data/{name}.tar", "w") as archive:
            for n in range(first, end):
                for member, text in (("jpg", f"image {n:03}"), ("cls", f"{n % 10}")):
                    entry = tarfile.TarInfo(f"{n:06}.{member}")
                    entry.size = len(text)
                    archive.addfile(entry, io.BytesIO(text.encode()))
    monkeypatch.chdir(tmp_path)


def run(words, **names):
    """Runs the only example that has these words in it. Returns its names, and the arguments with
    which it has called `train`.
    """
    (example,) = (example for example in EXAMPLES if words in example)
    trained = []
    # These are copies: tensors that are kept would hold the batches.
    names.update(train=lambda *given: trained.append([copy.deepcopy(one) for one in given]))
    exec(compile(example, "<example>", "exec"), names)
    return names, trained


def all_of(trained):
    return sorted(n for batch, *_ in trained for n in batch.tolist())


def test_none_is_left_out():
    assert len(EXAMPLES) == 10


def test_a_loader_and_its_state():
    names, trained = run("epoch in range(10)")
    # 2 batches of 256 in an epoch, and the tail is dropped.
    assert len(trained) == 20
    image, kind = trained[0]
    assert [len(one) for one in image] == [9] * 256 and len(kind) == 256
    firsts = {bytes(image[0].tolist()) for image, _ in trained[::2]}
    assert firsts == {b"image 000", b"image 400"}, "each epoch has its own order of the objects"
    names, _ = run("model.state_dict()", model=torch.nn.Linear(1, 1), loader=names["loader"])
    assert len(list(names["loader"])) == 2
    names["loader"].close()


def test_a_program_that_counts_epochs():
    loader = Loader("data/*.tar", "webdataset", fields="jpg,cls:int64", batch=256, tail="drop")
    loader.set_epoch(3)
    _, trained = run("loader.epoch < 10", loader=loader)
    assert len(trained) == 2 * 7
    loader.close()


def test_waits_and_replay(capsys):
    names, trained = run("for replay in (None, 4)")
    firsts = [int(numbers[0]) for numbers, _ in trained]
    assert firsts == [0, 256] * 20, "an epoch has two batches"
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("replay=None: ") and "<waits for 20 batches: p50 " in lines[0]
    assert lines[1].startswith("replay=4: ") and "<waits for 4 batches: p50 " in lines[1]


def test_a_dataset():
    names, trained = run('tail="pad")\nloader = StatefulDataLoader(data, batch_size=None, num_workers=2)\n')
    # 3 batches, of which the last is filled, and one that fills the last round of 2 workers.
    assert [len(batch) for batch, *_ in trained] == [256] * 4
    assert set(all_of(trained)) == set(range(RECORDS))
    names["data"].close()


def test_absent_values():
    pathlib.Path("data/b.csv").write_text("400,\n,401.5\n")
    names, trained = run("f0.present")
    numbers, present = (torch.cat(columns) for columns in zip(*trained))
    assert numbers.tolist() == [*range(401), -1] and present.tolist() == [True] * 401 + [False]
    names["loader"].close()


def test_an_augmentation_is_the_same_after_a_stop():
    names, trained = run("augmented")
    whole = [(ids.tolist(), x.tolist()) for ids, x in trained]
    assert set(sum((ids for ids, _ in whole), [])) == set(range(RECORDS)) and len(whole) == 6
    assert all(one != number + 0.5 for ids, x in whole for number, one in zip(ids, x))
    # The next epoch has other noise, and a new job that resumes there has the same.
    state, second = names["state"], [(batch["id"].tolist(), batch["x"].tolist()) for batch in names["loader"]]
    assert [ids for ids, _ in second] == [ids for ids, _ in whole] and second != whole
    names["data"].close()
    again, trained = run("augmented")
    assert [(ids.tolist(), x.tolist()) for ids, x in trained] == whole
    again["data"].close()
    data = names["Dataset"]("data/*.csv", "csv", options={"types": "auto"}, batch=100, tail="pad")
    loader = names["StatefulDataLoader"](data, batch_size=None, num_workers=2, collate_fn=names["augmented"])
    loader.load_state_dict(state)
    assert [(batch["id"].tolist(), batch["x"].tolist()) for batch in loader] == second
    data.close()


def test_nodes():
    names, trained = run("nodes.Prefetcher")
    assert all_of(trained) == [2 * n for n in range(RECORDS)]
    assert names["state"]
    names["data"].close()


def test_one_host_of_a_machine():
    names, trained = run("per-node")
    assert set(all_of(trained)) == set(range(RECORDS))
    names["loader"].close()


MODEL = """
import json, sys, torch

class Line(torch.nn.Module):
    # Its arguments are the fields, and it returns what transformers takes.
    def __init__(self):
        super().__init__()
        self.line = torch.nn.Linear(9, 10)
        self.seen = []

    def forward(self, jpg, cls):
        self.seen.append([int(bytes(one.tolist())[len("image ") :]) for one in jpg])
        return {"loss": torch.nn.functional.cross_entropy(self.line(jpg.float()), cls)}

model = Line()
"""


def test_transformers(tmp_path):
    (example,) = (example for example in EXAMPLES if "OurTrainer(Trainer)" in example)
    # In a process of its own: the modules that transformers imports can't be loaded together with
    # all the imports of the other tests.
    save = "\nopen('seen.json', 'w').write(json.dumps(model.seen))\n"
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, "-c", MODEL + example + save]
    job = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=PATIENCE)
    assert job.returncode == 0, job.stderr
    epoch = [list(range(at, at + 100)) for at in range(0, RECORDS, 100)]
    # After the first run comes the second one, from step 8 of 12.
    assert json.loads((tmp_path / "seen.json").read_text()) == epoch * 2 + epoch[2:]
