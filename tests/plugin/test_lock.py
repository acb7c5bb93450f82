"""Plugins by their names: `pipemill.lock` pins what a name stands for, and nothing takes its place silently."""

import fcntl
import hashlib
import json
import os
import pathlib
import re
import subprocess

import pipemill
import pytest
from bucket import bucket  # noqa: F401 (a fixture)
from e2e import PATIENCE, PIPEMILL, patiently
from web import Web

FIXTURES = pathlib.Path(__file__).parent / "fixtures/frozen"
PLUGIN = (FIXTURES / "c.wasm").read_bytes()
#: Records of the plugin.
WORDS = ["Hello", "", "Grüezi", "こんにちは"]
#: Larger than a plugin may be.
TOO_LARGE = (64 << 20) + 1


def leb(number):
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes(out + bytes([number]))


def sized(data):
    return leb(len(data)) + data


def section(name, content):
    return b"\0" + sized(sized(name.encode()) + content)


def plugin(name=None, version=None, **facts):
    """The plugin with a description of itself, in the sections that component tools write."""
    more = b""
    if name is not None:
        more += section("component-name", b"\0" + sized(sized(name.encode())))
    if version is not None:
        facts = {"version": version, **facts}
    for key, text in facts.items():
        more += section(key, text if isinstance(text, bytes) else text.encode())
    return PLUGIN + more


def sha256(data):
    return hashlib.sha256(data).hexdigest()


class Place:
    """A folder in which commands run."""

    def __init__(self, folder):
        self.folder = folder
        self.lock = folder / "pipemill.lock"
        self.files = folder / "pipemill.plugins"
        (folder / "data").write_bytes((FIXTURES / "greetings.pstr").read_bytes())

    def write(self, file, data):
        (self.folder / file).write_bytes(data)
        return file

    def run(self, *args, **more):
        words = [PIPEMILL, *map(str, args)]
        more = {"cwd": self.folder, "capture_output": True, "text": True, "timeout": PATIENCE, **more}
        return subprocess.run(words, **more)

    def done(self, *args, **more):
        finished = self.run(*args, **more)
        assert finished.returncode == 0, finished.stderr
        return finished.stdout

    def refused(self, code, *args, **more):
        """The message of a command that fails with this code. It is one line, and safe to print."""
        finished = self.run(*args, **more)
        assert finished.returncode == code, (finished.returncode, finished.stdout, finished.stderr)
        assert "panicked" not in finished.stderr and "\x1b" not in finished.stderr
        return finished.stderr

    def add(self, data, *more, file="mine.wasm"):
        return self.done("plugin", "add", self.write(file, data), *more)

    def words(self, decoder):
        lines = self.done("cat", "-d", decoder, "-o", "text=true", "data").splitlines()
        return [json.loads(line)["fields"]["string"] for line in lines]

    def cat(self, decoder):
        return ["cat", "-d", decoder, "-o", "text=true", "data"]

    def config(self, decoder, more=""):
        """A configuration in this folder."""
        path = self.folder / "pipemill.toml"
        path.write_text(
            f'[[channel]]\nname = "train"\nsource = {{ file = "{self.folder}/data" }}\n'
            f'decoder = "{decoder}"\noptions = {{ text = true }}\n{more}\n'
        )
        return path

    def file_of(self, data):
        return self.files / f"{sha256(data)}.wasm"


@pytest.fixture
def place(tmp_path):
    folder = tmp_path / "job"
    folder.mkdir()
    return Place(folder)


@pytest.fixture
def web():
    with Web() as server:
        yield server


