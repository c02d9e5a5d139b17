"""A matrix in a folder and behind a URL, in several slabs, for all that can happen to it there."""

import contextlib
import itertools
import logging
import sys
import urllib.request
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import obstore
import pytest
from obstore.store import from_url

from sooner.codes import PolarCode
from sooner.jobs.encoding import encode
from sooner.store import remote_slabs, slabs

NUMBERS = itertools.count()


@pytest.fixture(scope="session")
def s3():
    """URL of an S3 server on loopback, whose address and credentials are in the environment."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    endpoint = f"http://{host}:{port}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", endpoint)
        patch.setenv("AWS_ALLOW_HTTP", "true")
        patch.setenv("AWS_ACCESS_KEY_ID", "tester")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        patch.setenv("AWS_REGION", "us-east-1")
        bucket = urllib.request.Request(f"{endpoint}/bucket", method="PUT")
        urllib.request.urlopen(bucket).close()
        yield endpoint
    server.stop()


class Folder:
    """Objects of a store, to be looked at and spoilt behind its back: here, files."""

    def __init__(self, path):
        self.store = Path(path)

    def read(self, name):
        return (self.store / name).read_bytes()

    def write(self, name, data):
        (self.store / name).write_bytes(data)

    def delete(self, name):
        (self.store / name).unlink()

    def names(self):
        with contextlib.suppress(FileNotFoundError):
            return sorted(path.name for path in self.store.iterdir())
        return []


class Prefix(Folder):
    """The same behind a URL."""

    def __init__(self, url):
        self.store = url
        self._client = from_url(url)

    def read(self, name):
        return bytes(obstore.get(self._client, name).bytes())

    def write(self, name, data):
        obstore.put(self._client, name, data)

    def delete(self, name):
        obstore.delete(self._client, name)

    def names(self):
        return sorted(item["path"] for page in obstore.list(self._client) for item in page)


@pytest.fixture(params=["local", "s3"])
def place(request, tmp_path):
    """Somewhere to encode to."""
    if request.param == "local":
        return Folder(tmp_path / "A.coded")
    request.getfixturevalue("s3")
    return Prefix(f"s3://bucket/{next(NUMBERS)}/A.coded")


def stored_in(place, monkeypatch):
    monkeypatch.setattr(sys.modules[encode.__module__], "_SLAB_BYTES", 48)
    monkeypatch.setattr(slabs, "_intact", {})
    monkeypatch.setattr(remote_slabs, "cache", remote_slabs._Cache())
    A = np.random.default_rng(0).standard_normal((20, 3))
    code = PolarCode(4, 3, rng=0)
    coded = encode(A, code, place.store)
    in_memory = encode(A, code)
    return SimpleNamespace(
        A=A,
        code=code,
        coded=coded,
        place=place,
        name=lambda i: coded.manifest.blocks[i].name,
        read=lambda i: place.read(coded.manifest.blocks[i].name),
        write=lambda i, data: place.write(coded.manifest.blocks[i].name, data),
        delete=lambda i: place.delete(coded.manifest.blocks[i].name),
        expected=[in_memory.block(i) for i in range(4)],
    )


@pytest.fixture
def anywhere(place, monkeypatch):
    """A coded matrix whose blocks have 7 rows in slabs of 2, and its blocks in memory."""
    return stored_in(place, monkeypatch)


@pytest.fixture
def stored(tmp_path, monkeypatch):
    """The same, always in a local folder."""
    stored = stored_in(Folder(tmp_path / "A.coded"), monkeypatch)
    stored.folder = stored.place.store
    stored.path = lambda i: stored.folder / stored.name(i)
    return stored
