"""A proxy before the S3 server of a test, which counts what is fetched: the fixture `counted`."""

import contextlib
import http.client
import http.server
import os
import threading

import pytest
from bucket import bucket  # noqa: F401 (a fixture)


class Counted:
    """The bucket's address, and what was fetched of its objects."""

    def __init__(self, bucket):
        self.bucket = bucket
        self.gets = []
        #: The objects and ranges of all requests, in the order in which they came.
        self.ranges = []
        #: Number of requests for lists.
        self.lists = 0
        #: Called with the object and the range of each request before it is passed on.
        self.before = lambda name, wanted: None
        self._lock = threading.Lock()

    def add(self, target, length):
        with self._lock:
            self.gets.append((target.split("?")[0], length))

    def taken(self):
        """The requests since the last call: how many, and their bytes."""
        with self._lock:
            gets, self.gets = self.gets, []
        return len(gets), sum(length for _, length in gets)


def _handler(server, counted):
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _pass_on(self):
            if self.command == "GET" and "list-type" not in self.path:
                name, wanted = self.path.split("?")[0].split("/")[-1], self.headers["range"]
                counted.ranges.append((name, wanted))
                counted.before(name, wanted)
            upstream = http.client.HTTPConnection(server)
            upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                upstream.putheader(name, value)
            upstream.endheaders()
            answer = upstream.getresponse()
            body = answer.read()
            if "list-type=2" in self.path:
                counted.lists += 1
            if self.command == "GET" and "list-type" not in self.path and answer.status in (200, 206):
                counted.add(self.path, len(body))
            self.send_response_only(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                    self.send_header(name, value)
            length = answer.headers["content-length"] if self.command == "HEAD" else len(body)
            self.send_header("content-length", str(length))
            self.end_headers()
            # A host that ends does not wait for it.
            with contextlib.suppress(ConnectionError):
                self.wfile.write(body)
            upstream.close()

        do_GET = do_HEAD = _pass_on

        def log_message(self, *_):
            pass

    return Handler


@pytest.fixture
def counted(bucket, monkeypatch):  # noqa: F811
    """The fixture `bucket`, behind a proxy."""
    server = os.environ["AWS_ENDPOINT_URL"].removeprefix("http://")
    it = Counted(bucket)
    proxy = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _handler(server, it))
    proxy.daemon_threads = True
    threading.Thread(target=proxy.serve_forever, daemon=True).start()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{proxy.server_port}")
    yield it
    proxy.shutdown()
    proxy.server_close()
