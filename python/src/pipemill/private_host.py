"""A host that a Python program starts for itself, as its child.

The child ends when the program ends, in whatever way: it holds one end of a socket whose other end
is the program's, and compares its parent with it (`pipemill run --owner`). The program also uses
that socket to end the child: `shutdown` reaches it even if forked children have copies of the

The child's messages go to the program's standard error: warnings and errors, unless
``$PIPEMILL_LOG`` says something else. If it can't start, it writes the reasons to its standard
output instead, and they become an exception.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import re
import select
import socket
import weakref
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn

from .binary import find_binary
from .errors import BY_KIND, DecodeError, HostDied, HostError
from .toml_text import toml
from .version import __version__

if TYPE_CHECKING:
    from .stream import Stream

#: Seconds that a program waits at its end for the others that still read from its host.
_LEAVE_TIMEOUT = 600.0
#: Where a person finds the host's messages.
_LOG_PLACE = "Its log is this program's standard error; $PIPEMILL_LOG=info makes it say more"
#: Seconds that the host has to end after it is told to. It takes half a second at most if a request
#: to S3 or a call of a decoder is in progress. A host that hangs is killed.
_END_TIMEOUT = 10.0


def host(config: str | os.PathLike[str] | Mapping[str, Any]) -> Host:
    """Starts a private host for a whole configuration. The result is a context manager. ::

        with pipemill.host("pipemill.toml") as host:
            with host.connect("train") as stream:
                ...

    :param config: the path of a configuration, its text in TOML (text with a line end or ``=``), or
        a dict of the same shape: ``{"channel": [{"name": "train", "source": {"file": "a.csv"}}]}``.

    Returns when consumers may connect. The host ends when :meth:`Host.close` is called or this
    process ends, in whatever way. A path in the configuration is relative to the current folder.

    Raises :class:`RefusedError` if the configuration is wrong, :class:`SourceError` if a
    source can't be read, :class:`HostError` if the host fails, each with the host's text, and
    :class:`BinaryNotFound` if there is no host.
    """
    if isinstance(config, Mapping):
        return Host.of_text(toml(config))
    path = os.fspath(config)
    if isinstance(config, str) and ("\n" in config or "=" in config):
        return Host.of_text(config, "configuration:")
    return Host(path)


class Host:
    """A running private host. :func:`host` makes it."""

    #: Path of the socket to which consumers connect.
    socket: str
    #: More of the host's environment than this program has.
    _variables: Mapping[str, str] = {}

    def __init__(
        self,
        file: str,
        pass_fds: tuple[int, ...] = (),
        shown: str | None = None,
        consumers_first: bool = False,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        """Starts the host with this configuration, and waits until it is ready. Messages call the
        file `shown`; None: by its name. `consumers_first`: nothing is decoded before the first
        consumers are connected, because they bring a state. `variables`: more of its environment.
        """
        words = ["--consumers-first"] if consumers_first else []
        self._variables = variables or {}
        answer = self._start("run", words, file, pass_fds, shown)
        self.socket = answer["socket"]
        self._paths.append(self.socket)

    def _start(
        self, command: str, words: list[str], file: str, fds: tuple[int, ...], shown: str | None
    ) -> dict[str, Any]:
        """Starts the host by this command, and waits until it is ready. Returns its answer."""
        import subprocess  # to import it takes as long as all of this package

        # Plain descriptors, because nobody closes them at the end of the interpreter.
        ours, theirs = socket.socketpair()
        lifeline = ours.detach()
        answers, stdout = os.pipe()
        environment = {"PIPEMILL_LOG": "warn", "PIPEMILL_LOG_FORMAT": "human", **os.environ}
        environment |= self._variables
        whole = [find_binary(), command, "--owner", str(os.getpid()), "--config", file, *words]
        try:
            # In a session of its own, so that Ctrl-C does not reach it: the program decides.
            child = subprocess.Popen(
                whole, stdin=theirs.fileno(), stdout=stdout, env=environment,
                pass_fds=fds, start_new_session=True,
            )  # fmt: skip
        except BaseException:
            os.close(lifeline)
            os.close(answers)
            raise
        finally:
            theirs.close()
            os.close(stdout)
        #: The host's process id.
        self.pid = child.pid
        self._owner = os.getpid()
        # From here on, `_end` waits for it, and not `Popen`.
        child.returncode = 0
        #: Files that are removed after the host's end.
        self._paths: list[str] = []
        self._lifeline, self._answers = lifeline, answers
        self._end = weakref.finalize(
            self, _end, lifeline, answers, child.pid, os.getpid(), self._paths
        )
        # At the end of the interpreter the host is not ended here, because threads may still read.
        # It ends by itself right after the process.
        self._end.atexit = False
        try:
            line = _read_line(answers)
        except BaseException:
            self.close()
            raise
        answer: dict[str, Any] = json.loads(line) if line.endswith(b"\n") else {}
        if not answer:
            self._raise_unready(whole)
        if "why" in answer:
            self.close()
            _raise(answer, f"{file}:", shown)
        return answer

    @classmethod
    def of_text(
        cls,
        text: str,
        shown: str = "",
        consumers_first: bool = False,
        variables: Mapping[str, str] | None = None,
    ) -> Host:
        """A host for the text of a configuration. No file is left of it. Messages about it begin
        with `shown` and a place in it. With "" they have no place, because no person wrote the
        text."""
        with memory_file(text) as fd:
            return cls(f"/proc/self/fd/{fd}", (fd,), shown, consumers_first, variables)

    def connect(self, channel: str, **wishes: Any) -> Stream:
        """Connects to a channel. The arguments are those of :func:`connect`, but ``socket``. The
        host lives at least as long as the stream."""
        from .stream import connect

        stream = connect(channel, self.socket, **wishes)
        stream._reads_from(self)
        return stream

    def close(self) -> None:
        """Ends the host. Streams that are read raise :class:`HostDied`. Views stay readable."""
        self._end()

    def _how_it_ended(self) -> str:
        """How the host has ended, and where its log is, for a message. Waits for its end for a
        short time, because a process hangs up a little before it ends."""
        if self._owner != os.getpid():
            return (
                f"it was process {self.pid}, which process {self._owner} has started: look at the "
                "standard error of that one, which has the host's log"
            )
        if not self._end.alive:
            return "this program has closed it: Host.close() or Stream.close() was called"
        status = _exit_status(self.pid)
        if status is None:
            how = f"nobody knows how its process {self.pid} has ended, or it still runs"
        elif status < 0:
            how = f"it was killed by {_signal_name(-status)}"
        else:
            how = f"it ended with exit status {status}"
        return f"{how}. {_LOG_PLACE}"

    def _has_ended(self) -> bool:
        """Whether the host's process has ended. The process is not reaped."""
        try:
            how = os.WEXITED | os.WNOHANG | os.WNOWAIT
            return os.waitid(os.P_PID, self.pid, how) is not None
        except ChildProcessError:
            return False  # reaped by other code, or a child of another process

    def _died(self, channel: str) -> HostDied | None:
        """The error for a program that gets no answer. None if the host still runs."""
        if _exit_status(self.pid) is None:
            return None
        how = self._how_it_ended()
        return HostDied(f"the pipemill host ended before channel {channel!r} was read: {how}")

    def _raise_unready(self, command: list[str]) -> NoReturn:
        """Raises if the host has ended without a message."""
        status, how = _exit_status(self.pid), self._how_it_ended()
        self.close()
        text = (
            f"the host ended before it was ready, and gave no reason: {how}. It was started as "
            f"`{' '.join(command)}`"
        )
        if status is not None and status < 0:
            raise HostDied(text)
        raise HostError(f"{text}; look whether it is pipemill {__version__}", kind="host")

    def leave(self) -> None:
        """Lets the host end by itself, after its consumers have read everything. The end of this
        process waits for that."""
        if not _left:
            # Before the exit functions that are registered already, so before `_end`.
            atexit.register(_wait_for_left)
        _left.append(self)

    def __enter__(self) -> Host:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a pipemill host belongs to the process that started it and can't be pickled; give "
            "others its socket, for pipemill.connect()"
        )

    def __repr__(self) -> str:
        state = f"process {self.pid}" if self._end.alive else "ended"
        return f"<pipemill host, {state}>"


