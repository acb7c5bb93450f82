"""Batches as arrays of JAX."""

import gc
import os
import subprocess
import sys

import jax
import numpy as np
import pytest
from arrow_data import FakeHost, Rows, socket_path
from e2e import PATIENCE

import pipemill
import pipemill.jax

pytestmark = pytest.mark.filterwarnings("error")


def script(fields, rows):
    def run(peer):
        peer.welcome(fields)
        peer.epoch(0, [Rows(one) for one in rows])
        peer.stream_end()
        peer.linger()

    return run


def dense(count):
    rows = [[(np.full(16, row + number, "<f4").tobytes(),) for row in range(8)] for number in range(count)]
    return script([("x", "float32", [16])], rows)


def test_arrays_are_views_that_hold_their_batch():
    with socket_path() as path, FakeHost(path, dense(6), slots=8) as host:
        with pipemill.connect("train", path, credits=6, wait=PATIENCE) as stream:
            held = []
            for batch in stream:
                x = pipemill.jax.arrays(batch)["x"]
                assert x.unsafe_buffer_pointer() == batch["x"].__array_interface__["data"][0]
                assert isinstance(x, jax.Array) and x.shape == (8, 16)
                held.append(x)
                del x, batch
            assert host.peers[0].released == []
            for number in (3, 0, 5, 1, 2, 4):
                x, held[number] = held[number], None
                assert (np.asarray(x) == np.arange(8)[:, None] + number).all()
                assert number in stream._connection.open
                del x
                gc.collect()  # JAX lets go of it with its next call, or a garbage collection
                assert number not in stream._connection.open
    assert sorted(host.peers[0].released) == list(range(6))


def test_copies_show_their_batch_after_it_was_given_back():
    """Rows that do not follow each other are copied, and numbers that become 32-bit ones. The fake
    host overwrites each batch that it gets back."""
    fields = [("x", "float32", [1024]), ("wide", "int64", [1024]), ("n", "uint8", [])]

    def row(number):
        return np.full(1024, number, "<f4").tobytes(), np.full(1024, -number, "<i8").tobytes(), bytes([number])

    with socket_path() as path, FakeHost(path, script(fields, [[row(n), row(n)] for n in range(20)]), slots=4) as host:
        with pipemill.connect("train", path, wait=PATIENCE) as stream:
            copies = []
            for batch in stream:
                copies.append(pipemill.jax.arrays(batch))
                del batch
            gc.collect()  # as above
        assert sorted(host.peers[0].released) == list(range(20))
        for number, one in enumerate(copies):
            found = {name: np.unique(np.asarray(array)).tolist() for name, array in one.items()}
            assert found == {"x": [number], "wide": [-number], "n": [number]}


def test_a_batch_is_sharded_over_devices():
    program = (
        "import sys, jax, numpy, pipemill, pipemill.jax\n"
        "mesh = jax.make_mesh((4,), ('data',))\n"
        "sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec('data'))\n"
        "with pipemill.connect('train', sys.argv[1], wait=300) as stream:\n"
        "    kept = [pipemill.jax.arrays(batch, sharding)['x'] for batch in stream]\n"
        "    for x in kept:\n"
        "        shards = {one.device.id: numpy.asarray(one.data)[:, 0].tolist() for one in x.addressable_shards}\n"
        "        print(sorted(shards.items()))\n"
        "    del x, kept\n"
    )
    with socket_path() as path, FakeHost(path, dense(3), slots=4):
        command = [sys.executable, "-W", "error", "-c", program, path]
        env = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=4"}
        child = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, env=env)
    expected = [[(n, [row + 2.0 * n, row + 2.0 * n + 1]) for n in range(4)] for row in range(3)]
    assert (child.stdout, child.stderr) == ("".join(f"{one}\n" for one in expected), "")


def test_what_is_computed_and_sharded():
    mesh = jax.make_mesh((1,), ("data",))
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("data"))
    with socket_path() as path, FakeHost(path, dense(2)):
        with pipemill.connect("train", path, wait=PATIENCE) as stream:
            for number, batch in enumerate(stream):
                for where in (None, jax.devices()[0], sharding):
                    x = pipemill.jax.arrays(batch, where)["x"]
                    assert where is not sharding or x.sharding == sharding
                    assert float(jax.jit(lambda x: x.sum())(x)) == 16 * sum(range(number, number + 8))
                    del x
            del batch
            gc.collect()


