"""Batches of a fixed number of records, as Python receives them."""

import json

from e2e import finish

READ = """
import json, pipemill
with pipemill.connect("train") as stream:
    for epoch in stream.epochs():
        for batch in epoch:
            x = batch["x"]
            place = x.__array_interface__["data"][0]
            print(json.dumps({
                "epoch": batch.epoch, "number": batch.number, "records": len(batch),
                "valid": batch.valid, "x": x.tolist(), "label": batch["y"].tolist(),
                "contiguous": bool(x.flags.c_contiguous), "aligned": place % 64 == 0,
                "position": batch.position._asdict(),
            }), flush=True)
"""


def read(host, tmp_path, more):
    for number, rows in enumerate([range(0, 7), range(7, 12)]):
        text = "".join(f"{row},{row}.5,{row * 2}\n" for row in rows)
        (tmp_path / f"{number}.csv").write_text(text)
    config = f"""[[channel]]
name = "train"
source = {{ glob = "{tmp_path}/*.csv", epochs = 2 }}
decoder = "csv"
options = {{ emit = "dense", label = "0" }}
batch = 5
{more}
"""
    code, out, log = finish(host(config, READ))
    assert code == 0, log
    return [json.loads(line) for line in out.splitlines()], log


def rows(batch):
    return [[label, *x] for label, x in zip(batch["label"], batch["x"])]


def row(number):
    return [number, number + 0.5, number * 2]


def test_a_batch_reaches_across_objects_and_its_numbers_are_one_array(host, tmp_path):
    batches, _ = read(host, tmp_path, "")
    numbers = [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9], [10, 11]]
    assert [rows(batch) for batch in batches] == 2 * [[row(n) for n in part] for part in numbers]
    assert all(batch["contiguous"] and batch["aligned"] for batch in batches)
    assert all(batch["valid"] == batch["records"] for batch in batches)
    objects = [batch["position"]["object"].rsplit("/", 1)[1] for batch in batches]
    assert objects == 2 * ["0.csv", "0.csv", "1.csv"]


def test_pad_fills_the_last_batch_and_says_how_many_records_are_real(host, tmp_path):
    batches, _ = read(host, tmp_path, 'tail = "pad"')
    last = batches[2]
    assert (last["records"], last["valid"]) == (5, 2)
    assert rows(last) == [row(n) for n in [10, 11, 11, 11, 11]]
    assert last["contiguous"] and last["aligned"]


def test_drop_leaves_the_rest_out_and_says_so(host, tmp_path):
    batches, log = read(host, tmp_path, 'tail = "drop"\nbatch_across = "object"')
    numbers = [[0, 1, 2, 3, 4], [7, 8, 9, 10, 11]]
    assert [rows(batch) for batch in batches] == 2 * [[row(n) for n in part] for part in numbers]
    assert "channel `train`, epoch 1: 2 records at the end were left out" in log
