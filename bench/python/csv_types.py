"""Compares the types that `pipemill cat` finds in CSV files with those of DuckDB and polars.

    csv_types.py PIPEMILL [--show]

Needs `duckdb` and `polars` (PyPI). Prints a table: for each kind of file, how many files each of
them reads with the same number of rows, the same names and the same kinds of types as pipemill.
`--show` prints each file that differs. The corpus of 196 files is generated: dialects, types
and the cases of csv-spectrum.
"""

import collections
import itertools
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import duckdb
import polars

NAMES = {
    "plain": "id,name,price",
    "spaces": "first name,last name,zip code",
    "quoted": '"id","full, name","x"',
    "years": "country,2019,2020",
}

COLUMNS = {
    "integers": ["1", "-2", "300"],
    "floats": ["1.5", "-2", "3e4"],
    "booleans": ["true", "false", "true"],
    "mixed case booleans": ["True", "FALSE", "true"],
    "text": ["ab", "cd", "e f"],
    "quoted text": ['"a,b"', '"c ""d"""', '"e\nf"'],
    "leading zeros": ["007", "012", "000"],
    "large integers": ["9223372036854775808", "1", "2"],
    "dates": ["2024-01-02", "2024-02-03", "2024-03-04"],
    "times": ["2024-01-02 03:04:05", "2024-01-02 03:04:06", "2024-01-02 03:04:07"],
    "empty values": ["1", "", "3"],
    "all empty": ["", "", ""],
    "NA": ["1", "NA", "3"],
    "nan": ["1.5", "nan", "inf"],
    "numbers and text": ["1", "two", "3"],
    "percent": ["1%", "2%", "3%"],
    "thousands": ["1_000", "2_000", "3_000"],
    "blanks": [" 1", "2 ", " 3 "],
    "hexadecimal": ["0x1f", "0x2", "0x3"],
    "utf-8": ["é", "日本", "ß"],
}


def table(header, columns, delimiter=",", end="\n", last=True):
    rows = [header] if header else []
    rows += [delimiter.join(row) for row in zip(*columns)]
    return end.join(rows) + (end if last else "")