def test_a_plugin_is_added_and_named(place):
    data = plugin("mine", "1.2.0", licenses="MIT")
    said = place.add(data)
    assert 'decoder = "mine@1.2.0"' in said and sha256(data) in said
    assert place.lock.read_text() == (
        "# `pipemill plugin add`, `remove` and `fetch` write this file. Keep it with the configuration.\n"
        "version = 1\n\n[[plugin]]\n"
        f'name = "mine"\nversion = "1.2.0"\nsha256 = "{sha256(data)}"\norigin = "mine.wasm"\n'
    )
    assert place.file_of(data).read_bytes() == data
    # The file that it was added from is not read any more.
    (place.folder / "mine.wasm").unlink()
    assert place.words("mine@1.2.0") == place.words("mine") == WORDS
    assert "\nmine@1.2.0  a plugin of pipemill.lock\n" in place.done("plugin", "list")
    assert f"sha256     {sha256(data)}\n" in place.done("plugin", "inspect", "mine@1.2.0")
    place.done("plugin", "check", "mine")
    place.done("plugin", "test", "mine", "--data", "data", "--cases", "5")
    assert "decoder  mine@1.2.0" in place.done("schema", "-d", "mine@1.2.0", "-o", "text=true", "data")
    place.done("init", "-d", "mine", "-o", "text=true", "data")
    assert 'decoder = "mine"' in (place.folder / "pipemill.toml").read_text()
    assert "nothing wrong" in place.done("config", "check", "--try", "pipemill.toml")
    # The same again changes nothing.
    before = place.lock.read_text()
    assert "is in pipemill.lock" in place.add(data)
    assert place.lock.read_text() == before
    place.done("plugin", "remove", "mine")
    assert not place.file_of(data).exists() and "[[plugin]]" not in place.lock.read_text()


def test_the_lock_file_is_that_of_the_configuration_or_of_the_folder(place, tmp_path):
    ours, others = plugin("mine", "1"), plugin("mine", "2")
    place.add(ours)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    config = place.config("mine@1")
    assert "nothing wrong" in place.done("config", "check", config, cwd=elsewhere)
    # A lock file of the current folder is not looked at where the configuration has one.
    (elsewhere / "mine.wasm").write_bytes(others)
    place.done("plugin", "add", "mine.wasm", cwd=elsewhere)
    assert "nothing wrong" in place.done("config", "check", config, cwd=elsewhere)
    assert 'decoder = "mine@1"' in place.done("config", "show", config, cwd=elsewhere)
    place.config("mine@2")
    why = place.refused(64, "config", "check", config, cwd=elsewhere)
    assert f"{config}:4:" in why and f"{place.lock} has no such plugin; it has `mine@1`" in why, why
    # Without one next to the configuration, it is that of the current folder.
    place.lock.unlink()
    assert "nothing wrong" in place.done("config", "check", config, cwd=elsewhere)
    why = place.refused(64, "config", "check", config, cwd=tmp_path)
    assert f"there is no pipemill.lock next to {config} or in {tmp_path}" in why, why


def test_a_host_and_a_program_take_it_from_the_lock_file(place, monkeypatch, tmp_path):
    data = plugin("mine", "1")
    place.add(data)
    config = place.config("mine@1")
    cache = {**os.environ, "PIPEMILL_CACHE": str(tmp_path / "cache")}
    assert "mine@1: compiled" in place.done("plugin", "compile", "--config", config, cwd="/", env=cache)
    script = "import pipemill\nfor batch in pipemill.connect('train'): print(len(batch.records()))"
    python = os.environ.get("PIPEMILL_PYTHON", "python3")
    assert place.done("run", "--config", config, "--", python, "-c", script, cwd="/").split() == ["4"]
    monkeypatch.chdir(place.folder)
    for decoder in ("mine@1", "mine"):
        with pipemill.open("data", decoder=decoder, options={"text": True}, timeout=PATIENCE) as stream:
            assert [text for batch in stream for text in batch.records()] == WORDS
    with pytest.raises(pipemill.RefusedError, match="pipemill.lock has no such plugin; it has `mine@1`"):
        pipemill.open("data", decoder="mine@2", timeout=PATIENCE)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(pipemill.RefusedError, match=f"there is no pipemill.lock in {tmp_path};"):
        pipemill.open(place.folder / "data", decoder="mine@1", timeout=PATIENCE)


