"""Whom S3 over TLS trusts: what an image has, or AWS_CA_BUNDLE; and what is said where that is not enough."""

import http.server
import os
import shutil
import ssl
import subprocess

import pytest
from e2e import in_background, run


class NothingThere(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_HEAD(self):
        self.send_response(404)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_HEAD

    def log_message(self, *_):
        pass


@pytest.fixture
def certificate(tmp_path):
    if not shutil.which("openssl"):
        pytest.skip("there is no openssl to make certificates with")

    def make(name):
        made, key = tmp_path / f"{name}.pem", tmp_path / f"{name}.key"
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
            + ["-nodes", "-days", "2", "-subj", "/CN=localhost"]
            + ["-addext", "subjectAltName=DNS:localhost", "-addext", "basicConstraints=CA:FALSE"]
            + ["-keyout", key, "-out", made],
            check=True, capture_output=True,
        )  # fmt: skip
        return made, key

    return make


@pytest.fixture
def server(certificate):
    """A server with a certificate of its own; the address, and the certificate's file."""
    made, key = certificate("server")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made, key)
    server = http.server.ThreadingHTTPServer(("localhost", 0), NothingThere)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.handle_error = lambda *_: None
    in_background(server.serve_forever)
    yield f"https://localhost:{server.server_address[1]}", made
    server.shutdown()
    server.server_close()


@pytest.fixture
def ls(tmp_path):
    """Asks for an object, once."""

    def ls(endpoint, **variables):
        env = {name: text for name, text in os.environ.items() if not name.startswith("AWS_")}
        env.update({name: str(path) for name, path in variables.items()})
        access = f'endpoint = "{endpoint}", region = "us-east-1", anonymous = true, retry_timeout = "0ms"'
        source = f'{{ s3_object = "s3://bucket/key", {access} }}'
        config = tmp_path / "pipemill.toml"
        config.write_text(f'[[channel]]\nname = "train"\ndecoder = "lines"\nsource = {source}\n')
        return run("ls", "--config", config, "--channel", "train", env=env)

    return ls


def test_a_bundle_is_trusted(server, ls):
    endpoint, made = server
    done = ls(endpoint, AWS_CA_BUNDLE=made)
    assert done.returncode == 66, done.stderr


@pytest.mark.parametrize("variable", ["AWS_CA_BUNDLE", "SSL_CERT_FILE"])
def test_who_is_not_trusted_is_told(server, ls, certificate, variable):
    endpoint, _ = server
    other, _ = certificate("other")
    done = ls(endpoint, **{variable: other})
    assert done.returncode == 65, done.stderr
    stderr = done.stderr.decode()
    assert "invalid peer certificate" in stderr and "or name a file with them in AWS_CA_BUNDLE" in stderr
