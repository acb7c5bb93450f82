"""S3 Inventory in place of lists: the same objects as those of the bucket's list, as the inventory knew them."""

import csv
import gzip
import hashlib
import io
import json
import os
import random
import urllib.parse

import pipemill
import pytest
from bucket import bucket  # noqa: F401 (a fixture)
from counting import counted  # noqa: F401 (a fixture)
from drift import rows_of
from e2e import PATIENCE, run

MANIFEST = "s3://data/inventory/data/daily/2026-11-01T01-00Z/manifest.json"
SCHEMA = "Bucket, Key, VersionId, IsLatest, IsDeleteMarker, Size, LastModifiedDate, ETag, StorageClass, ChecksumAlgorithm"


def read(source, **more):
    with pipemill.open(source, timeout=PATIENCE, **more) as stream:
        return [str(row) for batch in stream for row in rows_of(batch)]


def listed(bucket):
    """The size and the ETag of each object, as the server's list has them."""
    out = os.environ["PIPEMILL_TEST_BUCKETS"] + "/../listed.index"
    finished = run("index", "--objects-only", bucket, "--out", out)
    assert finished.returncode == 0, finished.stderr
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(out)
    return [(row["object"], row["size"], row["identity"]) for row in table.to_pylist()]


@pytest.fixture
def inventory(bucket, tmp_path, monkeypatch):  # noqa: F811
    """Writes an inventory of the bucket as it is now, as Amazon documents its format."""
    monkeypatch.setenv("PIPEMILL_TEST_BUCKETS", str(tmp_path / "buckets"))
    folder = tmp_path / "buckets/data/inventory/data/daily"

    def write(columns=SCHEMA, rows=(), edit=lambda row: [row], compress=True, shuffle=7, **changes):
        names, lines = [name.strip() for name in columns.split(",")], []
        for name, size, identity in listed("s3://data/"):
            key = name.removeprefix("s3://data/")
            row = {"Bucket": "data", "Key": urllib.parse.quote_plus(key, safe="/"), "VersionId": "v1", "IsLatest": "true"}
            row |= {"IsDeleteMarker": "false", "Size": size, "ETag": identity.removeprefix("etag:").strip('"'), "StorageClass": "STANDARD"}
            lines += edit(row)
        lines += rows
        random.Random(shuffle).shuffle(lines)
        files = []
        for number in range(3):
            text = io.StringIO()
            writer = csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n")
            writer.writerows([row.get(name, "") for name in names] for row in lines[number::3])
            data = text.getvalue().encode()
            data = gzip.compress(data) if compress else data
            place = folder / f"data/{number}.csv.gz"
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(data)
            files.append({"key": str(place.relative_to(tmp_path / "buckets/data")), "size": len(data), "MD5checksum": hashlib.md5(data).hexdigest()})
        manifest = {
            "sourceBucket": "data", "destinationBucket": "arn:aws:s3:::data", "version": "2016-11-30", "creationTimestamp": "1761958800000",
            "fileFormat": "CSV", "fileSchema": columns, "files": files,
        }  # fmt: skip
        place = folder / "2026-11-01T01-00Z/manifest.json"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(json.dumps({**manifest, **changes}))
        return MANIFEST

    return write


def indexed(*words):
    finished = run("index", *words)
    assert finished.returncode == 0, finished.stderr
    return finished.stderr.decode()


def refused(*words):
    finished = run("index", "s3://data/train/", "--inventory", MANIFEST, "--out", "s3://data/x.index", "-d", "lines", *words)
    assert finished.returncode != 0
    return finished.stderr.decode()