#: The hosts that end by themselves.
_left: list[Host] = []


def _wait_for_left() -> None:
    for left in _left:
        if left._end.alive and os.getpid() == left._owner:
            _wait_for_end(left._answers, _LEAVE_TIMEOUT)
            left.close()


def _read_line(fd: int) -> bytes:
    """A line, or the bytes before the end."""
    line = b""
    while not line.endswith(b"\n"):
        part = os.read(fd, 65536)
        if not part:
            break
        line += part
    return line


def _wait_for_end(answers: int, seconds: float) -> bool:
    """Waits for the end of the host's standard output, which comes when the host ends."""
    ends = select.poll()
    ends.register(answers, 0)
    return bool(ends.poll(seconds * 1000))


def _exit_status(pid: int) -> int | None:
    """The exit status of a child, or minus the signal that has ended it. None if it still runs
    after a short time, or other code in this program has reaped it. It is not reaped here."""
    import time

    deadline = time.monotonic() + _END_TIMEOUT
    with contextlib.suppress(ChildProcessError):
        while time.monotonic() < deadline:
            found = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if found is not None:
                is_exit = found.si_code == os.CLD_EXITED
                return found.si_status if is_exit else -found.si_status
            time.sleep(0.005)
    return None


def _signal_name(number: int) -> str:
    from signal import SIGKILL, Signals

    try:
        name = f"signal {number} ({Signals(number).name})"
    except ValueError:
        name = f"signal {number}"
    if number == SIGKILL:
        name += ", which the kernel sends where memory runs out: see dmesg, and the limit of memory"
    return name


def _end(lifeline: int, answers: int, pid: int, owner: int, paths: list[str]) -> None:
    """Tells the host to end, and waits until it has ended."""
    if os.getpid() != owner:
        return  # a forked child: the host is its parent's
    with socket.socket(fileno=lifeline) as sock, contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)
    if not _wait_for_end(answers, _END_TIMEOUT):
        from signal import SIGKILL

        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, SIGKILL)
    os.close(answers)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, 0)
    for path in paths:
        # If it was killed, its socket is still there.
        with contextlib.suppress(OSError):
            os.unlink(path)


@contextlib.contextmanager
def memory_file(text: str) -> Iterator[int]:
    """A descriptor of a file without a name that has this text."""
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("pipemill.toml")
    else:
        import tempfile

        with tempfile.TemporaryFile() as file:
            fd = os.dup(file.fileno())
    try:
        with os.fdopen(os.dup(fd), "wb") as file:
            file.write(text.encode())
        yield fd
    finally:
        os.close(fd)


def _raise(answer: dict[str, Any], file: str, shown: str | None) -> NoReturn:
    """Raises the host's reasons. Messages begin with `file` and a place in it; see
    `Host.of_text`."""
    why: list[str] = answer["why"]
    if shown == "":
        # The last line with a place says how many there are.
        why = [re.sub(rf"^{re.escape(file)}\d+:\d+: ", "", line) for line in why]
        why = [line for line in why if not line.startswith(file)]
    elif shown is not None:
        why = [line.replace(file, shown) for line in why]
    raise BY_KIND.get(answer["kind"], DecodeError)("\n".join(why), kind=answer["kind"], channel="")
