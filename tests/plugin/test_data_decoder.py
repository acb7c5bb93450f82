"""A decoder that comes with the data: `decoder.toml` beside them names it, and it runs only if its SHA-256 is trusted."""

import hashlib
import json
import os
import pathlib
import subprocess

import pipemill
import pytest
from bucket import bucket  # noqa: F401 (a fixture)
from e2e import PATIENCE, PIPEMILL
from pipemill.objects import list_objects
from pipemill.tasks import TaskReader

FIXTURES = pathlib.Path(__file__).parent / "fixtures/frozen"
PLUGIN = (FIXTURES / "c.wasm").read_bytes()
DATA = (FIXTURES / "greetings.pstr").read_bytes()
#: Records of the data, and their values where the option `text` is not set.
WORDS = ["Hello", "", "Grüezi", "こんにちは"]


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def other(text):
    """The same plugin with another SHA-256: a custom section is added."""
    name = b"\x01x" + text.encode()
    return PLUGIN + bytes([0, len(name)]) + name


TRUSTED = f"sha256:{sha256(PLUGIN)}"
#: The name of the plugin's file, which is no data.
FILE = "_mine.wasm"


def toml(data=PLUGIN, address=FILE, name="mine", version="1.2", more="options = { text = true }\n", digest=None):
    return (
        f'name = "{name}"\nversion = "{version}"\nsha256 = "{digest or sha256(data)}"\naddress = "{address}"\n{more}'
    )


class Place:
    """A folder `job` in which commands run, with a folder `train` of data that bring their decoder."""

    def __init__(self, folder):
        self.folder = folder
        self.train = folder / "train"
        self.train.mkdir()
        (self.train / "a.pstr").write_bytes(DATA)
        (self.train / FILE).write_bytes(PLUGIN)
        self.write(toml())

    def write(self, text, folder="train"):
        (self.folder / folder / "decoder.toml").write_text(text)

    def run(self, *args, **more):
        words = [PIPEMILL, *map(str, args)]
        more = {"cwd": self.folder, "capture_output": True, "text": True, "timeout": PATIENCE, **more}
        return subprocess.run(words, **more)

    def done(self, *args, **more):
        finished = self.run(*args, **more)
        assert finished.returncode == 0, finished.stderr
        return finished

    def refused(self, code, *args, **more):
        finished = self.run(*args, **more)
        assert finished.returncode == code, (finished.returncode, finished.stdout, finished.stderr)
        assert "panicked" not in finished.stderr
        return finished.stderr

    def words(self, *args):
        lines = self.done("cat", *args).stdout.splitlines()
        return [json.loads(line)["fields"]["string"] for line in lines]

    def config(self, source=None, more=""):
        path = self.folder / "pipemill.toml"
        source = source or f'folder = "{self.train}"'
        path.write_text(f'[[channel]]\nname = "train"\nsource = {{ {source} }}\n{more}\n')
        return path


@pytest.fixture
def place(tmp_path):
    folder = tmp_path / "job"
    folder.mkdir()
    return Place(folder)


def trust(*digests):
    return "trust = [" + ", ".join(f'"{digest}"' for digest in digests) + "]"


def run_words(place, config, **more):
    script = (
        "import pipemill\nfor batch in pipemill.connect('train'):\n"
        "    for one in batch.records(): print(one if isinstance(one, str) else bytes(one))"
    )
    python = os.environ.get("PIPEMILL_PYTHON", "python3")
    return place.done("run", "--config", config, "--", python, "-c", script, **more).stdout.splitlines()


def test_cat_run_open_and_check_use_it_alike(place):
    assert place.words("--trust", TRUSTED, "train") == WORDS
    assert place.words("--trust", TRUSTED, "train/a.pstr") == WORDS
    config = place.config(more=trust(TRUSTED))
    assert run_words(place, config) == WORDS
    tried = place.done("config", "check", "--try", config)
    assert '"string":"Hello"' in tried.stdout
    assert f'trust = ["{TRUSTED}"]' in place.done("config", "show", config).stdout
    with pipemill.open(place.train, trust=TRUSTED, timeout=PATIENCE) as stream:
        assert [text for batch in stream for text in batch.records()] == WORDS
    assert [one["string"] for one in pipemill.cat(place.train, trust=[TRUSTED])] == WORDS
    # As the tasks of Hugging Face's datasets and of Ray read it: object by object.
    names = [one.name for one in list_objects(place.train)]
    reader = TaskReader(place.train, names, None, trust=TRUSTED, timeout=PATIENCE)
    with reader.open(names) as stream:
        assert [text for batch in stream for text in batch.records()] == WORDS
    for source in ('file = "train/a.pstr"', 'glob = "train/*.pstr"', 'files = ["train/a.pstr"]'):
        assert "nothing wrong" in place.done("config", "check", "--try", place.config(source, trust(TRUSTED))).stdout
    assert "decoder  mine@1.2" in place.done("schema", "--trust", TRUSTED, "train").stdout
    said = place.run("cat", "--trust", TRUSTED, "train").stderr
    assert f"decoder mine@1.2 ({TRUSTED}): it comes with the data, in train/decoder.toml" in said, said


