"""Batches and streams as Arrow, for pyarrow, polars and DuckDB, through the real host.

The values are compared with those that the package itself returns, and the types with those of
`pipemill cat --output arrow`.
"""

import collections
import gc
import io
import pathlib
import subprocess
import sys
import threading
from contextlib import suppress

import duckdb
import msgpack
import numpy as np
import polars
import pyarrow as pa
import pytest
from arrow_data import (
    FakeHost, Rows, list_value, msgpack_channel, plain, records, rows_of, serving, socket_path, tables,
)  # fmt: skip
from e2e import PATIENCE, run
from hypothesis import given, settings
from hypothesis import strategies as st

import pipemill
from pipemill.arrow import columns, numpy_buffers, plain_buffers
from pipemill.arrow.columns import plain_arrays, record_batch
from pipemill.arrow.copies import Copies
from pipemill.arrow.host_views import host_views

pytestmark = pytest.mark.filterwarnings("error")

FIXTURES = pathlib.Path(__file__).parents[2] / "plugins"
AVRO = FIXTURES / "avro/tests/fixtures/fastavro-null.avro"
#: All types but a map, which can't be a field.
AVRO_FIELDS = (
    "null,boolean,int,long,float,double,bytes,string,fixed,kind,first,second,other_kind,nested,"
    "ints,longs,doubles,strings,blobs,date,time,micros,stamp,precise,local,uuid,price,last"
)


def avro_channel(epochs=1, more=""):
    return (
        f'[[channel]]\nname = "train"\nsource = {{ file = "{AVRO}", epochs = {epochs} }}\n'
        f'decoder = "avro"\noptions = {{ fields = "{AVRO_FIELDS}" }}\n{more}\n'
    )


def without_views(kind):
    """The type that the host writes for a type of ours."""
    if kind == pa.string_view():
        return pa.string()
    if kind == pa.binary_view():
        return pa.binary()
    if pa.types.is_list(kind):
        item = kind.value_field
        return pa.list_(item.with_type(without_views(item.type)))
    return kind


def addresses(array):
    """The places of an array's buffers, except its validity and the buffers that are made."""
    return [buffer.address for buffer in array.buffers() if buffer is not None]


def lies_in(array, batch):
    """Whether a buffer of the array is in the batch's payload."""
    payload = np.frombuffer(batch.payload, "u1")
    start = payload.__array_interface__["data"][0]
    return any(start <= address < start + len(payload) for address in addresses(array))


# --- values and types


@settings(max_examples=25, deadline=None)
@given(tables(), st.integers(1, 30))
def test_any_schema(table, size):
    option, data = table
    more = f'batch = {size}\ntail = "keep"' if size % 2 else ""
    with serving(msgpack_channel(option, 4, more), data=data) as host, host.connect() as stream:
        found = []
        for epoch in stream.epochs():
            if epoch.number == 0:
                found.append(records(epoch))
            elif epoch.number == 1:
                table = pa.table(epoch)
                table.validate(full=True)
                found.append(rows_of(table))
                del table
            elif epoch.number == 2:
                found.append(rows_one_by_one(epoch))
            else:
                frame = polars.DataFrame(epoch) if stream.fields else polars.DataFrame()
                found.append([[plain(one) for one in row] for row in frame.rows()])
                del frame
        assert found[1:] == found[:1] * 3


def rows_one_by_one(epoch):
    rows = []
    for batch in epoch:
        arrow = batch.to_arrow()
        arrow.validate(full=True)
        assert arrow.num_rows == len(batch)
        rows += rows_of(arrow)
        del arrow
    return rows


