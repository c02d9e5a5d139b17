"""AWS on loopback: moto keeps what is created and stored, real processes run what is invoked.

An execution environment is a process of `awslambdaric`, AWS's own runtime client, with an HTTP
server that it asks for its next invocation and tells the outcome: the Lambda runtime API of
2018-06-01.  As on Lambda, it is kept for later invocations, and killed with all its processes when
a function exceeds its time-out; asynchronous invocations that fail are repeated.  What is not here:
limits of memory, a read-only disk, the freeze between invocations, the pauses between repeats.
"""

import contextlib
import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

from moto.awslambda.utils import get_backend
from moto.core import DEFAULT_ACCOUNT_ID
from moto.moto_server.werkzeug_app import (
    DomainDispatcherApplication,
    MotoRequestHandler,
    create_backend_app,
)
from werkzeug.serving import make_server
from werkzeug.wrappers import Request, Response

REGION = "us-east-1"
START_TIMEOUT = 60.0  # seconds for a process to ask for its first invocation
ANSWERS = frozenset({"response", "error"})  # after which an environment serves on
REPEATS = 2  # of an asynchronous invocation that fails, unless its function says otherwise
_INVOKE = re.compile(r"/2015-03-31/functions/([^/]+)/invocations")


class LoopbackAWS:
    """One endpoint for all services; functions are images, and all images run one command.

    Parameters
    ----------
    command
        ENTRYPOINT and CMD of the image; its ``python`` is the one that runs this.
    folder
        Where execution environments get a folder each.
    concurrency
        Invocations that run at the same time; others wait.
    """

    def __init__(self, command, folder, *, concurrency=4):
        self._command, self._folder = command, Path(folder)
        self._moto = DomainDispatcherApplication(create_backend_app)
        self._server = make_server(
            "127.0.0.1", 0, self._answer, threaded=True, request_handler=MotoRequestHandler
        )
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._pool = ThreadPoolExecutor(concurrency)
        self._changed = threading.Condition()  # holds the rest together
        self._environments, self._idle, self._closed = [], [], False
        self.variables = {}  # of all environments, such as the keys of the functions' role
        self.invocations = []  # that ended: environment (its process's number), cold, outcome

    @property
    def endpoint(self):
        return f"http://127.0.0.1:{self._server.port}"

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *exc_info):
        with self._changed:
            self._closed = True
            environments = list(self._environments)
        for environment in environments:
            environment.kill()
        self._pool.shutdown(cancel_futures=True)
        for environment in environments:
            environment.close()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def wait_for(self, enough, timeout=60.0):
        """Wait until ``enough(invocations)``, and give what it gives."""
        with self._changed:
            self._changed.wait_for(lambda: enough(self.invocations), timeout)
            return enough(self.invocations)

    def _answer(self, environ, start_response):
        request = Request(environ)
        invoked = _INVOKE.fullmatch(request.path)
        if invoked is None or request.method != "POST":
            return self._moto(environ, start_response)
        functions = get_backend(DEFAULT_ACCOUNT_ID, REGION).list_functions()
        by_name = {function.function_name: function for function in functions}
        function = by_name.get(invoked[1])
        if function is None:
            return Response("no such function", status=404)(environ, start_response)
        ticket = str(uuid.uuid4())
        headers = {"x-amzn-RequestId": ticket}
        is_event = request.headers.get("X-Amz-Invocation-Type") == "Event"
        future = self._pool.submit(
            self._run, function, ticket, request.get_data(), _repeats(function) if is_event else 0
        )
        if is_event:
            return Response(status=202, headers=headers)(environ, start_response)
        outcome, body = future.result()
        if outcome != "response":
            headers["X-Amz-Function-Error"] = "Unhandled"
        return Response(body, headers=headers)(environ, start_response)

    def _run(self, function, ticket, payload, repeats):
        for _ in range(1 + repeats):
            environment, cold = self._take_environment(function)
            if environment is None:  # closed
                break
            outcome, body = environment.run(ticket, payload, function.timeout)
            with self._changed:
                record = SimpleNamespace(environment=environment.pid, cold=cold, outcome=outcome)
                self.invocations.append(record)
                if outcome in ANSWERS:
                    self._idle.append(environment)
                self._changed.notify_all()
            if outcome == "response":
                return outcome, body
        return "error", b'{"errorMessage": "the function failed"}'

    def _take_environment(self, function):
        with self._changed:
            if self._closed:
                return None, False
            for environment in reversed(self._idle):
                if environment.function is function:
                    self._idle.remove(environment)
                    return environment, False
            folder = self._folder / f"environment-{len(self._environments)}"
            environment = Environment(function, self._command, folder, self.variables)
            self._environments.append(environment)
        return environment, True


