"""Set-ups that are broken: nothing in the environment, ports where nobody answers, servers."""

from __future__ import annotations

import contextlib
import email.utils
import logging
import os
import socket
import threading
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import pytest


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch, tmp_path):
    """No credentials, proxies or addresses of the machine that the tests run on."""
    for name in list(os.environ):
        if name.startswith(("AWS_", "RAY_ADDRESS", "LITHOPS_")) or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))


@pytest.fixture(params=["deaf", "closed"])
def unreachable(request):
    """Host and port where nobody answers; and what is said of it."""
    with socket.create_server(("127.0.0.1", 0)) as server:  # accepts, and never says a word
        host, port = server.getsockname()
        if request.param == "closed":
            server.close()
        said = {"deaf": "does not answer within", "closed": "nothing listens at"}
        yield SimpleNamespace(at=f"{host}:{port}", said=said[request.param])


@pytest.fixture(scope="session")
def s3_server():
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    url = f"http://{host}:{port}"
    urllib.request.urlopen(urllib.request.Request(f"{url}/bucket", method="PUT")).close()
    yield url
    server.stop()


@pytest.fixture
def use_s3(monkeypatch):
    """Set the environment for an S3 server."""

    def use(endpoint, **others):
        settings = {
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "tester",
            "AWS_SECRET_ACCESS_KEY": "secret",
        }
        for name, value in (settings | others).items():
            if value is None:
                monkeypatch.delenv(name, raising=False)
            else:
                monkeypatch.setenv(name, value)

    return use


@contextlib.contextmanager
def answering_server(answers, *, clock=time.time, deaf_to=None):
    """An HTTP server that answers with one code of S3, and the time by its clock.

    It does not answer requests of one method.
    """
    closing = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if self.command == deaf_to:
                closing.wait()
                return
            body = f"<Error><Code>{answers}</Code></Error>".encode()
            self.send_response_only(403)
            self.send_header("Date", email.utils.formatdate(clock(), usegmt=True))
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_HEAD = do_PUT = do_POST = do_DELETE = do_GET

        def log_message(self, *args):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            closing.set()
            server.shutdown()
            thread.join()


@pytest.fixture
def server_that():
    return answering_server


@contextlib.contextmanager
def scheduler_with(n_workers):
    """Address of a Dask scheduler."""
    import distributed

    with distributed.LocalCluster(
        n_workers=n_workers,
        threads_per_worker=2,
        host="127.0.0.1",
        dashboard_address="127.0.0.1:0",
        worker_dashboard_address="127.0.0.1:0",
        silence_logs=logging.CRITICAL,
    ) as cluster:
        yield cluster.scheduler_address


@pytest.fixture
def dask_scheduler():
    return scheduler_with
