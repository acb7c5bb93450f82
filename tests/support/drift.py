"""Sources whose objects drift: one of them has other types, names, header, dialect, format, shapes or absent values than the
first. Seeded, so that a number names a case. What `pipemill.open` makes of a source is the reference for all else.
"""

import io
import json
import math
import random
import tarfile
from typing import Any, NamedTuple

import numpy
import pipemill
from e2e import PATIENCE

#: Fields that a JSON record has, with how their values are made.
JSON_FIELDS = "n=/n:int64?,x=/x:float64,t=/t:utf8?,v=/v:float32[],w=/w:int32[2]?,s=/s:utf8[]"


class Case(NamedTuple):
    """A source, and how it is opened."""

    name: str
    files: dict[str, bytes]
    decoder: str | None = None
    options: dict[str, Any] | None = None

    def written(self, folder):
        """The folder with the objects in it."""
        for name, data in self.files.items():
            (folder / name).write_bytes(data)
        return folder


class Outcome(NamedTuple):
    """Records as lists of plain values in the order of the fields, and the error that came after them."""

    fields: tuple[Any, ...]
    records: list[list[Any]]
    error: pipemill.PipemillError | None


def case(seed):
    """The case of this number."""
    return FAMILIES[seed % len(FAMILIES)](random.Random(seed))


def reference(case, folder, **more):
    """What `pipemill.open` gives."""
    fields, records = (), []
    try:
        with pipemill.open(folder, case.decoder, options=case.options, timeout=PATIENCE, **more) as stream:
            fields = stream.fields
            for batch in stream:
                records += rows_of(batch)
    except pipemill.PipemillError as error:
        return Outcome(fields, records, error)
    return Outcome(fields, records, None)


def outcome_of(read):
    """What `read` gives, a function that yields records: their plain values, and the error that came after them."""
    records = []
    try:
        for row in read():
            records.append([plain(value) for value in row])
    except Exception as error:
        return Outcome((), records, error)
    return Outcome((), records, None)


def assert_same(found, expected):
    """The same records, or after the same records the same error. How many records come before an error depends on when
    the host has found it."""
    if expected.error is None:
        if found.error is not None:
            raise AssertionError("open gives all records") from found.error
        assert found.records == expected.records
        return
    assert found.error is not None, f"open says: {expected.error}"
    assert core(expected.error) in str(found.error)
    common = min(len(found.records), len(expected.records))
    assert found.records[:common] == expected.records[:common]


def core(error):
    """What an error says of the data, without the number of the epoch: a library may have its own words around it."""
    return str(error).partition(", object ")[2] or str(error)


def rows_of(batch):
    """The records of a batch, one by one."""
    columns = [list(batch._column(at).values()) for at in range(len(batch.fields))]
    return [[plain(value) for value in row] for row in zip(*columns)]


def plain(value):
    """A value of whatever library, so that it can be compared: NaN is a word, bytes are bytes."""
    if isinstance(value, memoryview):
        return bytes(value) if value.format == "B" and value.ndim == 1 else plain(value.tolist())
    if isinstance(value, (numpy.ndarray, numpy.generic)):
        return plain(value.tolist())
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    if isinstance(value, float) and math.isnan(value):
        return "nan"
    return value


def filled(outcome, values):
    """The records of an outcome, with these values, by name, where a field is absent."""
    names = [field.name for field in outcome.fields]
    return [
        [plain(values[name]) if one is None and name in values else one for name, one in zip(names, row)]
        for row in outcome.records
    ]


def absent_fields(outcome):
    """The fields that some record does not have."""
    return [field for at, field in enumerate(outcome.fields) if any(row[at] is None for row in outcome.records)]


def value_for(field):
    """A value of the field's type, which no record of a case has."""
    if field.shape and field.scalar in ("utf8", "bytes"):
        return [value_for(field._replace(shape=()))] * (field.shape[0] or 1)
    if field.scalar in ("utf8", "bytes"):
        return "none" if field.scalar == "utf8" else b"none"
    if field.shape:
        return [value_for(field._replace(shape=()))] * (math.prod(field.shape) or 1)
    if field.scalar == "boolean":
        return True
    return float("nan") if "float" in field.scalar else 99


# --- the families


