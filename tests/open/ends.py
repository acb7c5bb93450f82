"""Programs that open a source and then end in some way. Each prints the process id of its host, its socket,
and waits for a line before it ends. Run with the way's name, the folder of the source, and a pipe on whose
end a forked child ends."""

import ctypes
import gc
import os
import signal
import sys
import threading

import pipemill

WAY, FOLDER, PIPE = sys.argv[1:]
# It never ends: the host is at work whenever the program ends.
stream = pipemill.open(FOLDER, "lines", epochs=None)
batch = next(stream)
host = stream._host


def ready():
    print(host.pid, host.socket, flush=True)
    sys.stdin.readline()


def forked():
    """A child that has copies of all descriptors, and outlives this process."""
    if os.fork() == 0:
        os.read(int(PIPE), 1)
        os._exit(0)


def leave_a_thread_reading():
    def read():
        for _ in stream:
            pass

    threading.Thread(target=read, daemon=True).start()


if WAY == "closed":
    ready()
    stream.close()
elif WAY == "closed while a forked child lives":
    forked()
    ready()
    stream.close()
    os.kill(os.getpid(), signal.SIGSTOP)  # the host has to be gone before that
elif WAY == "dropped":
    ready()
    del stream, host
    gc.collect()  # a stream and its epoch refer to each other
    # It is gone before the process ends.
    os.kill(os.getpid(), signal.SIGSTOP)
elif WAY == "end of the script":
    ready()
elif WAY == "exception":
    ready()
    raise ValueError("meant")
elif WAY == "sys.exit":
    ready()
    sys.exit(3)
elif WAY == "sys.exit in a thread":
    ready()
    threading.Thread(target=sys.exit).start()
elif WAY == "shutdown while a thread reads":
    leave_a_thread_reading()
    ready()
elif WAY == "os._exit":
    ready()
    os._exit(4)
elif WAY == "os._exit while a thread reads":
    leave_a_thread_reading()
    ready()
    os._exit(4)
elif WAY == "SIGTERM":
    ready()
    signal.pause()
elif WAY == "SIGKILL":
    ready()
    os.kill(os.getpid(), signal.SIGKILL)
elif WAY == "SIGKILL while a forked child lives":
    forked()
    ready()
    os.kill(os.getpid(), signal.SIGKILL)
elif WAY == "crash":
    ready()
    ctypes.string_at(8)
elif WAY == "another program":
    ready()
    os.execv(sys.executable, [sys.executable, "-c", "import signal; signal.pause()"])
else:
    sys.exit(f"no such way: {WAY}")