def _repeats(function):
    configs = function.event_invoke_config
    return configs[-1].config.get("MaximumRetryAttempts", REPEATS) if configs else REPEATS


class Environment:
    """A process, what it started, and the runtime API that it asks for invocations."""

    def __init__(self, function, command, folder, variables):
        self.function = function
        self._next, self._told = queue.SimpleQueue(), queue.SimpleQueue()
        self._server = make_server("127.0.0.1", 0, self._runtime_api, threaded=True)
        self._server.daemon_threads = True
        folder.mkdir(parents=True)
        self._log = (folder / "log").open("wb")
        self._process = subprocess.Popen(
            command,
            cwd=folder,
            env=self._standard_variables(folder) | variables | function.environment_vars,
            stdout=self._log,
            stderr=self._log,
            stdin=subprocess.DEVNULL,
            start_new_session=True,  # so that its group is all that it started
        )
        self.pid = self._process.pid
        self._threads = (
            threading.Thread(target=self._server.serve_forever, args=(0.02,)),
            threading.Thread(target=self._tell_of_exit),
        )
        for thread in self._threads:
            thread.start()

    def _standard_variables(self, folder):
        return {
            "PATH": os.pathsep.join((str(Path(sys.executable).parent), os.defpath)),
            "HOME": str(folder),
            "TMPDIR": str(folder),
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_LAMBDA_FUNCTION_NAME": self.function.function_name,
            "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(self.function.memory_size),
            "AWS_LAMBDA_RUNTIME_API": f"127.0.0.1:{self._server.port}",
        }

    def run(self, ticket, payload, timeout):
        """Give one invocation to the process, and tell how it ended: outcome and body."""
        self._next.put((ticket, payload, timeout))
        for limit in (START_TIMEOUT, timeout):
            try:
                outcome, body = self._told.get(timeout=limit)
            except queue.Empty:
                outcome, body = "time-out", b""
            if outcome != "begins":
                break
        if outcome not in ANSWERS:
            self.kill()
        return outcome, body

    def _runtime_api(self, environ, start_response):
        request = Request(environ)
        if request.method == "GET":
            response = self._next_invocation()
        else:  # .../response or .../error
            self._told.put((request.path.rsplit("/", 1)[1], request.get_data()))
            response = Response(status=202)
        return response(environ, start_response)

    def _next_invocation(self):
        invocation = self._next.get()
        if invocation is None:  # closed
            return Response(status=500)
        ticket, payload, timeout = invocation
        self._told.put(("begins", b""))
        headers = {
            "Lambda-Runtime-Aws-Request-Id": ticket,
            "Lambda-Runtime-Deadline-Ms": str(round(1000 * (time.time() + timeout))),
            "Lambda-Runtime-Invoked-Function-Arn": self.function.function_arn,
        }
        return Response(payload, headers=headers, content_type="application/json")

    def _tell_of_exit(self):
        self._process.wait()
        self._told.put(("exit", b""))

    def kill(self):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)

    def close(self):
        self._next.put(None)  # for the request of a process that is gone
        self._server.shutdown()
        for thread in self._threads:
            thread.join()
        self._server.server_close()
        self._log.close()
