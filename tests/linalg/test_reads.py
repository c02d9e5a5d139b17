"""A solver reads each block once: workers keep blocks, and tasks go back to the worker they had."""

import collections
import contextlib
import http.server
import threading

import numpy as np
import pytest

import sooner
from sooner.linalg import gradient_descent
from sooner.store import remote_slabs

N, K = 8, 6


@pytest.fixture
def served(tmp_path):
    """A coded matrix with its transpose behind a URL, and how often each range was asked for."""
    counts = collections.Counter()

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *args):
            pass

        def do_GET(self):
            path = self.path.partition("?")[0]
            data = (tmp_path / path.lstrip("/")).read_bytes()
            first, last = 0, len(data) - 1
            wanted = self.headers.get("Range")
            if wanted:
                first, last = map(int, wanted.removeprefix("bytes=").split("-"))
            if "block" in path:
                counts[path, first] += 1
            self.send_response(206 if wanted else 200)
            self.send_header("Content-Length", str(last - first + 1))
            if wanted:
                self.send_header("Content-Range", f"bytes {first}-{last}/{len(data)}")
            self.send_header("Last-Modified", "Mon, 30 Nov 2026 12:00:00 GMT")
            self.send_header("ETag", '"x"')
            self.end_headers()
            with contextlib.suppress(ConnectionError):  # a worker that was killed
                self.wfile.write(data[first : last + 1])

    class Server(http.server.ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request, client_address):
            """A worker that was killed breaks its connection off."""

    A = np.random.default_rng(0).standard_normal((240, 60))
    sooner.encode(A, sooner.PolarCode(N, K, rng=0), tmp_path / "A", adjoint=True)
    with Server(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        coded = sooner.open_coded(
            f"http://127.0.0.1:{server.server_port}/A",
            storage_options={"client_options": {"allow_http": True}},
        )
        yield coded, A, counts
        server.shutdown()


def solve(operator, A):
    """A hundred steps, and two hundred products."""
    b = np.arange(len(A))
    step = 0.2 / np.linalg.norm(A, 2) ** 2
    result = gradient_descent(operator, b, step=step, rtol=0, maxiter=100)
    assert result.nit == 100
    expected = gradient_descent(A, b, step=step, rtol=0, maxiter=100)
    np.testing.assert_allclose(result.x, expected.x, atol=1e-8)


def test_in_one_process_each_block_is_read_once(served, monkeypatch):
    monkeypatch.setattr(remote_slabs, "cache", remote_slabs._Cache())
    coded, A, counts = served
    executor = sooner.VirtualExecutor([1.0, 2.0, 1.5])
    solve(sooner.CodedLinearOperator(coded, executor), A)
    assert len(counts) == 2 * N
    assert set(counts.values()) == {1}


def test_worker_processes_keep_their_blocks(served):
    """Where nothing is killed: a new worker has to read its block again."""
    coded, A, counts = served
    with sooner.LocalExecutor(N) as executor:
        solve(sooner.CodedLinearOperator(coded, executor, verify_extra=N - K), A)
    assert len(counts) == 2 * N
    assert sum(counts.values()) <= 2 * len(counts)  # not 2 * N * 100: some tasks find theirs busy