def test_a_changed_or_missing_file_is_refused_before_it_runs(place):
    data = plugin("mine", "1")
    place.add(data)
    file, config = place.file_of(data), place.config("mine@1")
    for other in (plugin("mine", "1", description="x"), data[:-1], b"", b"no wasm"):
        file.write_bytes(other)
        for command in (place.cat("mine@1"), ["config", "check", config], ["plugin", "inspect", "mine"]):
            why = place.refused(65 if "inspect" in command else 64, *command)
            for part in (file.name, sha256(other), sha256(data), "pipemill.lock asks for", "plugin fetch"):
                assert part in why, why
    assert "mine@1: fetched from" in place.done("plugin", "fetch")
    assert place.words("mine@1") == WORDS
    file.unlink()
    why = place.refused(64, *place.cat("mine@1"))
    assert "does not exist: `pipemill plugin fetch` gets it from mine.wasm" in why, why
    # The others are listed.
    listed = place.run("plugin", "list")
    assert listed.returncode == 0 and "does not exist" in listed.stderr and "\ncsv  " in listed.stdout
    place.done("plugin", "fetch")
    assert "mine@1: is there" in place.done("plugin", "fetch")
    # What the lock file asks for counts, not what lies in the folder.
    place.lock.write_text(place.lock.read_text().replace(sha256(data), sha256(b"")))
    (place.files / f"{sha256(b'')}.wasm").write_bytes(data)
    assert f"asks for {sha256(b'')}" in place.refused(64, *place.cat("mine@1"))
    why = place.refused(65, "plugin", "fetch")
    assert "it is another file now" in why and sha256(data) in why, why


def test_a_run_fetches_nothing(place, web):
    data = plugin("mine", "1")
    web.files["/mine.wasm"] = data
    place.done("plugin", "add", web.url("/mine.wasm"), "--sha256", sha256(data))
    assert len(web.asked) == 1
    place.file_of(data).unlink()
    config = place.config("mine@1")
    why = place.refused(64, "run", "--config", config, "--", "true")
    assert f"gets it from {web.url('/mine.wasm')}" in why, why
    place.refused(64, "config", "check", "--try", config)
    place.refused(64, *place.cat("mine@1"))
    assert len(web.asked) == 1
    place.done("plugin", "fetch")
    assert len(web.asked) == 2 and place.words("mine@1") == WORDS


def test_a_digest_that_is_given_must_fit(place):
    file = place.write("mine.wasm", plugin("mine", "1"))
    why = place.refused(65, "plugin", "add", file, "--sha256", "0" * 64)
    assert f"but --sha256 asks for {'0' * 64}" in why and "nothing was added" in why, why
    assert not place.lock.exists() and not place.files.exists()
    assert "64 hexadecimal digits" in place.refused(64, "plugin", "add", file, "--sha256", "12")
    place.done("plugin", "add", file, "--sha256", sha256(plugin("mine", "1")).upper())
    config = place.config("mine@1", f'sha256 = "{"0" * 64}"')
    why = place.refused(64, "config", "check", config)
    assert f"{place.lock} has the SHA-256" in why and f"`sha256` asks for {'0' * 64}" in why, why
    config = place.config("mine@1", f'sha256 = "{sha256(plugin("mine", "1"))}"')
    place.done("config", "check", config)


def test_what_is_no_plugin_is_not_added(place):
    for data in (b"", b"no wasm", b"\0asm\x0d\0\x01\0", PLUGIN[:1000]):
        place.refused(65, "plugin", "add", place.write("mine.wasm", data))
    place.refused(66, "plugin", "add", "nothing.wasm")
    assert "not a regular file" in place.refused(65, "plugin", "add", ".")
    os.mkfifo(place.folder / "fifo.wasm")
    assert "not a regular file" in place.refused(65, "plugin", "add", "fifo.wasm")
    os.truncate(place.write("mine.wasm", b"") and place.folder / "mine.wasm", TOO_LARGE)
    assert f"it has {TOO_LARGE} bytes" in place.refused(65, "plugin", "add", "mine.wasm")
    assert "Google Cloud Storage" in place.refused(64, "plugin", "add", "gs://bucket/mine.wasm")
    assert not place.lock.exists() and not place.files.exists()