def test_without_trust_it_is_said_and_nothing_of_it_is_used(place):
    # The plugin is not even read: it does not exist.
    (place.train / FILE).unlink()
    (place.train / "a.pstr").rename(place.train / "a.txt")
    (place.train / "a.txt").write_text("one\ntwo\n")
    for args in (["cat", "train"], ["cat", "--trust", f"sha256:{'0' * 64}", "train"]):
        finished = place.done(*args)
        assert [json.loads(line)["fields"] for line in finished.stdout.splitlines()] == [
            {"line": "one"}, {"line": "two"},
        ]  # fmt: skip
        [line] = [line for line in finished.stderr.splitlines() if "decoder.toml" in line]
        for part in ("train/decoder.toml names the decoder mine@1.2", "nobody here trusts it", f'trust "{TRUSTED}"'):
            assert part in line, line
    config = place.config(more=trust(f"sha256:{'0' * 64}"))
    assert run_words(place, config) == ["one", "two"]
    # Where a decoder is named, the file is not looked at.
    place.write("name = ")
    assert "decoder.toml" not in place.done("cat", "-d", "lines", "train").stderr


def test_the_file_is_no_data(place):
    # Nor is it below, nor with hidden files.
    (place.train / "below").mkdir()
    place.write("name = ", "train/below")
    (place.train / "below/b.txt").write_text("two\n")
    (place.train / "a.pstr").rename(place.train / "a.txt")
    (place.train / "a.txt").write_text("one\n")
    (place.train / FILE).unlink()
    listed = place.done("cat", "-d", "lines", "train").stdout
    assert [json.loads(line)["object"] for line in listed.splitlines()] == ["train/a.txt", "train/below/b.txt"]
    config = place.config(f'folder = "{place.train}", hidden = true', 'decoder = "lines"')
    assert run_words(place, config) == ["one", "two"]
    config = place.config(f'glob = "{place.train}/*"', 'decoder = "lines"')
    assert run_words(place, config) == ["one"]
    # By its own name it is a file as any other.
    assert 'name = ' in place.done("cat", "-d", "lines", "--output", "raw", "train/below/decoder.toml").stdout


def test_a_plugin_of_the_lock_file_is_trusted(place):
    place.done("plugin", "add", f"train/{FILE}", "--name", "another")
    (place.train / FILE).unlink()
    assert place.words("train") == WORDS
    assert run_words(place, place.config(), cwd="/") == WORDS
    (place.folder / "pipemill.lock").unlink()
    assert "nobody here trusts it" in place.run("cat", "train").stderr


def test_another_file_at_the_address_is_refused_before_it_is_compiled(place):
    for data in (other("y"), b"no wasm", b""):
        (place.train / FILE).write_bytes(data)
        why = place.refused(65, "cat", "--trust", TRUSTED, "train")
        assert f"train/{FILE} has the SHA-256 {sha256(data)}, and not {sha256(PLUGIN)}, which is trusted" in why, why
    config = place.config(more=trust(TRUSTED))
    why = place.refused(64, "run", "--config", config, "--", "true")
    assert "which is trusted: it is another file" in why, why
    with pytest.raises(pipemill.PipemillError, match="which is trusted"):
        pipemill.open(place.train, trust=TRUSTED, timeout=PATIENCE)
    (place.train / FILE).unlink()
    assert f"train/{FILE}: can't be read" in place.refused(65, "cat", "--trust", TRUSTED, "train")