@settings(max_examples=20, deadline=None)
@given(
    tables(),
    st.sampled_from(
        [
            "",
            "workers = 2",
            'batch = 7\ntail = "keep"',
            'batch = 4\ntail = "pad"\nworkers = 2',
            "batch = 5\nshuffle = { seed = 3, window = 11 }",
        ]
    ),
)
def test_views_that_the_host_writes(table, more):
    """The arrays are the same with views of the host and without, and those of `cat`."""
    option, data = table
    config = msgpack_channel(option, 30, more + "\nring = { slots = 4 }")
    with serving(config, data=data) as host, host.connect() as stream:
        cat = pathlib.Path(host.socket).parents[1] / "data"
        command = ("cat", "-d", "msgpack", "-o", f"fields={option}", "--output", "arrow", cat)
        expected = rows_of(pa.ipc.open_stream(run(*command).stdout).read_all())
        strings = any(field.scalar in ("bytes", "utf8") and not field.shape for field in stream.fields)
        filled_before = stream._connection.welcome.slots
        for epoch in stream.epochs():
            found = []
            for batch in epoch:
                assert has_views(batch) == strings or epoch.number <= filled_before
                arrow, copied = batch.to_arrow(), record_batch(batch, Copies())
                arrow.validate(full=True)
                copied.validate(full=True)
                rows = rows_of(arrow)
                assert rows == rows_of(copied) == records([batch])
                schema, arrays = plain_arrays(batch, Copies())
                block = pa.Table.from_arrays(arrays, names=schema.names)
                block.validate(full=True)
                assert rows_of(block) == rows
                found += rows[: batch.valid]
                del arrow
            if "shuffle" in more:
                found, expected = sorted(found, key=repr), sorted(expected, key=repr)
            assert found == expected
        assert epoch.number == 29 > filled_before


def has_views(batch):
    """Whether the host has written views."""
    return bool(host_views(batch))


def test_types_are_those_of_cat():
    command = ("cat", "-d", "avro", "-o", f"fields={AVRO_FIELDS}", "--output", "arrow", AVRO)
    theirs = pa.ipc.open_stream(run(*command).stdout).read_all()
    with serving(avro_channel()) as host, host.connect() as stream:
        schema = pa.schema(stream)
        ours = pa.table(stream)
    assert ours.schema.equals(schema, check_metadata=True)
    ours.validate(full=True)
    assert [field.name for field in theirs.schema] == [field.name for field in ours.schema]
    for mine, other in zip(ours.schema, theirs.schema):
        assert without_views(mine.type) == other.type, mine.name
        assert (mine.nullable, mine.metadata) == (other.nullable, other.metadata), mine.name
    assert rows_of(ours) == rows_of(theirs) != []


def test_duckdb_and_polars_read_all_types():
    with serving(avro_channel(epochs=3)) as host, host.connect() as stream:
        epochs = stream.epochs()
        expected = rows_of(pa.table(next(epochs)))
        epoch = next(epochs)
        frame = polars.DataFrame(epoch)
        assert (frame.height, frame.columns) == (len(expected), [field.name for field in stream.fields])
        epoch = next(epochs)
        found = duckdb.sql('select "int", string, kind, strings, blobs, date from epoch').fetchall()
        names = [field.name for field in stream.fields]
        at = [names.index(name) for name in ("int", "string", "kind", "strings", "blobs", "date")]
        assert [plain(row) for row in found] == [[row[i] for i in at] for row in expected]


def test_the_same_without_numpy():
    """numpy only makes it faster: the buffers are the same bytes."""
    program = (
        "import sys; sys.modules['numpy'] = None\n"
        "import pipemill, pyarrow as pa\n"
        "with pipemill.connect('train', sys.argv[1], wait=300) as stream:\n"
        "    for epoch in stream.epochs():\n"
        "        table = pa.table(epoch); table.validate(full=True)\n"
        "        for array in (chunk for column in table.columns for chunk in column.chunks):\n"
        "            print(array.type, array.to_pylist(), [b and b.size for b in array.buffers()])\n"
        "        del table, array\n"
    )
    with_numpy = program.replace("= None", "= __import__('numpy')")
    found = []
    for source in (program, with_numpy):
        with serving(avro_channel(epochs=2, more='batch = 7\ntail = "keep"')) as host:
            command = [sys.executable, "-W", "error", "-c", source, host.socket]
            child = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
            assert (child.returncode, child.stderr) == (0, "")
            found.append(child.stdout)
    assert found[0] == found[1] != ""


