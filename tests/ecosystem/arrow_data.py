"""Helpers that these tests share: records of any schema as MessagePack, hosts, and plain values of
arrays.
"""

import math
import os
import pathlib
import shutil
import sys
import tempfile
from contextlib import contextmanager

import msgpack
import numpy as np
from e2e import PATIENCE, patiently
from hosts import Host
from hypothesis import strategies as st

sys.path.append(str(pathlib.Path(__file__).parents[2] / "python/tests"))

from fakehost import FakeHost, Rows, list_value  # noqa: E402, F401

INTEGERS = {f"{sign}int{bits}": (sign, bits) for sign in ("", "u") for bits in (8, 16, 32, 64)}
FLOATS = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}


def _numbers(name):
    if name in INTEGERS:
        sign, bits = INTEGERS[name]
        return st.integers(0, 2**bits - 1) if sign else st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    # Each of these is exact in its type, and infinities and NaN are in all of them.
    exact = st.integers(-(2 ** FLOATS[name]) + 1, 2 ** FLOATS[name] - 1).map(lambda n: n / 8)
    return exact | st.sampled_from([math.inf, -math.inf, math.nan, -0.0])


_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
SCALARS = {
    **{name: _numbers(name) for name in (*INTEGERS, *FLOATS)},
    "bool": st.booleans(),
    "utf8": _TEXTS | st.sampled_from(["", "12 are short", "13 are longer", "äöü€😀" * 5]),
    "bytes": st.binary(max_size=30),
}


@st.composite
def fields(draw):
    """The type of a field as `msgpack` takes it, and the strategy of its values."""
    scalar = draw(st.sampled_from(sorted(SCALARS)))
    values, spec = SCALARS[scalar], scalar
    if scalar != "bool" and draw(st.booleans()):
        size = draw(st.integers(0, 3))
        values, spec = st.lists(values, min_size=size, max_size=size or 4), f"{spec}[{size}]"
    if draw(st.booleans()):
        values, spec = st.none() | values, spec + "?"
    return spec, values


@st.composite
def tables(draw):
    """The option `fields` of `msgpack`, and the bytes of records."""
    columns = draw(st.lists(fields(), min_size=1, max_size=5))
    option = ",".join(f"f{number}:{spec}" for number, (spec, _) in enumerate(columns))
    # A host without a record to serve has ended before anybody can connect.
    rows = draw(st.lists(st.tuples(*(values for _, values in columns)), min_size=1, max_size=25))
    packed = [msgpack.packb({f"f{at}": one for at, one in enumerate(row)}) for row in rows]
    return option, b"".join(packed)


@contextmanager
def serving(config, ends=0, **files):
    """A host with this configuration, in a folder with these files. The host has to end with this
    exit code; None: it is killed."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="pipemill-"))
    for name, data in files.items():
        (folder / name).write_bytes(data)
    host = Host(folder, config.replace("FOLDER", str(folder)))
    try:
        patiently(lambda: os.path.exists(host.socket) or host.child.poll() is not None)
        assert host.child.poll() is None, (folder / "host.log").read_text()
        yield host
        assert ends is None or host.child.wait(PATIENCE) == ends
    finally:
        if host.child.poll() is None:
            host.kill()
        host.log.close()
        shutil.rmtree(folder)


@contextmanager
def socket_path():
    """A path for a socket of a `FakeHost`, which overwrites what is RELEASEd."""
    folder = tempfile.mkdtemp(prefix="pipemill-")
    yield os.path.join(folder, "host.sock")
    shutil.rmtree(folder)


def msgpack_channel(option, epochs=1, more=""):
    return (
        f'[[channel]]\nname = "train"\nsource = {{ file = "FOLDER/data", epochs = {epochs} }}\n'
        f'decoder = "msgpack"\noptions = {{ fields = "{option}" }}\n{more}\n'
    )


def plain(value):
    """A value of a record or of an array, so that it can be compared: floats by their bits."""
    if isinstance(value, (float, np.floating)):
        return "nan" if math.isnan(value) else float(value).hex()
    if isinstance(value, (memoryview, bytearray)):
        return bytes(value)
    if isinstance(value, np.ndarray):
        return [plain(one) for one in (value.astype("f4") if value.dtype.kind == "V" else value)]
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    return value.item() if isinstance(value, np.generic) else value


def records(batches):
    """All records, each as a list of its plain values."""
    rows = []
    for batch in batches:
        names = [field.name for field in batch.fields]
        for row in range(len(batch)):
            rows.append([plain(batch._column(at).value(row)) for at in range(len(names))])
    return rows


def rows_of(table):
    """The same for a table of pyarrow."""
    columns = [[plain(value) for value in column.to_pylist()] for column in table.columns]
    return [list(row) for row in zip(*columns)]