def test_fields_that_jax_has_no_arrays_for():
    fields = [("t", "utf8", []), ("c", "uint8", [], {"categories": ["no", "yes"]}), ("b", "bfloat16", [])]
    rows = [[(b"text", b"\1", b"\x80\x3f"), (b"", b"\0", b"\0\xc0")]]
    with socket_path() as path, FakeHost(path, script(fields, rows)):
        with pipemill.connect("train", path, wait=PATIENCE) as stream:
            arrays = pipemill.jax.arrays(next(stream))
            assert {name: (str(one.dtype), one.tolist()) for name, one in arrays.items()} == {
                "c": ("uint8", [1, 0]),
                "b": ("bfloat16", [1, -2]),
            }
            del arrays
            gc.collect()
            assert list(stream) == []
    with socket_path() as path, FakeHost(path, script(fields[:1], [[(b"x",)]])):
        with pipemill.connect("train", path, wait=PATIENCE) as stream:
            with pytest.raises(TypeError, match=r"no field of batch 0 .* has numbers.*'t' \(utf8\)"):
                pipemill.jax.arrays(next(stream))
            assert list(stream) == []


def test_absent_numbers_are_an_error_or_what_the_program_says():
    fields = [("c", "uint8", [], {"categories": ["no", "yes"], "nullable": True}), ("n", "int32", [], {"nullable": True})]
    with socket_path() as path, FakeHost(path, script(fields, [[(b"\1", None), (None, bytes(4))]])):
        with pipemill.connect("train", path, wait=PATIENCE) as stream:
            batch = next(stream)
            with pytest.raises(pipemill.AbsentError, match="'c' is absent in 1 of 2 records"):
                pipemill.jax.arrays(batch)
            with pytest.raises(pipemill.AbsentError, match="'n' is absent in 1 of 2 records"):
                pipemill.jax.arrays(batch, absent={"c": "no"})
            arrays = pipemill.jax.arrays(batch, absent={"c": "no", "n": -1})
            assert (arrays["c"].tolist(), arrays["n"].tolist()) == ([1, 0], [-1, 0])
            with pytest.raises(ValueError, match="absent=0.5 for field 'n', which is int32"):
                pipemill.jax.arrays(batch, absent={"n": 0.5})
            del arrays, batch
            gc.collect()
            assert list(stream) == []


@pytest.mark.parametrize(
    "scalar, numbers, wrong",
    [
        ("int64", [1, -(2**31), 2**31 - 1], 2**31),
        ("uint64", [1, 0, 2**32 - 1], 2**32),
        ("float64", [1.5, float("inf"), float("nan")], 1e39),
    ],
)
def test_numbers_that_32_bits_can_not_hold_are_refused(scalar, numbers, wrong):
    def rows(numbers):
        return [(np.array([n], scalar).tobytes(),) for n in numbers]

    assert not jax.config.jax_enable_x64
    with socket_path() as path, FakeHost(path, script([("x", scalar, [])], [rows(numbers), rows([*numbers, wrong])])):
        with pipemill.connect("train", path, wait=PATIENCE) as stream:
            x = pipemill.jax.arrays(next(stream))["x"]
            assert np.array_equal(np.asarray(x), numbers, equal_nan=True)
            batch = next(stream)
            with pytest.raises(ValueError, match=f"'x' of row 3 of batch 1 .* makes {scalar[:-2]}32 of {scalar}; call jax"):
                pipemill.jax.arrays(batch)
            with jax.enable_x64(True):
                assert float(pipemill.jax.arrays(batch)["x"][3]) == wrong
            del x, batch
            gc.collect()
            assert list(stream) == []


@pytest.mark.parametrize("more", ["", "; next(stream)", "; del stream"])
def test_arrays_that_live_until_the_interpreter_ends(more):
    program = (
        "import sys, pipemill, pipemill.jax\n"
        "stream = pipemill.connect('train', sys.argv[1], wait=300)\n"
        f"kept = pipemill.jax.arrays(next(stream)){more}\n"
    )

    def run(peer):
        peer.welcome([("x", "float32", [16])])
        for _ in range(2):
            peer.grant(Rows([(bytes(64),)]))
        peer.linger()

    with socket_path() as path, FakeHost(path, run):
        command = [sys.executable, "-W", "error", "-c", program, path]
        child = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
        assert (child.returncode, child.stderr) == (0, "")
