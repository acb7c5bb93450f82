"""Objects in S3 as data sets of Hugging Face and Ray. Each worker opens its share of the objects."""

import os

import pipemill
import pipemill.hf
import pipemill.ray
import pytest
import ray
from bucket import KEYS, bucket  # noqa: F401

LINES = [f"{name}{number}" for name in "abcd" for number in (1, 2)]


@pytest.fixture
def source(bucket, monkeypatch):  # noqa: F811
    """A source that says which server it is on."""
    endpoint = os.environ["AWS_ENDPOINT_URL"]
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    return {"s3": f"{bucket}/", "endpoint": endpoint, "concurrency": 2}


def test_a_data_set_of_hugging_face(bucket):  # noqa: F811
    data = pipemill.hf.iterable(f"{bucket}/", "lines")
    assert data.num_shards == 4
    assert [one["line"] for one in data] == LINES


def test_the_workers_get_what_the_source_says_beside_its_address(source):
    data = pipemill.hf.iterable(source, "lines")
    assert [one["line"] for one in data] == LINES


def test_a_data_set_of_ray(source):
    ray.init(num_cpus=2, object_store_memory=100 << 20, log_to_driver=False, logging_level="ERROR")
    try:
        ray.data.DataContext.get_current().enable_progress_bars = False
        data = pipemill.ray.read(source, "lines", override_num_blocks=3)
        assert sorted(row["line"] for row in data.iter_rows()) == LINES
    finally:
        ray.shutdown()


def test_what_can_not_be_dealt_is_said(tmp_path):
    lines = {"augmented_manifest": "s3://data/lines", "attributes": ["image-ref"]}
    for read in (pipemill.hf.iterable, pipemill.ray.read):
        with pytest.raises(ValueError, match="of kind augmented_manifest can't be dealt to workers"):
            read(lines, "lines")
