"""What runs in workers so that a task gives its slot back."""

import pickle
import threading
import time

import cloudpickle
import pytest

from sooner.executors._bounded import LetGoError, Shipped, let_go, run_packed, run_until_let_go
from sooner.executors._completions import TaskFuture
from sooner.executors._outcomes import complete
from sooner.executors._wire import unpack

LONG = 3600.0


def test_outcomes_pass_through():
    assert run_until_let_go("result", LONG, pow, (2, 3)) == 8
    with pytest.raises(ZeroDivisionError):
        run_until_let_go("error", LONG, divmod, (1, 0))


def test_an_engine_sees_no_exception():
    # It would take SystemExit for the end of its worker, and log or repeat the others.
    def leave(code):
        raise SystemExit(code)

    packed = run_packed("leave", LONG, cloudpickle.dumps(leave), pickle.dumps((3,)), {})
    future = TaskFuture()
    complete(future, packed)
    error = future.exception()
    assert isinstance(error, SystemExit)
    assert error.args == (3,)  # its `code` is lost where tblib, which Lithops brings, pickles it
    assert "in leave" in str(error.__cause__), "the traceback it had in the worker"


def test_at_its_deadline():
    with pytest.raises(TimeoutError, match=r"must end within 0\.05 s, and did not"):
        run_until_let_go("late", 0.05, time.sleep, (1.0,))


def test_when_it_is_let_go_of_its_thread_ends_at_its_next_line():
    began, ended = threading.Event(), threading.Event()

    def count():
        try:
            began.set()
            while True:
                time.sleep(0.001)
        finally:
            ended.set()

    def drop():
        began.wait(10)
        let_go(["count"])

    other = threading.Thread(target=drop)
    other.start()
    with pytest.raises(LetGoError, match="let go of by its driver"):
        run_until_let_go("count", LONG, count, ())
    other.join()
    assert ended.wait(10)


def test_when_it_was_let_go_of_before_it_began():
    let_go(["never"])
    with pytest.raises(LetGoError):
        run_until_let_go("never", LONG, pytest.fail, ("it ran",))


def test_when_somebody_says_that_it_is_unwanted():
    asked = []
    with pytest.raises(LetGoError):
        run_until_let_go(
            "asks", LONG, time.sleep, (1.0,), lambda: bool(asked.append(1)) or len(asked) > 2
        )
    assert len(asked) == 3


def test_shipped_values_take_the_place_of_their_names():
    packed = pickle.dumps((Shipped("x"), 2)), {"x": [1, 2, 3]}
    assert unpack(run_packed("packed", LONG, pickle.dumps(_item), *packed)) == (True, 3, "")
    with pytest.raises(LookupError, match="loaded in tasks, not in the driver"):
        Shipped("x").load()


def _item(reference, place):
    return reference.load()[place]
