"""Each state that a host makes is accepted again, whatever the names and paths in it."""

import pipemill
import pytest
from e2e import PATIENCE

ROWS = 60
NAMES = {
    "long": [f"{number:03}" + "n" * 197 for number in range(200)],
    "emoji": ["😀" * 58 + f"{number:02}" for number in range(100)],
    "many": [f"column {number}" for number in range(700)],
    "quotes": [f"a\\b'c/{number}" * 8 for number in range(200)],
    "controls": [f"\x01\x1b\u202e{number}" for number in range(300)],
}


def table(path, names):
    rows = [",".join(str(row) for _ in names) for row in range(ROWS)]
    path.write_text("\n".join([",".join(names), *rows]) + "\n")


def rest_of(stream):
    with stream:
        return [batch[batch.fields[0].name].tolist() for batch in stream]


@pytest.mark.parametrize("names", NAMES.values(), ids=NAMES)
def test_names_of_columns(tmp_path, names):
    table(tmp_path / "a.csv", names)
    wishes = {"options": {"types": "int64", "header": "true"}, "batch": 10, "timeout": PATIENCE}
    with pipemill.open(tmp_path, "csv", **wishes) as stream:
        next(stream), next(stream)
        state = stream.state_dict()
    found = rest_of(pipemill.open(tmp_path, "csv", state=state, **wishes))
    assert found == [list(range(at, at + 10)) for at in range(20, ROWS, 10)]


def test_a_mix_of_long_paths(tmp_path):
    channels, folder = [], tmp_path.joinpath(*["f" * 200] * 15)
    folder.mkdir(parents=True)
    for number in range(16):
        file = folder / f"{number:02}{'n' * 200}.txt"
        file.write_text("".join(f"{number} {line}\n" for line in range(ROWS)))
        channels.append({"name": f"c{number}", "decoder": "lines", "source": {"file": str(file)}})
    mix = {channel["name"]: 1.0 for channel in channels}
    channels.append({"name": "mixed", "batch": 10, "source": {"mix": mix, "until": "all"}})
    with pipemill.host({"channel": channels}) as host:
        with host.connect("mixed", timeout=PATIENCE) as stream:
            batches = [batch.records() for batch in stream]
    with pipemill.host({"channel": channels}) as host:
        with host.connect("mixed", timeout=PATIENCE) as stream:
            for _ in range(30):
                next(stream)
            state = stream.state_dict()
    with pipemill.host({"channel": channels}) as host:
        with host.connect("mixed", timeout=PATIENCE, state=state) as stream:
            assert [batch.records() for batch in stream] == batches[30:]
