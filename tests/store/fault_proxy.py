"""A reverse proxy on loopback that does to an object store what networks do."""

import contextlib
import http.client
import random
import socket
import struct
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class FaultProxy:
    """Forwards to a server, and cuts bodies, resets connections, refuses or loses objects.

    Parameters
    ----------
    endpoint
        URL of the server.
    cut, reset
        Share of the answers to GET that break off half way, and of requests that are reset.
    busy, n_busy
        Share of the requests that are answered 503, and how many at the most.
    statuses
        Answers by the end of the object's name: ``{"block-00001-….npy": 403}``.
    """

    def __init__(self, endpoint, *, cut=0.0, reset=0.0, busy=0.0, n_busy=0, statuses=()):
        self.target = endpoint.removeprefix("http://")
        self.cut, self.reset, self.busy, self.n_busy = cut, reset, busy, n_busy
        self.statuses = dict(statuses)
        self.requests, self.faults = Counter(), Counter()
        self.lose_answer_to = None
        self._rng = random.Random(0)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    def __enter__(self):
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        return self

    def __exit__(self, *exc_info):
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def fault(self, method, path):
        self.requests[method] += 1
        name = path.partition("?")[0].rpartition("/")[2]
        if name in self.statuses:
            return self.statuses[name]
        if self.lose_answer_to == (method, name):
            self.lose_answer_to = None
            return "lose answer"
        draw = self._rng.random()
        if self.faults[503] < self.n_busy and draw < self.busy:
            return 503
        draw = self._rng.random()
        if draw < self.reset:
            return "reset"
        return "cut" if method == "GET" and draw < self.reset + self.cut else None

    def _handler(proxy):
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args):
                pass

            def handle(self):
                with contextlib.suppress(ConnectionError):
                    super().handle()

            def forward(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                fault = proxy.fault(self.command, self.path)
                if fault is not None:
                    proxy.faults[fault] += 1
                if isinstance(fault, int):
                    self.answer(fault, [], b"<Error><Code>Injected</Code></Error>", None)
                elif fault == "reset":
                    self.break_off()
                else:
                    self.answer(*self.ask(body), fault)

            def ask(self, body):
                connection = http.client.HTTPConnection(proxy.target, timeout=20)
                try:
                    connection.request(self.command, self.path, body, dict(self.headers))
                    answer = connection.getresponse()
                    return answer.status, answer.getheaders(), answer.read()
                finally:
                    connection.close()

            def answer(self, status, headers, body, fault):
                if fault == "lose answer":
                    self.break_off()
                    return
                length = dict(headers).get("Content-Length", len(body))
                self.send_response_only(status)
                for key, value in headers:
                    if key.lower() not in {"content-length", "connection", "transfer-encoding"}:
                        self.send_header(key, value)
                self.send_header("Content-Length", str(length))
                self.end_headers()
                if self.command == "HEAD":
                    return
                self.wfile.write(body[: len(body) // 2] if fault == "cut" else body)
                if fault == "cut":
                    self.wfile.flush()
                    self.break_off()

            def break_off(self):
                # closing without lingering sends a reset
                linger = struct.pack("ii", 1, 0)
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                self.connection.close()
                self.close_connection = True
                raise ConnectionResetError

            do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = forward

        return Handler
