"""The code of docs/migrate.md, as it stands there: the code that replaces a loader returns the same
records.
"""

import io
import os
import pathlib
import re
import subprocess
import tarfile

import pyarrow as pa
import pyarrow.dataset
import pytest
import tensorflow as tf
from e2e import PIPEMILL, finish, tfrecord

PAGE = pathlib.Path(__file__).parents[2] / "docs/migrate.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
RECORDS = 200


def run(words, **replaced):
    """Runs the only example that has these words in it. Returns the arguments with which it has
    called `train`.
    """
    (example,) = (example for example in EXAMPLES if words in example)
    for before, after in replaced.items():
        example = example.replace(f"/{before}/", f"{after}/")
    trained = []
    exec(compile(example, "<example>", "exec"), {"train": lambda *given: trained.append(given), "__name__": "example"})
    return trained


def write_tar(path, numbers):
    with tarfile.open(path, "w") as archive:
        for n in numbers:
            for member, text in (("jpg", image(n)), ("cls", f"{n % 10}")):
                entry = tarfile.TarInfo(f"{n:06}.{member}")
                entry.size = len(text)
                archive.addfile(entry, io.BytesIO(text.encode()))


def image(n):
    return f"image {n}" + "." * (n % 7)


def write_tfrecord(path, numbers):
    def example(n):
        x = tf.train.Feature(float_list=tf.train.FloatList(value=[n, 1, 2, 3]))
        label = tf.train.Feature(int64_list=tf.train.Int64List(value=[n % 10]))
        features = tf.train.Features(feature={"x": x, "label": label})
        return tf.train.Example(features=features).SerializeToString()

    path.write_bytes(b"".join(tfrecord(example(n)) for n in numbers))


def of_tars(trained):
    """Images and classes of all batches, sorted."""
    return sorted((bytes(one), int(kind)) for images, kinds in trained for one, kind in zip(images, kinds))


def of_tensors(trained):
    return [(int(x[0]), int(label)) for xs, labels in trained for x, label in zip(xs.numpy(), labels.numpy())]


IMAGES = sorted((image(n).encode(), n % 10) for n in range(RECORDS))
ROWS = [(n, n % 10) for n in range(RECORDS)]


def test_none_is_left_out():
    assert len(EXAMPLES) == 10


def test_webdataset(tmp_path, monkeypatch):
    (tmp_path / "data").mkdir()
    write_tar(tmp_path / "data/train-0.tar", range(120))
    write_tar(tmp_path / "data/train-1.tar", range(120, RECORDS))
    monkeypatch.chdir(tmp_path)
    before, after = run("WebLoader"), run('Loader("data/train')
    assert of_tars(before) == of_tars(after) == IMAGES
    assert [len(images) for images, _ in after] == [64, 64, 64, 8]


def test_tfrecords(tmp_path, monkeypatch):
    (tmp_path / "data").mkdir()
    write_tfrecord(tmp_path / "data/a.tfrecord", range(120))
    write_tfrecord(tmp_path / "data/b.tfrecord", range(120, RECORDS))
    monkeypatch.chdir(tmp_path)
    before, after = run("TFRecordDataset"), run('dataset("data')
    assert [len(labels) for _, labels in before] == [len(labels) for _, labels in after] == [64, 64, 64, 8]
    assert sorted(of_tensors(before)) == sorted(of_tensors(after)) == ROWS
    assert of_tensors(after) != ROWS, "it is shuffled"


def test_map_style(tmp_path, monkeypatch):
    (tmp_path / "data").mkdir()
    rows = [(number, number / 2) for number in range(300)]
    (tmp_path / "data/rows.csv").write_text("id,x\n" + "".join(f"{number},{x}\n" for number, x in rows))
    monkeypatch.chdir(tmp_path)
    subprocess.run([PIPEMILL, "index", "data/rows.csv", "--out", "rows.index"], check=True)
    before, after = run("DictReader"), run("pipemill.Dataset(")
    for trained in (before, after):
        seen = [(int(number), float(x)) for numbers, xs in trained for number, x in zip(numbers, xs)]
        assert len(seen) == 1000 and set(seen) <= set(rows), "a sampler may take a record twice"
        assert [len(numbers) for numbers, _ in trained] == [64] * 15 + [40]


def test_pipe_mode(tmp_path):
    write_tfrecord(tmp_path / "a.tfrecord", range(RECORDS))
    feed = [PIPEMILL, "feed", "--from", tmp_path / "a.tfrecord", "--to", tmp_path / "fifos", "--channel", "train"]
    (tmp_path / "fifos").mkdir()
    feeder = subprocess.Popen([*feed, "--epochs", "2"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        # The platform makes the first FIFO before it starts the program.
        while not os.path.exists(tmp_path / "fifos/train_0"):
            assert feeder.poll() is None, finish(feeder)
        trained = run("channel =", **{"opt/ml/input/data": tmp_path / "fifos"})
        assert of_tensors(trained) == ROWS * 2
        assert finish(feeder)[0] == 0
    finally:
        feeder.kill()


@pytest.fixture
def bucket(tmp_path, monkeypatch):
    """A server with the folder of a bucket, and the variables that say how to reach it."""
    program = os.environ.get("PIPEMILL_S3_SERVER")
    if not program:
        pytest.skip("set PIPEMILL_S3_SERVER to the binary s3-server of tests/support/s3")
    folder = tmp_path / "buckets/bucket/train"
    folder.mkdir(parents=True)
    keys = ["--access-key", "page", "--secret-key", "pages-secret"]
    server = subprocess.Popen([program, tmp_path / "buckets", *keys], stdout=subprocess.PIPE, text=True)
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://" + server.stdout.readline().split()[-1])
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "page")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "pages-secret")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("HOME", str(tmp_path))
    yield folder
    server.kill()
    server.wait()
    server.stdout.close()


def test_s3(bucket):
    write_tar(bucket / "0.tar", range(120))
    write_tar(bucket / "1.tar", range(120, RECORDS))
    assert of_tars(run("s3://bucket")) == IMAGES


def test_partitioned_folders(tmp_path, monkeypatch):
    flavor = pyarrow.dataset.partitioning(pa.schema([("date", pa.string())]), flavor="hive")
    table = pa.table({"x": range(RECORDS), "y": range(RECORDS), "date": [f"2024-01-0{n % 3}" for n in range(RECORDS)]})
    pyarrow.dataset.write_dataset(table, tmp_path / "train", format="parquet", partitioning=flavor)
    monkeypatch.chdir(tmp_path)
    before, after = run("pyarrow.dataset.dataset("), run('add_fields=["date=utf8"], batch=64')
    rows = [sorted(map(repr, (row for (batch,) in read for row in batch.to_pylist()))) for read in (before, after)]
    assert rows[0] == rows[1] and len(rows[0]) == RECORDS
    assert [batch.num_rows for (batch,) in after] == [64, 64, 64, 8]