def csv(rng):
    """Tables whose header, types, names, order or dialect differ in one of them."""
    kinds = [rng.choice(["int", "float", "text", "bool", "date"]) for _ in range(rng.randint(1, 4))]
    names = rng.sample(["id", "age", "income", "note", "x", "größe"], len(kinds))
    tables = [[names, kinds, ",", True, 0.0] for _ in range(rng.randint(2, 3))]
    change = rng.choice(["none", "types", "names", "order", "header", "dialect", "absent", "more", "fewer", "empty", "late"])
    other = tables[rng.randrange(len(tables))]
    if change == "types":
        other[1] = [rng.choice(["int", "float", "text", "bool", "date"]) for _ in kinds]
    elif change == "names":
        other[0] = [rng.choice([name, name.upper(), f"{name}2"]) for name in names]
    elif change == "order":
        order = rng.sample(range(len(kinds)), len(kinds))
        other[0], other[1] = [names[at] for at in order], [kinds[at] for at in order]
    elif change == "header":
        other[3] = False
    elif change == "dialect":
        other[2] = rng.choice(";\t|")
    elif change == "absent":
        other[4] = rng.choice([0.3, 1.0])
    elif change == "more":
        other[0], other[1] = [*names, "more"], [*kinds, "int"]
    elif change == "fewer" and len(kinds) > 1:
        other[0], other[1] = names[:-1], kinds[:-1]
    files = {f"{at}.csv": _table(rng, *table) for at, table in enumerate(tables)}
    if change == "empty":
        name = rng.choice(list(files))
        files[name] = rng.choice([b"", files[name].split(b"\n")[0] + b"\n"])
    if change == "late":
        # A value of another type after more rows than a sample has.
        name = rng.choice(list(files))
        files[name] += _table(rng, names, ["text"] * len(kinds), ",", False, 0.0)
    options = rng.choice([None, None, {"types": "auto"}, {"header": "true", "types": "auto"}])
    decoder = "csv" if options or rng.random() < 0.3 else None
    return Case(f"csv-{change}", files, decoder, options)


def dense(rng):
    """Tables of numbers as one array for each row."""
    names = ["a", "b", "c"]
    tables = [[names, ["int"] * 3, ",", True, 0.0] for _ in range(2)]
    change = rng.choice(["none", "order", "names", "header", "more", "absent"])
    if change == "order":
        tables[1][0] = ["b", "a", "c"]
    elif change == "names":
        tables[1][0] = ["a", "b", "d"]
    elif change == "header":
        tables[1][3] = False
    elif change == "more":
        tables[1][0], tables[1][1] = [*names, "d"], ["int"] * 4
    elif change == "absent":
        tables[1][4] = 0.3
    files = {f"{at}.csv": _table(rng, *table) for at, table in enumerate(tables)}
    return Case(f"dense-{change}", files, "csv", {"header": "true", "emit": "dense"})


def npy(rng):
    """Arrays of another type or shape."""
    kind, shape = rng.choice(["i8", "i4", "f8", "f4", "?", "u1"]), rng.choice([(), (3,), (2, 2)])
    count = rng.randint(2, 3)
    kinds, shapes = [kind] * count, [shape] * count
    change = rng.choice(["none", "types", "shapes", "order", "header"])
    at = rng.randrange(count)
    if change == "types":
        kinds[at] = rng.choice(["i8", "i4", "f8", "f4", ">i8", "u2"])
    elif change == "shapes":
        shapes[at] = rng.choice([(), (1,), (3, 1), (4,)])
    files = {}
    for number, (one, size) in enumerate(zip(kinds, shapes)):
        rows = rng.randint(1, 6)
        values = numpy.array([rng.randint(0, 100) for _ in range(rows * math.prod(size))], one).reshape(rows, *size)
        if change == "order" and number == at:
            values = numpy.asfortranarray(values)
        file = io.BytesIO()
        numpy.save(file, values)
        files[f"{number}.npy"] = file.getvalue()
    if change == "header":
        # What a program writes that does not know npy: the same numbers without a header.
        files[f"{at}.npy"] = files[f"{at}.npy"][128:]
    return Case(f"npy-{change}", files)


