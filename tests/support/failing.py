"""Work for another process that ends with an error of a channel."""

import os

import pipemill


def write(folder):
    """A file whose fourth row does not fit its types."""
    path = os.path.join(folder, "rows.csv")
    with open(path, "w") as file:
        file.write("0\n1\n2\nx\n4\n")
    return path


def read(path):
    with pipemill.open(path, "csv", options={"types": "int64"}) as stream:
        return sum(map(len, stream))


def check(error, path):
    """The error is the one that `read` raises in this process."""
    assert type(error) is pipemill.DecodeError
    assert "line 4, column 0 (`f0`): expected int64, found \"x\"" in str(error)
    where = error.kind, error.channel, error.epoch, error.object, error.offset, error.record, error.decoder
    assert where == ("decode", "open", 0, path, 6, 3, "csv")