def test_an_index_of_an_inventory_is_that_of_the_list(bucket, tmp_path, inventory):  # noqa: F811
    data = tmp_path / "buckets/data/train"
    for name in ("a b+c.txt", "é%.txt", "sub/x.txt", "sub/_SUCCESS", "A.txt"):
        (data / name).parent.mkdir(exist_ok=True)
        (data / name).write_text(f"{name}\n")
    (tmp_path / "buckets/data/training.txt").write_text("of another prefix\n")
    # A marker of a deleted object, an older version, and an object that was listed twice.
    old = {"Bucket": "data", "Key": "train/a.txt", "IsLatest": "false", "IsDeleteMarker": "false", "Size": 9, "ETag": "0" * 32}
    gone = {"Bucket": "data", "Key": "train/gone.txt", "IsLatest": "true", "IsDeleteMarker": "true"}
    manifest = inventory(rows=[old, gone], edit=lambda row: [row, row] if "b.txt" in row["Key"] else [row])
    for number, words in enumerate((["-d", "lines"], ["--objects-only"])):
        one, other = tmp_path / f"{number}.index", tmp_path / f"{number}.other"
        indexed("s3://data/train/", "--out", one, *words)
        indexed("s3://data/train/", "--inventory", manifest, "--out", other, *words)
        assert one.read_bytes() == other.read_bytes()
    expected = read("s3://data/train/", decoder="lines")
    assert len(expected) == 12 and read({"s3": "s3://data/train/", "inventory": manifest}, decoder="lines") == expected
    assert read({"s3": "s3://data/train/sub/", "inventory": manifest}, decoder="lines") == ["['sub/x.txt']"]
    # A name on the command line is an object, if there is one.
    indexed("s3://data/train/a.txt", "--inventory", manifest, "--out", tmp_path / "a.index", "-d", "lines")
    assert read(tmp_path / "a.index") == ["['a1']", "['a2']"]
    plain = inventory("Key, ETag, Bucket, Size", compress=False)
    assert read({"s3": ["s3://data/train/", "s3://data/training"], "inventory": plain}, decoder="lines") == [*expected, "['of another prefix']"]
    pipemill.index("s3://data/train/", tmp_path / "python.index", "lines", inventory=plain)
    assert read(tmp_path / "python.index") == expected


def test_an_inventory_is_read_once_for_all_prefixes(counted, tmp_path, inventory):  # noqa: F811
    (tmp_path / "buckets/data/train/sub").mkdir()
    for name in ("sub/x.txt", "sub/y.txt", "aa.txt"):
        (tmp_path / "buckets/data/train" / name).write_text(f"{name}\n")
    prefixes = ["s3://data/train/sub/", "s3://data/train/c", "s3://data/train/a.txt", "s3://data/train/b"]
    manifest = inventory()

    def reads(of):
        counted.ranges, counted.lists = [], 0
        of()
        fetched = [name for name, _ in counted.ranges if name == "manifest.json" or name.endswith(".csv.gz")]
        assert sorted(fetched) == ["0.csv.gz", "1.csv.gz", "2.csv.gz", "manifest.json"]
        assert counted.lists == 0

    for number, words in enumerate((["-d", "lines"], ["--objects-only"])):
        one, other = tmp_path / f"{number}.index", tmp_path / f"{number}.other"
        indexed(*prefixes, "--out", one, *words)
        reads(lambda: indexed(*prefixes, "--inventory", manifest, "--out", other, *words))
        assert one.read_bytes() == other.read_bytes()
        reads(lambda: indexed("--update", other, "--inventory", manifest))
        assert one.read_bytes() == other.read_bytes()
    # The fields are learned from the first objects of all parts, and of those that are counted.
    csv, index = ("-d", "csv", "-o", "header=false", "-o", "types=auto"), tmp_path / "x.index"
    for words in (["--part", "0/2"], ["--part", "1/2"], ["--by-plan"]):
        reads(lambda: indexed(*prefixes, "--inventory", manifest, "--out", index, *csv, *words))
    # A prefix of keys, all epochs, and what is learned.
    expected = read({"s3": prefixes}, decoder="lines", epochs=3)
    assert len(expected) == 3 * (2 + 2 + 2 + 2)
    found = []
    reads(lambda: found.extend(read({"s3": prefixes, "inventory": manifest}, decoder="lines", epochs=3)))
    assert found == expected
    # One prefix without an object is named.
    finished = run("index", *prefixes, "s3://data/none/", "--inventory", manifest, "--out", tmp_path / "x.index")
    assert finished.returncode == 66 and b"s3://data/none/" in finished.stderr, finished.stderr