def jsonl(rng):
    """Records with other types, lengths and absent values."""
    change = rng.choice(["none", "types", "shapes", "absent", "names", "even"])
    files = {}
    count = rng.randint(2, 3)
    other = rng.randrange(count)
    for number in range(count):
        lines = []
        for n in range(rng.randint(1, 8)):
            length = 2 if change == "even" else rng.randint(0, 3)
            record = {
                "n": rng.randint(0, 90), "x": rng.choice([0.5, 1.0, 2]), "t": rng.choice(["", "a", "ä€"]),
                "v": [rng.randint(0, 9) / 2 for _ in range(length)], "w": [n, 1],
                "s": ["a"] * rng.randint(0, 2),
            }  # fmt: skip
            if number == other:
                if change == "types":
                    record[rng.choice("nxtvw")] = rng.choice([0.5, "text", True, [1, 2], 2**70])
                elif change == "shapes":
                    record["w"] = [n] * rng.choice([1, 3])
                elif change == "names":
                    record["N"] = record.pop("n")
                elif change == "absent":
                    record[rng.choice("ntw")] = None
            lines.append(json.dumps(record, ensure_ascii=False) + "\n")
        files[f"{number}.jsonl"] = "".join(lines).encode()
    return Case(f"jsonl-{change}", files, "jsonl", {"fields": JSON_FIELDS})


def tar(rng):
    """Samples of webdataset, whose members are equally long or not, or are missing."""
    change = rng.choice(["none", "even", "absent", "types", "names"])
    files = {}
    count = rng.randint(2, 3)
    other = rng.randrange(count)
    for number in range(count):
        file = io.BytesIO()
        with tarfile.open(fileobj=file, mode="w", format=tarfile.USTAR_FORMAT) as archive:
            for n in range(rng.randint(1, 6)):
                length = 4 if change == "even" else rng.randint(0, 5)
                members = {"bin": rng.randbytes(length), "cls": f"{n}".encode(), "txt": b"text"}
                if number == other:
                    if change == "absent":
                        members.pop(rng.choice(["bin", "txt"]))
                    elif change == "types":
                        members["cls"] = rng.choice([b"0.5", b"cat", b""])
                    elif change == "names":
                        members["label"] = members.pop("cls")
                for name, data in members.items():
                    entry = tarfile.TarInfo(f"{number}{n:04}.{name}")
                    entry.size = len(data)
                    archive.addfile(entry, io.BytesIO(data))
        files[f"{number}.tar"] = file.getvalue()
    return Case(f"tar-{change}", files, "webdataset", {"fields": "bin?,cls:int64,txt:utf8?"})


def formats(rng):
    """Objects of different formats, or with one that is compressed."""
    import gzip

    table = _table(rng, ["id", "x"], ["int", "float"], ",", True, 0.0)
    tabs = _table(rng, ["id", "x"], ["int", "float"], "\t", True, 0.0)
    lines = b'{"id": 1, "x": 0.5}\n{"id": 2, "x": 1.5}\n'
    file = io.BytesIO()
    numpy.save(file, numpy.arange(4.0))
    others = {
        "csv": ("b.csv", table), "tsv": ("b.tsv", tabs), "tabs": ("b.csv", tabs), "jsonl": ("b.jsonl", lines),
        "npy": ("b.npy", file.getvalue()), "gzip": ("b.csv.gz", gzip.compress(table, mtime=0)), "empty": ("b.csv", b""),
    }  # fmt: skip
    change = rng.choice(sorted(others))
    name, data = others[change]
    files = {"a.csv": table, name: data}
    if rng.random() < 0.3:
        # The object that drifts is the first one.
        files = {name.replace("b", "a", 1): data, "c.csv": table}
    return Case(f"formats-{change}", files)


FAMILIES = [csv, npy, csv, jsonl, csv, tar, formats, dense]


def _table(rng, names, kinds, separator, header, absent):
    rows = [separator.join(names)] if header else []
    for _ in range(rng.randint(1, 6)):
        rows.append(separator.join("" if rng.random() < absent else _cell(rng, kind) for kind in kinds))
    return "".join(f"{row}\n" for row in rows).encode()


def _cell(rng, kind):
    if kind == "int":
        return str(rng.randint(0, 90))
    if kind == "float":
        return rng.choice(["0.5", "1.25", "-3.0", "1e3"])
    if kind == "bool":
        return rng.choice(["true", "false"])
    if kind == "date":
        return f"2024-0{rng.randint(1, 9)}-1{rng.randint(0, 9)}"
    return rng.choice(["cat", "a dog", "ä", "no"])