def corpus():
    """Pairs of a kind and a text."""
    ids = ["1", "2", "3"]
    for name, values in COLUMNS.items():
        for end, last in itertools.product(["\n", "\r\n"], [True, False]):
            yield name, table("id,value", [ids, values], end=end, last=last)
        yield f"{name}, alone", table("value", [values])
        yield f"{name}, no header", table(None, [ids, values])
    plain = [ids, ["x", "y", "z"], ["0.5", "1", "2"]]
    for name, header in NAMES.items():
        columns = [["a", "b", "c"], ids, ids] if name == "years" else plain
        for bom, end in itertools.product(["", "\ufeff"], ["\n", "\r\n"]):
            yield f"header: {name}", bom + table(header, columns, end=end)
    for size, end in itertools.product([10, 900, 1100], ["\n", "\r\n"]):
        rows = [str(number) for number in range(size)]
        yield "many rows", table("id,x", [rows, rows], end=end)
        yield "a float after many integers", table("id,x", [rows, rows[:-1] + ["0.5"]], end=end)
        yield "text after many integers", table("id,x", [rows, rows[:-1] + ["new"]], end=end)
        yield "wide", table(",".join(f"c{n}" for n in range(size)), [["1"], ["2"]] * (size // 2), end=end)
    for quote, values in itertools.product(['"', ""], [["1", "2", "3"], ["a", "b", "c"]]):
        quoted = [f"{quote}{value}{quote}" for value in values]
        for end in ["\n", "\r\n"]:
            yield "all values in quotes" if quote else "none in quotes", table("id,x", [ids, quoted], end=end)
    for delimiter, header in itertools.product("\t;|", [True, False]):
        names = delimiter.join(["id", "name", "price"]) if header else None
        for end in ["\n", "\r\n"]:
            kind = "delimiter: tab" if delimiter == "\t" else f"delimiter: {delimiter}"
            yield kind, table(names, plain, delimiter, end)
    yield "decimal commas", table("id;price", [ids, ["1,5", "2,5", "3,5"]], ";")
    yield "all text", "name,city\nAnn,Rome\nBo,Oslo\n"
    yield "all text, no header", "Ann,Rome\nBo,Oslo\nCy,Bonn\n"
    yield "one row", "a,b,c\n"
    yield "one row of numbers", "1,2,3\n"
    yield "blank lines", "id,x\n\n1,2\n\n3,4\n"
    yield "ragged rows", "id,x\n1,2\n3\n4,5,6\n"
    yield "same names", "id,id\n1,2\n3,4\n"
    yield "no names", ",x\n1,2\n3,4\n"
    # csv-spectrum
    yield "csv-spectrum: comma in quotes", 'first,last,address,city,zip\nJohn,Doe,120 any st.,"Anytown, WW",08123\n'
    yield "csv-spectrum: empty", 'a,b,c\n1,"",""\n2,3,4\n'
    yield "csv-spectrum: escaped quotes", 'a,b\n1,"ha ""ha"" ha"\n3,4\n'
    yield "csv-spectrum: json", 'key,val\n1,"{""type"": ""Point"", ""coordinates"": [102.0, 0.5]}"\n'
    yield "csv-spectrum: newlines", 'a,b,c\n1,2,3\n"Once upon \na time",5,6\n7,8,9\n'
    yield "csv-spectrum: simple", "a,b,c\n1,2,3\n"
    yield "csv-spectrum: utf8", "a,b,c\n1,2,3\n4,5,ʤ\n"


def kind_of(word):
    """The kind of a type, by its name in any of the three."""
    word = word.lower()
    for kind, pattern in [
        ("boolean", "bool"), ("float", "float|double|decimal"), ("integer", "int"),
        ("time", "date|time"), ("text", "utf8|str|varchar"),
    ]:
        if re.search(pattern, word):
            return kind
    return word


def by_pipemill(binary, path):
    done = subprocess.run([binary, "cat", "--output", "jsonl", path], capture_output=True)
    if done.returncode:
        return "refused: " + done.stderr.decode(errors="replace").splitlines()[-1].split(": ", 2)[-1]
    lines = done.stdout.splitlines()
    names = list(json.loads(lines[0])["fields"])
    # The log line about the learnt types, without the part before the first column.
    rest = next(line for line in done.stderr.decode().splitlines() if "columns by the first" in line)
    rest = rest.split(" a header: ", 1)[1]
    columns = []
    for name in names:
        word, _, rest = rest.removeprefix(f"{name} ").partition(", ")
        columns.append((name, kind_of(word.split(" and ")[0])))
    return columns, len(lines)


def by_duckdb(path):
    try:
        found = duckdb.sql(f"select * from read_csv('{path}')")
        # Both number the columns that have no names.
        names = [re.sub(r"^column(\d+)$", r"f\1", name) for name in found.columns]
        types = [kind_of(str(type_)) for type_ in found.types]
        return list(zip(names, types)), len(found.fetchall())
    except Exception as error:
        return "refused: " + str(error).splitlines()[0]


def by_polars(path):
    try:
        found = polars.read_csv(path)
        return [(n, kind_of(str(t))) for n, t in found.schema.items()], found.height
    except Exception as error:
        return "refused: " + str(error).splitlines()[0]


def difference(ours, theirs):
    """Describes the differences in a few words."""
    if isinstance(ours, str) or isinstance(theirs, str):
        both = isinstance(ours, str) and isinstance(theirs, str)
        return "" if both else "pipemill refuses" if isinstance(ours, str) else "refuses"
    if [n for n, _ in ours[0]] != [n for n, _ in theirs[0]] or ours[1] != theirs[1]:
        return "names or rows"
    # The log line has the types of the first columns only.
    types = [f"{b}, not {a}" for (_, a), (_, b) in zip(ours[0], theirs[0]) if a and a != b]
    return "; ".join(sorted(set(types)))


def main():
    binary, show = sys.argv[1], "--show" in sys.argv
    kinds = collections.OrderedDict()
    count, same = 0, collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        for number, (kind, text) in enumerate(corpus()):
            path = str(pathlib.Path(folder) / f"{number}.csv")
            pathlib.Path(path).write_bytes(text.encode())
            ours = by_pipemill(binary, path)
            count += 1
            for name, theirs in [("duckdb", by_duckdb(path)), ("polars", by_polars(path))]:
                differs = difference(ours, theirs)
                same[name] += not differs
                if differs:
                    kinds.setdefault((kind, name, differs), []).append(text)
                    if show:
                        print(json.dumps(text), ours, name, theirs, sep="\n  ")
    print(f"{count} files; the same in duckdb {duckdb.__version__}: {same['duckdb']}, "
          f"in polars {polars.__version__}: {same['polars']}")
    for (kind, name, differs), texts in kinds.items():
        print(f"{kind:40} {name:8} {differs} ({len(texts)})")


if __name__ == "__main__":
    main()
