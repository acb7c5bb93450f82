"""A web server and a registry of container images of the test's own, which remember what was asked of them."""

import contextlib
import hashlib
import http.server
import json
import threading
import urllib.parse

#: More than a plugin may have, with a length and without.
LARGE = (64 << 20) + 1


class Web(contextlib.AbstractContextManager):
    """The server. `files` and `redirects` say what it has, by path; with a `token`, it wants one for `/v2/`."""

    def __init__(self):
        self.files, self.redirects, self.asked, self.token = {}, {}, [], None
        #: The hosts that were shown the token.
        self.trusted = set()
        web = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                with contextlib.suppress(ConnectionError):
                    web.answer(self)

            def log_message(self, *_):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.host = f"127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()

    def url(self, path):
        return f"http://{self.host}{path}"

    def push(self, repository, tag, data, media_type="application/wasm"):
        """Puts an artifact into the registry."""
        digest = "sha256:" + hashlib.sha256(data).hexdigest()
        layer = {"mediaType": media_type, "digest": digest, "size": len(data)}
        manifest = {"schemaVersion": 2, "config": {}, "layers": [layer]}
        self.files[f"/v2/{repository}/manifests/{tag}"] = json.dumps(manifest).encode()
        self.files[f"/v2/{repository}/blobs/{digest}"] = data

    def answer(self, request):
        self.asked.append(request.path)
        if request.headers["Authorization"]:
            self.trusted.add(request.headers["Host"])
        path = urllib.parse.urlsplit(request.path).path
        if path == "/token":
            return self._send(request, json.dumps({"token": self.token}).encode())
        if path.startswith("/v2/") and self.token and request.headers["Authorization"] != f"Bearer {self.token}":
            wants = f'Bearer realm="{self.url("/token")}",service="tests"'
            return self._head(request, 401, {"WWW-Authenticate": wants, "Content-Length": "0"})
        if path in self.redirects:
            return self._head(request, 302, {"Location": self.redirects[path], "Content-Length": "0"})
        if path == "/large":
            return self._head(request, 200, {"Content-Length": str(LARGE)})
        if path == "/cut":
            self._head(request, 200, {"Content-Length": "100"})
            request.wfile.write(b"x")
            request.close_connection = True
            return None
        if path == "/endless":
            self._head(request, 200, {"Connection": "close"})
            while True:
                request.wfile.write(bytes(1 << 20))
        if path in self.files:
            return self._send(request, self.files[path])
        return self._head(request, 404, {"Content-Length": "0"})

    def _send(self, request, data):
        self._head(request, 200, {"Content-Length": str(len(data))})
        request.wfile.write(data)

    def _head(self, request, status, headers):
        request.send_response(status)
        for name, value in headers.items():
            request.send_header(name, value)
        request.end_headers()