def test_a_built_in_decoder_hides_no_plugin(place):
    data = plugin("csv", "1")
    why = place.refused(64, "plugin", "add", place.write("x.wasm", data))
    assert "`csv` is the name of a built-in decoder; --name" in why, why
    assert "built-in decoder" in place.refused(64, "plugin", "add", "x.wasm", "--name", "lines")
    place.done("plugin", "add", "x.wasm", "--name", "mycsv")
    assert place.words("mycsv@1") == WORDS
    # A later pipemill may have a decoder of this name; here, the file is changed by hand.
    place.lock.write_text(place.lock.read_text().replace('"mycsv"', '"csv"'))
    for command in (place.cat("csv"), ["config", "check", place.config("csv")]):
        why = place.refused(64, *command)
        assert "is the name of a built-in decoder and of a plugin in" in why and "`csv@1`" in why, why
    assert place.words("csv@1") == WORDS
    place.write("a.csv", b"a,b\n1,2\n")
    assert "built-in decoder and of a plugin" in place.refused(64, "cat", "a.csv")
    # Other built-in decoders are used as ever.
    place.done("cat", "-d", "lines", "a.csv")


def test_several_versions_of_a_name(place):
    place.add(plugin("mine", "1"))
    place.add(plugin("mine", "2"))
    why = place.refused(64, *place.cat("mine"))
    assert "pipemill.lock has `mine@1`, `mine@2`: name one with its version" in why, why
    assert place.words("mine@1") == place.words("mine@2") == WORDS
    assert "has `mine@1`, `mine@2`" in place.refused(64, "plugin", "remove", "mine")
    why = place.refused(64, "plugin", "add", place.write("o.wasm", plugin("mine", "2", authors="x")))
    assert "has `mine@2` already" in why and "give --replace" in why, why
    replaced = place.done("plugin", "add", "o.wasm", "--replace")
    assert f"in pipemill.lock, in place of the one with {sha256(plugin('mine', '2'))}" in replaced, replaced
    assert place.file_of(plugin("mine", "2", authors="x")).exists() and not place.file_of(plugin("mine", "2")).exists()
    place.done("plugin", "remove", "mine@1")
    assert place.words("mine") == WORDS
    assert "has no plugin `mine@1`; it has `mine@2`" in place.refused(64, "plugin", "remove", "mine@1")


def test_a_plugin_without_a_version_has_a_name_alone(place):
    place.add(PLUGIN, file="words.v2.wasm")
    assert 'name = "words.v2"\nsha256' in place.lock.read_text()
    assert place.words("words.v2") == WORDS
    assert "has no such plugin" in place.refused(64, *place.cat("words.v2@1"))


def test_a_plugin_of_the_plugin_path_gives_way_with_a_word(place, tmp_path):
    place.add(plugin("mine", "1"))
    folder = tmp_path / "path"
    folder.mkdir()
    (folder / "mine.wasm").write_bytes(b"never read")
    (folder / "odd@name.wasm").write_bytes(PLUGIN)
    env = {**os.environ, "PIPEMILL_PLUGIN_PATH": str(folder)}
    finished = place.run(*place.cat("mine"), env=env)
    assert finished.returncode == 0 and "and not mine.wasm of the plugin path" in finished.stderr
    # What worked without a lock file works with one.
    place.done(*place.cat("odd@name"), env=env)


@pytest.mark.parametrize("name", ["a b", "a@1", "../x", "-x", "x\x1b[2J", "é", "x" * 65, "x.wasm", "$HOME", "a/b"])
def test_names_with_odd_characters_are_refused(place, name):
    data = plugin(name, "1")
    file = place.write("mine.wasm", data)
    why = place.refused(64, "plugin", "add", file)
    assert "the name `" in why and "--name gives it another name" in why, why
    assert "--name: the name `" in place.refused(64, "plugin", "add", file, f"--name={name}")
    assert not place.lock.exists()
    place.done("plugin", "add", file, "--name", "mine")
    assert place.words("mine") == WORDS


def test_versions_with_odd_characters_are_refused(place):
    for version in ("1 2", "1\n[[plugin]]", "1\u202e", "v" * 65):
        why = place.refused(64, "plugin", "add", place.write("mine.wasm", plugin("mine", version)))
        assert "the version `" in why and "metadata add --version" in why and why.count("\n") == 1, why