def test_options_of_the_reader_go_before_those_of_the_data(place):
    lines = place.done("cat", "--trust", TRUSTED, "-o", "text=false", "train").stdout.splitlines()
    assert "base64" in lines[0]
    config = place.config(more=f"{trust(TRUSTED)}\noptions = {{ text = false }}")
    assert run_words(place, config)[0] == "b'Hello'"
    assert run_words(place, place.config(more=trust(TRUSTED)))[0] == "Hello"
    place.write(toml(more="options = { txet = true }"))
    for command in (["cat", "--trust", TRUSTED, "train"], ["config", "check", "--try", place.config(more=trust(TRUSTED))]):
        assert "did you mean `text`?" in place.run(*command).stderr


def test_two_folders_of_a_channel_have_one_decoder(place):
    (place.folder / "val").mkdir()
    (place.folder / "val/b.pstr").write_bytes(DATA)
    both = ["cat", "--trust", TRUSTED, "--trust", f"sha256:{sha256(other('y'))}", "train", "val"]
    why = place.refused(65, *both)
    assert "train/decoder.toml names the decoder mine@1.2" in why and "there is no val/decoder.toml" in why, why
    (place.folder / "val/_other.wasm").write_bytes(other("y"))
    place.write(toml(other("y"), "_other.wasm", "other"), "val")
    why = place.refused(65, *both)
    assert "train/decoder.toml names" in why and "val/decoder.toml names other@1.2" in why, why
    place.write(toml(address="../train/" + FILE, more="options = { text = false }\n"), "val")
    assert "or other options for it" in place.refused(65, *both)
    place.write(toml(address="../train/" + FILE), "val")
    assert place.words("--trust", TRUSTED, "train", "val") == WORDS * 2
    # They are read apart.
    config = place.config(more=trust(TRUSTED))
    config.write_text(config.read_text() + f'[[channel]]\nname = "val"\nsource = {{ folder = "{place.folder}/val" }}\n')
    place.write(toml(other("y"), "_other.wasm", "other"), "val")
    with config.open("a") as file:
        file.write(trust(f"sha256:{sha256(other('y'))}"))
    assert "nothing wrong" in place.done("config", "check", "--try", config).stdout


@pytest.mark.parametrize("text, why", [
    ("", "missing field `name`"),
    ("name = ", "line 1: "),
    (toml(more="sha = 1"), "unknown field `sha`"),
    (toml(digest="12"), "expected 64 hexadecimal digits, found 2 characters"),
    (toml(name="../x"), "the name `../x` is not possible"),
    (toml(more="options = { a = 1.5 }"), "option `a`: expected a string"),
    ("#" * (64 << 10) + toml(), "it has more than 65536 bytes"),
    ("name = \"\x1b[2J\"", "names no decoder that can be used"),
])  # fmt: skip
def test_a_damaged_file_is_refused_where_something_is_trusted(place, text, why):
    place.write(text)
    said = place.refused(65, "cat", "--trust", TRUSTED, "train")
    assert why in said and "train/decoder.toml: " in said and "\x1b" not in said, said
    # Otherwise it is left out.
    (place.train / "a.pstr").rename(place.train / "a.txt")
    (place.train / "a.txt").write_text("one\n")
    finished = place.done("cat", "train")
    assert why in finished.stderr and "it is left out" in finished.stderr, finished.stderr


@pytest.mark.parametrize("address, why", [
    ("https://127.0.0.1:9/mine.wasm", "nothing of the web is fetched for data"),
    ("http://169.254.169.254/latest", "nothing of the web is fetched for data"),
    ("oci://127.0.0.1:9/mine:1", "nothing of the web is fetched for data"),
    ("gs://bucket/mine.wasm", "Google Cloud Storage"),
    ("s3://", "no address of a plugin"),
    (".", "not a regular file"),
    ("/dev/zero", "not a regular file"),
])  # fmt: skip
def test_addresses_that_data_may_not_name(place, address, why):
    place.write(toml(address=address))
    assert why in place.refused(65, "cat", "--trust", TRUSTED, "train")


def test_it_takes_the_place_of_no_built_in_decoder(place):
    place.write(toml(name="csv"))
    why = place.refused(65, "cat", "--trust", TRUSTED, "train")
    assert "no other decoder takes the place of a built-in one" in why, why


def test_a_plugin_that_replaces_a_trusted_one_is_not_trusted_for_it(place):
    newer = other("newer")
    (place.train / FILE).write_bytes(newer)
    place.write(toml(newer, more=f'replaces = ["{TRUSTED}"]'))
    said = place.run("cat", "--trust", TRUSTED, "train").stderr
    assert f"it says that it replaces {TRUSTED}, which is trusted" in said and "is not used" in said, said


