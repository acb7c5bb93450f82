"""Podman for the tests: images of deploy/, and containers as an orchestrator starts them."""

import os
import pathlib
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).parents[2]
#: No wait of a test takes longer, even on a slow and busy machine.
PATIENCE = 600
#: A folder that is kept: packages, images.
KEPT = pathlib.Path(os.environ.get("PIPEMILL_TEST_KEPT", ROOT / "target")) / "containers"
#: The static binary.
BINARY = os.environ.get("PIPEMILL_STATIC", "")

BASE, HOST, TRAINING = "localhost/base", "localhost/pipemill", "localhost/training"
PACKAGES = ["python3-minimal", "libpython3-stdlib", "dash", "coreutils"]

#: The restrictions of a careful platform: Docker's /dev/shm, no network, no rights, no root user,
#no writable folder.
STRICT = [
    *("--runtime", "runc", "--network", "none", "--cap-drop", "all", "--shm-size", "64m"),
    *("--security-opt", "no-new-privileges", "--read-only", "--read-only-tmpfs=false"),
    *("--ulimit", "nofile=1024:1024", "--ulimit", "nproc=4096:4096"),
]


def patiently(probe):
    """Waits until it looks so."""
    end = time.monotonic() + PATIENCE
    while not probe():
        assert time.monotonic() < end, "nothing came of it"
        time.sleep(0.1)


def why_not():
    """Why containers can't run here; None if they can."""
    if not BINARY:
        return "PIPEMILL_STATIC is not set; `make test` does"
    if os.getuid() != 0:
        return "containers without a network and with limits need root here"
    for program in ["podman", "runc", "apt-get", "dpkg-deb"]:
        if not shutil.which(program):
            return f"there is no {program}"
    # These tests do not test whether the machine lets podman work.
    KEPT.mkdir(parents=True, exist_ok=True)
    try:
        if podman("image", "exists", BASE, check=False).returncode != 0:
            _make_base()
        podman("run", "--rm", *STRICT, BASE, "true")
    except (AssertionError, OSError, subprocess.SubprocessError) as error:
        return f"no container can be run here: {error}"
    return None


def podman(*args, timeout=PATIENCE, check=True):
    """A finished podman command, its output as text."""
    store = ["--root", KEPT / "storage", "--runroot", KEPT / "run"]
    done = subprocess.run(
        ["podman", *map(str, [*store, *args])],
        # Its monitor leaves a file `oom` there.
        cwd=KEPT, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout,
    )  # fmt: skip
    assert not check or done.returncode == 0, f"{args}: {done.stdout}{done.stderr}"
    return done


def build_images():
    """Builds an image of deploy/ from the binary that exists already, and the base."""
    # In place of the stage that compiles.
    built = KEPT / "built"
    shutil.rmtree(built, ignore_errors=True)
    (built / "out/etc").mkdir(parents=True)
    shutil.copy(BINARY, built / "out/pipemill")
    # The system's own certificates, if it has some: nothing is downloaded here.
    bundle = pathlib.Path("/etc/ssl/certs/ca-certificates.crt")
    (built / "out/etc" / bundle.name).write_bytes(bundle.read_bytes() if bundle.exists() else b"")
    build("-t", HOST, "--build-context", f"build={built}", "-f", ROOT / "deploy/Containerfile", ROOT)
    training = ROOT / "deploy/Containerfile.training"
    build("-t", TRAINING, "--build-arg", f"BASE={BASE}", "-f", training, built)
    podman("image", "prune", "-f")


def build(*args):
    podman("build", "-q", "--network", "none", "--pull=never", *args)


def _make_base():
    """An image with Python and a shell, made of unpacked packages of this system."""
    work = KEPT / "base"
    shutil.rmtree(work, ignore_errors=True)
    (work / "packages/partial").mkdir(parents=True)
    (work / "none-installed").touch()
    status, cache = work / "none-installed", work / "packages"
    fetch = [
        *("apt-get", "install", "-qq", "-y", "--download-only", "--no-install-recommends"),
        *("-o", f"Dir::State::status={status}", "-o", f"Dir::Cache::archives={cache}", *PACKAGES),
    ]
    env = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
    if subprocess.run(fetch, env=env, capture_output=True).returncode != 0:
        subprocess.run(["apt-get", "update", "-qq"], check=True, capture_output=True)
        subprocess.run(fetch, env=env, check=True, capture_output=True)
    root = work / "root"
    for package in sorted(cache.glob("*.deb")):
        subprocess.run(["dpkg-deb", "-x", package, root], check=True)
    (root / "tmp").mkdir(exist_ok=True)
    (root / "tmp").chmod(0o1777)
    tar = subprocess.Popen(["tar", "-C", root, "-c", "."], stdout=subprocess.PIPE)
    store = ["--root", KEPT / "storage", "--runroot", KEPT / "run"]
    subprocess.run(
        ["podman", *map(str, store), "import", "-q", "-", BASE],
        stdin=tar.stdout, check=True, capture_output=True,
    )  # fmt: skip
    assert tar.wait() == 0
    shutil.rmtree(work)


class Container:
    """A container that runs."""

    def __init__(self, image, args=(), options=()):
        self.id = podman("run", "-d", *STRICT, *options, image, *args).stdout.strip()

    def kill(self, signal):
        podman("kill", "-s", signal, self.id)

    def stop(self, seconds):
        """As `docker stop` and the kubelet do: SIGTERM, and SIGKILL after some seconds."""
        podman("stop", "-t", seconds, self.id)

    def log(self):
        done = podman("logs", self.id)
        return done.stdout + done.stderr

    def until(self, text):
        """Waits until this text is in the log of a container that runs."""
        patiently(lambda: text in self.log() or not self.is_at_work())
        assert text in (log := self.log()), f"no {text!r}:\n{log}"

    def answers(self, port, path):
        """Whether a GET from within its network is answered with 200."""
        pid = podman("inspect", "-f", "{{.State.Pid}}", self.id).stdout.strip()
        script = "import sys, urllib.request as r; print(r.urlopen(sys.argv[1], timeout=60).status)"
        inside = ["nsenter", "--net", "--target", pid, sys.executable, "-c", script]
        done = subprocess.run(
            [*inside, f"http://127.0.0.1:{port}{path}"],
            env=dict(os.environ, no_proxy="*"), capture_output=True, text=True,
        )  # fmt: skip
        return done.stdout.strip() == "200"

    def is_at_work(self):
        return podman("inspect", "-f", "{{.State.Running}}", self.id).stdout.strip() == "true"

    def processes(self):
        """State and command of its processes."""
        return podman("top", self.id, "state,comm").stdout.splitlines()[1:]

    def end(self):
        """Its exit code and log, when it has ended."""
        code = int(podman("wait", self.id).stdout)
        return code, self.log()

    def remove(self):
        podman("rm", "-f", "-t", 0, self.id)
