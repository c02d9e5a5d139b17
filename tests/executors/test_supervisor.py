"""Parts of the driver's side that real processes meet only at unlucky moments."""

import itertools
import selectors
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sooner.errors import WorkerLostError
from sooner.executors._calls import Call, Task
from sooner.executors._channel import Channel, FrameReader
from sooner.executors._completions import TaskFuture
from sooner.executors._supervisor import Supervisor, _claim, _Worker
from sooner.executors._wire import FRAME_HEAD, pack


@given(body=st.binary(max_size=200), cuts=st.sets(st.integers(1, 207)))
def test_a_frame_is_read_however_it_is_cut(body, cuts):
    data = FRAME_HEAD.pack(len(body)) + body
    edges = [0, *sorted(cut for cut in cuts if cut < len(data)), len(data)]
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        reader = FrameReader()
        with pytest.raises(BlockingIOError):
            reader.read(ours)
        for start, end in itertools.pairwise(edges):
            theirs.sendall(data[start:end])
            found = reader.read(ours)
            assert found == (body if end == len(data) else None)


@pytest.mark.parametrize("sent", [b"", b"123", FRAME_HEAD.pack(5), FRAME_HEAD.pack(5) + b"1234"])
def test_a_frame_that_ends_early_is_an_end(sent):
    ours, theirs = socket.socketpair()
    with ours:
        reader = FrameReader()
        with theirs:
            theirs.sendall(sent)
        found = list(iter(lambda: _read_or_end(reader, ours), "end"))
        assert found in ([], [None])


def _read_or_end(reader, connection):
    try:
        return reader.read(connection)
    except EOFError:
        return "end"


def test_a_channel_never_blocks_and_keeps_what_is_not_sent_yet():
    ours, theirs = socket.socketpair()
    with selectors.DefaultSelector() as selector, theirs:
        channel = Channel(ours, selector, lambda: None)
        first, second = bytes(range(256)) * 20_000, b"second"
        channel.send(first)
        channel.send(second)
        received = bytearray()
        while len(received) < len(first) + len(second):
            received += theirs.recv(1 << 20)
            for key, events in selector.select(timeout=0):
                key.data(events)
        assert received == first + second
        assert selector.get_key(ours).events == selectors.EVENT_READ
        channel.close()
        channel.close()
        channel.send(b"nothing happens")
        assert not selector.get_map()


def test_a_channel_whose_other_end_is_gone_does_not_raise():
    ours, theirs = socket.socketpair()
    with selectors.DefaultSelector() as selector:
        channel = Channel(ours, selector, lambda: None)
        theirs.close()
        channel.send(b"into the void")
        channel.send(b"and again")
        channel.close()


@pytest.mark.parametrize("whole", [True, False])
def test_a_result_that_came_before_the_report_of_the_end_counts(whole):
    supervisor = Supervisor(1)
    ours, theirs = socket.socketpair()
    with selectors.DefaultSelector() as selector:
        worker = _Worker(0, pid=1)
        worker.channel = Channel(ours, selector, lambda: None)
        future = TaskFuture("block 3")
        worker.task = Task(Call(0, b"", None), b"", future)
        supervisor._workers[0] = worker
        frame = b"".join(pack((True, "answer", "")))
        sent = FRAME_HEAD.pack(len(frame)) + frame
        theirs.sendall(sent if whole else sent[:-1])
        theirs.close()
        supervisor._on_ended(0, -9)
        if whole:
            assert future.result(0) == "answer"
        else:
            with pytest.raises(WorkerLostError, match=r"block 3 is lost: .* killed by SIGKILL"):
                future.result(0)
        assert not supervisor._workers
        supervisor.stop()


def test_a_task_submitted_while_the_executor_closes_is_cancelled():
    supervisor = Supervisor(1)
    supervisor.stop()
    future = TaskFuture()
    supervisor.submit([Task(Call(0, b"", None), b"", future)])
    assert future.cancelled()


def test_a_future_that_somebody_else_has_ended_is_not_run():
    ended, cancelled, pending = TaskFuture(), TaskFuture(), TaskFuture()
    ended.set_result(1)
    cancelled.cancel()
    assert [_claim(future) for future in (ended, cancelled, pending)] == [False, False, True]