def test_a_run_does_not_go_on_with_another_decoder(place):
    newer = other("newer")
    both = [TRUSTED, f"sha256:{sha256(newer)}"]

    def opened(**more):
        return pipemill.open(place.train, trust=both, batch=1, timeout=PATIENCE, **more)

    with opened() as stream:
        assert len(next(stream)) == 1
        state = stream.state_dict()
    with opened(state=state) as stream:
        assert [text for batch in stream for text in batch.records()] == WORDS[1:]
    (place.train / "_newer.wasm").write_bytes(newer)
    place.write(toml(newer, "_newer.wasm"))
    with pytest.raises(pipemill.PipemillError, match=sha256(newer)):
        opened(state=state)
    # The same with other options.
    place.write(toml(more="options = { text = false }"))
    with pytest.raises(pipemill.PipemillError, match="options"):
        opened(state=state)


def test_an_index_names_the_plugin(place):
    made = place.done("index", "--trust", TRUSTED, "train", "--out", "train.index")
    assert "the index names the decoder mine@1.2, which came with the data, in train/decoder.toml" in made.stderr
    why = place.refused(64, "config", "check", place.config('index = "train.index"'))
    assert "mine@1.2" in why, why
    place.done("plugin", "add", f"train/{FILE}", "--name", "mine")
    lock = place.folder / "pipemill.lock"
    lock.write_text(lock.read_text().replace('name = "mine"\n', 'name = "mine"\nversion = "1.2"\n'))
    assert run_words(place, place.config('index = "train.index"')) == WORDS


def test_init_writes_what_the_job_needs(place):
    place.done("init", "--trust", TRUSTED, "train")
    text = (place.folder / "pipemill.toml").read_text()
    assert f'trust = ["{TRUSTED}"]' in text and "decoder =" not in text, text
    assert run_words(place, "pipemill.toml") == WORDS


def test_objects_in_s3_bring_it_too(bucket, tmp_path):  # noqa: F811
    train = tmp_path / "buckets/data/train"
    for file in train.iterdir():
        file.unlink()
    (train / "a.pstr").write_bytes(DATA)
    (tmp_path / "job").mkdir()
    place = Place(tmp_path / "job")

    def put(text):
        (train / "decoder.toml").write_text(text)

    put(toml())
    # Where nothing is trusted, S3 is not asked for it.
    assert "decoder.toml" not in place.run("cat", bucket).stderr
    said = place.run("cat", "--trust", f"sha256:{'0' * 64}", bucket).stderr
    assert f"{bucket}/decoder.toml names the decoder mine@1.2" in said and "nobody here trusts it" in said, said
    # Nothing is at the address.
    why = place.refused(65, "cat", "--trust", TRUSTED, bucket)
    assert f"{bucket}/{FILE}" in why and "404" in why, why
    (train / FILE).write_bytes(PLUGIN)
    for source in (bucket, f"{bucket}/", f"{bucket}/a.pstr"):
        assert place.words("--trust", TRUSTED, source) == WORDS, source
    assert run_words(place, place.config(f's3 = "{bucket}/"', trust(TRUSTED))) == WORDS
    with pipemill.open(f"{bucket}/", trust=TRUSTED, timeout=PATIENCE) as stream:
        assert [text for batch in stream for text in batch.records()] == WORDS
    put(toml(address="s3://data/plugins/mine.wasm"))
    (tmp_path / "buckets/data/plugins").mkdir()
    (tmp_path / "buckets/data/plugins/mine.wasm").write_bytes(PLUGIN)
    assert place.words("--trust", TRUSTED, bucket) == WORDS
    # Who can write to the bucket names no file of this machine.
    for address in ("/etc/passwd", "../mine.wasm", str(place.train / FILE)):
        put(toml(address=address))
        why = place.refused(65, "cat", "--trust", TRUSTED, bucket)
        assert "no path of this machine" in why, why
    # Two prefixes.
    (tmp_path / "buckets/data/val").mkdir()
    (tmp_path / "buckets/data/val/b.pstr").write_bytes(DATA)
    put(toml())
    config = place.config(f's3 = ["{bucket}/", "s3://data/val/"]', trust(TRUSTED))
    why = place.refused(64, "run", "--config", config, "--", "true")
    assert f"{bucket}/decoder.toml names" in why and "there is no s3://data/val/decoder.toml" in why, why
    (tmp_path / "buckets/data/val/decoder.toml").write_text(toml(address=f"{bucket}/{FILE}"))
    assert run_words(place, config) == WORDS * 2