def test_nothing_is_listed(bucket, tmp_path, inventory):  # noqa: F811
    """An object that came later is not read; what has changed or is gone is found when it is read, or by an index that pins it."""
    manifest, data = inventory(), tmp_path / "buckets/data/train"
    (data / "aa.txt").write_text("new\n")
    source = {"s3": "s3://data/train/", "inventory": manifest}
    assert len(read(source, decoder="lines")) == 8
    pinned = tmp_path / "pinned.index"
    indexed("s3://data/train/", "--objects-only", "--inventory", manifest, "--out", pinned)
    (data / "c.txt").write_text("C1\nC2\n")
    for changed in (source, str(pinned)):
        with pytest.raises(pipemill.PipemillError, match="c.txt.*ETag"):
            read(changed, decoder="lines")
    assert "c.txt" in refused()
    (data / "c.txt").unlink()
    with pytest.raises(pipemill.PipemillError, match="c.txt.*404"):
        read(source, decoder="lines")
    # An index is updated by a newer inventory.
    indexed("s3://data/train/", "--inventory", inventory(), "--out", pinned, "-d", "lines")
    (data / "d.txt").write_text("D\n")
    assert "6 records in 4 objects" in indexed("--update", pinned, "--inventory", inventory())
    assert read(pinned) == read("s3://data/train/", decoder="lines")


def test_what_is_no_inventory_of_these_objects_is_refused(bucket, tmp_path, inventory):  # noqa: F811
    place = tmp_path / "buckets/data/inventory/data/daily"
    for how, message in [
        ({"columns": "Bucket, Key, Size"}, "does not have the column ETag"),
        ({"columns": "Bucket, Key, VersionId, Size, ETag"}, "does not have the column IsLatest"),
        ({"fileFormat": "ORC"}, "has files in ORC, expected CSV; choose CSV in the inventory's configuration"),
        ({"fileFormat": "Parquet"}, "has files in Parquet, expected CSV"),
        ({"sourceBucket": "other"}, "is an inventory of the bucket other"),
        ({"files": 7}, "is not the manifest of an S3 Inventory"),
        ({"files": []}, "no key begins with this prefix"),
        ({"edit": lambda row: [{**row, "Size": "x"}]}, "its size is `x`"),
        ({"edit": lambda row: [{**row, "ETag": ""}]}, "its ETag is ``"),
        ({"edit": lambda row: [{**row, "IsLatest": "maybe"}]}, "expected true or false, found `maybe`"),
        ({"edit": lambda row: [{**row, "Key": "%zz"}]}, "`%zz` is not the URL-encoded key"),
        ({"edit": lambda row: [{**row, "Bucket": "b"}]}, "it is of the bucket b, expected data"),
        ({"edit": lambda row: [row, {**row, "Size": 5}]}, "twice, in different states"),
    ]:
        inventory(**how)
        assert message in refused(), message
    inventory()
    data = place / "data/1.csv.gz"
    whole = data.read_bytes()
    for damaged, message in [
        (whole[:-1] + b"x", "its MD5 is"),
        (whole[:-1], f"has {len(whole) - 1} bytes, and its manifest says {len(whole)}"),
        (None, "404"),
    ]:
        data.write_bytes(damaged) if damaged else data.unlink()
        assert message in refused(), message
    (place / "2026-11-01T01-00Z/manifest.json").write_text("a,b\n")
    assert "give the address of its manifest.json" in refused()
    for wrong in ("x", "s3://data"):
        finished = run("index", "s3://data/train/", "--inventory", wrong, "--out", tmp_path / "x.index")
        assert finished.returncode == 64, finished.stderr
    config = tmp_path / "x.toml"
    for source, message in [
        (f'folder = "{tmp_path}", inventory = "{MANIFEST}"', b"inventory"),
        (f's3_object = "s3://data/a", inventory = "{MANIFEST}"', b"inventory"),
        (f's3 = "s3://data/a", indexed = true, inventory = "{MANIFEST}"', b"the index says it"),
        ('s3 = "s3://data/a", inventory = "manifest.json"', b"write it as s3://bucket/key"),
    ]:
        config.write_text(f'[[channel]]\nname = "x"\ndecoder = "lines"\nsource = {{ {source} }}\n')
        finished = run("config", "check", config)
        assert finished.returncode == 64 and message in finished.stderr, finished.stderr