def test_a_lock_file_that_is_damaged_or_newer_is_refused(place):
    place.add(plugin("mine", "1"))
    sound = place.lock.read_text()
    for text, why in [
        ("", "expected `version = 1`"),
        (sound[: len(sound) // 2], "is no sound lock file: line "),
        (sound.replace("version = 1\n", "version = 2\nother = []\n", 1), "a lock file of version 2, and this pipemill"),
        (sound.replace("origin", "place"), "unknown field `place`"),
        (sound + sound[sound.index("[[") :], "`mine@1` is there twice"),
        (sound.replace('"mine"', '"../mine"'), "the name `../mine` is not possible"),
        ("x" * (2 << 20), "more than 1048576 bytes"),
        ("\x1b[2J", "is no sound lock file"),
    ]:
        place.lock.write_text(text)
        commands = [place.cat("mine@1"), place.cat("lines"), ["plugin", "fetch"], ["plugin", "remove", "mine"]]
        commands += [["plugin", "add", "mine.wasm"], ["config", "check", place.config("mine")]]
        for command in commands:
            found = place.refused(64, *command)
            assert "pipemill.lock: " in found and why in found, (command, found)
        listed = place.run("plugin", "list")
        assert listed.returncode == 64 and "\ncsv  " in listed.stdout and why in listed.stderr
        # It stays as it is.
        assert place.lock.read_text() == text
    place.lock.unlink()
    os.mkfifo(place.lock)
    assert "not a regular file" in place.refused(64, *place.cat("mine@1"))
    # A path needs no lock file.
    place.done(*place.cat("./mine.wasm"))


def test_another_name_of_a_lock_file_is_refused(place):
    file = place.write("mine.wasm", plugin("mine", "1"))
    assert "no other is read" in place.refused(64, "plugin", "add", file, "--lock", "other.lock")
    (place.folder / "conf").mkdir()
    place.done("plugin", "add", file, "--lock", "conf/pipemill.lock")
    assert f'origin = "{place.folder}/mine.wasm"' in (place.folder / "conf/pipemill.lock").read_text()
    place.done("plugin", "fetch", "--lock", "conf/pipemill.lock")
    place.done("plugin", "remove", "mine", "--lock", "conf/pipemill.lock")
    place.refused(64, "plugin", "remove", "mine")
    assert not place.files.exists()


def waiters(path):
    """Number of processes that wait for the lock on a file."""
    inode = os.stat(path).st_ino
    lines = pathlib.Path("/proc/locks").read_text().splitlines()
    return sum(" -> FLOCK" in line and f":{inode} " in line for line in lines)


def held(place):
    """The lock that a process holds while it changes the lock file."""
    place.files.mkdir(exist_ok=True)
    file = open(place.files / ".lock", "w")
    fcntl.flock(file, fcntl.LOCK_EX)
    return file


def start(place, *args):
    words = [PIPEMILL, *args]
    return subprocess.Popen(words, cwd=place.folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def test_adds_at_once_lose_no_entry(place):
    names = [f"m{number}" for number in range(4)]
    for name in names:
        place.write(f"{name}.wasm", plugin(name, "1"))
    with held(place):
        adds = [start(place, "plugin", "add", f"{name}.wasm") for name in names]
        patiently(lambda: waiters(place.files / ".lock") == len(adds))
        assert not place.lock.exists()
    for add in adds:
        assert add.communicate(timeout=PATIENCE)[1] == b"" and add.returncode == 0
    text = place.lock.read_text()
    assert re.findall('^name = "(.*)"', text, re.M) == names
    assert len(list(place.files.glob("*.wasm"))) == 4


def test_a_killed_add_leaves_the_old_file_or_the_new_one(place):
    place.add(plugin("old", "1"))
    before = place.lock.read_text()
    place.write("new.wasm", plugin("new", "1"))
    with held(place):
        add = start(place, "plugin", "add", "new.wasm")
        patiently(lambda: waiters(place.files / ".lock") == 1)
        add.kill()
        add.communicate()
    assert place.lock.read_text() == before
    # At any other moment, too: each is stopped at another system call that changes a file.
    for number in range(12):
        add = start(place, "plugin", "add", "new.wasm", "--name", f"new{number}")
        try:
            add.wait(number * 0.02)
        except subprocess.TimeoutExpired:
            add.kill()
        add.communicate()
        place.done("plugin", "list", "old")
        assert place.words("old") == WORDS
    place.done("plugin", "add", "new.wasm", "--name", "last")
    assert place.words("last") == WORDS
    assert [path.name for path in place.folder.glob(".*")] == []


def test_a_plugin_of_a_bucket(place, bucket, tmp_path):  # noqa: F811
    data = plugin("mine", "1")
    (tmp_path / "buckets/data/mine.wasm").write_bytes(data)
    place.done("plugin", "add", "s3://data/mine.wasm", "--sha256", sha256(data))
    assert 'origin = "s3://data/mine.wasm"' in place.lock.read_text()
    place.file_of(data).unlink()
    place.done("plugin", "fetch")
    assert place.words("mine@1") == WORDS
    place.refused(66, "plugin", "add", "s3://data/nothing.wasm")
    assert "s3://bucket/key" in place.refused(64, "plugin", "add", "s3://data")
    with open(tmp_path / "buckets/data/large.wasm", "wb") as file:
        file.truncate(TOO_LARGE)
    why = place.refused(65, "plugin", "add", "s3://data/large.wasm")
    assert f"has {TOO_LARGE} bytes; at most {TOO_LARGE - 1} are read" in why, why
    why = place.refused(65, "plugin", "add", "s3://data/mine.wasm", env={**os.environ, "AWS_SECRET_ACCESS_KEY": "x"})
    assert "s3://data/mine.wasm: " in why


def test_a_plugin_of_the_web(place, web):
    data = plugin("mine", "1")
    digest = ["--sha256", sha256(data)]
    web.files["/a/mine.wasm"] = data
    web.redirects["/latest"] = "/a/mine.wasm"
    web.redirects["/loop"] = "/loop"
    web.redirects["/away"] = "ftp://host/x"
    why = place.refused(64, "plugin", "add", web.url("/a/mine.wasm"))
    assert "is not encrypted" in why and "--sha256" in why and web.asked == [], why
    place.done("plugin", "add", web.url("/latest?token=secret"), *digest)
    assert f'origin = "{web.url("/latest")}"\n' in place.lock.read_text()
    assert web.asked == ["/latest?token=secret", "/a/mine.wasm"]
    place.file_of(data).unlink()
    place.done("plugin", "fetch")
    assert place.words("mine@1") == WORDS
    assert "status 404" in place.refused(66, "plugin", "add", web.url("/nothing"), *digest)
    assert "more than 5 times" in place.refused(65, "plugin", "add", web.url("/loop"), *digest)
    assert "which is no address" in place.refused(65, "plugin", "add", web.url("/away"), *digest)
    for path, why in [("/large", f"has {TOO_LARGE} bytes"), ("/endless", "has more than"), ("/cut", "after")]:
        found = place.refused(65, "plugin", "add", web.url(path), *digest)
        assert why in found, (path, found)
    why = place.refused(64, "plugin", "add", web.url("/x").replace("//", "//me:secret@"), *digest)
    assert "a user or password" in why and "secret" not in why, why
    why = place.refused(65, "plugin", "add", "http://127.0.0.1:1/x", *digest)
    assert "can't be reached" in why, why


def test_a_plugin_of_a_registry(place, web):
    data = plugin("mine", "1")
    web.push("team/mine", "1.0", data)
    address = f"oci://{web.host}/team/mine"
    place.done("plugin", "add", f"{address}:1.0")
    assert f'origin = "{address}:1.0"' in place.lock.read_text()
    place.file_of(data).unlink()
    place.done("plugin", "fetch")
    assert place.words("mine@1") == WORDS
    # Anybody gets a token, and it goes to the registry alone: not to the store that has the file.
    blob = f"/v2/team/mine/blobs/sha256:{sha256(data)}"
    web.redirects[blob] = f"http://localhost:{web.host.split(':')[1]}/store"
    web.files["/store"], web.token = data, "t0ken"
    web.asked.clear()
    place.done("plugin", "add", f"{address}:1.0")
    assert web.asked[-1] == "/store" and web.trusted == {web.host}
    assert any(path.startswith("/token?") and "repository%3Ateam%2Fmine%3Apull" in path for path in web.asked)
    place.refused(66, "plugin", "add", f"{address}:2.0")
    # Another file than that of the manifest.
    web.files["/store"] = plugin("mine", "1", authors="x")
    why = place.refused(65, "plugin", "add", f"{address}:1.0")
    assert f"sha256:{sha256(data)} was expected" in why, why
    web.push("team/image", "1", data, media_type="application/vnd.oci.image.layer.v1.tar+gzip")
    why = place.refused(65, "plugin", "add", f"oci://{web.host}/team/image:1")
    assert "not one layer of type application/wasm" in why, why
    assert "oci://registry/repository:tag" in place.refused(64, "plugin", "add", "oci://host")


def test_the_description_of_a_plugin_is_shown(place):
    facts = {
        "authors": "Ada\x1b[2J Lovelace", "licenses": "MIT", "description": "Decodes\nwords", "homepage": "https://a",
        "source": "https://b", "revision": "c0ffee",
    }  # fmt: skip
    place.add(plugin("mine", "1", **facts))
    shown = [
        "name       mine", "version    1", "authors    Ada\\u{1b}[2J Lovelace", "licence    MIT", "about      Decodes words",
        "homepage   https://a", "source     https://b", "revision   c0ffee",
    ]  # fmt: skip
    for command in (["inspect", "mine"], ["list"], ["list", "mine"], ["inspect", "mine.wasm"]):
        text = place.done("plugin", *command)
        assert "\x1b" not in text
        for line in shown:
            assert line in text, (command, text)
    # Whatever the sections hold, the output is bounded.
    values = b"".join(sized(b"t\x1b%d" % n) + sized(b"1" * 3000) for n in range(500))
    hostile = plugin(
        "mine", "2", authors="x" * (8 << 20), licenses=b"\xff" * 9000, producers=b"\1" + sized(b"sdk") + leb(500) + values
    )
    text = place.done("plugin", "inspect", place.write("hostile.wasm", hostile))
    assert "\x1b" not in text and len(text) < 40_000


#: Takes batches, saves the state after the first, and ends.
TAKE = """
import json, pipemill, sys
with pipemill.connect("train") as stream:
    print(next(stream).records())
    json.dump(stream.state_dict(), open("state.json", "w"))
"""
#: Takes the rest.
REST = """
import pipemill
for batch in pipemill.connect("train"):
    print(batch.records())
"""


def test_a_state_across_an_update_of_the_lock_file(place):
    """It is handled as that of a plugin by its path: the digest counts, and not the version's number."""
    place.write("data", b"PSTR" + b"".join(len(w).to_bytes(2, "little") + w for w in [b"a", b"b", b"c"]))
    one, two = plugin("mine", "1"), plugin("mine", "2")
    place.add(one)
    config = place.config("mine", "batch = 1")
    python = os.environ.get("PIPEMILL_PYTHON", "python3")
    take = ["run", "--config", config, "--", python, "-c", TAKE]
    rest = ["run", "--resume", "state.json", "--config", config, "--", python, "-c", REST]
    assert place.done(*take) == "['a']\n"
    assert place.done(*rest) == "['b']\n['c']\n"
    place.done("plugin", "remove", "mine")
    place.add(two)
    why = place.refused(64, *rest)
    assert f"sha256:{sha256(one)}" in why and f"sha256:{sha256(two)}" in why, why
    assert place.done(*rest[:1], "--accept", "decoder", *rest[1:]) == "['b']\n['c']\n"
    # The same file under another version is the same decoder.
    place.done("plugin", "remove", "mine")
    place.done("plugin", "add", place.write("one.wasm", one), "--name", "renamed")
    place.config("renamed@1", "batch = 1")
    assert place.done(*rest) == "['b']\n['c']\n"


def test_an_index_across_an_update_of_the_lock_file(place, monkeypatch):
    place.add(plugin("mine", "1"))
    place.done("index", "-d", "mine", "-o", "text=true", "data", "--out", "data.index")
    assert "decoder" in place.done("index", "show", "data.index")
    monkeypatch.chdir(place.folder)
    with pipemill.Dataset("data.index") as dataset:
        assert len(dataset) == 4
    place.done("plugin", "remove", "mine")
    place.add(plugin("mine", "2"))
    with pytest.raises(pipemill.RefusedError, match="the index .* was made with the decoder sha256:"):
        pipemill.Dataset("data.index")