def test_a_payload_of_several_data_buffers(monkeypatch):
    from pipemill.arrow import columns

    data = "".join(f"{n}, and more than the 12 bytes of a view\n" for n in range(200))
    config = '[[channel]]\nname = "train"\nsource = { file = "FOLDER/data" }\ndecoder = "lines"\n'
    monkeypatch.setattr(columns, "_SPAN", 1000)
    with serving(config, data=data.encode()) as host, host.connect() as stream:
        batch = next(stream)
        arrow = batch.to_arrow()
        assert len(arrow.column(0).buffers()) == 2 + -(-len(batch.payload) // 1000) > 5
        arrow.validate(full=True)
        assert polars.DataFrame(arrow).to_series().to_list() == data.splitlines()
        for _ in stream:
            pass
        del arrow, batch


# --- memory


def test_values_stay_in_the_shared_memory():
    """Rows of numbers that follow each other, and strings wherever they lie."""
    array = np.arange(4000, dtype="<f4").reshape(1000, 4)
    file = io.BytesIO()
    np.save(file, array)
    config = '[[channel]]\nname = "train"\nsource = { file = "FOLDER/data" }\ndecoder = "npy"\n'
    with serving(config, data=file.getvalue()) as host, host.connect() as stream:
        for batch in stream:
            arrow = batch.to_arrow().column(0)
            assert lies_in(arrow, batch) and arrow.type == pa.list_(pa.field("item", pa.float32(), False), 4)
            assert (arrow.values.to_numpy().reshape(-1, 4) == batch.dense(batch.fields[0].name)).all()
            del arrow, batch

    one = {"n": 1, "text": "text of more than 12 bytes", "blob": bytes(50), "list": ["longer than 12 bytes"]}
    one |= {"short": b"short", "flag": True}
    option = "n:float64,text:utf8,blob:bytes,list:bytes[],short:bytes,flag:bool"
    with serving(msgpack_channel(option), data=msgpack.packb(one) * 300) as host:
        with host.connect() as stream:
            for batch in stream:
                arrow = batch.to_arrow()
                shared = {name for name in arrow.schema.names if lies_in(arrow.column(name), batch)}
                # Strings of at most 12 bytes lie in their views.
                assert shared == {"text", "blob", "list"}
                del arrow, batch


def serve(count, views=False):
    """A fake host, which overwrites each batch that is RELEASEd."""
    has = {"views": (0, 1)} if views else {}

    def script(peer):
        peer.welcome([("t", "utf8", []), ("b", "bytes", [])], views=views)
        peer.epoch(0, [Rows([(text(number), text(-number))] * 3, **has) for number in range(count)])
        peer.stream_end()
        peer.linger()

    return script


def text(number):
    return f"batch {number}, which is text of more than 12 bytes".encode()


def shows(arrow, number):
    """Whether the arrays show what the host wrote."""
    return arrow.to_pydict() == {"t": [text(number).decode()] * 3, "b": [text(-number)] * 3}


@settings(max_examples=30, deadline=None)
@given(st.permutations(range(12)), st.lists(st.booleans(), min_size=12, max_size=12))
def test_a_batch_is_held_until_its_last_array_dies(order, other):
    """In any order of dropping, and with arrays of another library."""
    with socket_path() as path, FakeHost(path, serve(6), slots=8) as host:
        with pipemill.connect("train", path, credits=8, wait=PATIENCE) as stream:
            held = {}
            for number, batch in enumerate(stream):
                arrow = batch.to_arrow()
                held[2 * number], held[2 * number + 1] = arrow.column("t"), arrow.column("b")
                del batch, arrow
            peer = host.peers[0]
            for at, one in enumerate(order):
                column, number = held.pop(one), one // 2
                column = polars.Series(column) if other[at] else column.slice(1)
                alive = {left // 2 for left in held} | {number}
                assert not alive & set(peer.released)
                expected = text(-number) if one % 2 else text(number).decode()
                assert set(column.to_list() if other[at] else column.to_pylist()) == {expected}
                del column
                # The RELEASE is sent at once.
                assert len(stream._connection.open) == len({left // 2 for left in held})
    assert sorted(peer.released) == list(range(6))


def test_rows_of_numbers_hold_their_batch():
    def script(peer):
        peer.welcome([("x", "float32", [2, 2])])
        rows = [[(np.full(4, row + 10 * number, "<f4").tobytes(),) for row in range(3)] for number in range(4)]
        peer.epoch(0, [*map(Rows, rows)])
        peer.stream_end()
        peer.linger()

    with socket_path() as path, FakeHost(path, script) as host:
        with pipemill.connect("train", path, credits=3, wait=PATIENCE) as stream:
            first = next(stream).to_arrow()
            for number, batch in enumerate(stream, 1):
                assert len(stream._connection.open) == 2 and not {0, number} & set(host.peers[0].released)
                assert batch.to_arrow().column(0).to_pylist()[2] == [[2 + 10 * number] * 2] * 2
                del batch
            values = first.column(0).values
            del first
            assert values.to_pylist() == [[row] * 2 for row in (0, 0, 1, 1, 2, 2)]
            assert 0 in stream._connection.open
            del values
            assert not stream._connection.open


def test_a_consumer_that_keeps_all_gets_all():
    """What it holds leaves the four credits that a loop has by default."""
    for credits in (1, 2, 4, 5, 6):
        with socket_path() as path, FakeHost(path, serve(12), slots=6) as host:
            with pipemill.connect("train", path, credits=credits, wait=PATIENCE) as stream:
                table = pa.table(stream)
                assert len(stream._connection.open) == max(0, credits - 4)
                chunks = table.to_batches()
                assert all(shows(chunk, number) for number, chunk in enumerate(chunks))
                assert len(chunks) == 12
                del table, chunks
        assert sorted(host.peers[0].released) == list(range(12))


def test_a_loop_runs_beside_tables():
    def script(peer):
        peer.welcome([("t", "utf8", [])])
        for epoch in range(4):
            peer.epoch(epoch, [Rows([(text(number),)]) for number in range(5)])
        peer.stream_end()
        peer.linger()

    for credits in (2, 3, 6):
        with socket_path() as path, FakeHost(path, script, slots=6):
            with pipemill.connect("train", path, credits=credits, wait=PATIENCE) as stream:
                epochs = stream.epochs()
                tables = [pa.table(next(epochs)), polars.DataFrame(next(epochs))]
                for epoch in epochs:
                    for number, batch in enumerate(epoch):
                        assert batch["t"] == [text(number).decode()]
                expected = [text(number).decode() for number in range(5)]
                assert [table["t"].to_list() if one else table["t"].to_pylist() for one, table in enumerate(tables)] == [expected] * 2
                del tables, batch


def test_a_consumer_that_drops_each_gets_no_copies():
    with socket_path() as path, FakeHost(path, serve(12), slots=6):
        with pipemill.connect("train", path, credits=3, wait=PATIENCE) as stream:
            reader = pa.RecordBatchReader.from_stream(stream)
            for number in range(12):
                chunk = reader.read_next_batch()
                assert shows(chunk, number) and list(stream._connection.open) == [number]
                del chunk
            with pytest.raises(StopIteration):
                reader.read_next_batch()


def is_shared(array, stream):
    """Whether all buffers of an array are in the ring, except for its validity."""
    ring = stream._connection._ring
    return all(ring._address <= one < ring._address + ring._size for one in addresses(array))


def test_views_for_a_consumer_that_has_dropped_the_batches_before():
    """As DuckDB, which has a batch until it gets the next one."""
    for kept in range(4):
        with socket_path() as path, FakeHost(path, serve(12, views=True), slots=6):
            with pipemill.connect("train", path, credits=4, wait=PATIENCE) as stream:
                reader = pa.RecordBatchReader.from_stream(stream)
                held = collections.deque(maxlen=kept)
                for number, chunk in enumerate(reader):
                    assert shows(chunk, number)
                    # The first two batches are copies: what becomes of them is not known yet.
                    assert is_shared(chunk.column("b"), stream) == (number >= 2 and kept <= 1)
                    held.append(chunk)
                    del chunk
                    assert all(shows(one, number - back) for back, one in enumerate(reversed(held)))
                assert number == 11
                held.clear()


def test_a_table_looks_at_few_of_the_batches_before(monkeypatch):
    """Of thousands of batches, it would be more work than the batches are."""
    looked, are_alive = [], Copies.are_alive
    monkeypatch.setattr(Copies, "are_alive", lambda copies: looked.append(copies) or are_alive(copies))
    with socket_path() as path, FakeHost(path, serve(40), slots=6):
        with pipemill.connect("train", path, wait=PATIENCE) as stream:
            assert pa.table(stream).num_rows == 120
    assert 0 < len(looked) <= 2 * 40


@pytest.mark.parametrize("multiple", [0, 1e9])
def test_copies_of_strings_are_of_them_or_of_the_whole_payload(monkeypatch, multiple):
    monkeypatch.setattr(columns, "_SMALL_MULTIPLE", multiple)
    fields = [("t", "utf8", []), ("gap", "uint8", [50]), ("s", "bytes", [], {"nullable": True}), ("c", "utf8", [])]
    rows = [(text(n), bytes(50), None if n % 3 else text(-n), b"short") for n in range(20)]
    expected = {
        "t": [text(n).decode() for n in range(20)],
        "gap": [[0] * 50] * 20,
        "s": [None if n % 3 else text(-n) for n in range(20)],
        "c": ["short"] * 20,
    }

    def script(peer):
        peer.welcome(fields, views=True)
        for views in ((), (0, 2, 3)):
            peer.grant(Rows(rows, views=views))
        peer.linger()

    with socket_path() as path, FakeHost(path, script):
        with pipemill.connect("train", path, wait=PATIENCE) as stream:
            for _ in range(2):
                batch = next(stream)
                payload, copied = len(batch.payload), record_batch(batch, Copies())
                schema, arrays = plain_arrays(batch, Copies())
                del batch
                assert not [one for one in stream._connection.open.values() if one() is not None]
                copied.validate(full=True)
                assert copied.to_pydict() == expected
                table = pa.Table.from_arrays(arrays, names=schema.names)
                assert table.schema.types[::3] == [pa.string()] * 2 and table.to_pydict() == expected
                sizes = {sum(one.size for one in copied.column(name).buffers()[2:]) for name in ("t", "s")}
                assert (sizes == {payload}) == (multiple > 0)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.sampled_from(["keep", "drop", "drop all"]), min_size=12, max_size=12), st.integers(2, 7))
def test_a_consumer_that_keeps_some_gets_all_and_leaves_credits_for_a_loop(choices, credits):
    with socket_path() as path, FakeHost(path, serve(12, views=True), slots=8) as host:
        with pipemill.connect("train", path, credits=credits, wait=PATIENCE) as stream:
            reader, held = pa.RecordBatchReader.from_stream(stream), {}
            for number, choice in enumerate(choices):
                alive = [one for one in stream._connection.open.values() if one() is not None]
                assert len(alive) <= credits - 2
                chunk = reader.read_next_batch()
                assert shows(chunk, number)
                held[number] = chunk
                if choice == "drop":
                    del held[number]
                elif choice == "drop all":
                    held.clear()
                del chunk
                assert all(shows(one, at) for at, one in held.items())
            assert list(reader) == []
            held.clear()
    assert sorted(host.peers[0].released) == list(range(12))


def test_arrays_may_be_released_in_any_thread():
    with socket_path() as path, FakeHost(path, serve(60), slots=12) as host:
        with pipemill.connect("train", path, credits=8, wait=PATIENCE) as stream:
            reader = pa.RecordBatchReader.from_stream(stream)
            wrong = []

            def drop(chunk, number):
                if not shows(chunk, number):
                    wrong.append(number)

            for number in range(0, 60, 4):
                args = [[reader.read_next_batch(), number + i] for i in range(4)]
                threads = [threading.Thread(target=drop, args=one) for one in args]
                del args
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
                del threads, thread
            assert wrong == []
            assert duckdb.sql("from reader").fetchall() == []
    assert sorted(host.peers[0].released) == list(range(60))


def test_an_exception_passes_through_a_release():
    """The arrays die while the exception is on its way."""
    with socket_path() as path, FakeHost(path, serve(3)):
        with pipemill.connect("train", path, wait=PATIENCE) as stream:
            batch = next(stream)
            for failing in (
                lambda: pa.record_batch(batch).column("nope"),
                lambda: batch.to_arrow().column("nope"),
            ):
                with pytest.raises(KeyError, match="nope"):
                    failing()
            with pytest.raises(polars.exceptions.ColumnNotFoundError, match="nope"):
                polars.DataFrame(batch).get_column("nope")
            with pytest.raises(ZeroDivisionError):
                print(polars.DataFrame(stream), 1 / 0)
            del batch
            assert list(stream) == []


@pytest.mark.parametrize(
    "keep",
    [
        "kept = pa.table(stream)",
        "kept = polars.DataFrame(stream)",
        "kept = duckdb.execute('from stream'); kept.fetchone()",
        "kept = pa.RecordBatchReader.from_stream(stream); first = kept.read_next_batch()",
        "kept = stream.__arrow_c_stream__(), next(stream).__arrow_c_array__()",
        "kept = next(stream).to_arrow(); import threading; "
        "threading.Thread(target=lambda: (threading.main_thread().join(), kept.to_pylist())).start()",
    ],
)
def test_arrays_that_live_until_the_interpreter_ends(keep):
    program = (
        "import sys, duckdb, polars, pyarrow as pa, pipemill\n"
        "stream = pipemill.connect('train', sys.argv[1], wait=300)\n"
        f"{keep}\n"
    )

    def script(peer):
        with suppress(AssertionError):  # the consumer may hang up early
            serve(3)(peer)

    with socket_path() as path, FakeHost(path, script):
        command = [sys.executable, "-W", "error", "-c", program, path]
        child = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
        assert (child.returncode, child.stderr) == (0, "")


# --- errors


def test_errors_have_the_text_of_the_host():
    config = msgpack_channel("f0:int8") + 'batch = 2\ntail = "keep"\n'
    data = b"\x81\xa2f0\x01" * 5 + b"\x81\xa2f0\xa1x"
    for take, kind in (
        (pa.table, pa.ArrowException),
        (polars.DataFrame, polars.exceptions.ComputeError),
        (lambda stream: duckdb.sql("from stream").fetchall(), duckdb.Error),
    ):
        with serving(config, ends=65, data=data) as host, host.connect() as stream:
            with pytest.raises(kind, match="record 5, decoder msgpack: .*f0"):
                take(stream)


def test_text_that_is_no_text_is_refused():
    fields = [("x", "utf8", []), ("l", "utf8", [0])]
    for bad, name in (((b"\xff" * 3, list_value([b"a"])), "x"), ((b"a", list_value([b"b", b"\xc3"])), "l")):
        # Each of the two has half of a character.
        good = (b"a", list_value(["ä".encode()]))
        split = ("ä".encode()[:1], list_value([]))

        def script(peer, row=bad):
            peer.welcome(fields)
            peer.epoch(0, [Rows([good, good]), Rows([good, row]), Rows([split, split])])
            peer.stream_end()
            peer.linger()

        with socket_path() as path, FakeHost(path, script):
            with pipemill.connect("train", path, wait=PATIENCE) as stream:
                assert next(stream).to_arrow().num_rows == 2
                with pytest.raises(UnicodeDecodeError, match=f"field '{name}', row 1 of batch 1"):
                    next(stream).to_arrow()
                with pytest.raises(UnicodeDecodeError, match="field 'x', row 0 of batch 2"):
                    next(stream).to_arrow()
                gc.collect()
                assert list(stream) == []


def test_views_of_a_host_that_has_them():
    """They are requested once, by the first batch of strings that becomes Arrow."""
    fields = [("t", "utf8", []), ("n", "int32", []), ("b", "bytes", [], {"nullable": True}), ("l", "utf8", [0])]
    short, long = "ä and more", "ä and more than twelve"
    lists = list_value([b"one", b"of more than twelve bytes"])
    rows = [(long.encode(), bytes(4), None, lists), (short.encode(), b"\1" * 4, b"\xff" * 13, lists)]
    shown = {
        "t": [long, short], "n": [0, 0x01010101], "b": [None, b"\xff" * 13],
        "l": [["one", "of more than twelve bytes"]] * 2,
    }  # fmt: skip
    wanted = []

    def script(peer):
        peer.welcome(fields, views=True)
        for batch in (Rows(rows), Rows(rows), Rows(rows, views=(0, 2)), Rows(rows, views=(0,), dedicated=True)):
            peer.grant(batch)
            peer.until(lambda: len(peer.acked) >= peer.batches - 1)
            wanted.append(peer.views_wanted)
        peer.linger()

    with socket_path() as path, FakeHost(path, script):
        with pipemill.connect("train", path, wait=PATIENCE) as stream:
            first = next(stream)
            assert first["n"].tolist() == shown["n"] and list(first["t"]) == shown["t"]
            del first
            for _ in range(2):
                batch = next(stream)
                arrow, copied = batch.to_arrow(), record_batch(batch, Copies())
                del batch
                gc.collect()
                assert arrow.to_pydict() == copied.to_pydict() == shown
                del arrow
            batch = next(stream)
            with pytest.raises(pipemill.ProtocolError, match="the views of batch 3 of epoch 0"):
                batch.to_arrow()
            assert list(batch["t"]) == shown["t"]
            del batch
            assert copied.to_pydict() == shown
    assert wanted[0] == 0 and wanted[-1] == 1


@given(st.data())
def test_each_text_is_checked(data):
    """The test holds for any payload, and for a text anywhere in it."""
    part = st.binary(max_size=4) | st.text("a\x7fäö€😀", max_size=8).map(str.encode)
    kinds = st.sampled_from([part, st.text("a\x7fäö€😀", max_size=8).map(str.encode), st.text("abc").map(str.encode)])
    payload = b"".join(data.draw(st.lists(data.draw(kinds), max_size=30))) + data.draw(st.sampled_from([b"", bytes(999)]))
    raw, place = np.frombuffer(payload, "u1"), st.integers(0, len(payload))
    texts = [numpy_buffers.Texts(raw), plain_buffers.Texts(memoryview(payload))]
    for _ in range(3):
        pairs = [sorted(pair) for pair in data.draw(st.lists(st.tuples(place, place), max_size=6))]
        offsets, ends = np.array(pairs, "u4").reshape(-1, 2).T
        try:
            sound = [payload[begin:end].decode() for begin, end in pairs] is not None
        except UnicodeDecodeError:
            sound = False
        assert [of.are_sound(offsets, ends - offsets) for of in texts] == [sound, sound]


def test_a_time_of_day_that_is_none_is_refused():
    def script(peer):
        peer.welcome([("x", "int64", [], {"logical": "time[ms]"})])
        value = [(number.to_bytes(8, "little"),) for number in (5, 1 << 40)]
        peer.epoch(0, [Rows(value)])
        peer.stream_end()
        peer.linger()

    with socket_path() as path, FakeHost(path, script):
        with pipemill.connect("train", path, wait=PATIENCE) as stream:
            with pytest.raises(ValueError, match="field 'x' of batch 0 of epoch 0 has a value that is no time"):
                next(stream).to_arrow()
            gc.collect()
            assert list(stream) == []


def test_a_batch_that_was_given_back_has_no_arrays():
    with socket_path() as path, FakeHost(path, serve(2)):
        with pipemill.connect("train", path, wait=PATIENCE) as stream:
            batch = next(stream)
            batch.release()
            with pytest.raises(pipemill.ClosedError, match="batch 0 of epoch 0 was given back"):
                batch.to_arrow()
            assert pa.schema(batch).names == ["t", "b"]
            assert len(list(stream)) == 1


def test_what_to_do_without_pyarrow():
    program = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "import pipemill\n"
        "stream = pipemill.connect('train', sys.argv[1], wait=300)\n"
        "for take in (lambda: next(stream).to_arrow(), stream.__arrow_c_stream__):\n"
        "    try:\n        take()\n    except ImportError as error:\n        print(error)\n"
        "print(len(list(stream)))\n"
    )
    with socket_path() as path, FakeHost(path, serve(3)):
        command = [sys.executable, "-W", "error", "-c", program, path]
        child = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert child.stderr == ""
    first, second, left = child.stdout.splitlines()
    assert first.startswith("to_arrow() needs pyarrow") and "pip install 'pyarrow>=19'" in first
    assert second.startswith("a stream as Arrow needs pyarrow") and left == "2"


def test_an_empty_stream_is_an_empty_table():
    def script(peer):
        peer.welcome([("x", "int64", []), ("t", "utf8", [0])])
        peer.epoch(0, [Rows([])])
        peer.stream_end()
        peer.linger()

    with socket_path() as path, FakeHost(path, script):
        with pipemill.connect("train", path, wait=PATIENCE) as stream:
            assert next(stream).to_arrow().to_pylist() == []
            table = pa.table(stream)
            assert (table.num_rows, table.schema.names) == (0, ["x", "t"])
            assert polars.DataFrame(stream).shape == (0, 2)
