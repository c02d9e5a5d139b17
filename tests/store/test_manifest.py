"""The manifest: what was written comes back, and nothing else is believed."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sooner._version import __version__
from sooner.codes import PolarCode, Uncoded
from sooner.errors import StoreError, StoreFormatError, StoreNotFoundError
from sooner.jobs.encoding import encode
from sooner.store import MemoryStore, manifest, open_coded
from sooner.store.manifest import Manifest

CODED = encode(np.arange(12).reshape(4, 3), PolarCode(4, 3, rng=0))
WRITTEN = CODED.manifest.to_json()


def rewritten(**changes):
    """The manifest with other fields, and a checksum that fits them."""
    fields = {**json.loads(WRITTEN), **changes}
    del fields["checksum"]
    fields["checksum"] = manifest._checksum(fields)
    return json.dumps(fields).encode()


def believed(contents):
    """The manifest, or None where it is refused by name."""
    try:
        return Manifest.from_json(contents, "A/manifest.json")
    except StoreFormatError as error:
        return None if str(error).startswith("A/manifest.json") else error


def test_what_was_written_comes_back():
    assert Manifest.from_json(WRITTEN, "m") == CODED.manifest
    assert Manifest.from_json(rewritten(), "m") == CODED.manifest


def test_it_says_what_there_is():
    fields = json.loads(WRITTEN)
    assert fields["format_version"] == 1
    assert fields["shape"] == [4, 3]
    assert (fields["dtype"], fields["source_dtype"]) == ("<f8", "<i8")
    assert fields["sooner_version"] == __version__
    assert len(fields["blocks"]) == 4
    assert fields["blocks"][2]["name"] == f"block-00002-{fields['generation']}.npy"
    assert WRITTEN.decode("ascii").count("\n") == 17 + 4 + 4  # fields, blocks, brackets


@given(st.integers(0, len(WRITTEN) - 1), st.integers(0, 7))
@settings(deadline=None, max_examples=200)
def test_no_flipped_bit_goes_unseen(position, bit):
    damaged = bytearray(WRITTEN)
    damaged[position] ^= 1 << bit
    # White space and the e of an exponent may change and mean the same.
    read = believed(bytes(damaged))
    assert read is None or read == CODED.manifest


@given(st.integers(0, len(WRITTEN) - 3))
@settings(deadline=None, max_examples=50)
def test_no_missing_end_goes_unseen(length):
    with pytest.raises(StoreFormatError, match=r"A/manifest.json is damaged: .*store format 1"):
        Manifest.from_json(WRITTEN[:length], "A/manifest.json")


def test_of_a_later_version():
    message = (
        rf"A/manifest.json has store format 2; this version of sooner \({__version__}\) reads up "
        r"to 1. Upgrade sooner"
    )
    with pytest.raises(StoreFormatError, match=message):
        Manifest.from_json(rewritten(format_version=2, whatever="new"), "A/manifest.json")


@pytest.mark.parametrize("contents", [b"{}", b"[]", b'{"format": "vite"}', b"null"])
def test_of_another_program(contents):
    with pytest.raises(StoreFormatError, match="was not written by sooner"):
        Manifest.from_json(contents, "m")


@pytest.mark.parametrize("version", [0, "1", None])
def test_of_no_version(version):
    with pytest.raises(StoreFormatError, match=f"its format_version is {version!r}"):
        Manifest.from_json(rewritten(format_version=version), "m")


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"shape": [4, 5]}, "block-00000-.* does not fit the shape"),
        ({"slab_rows": 1}, "block-00000-.* does not fit the shape"),
        ({"slab_rows": 0}, "ZeroDivisionError"),
        ({"dtype": "<q9"}, "TypeError"),
        ({"shape": None}, "TypeError"),
        ({"blocks": [{}]}, "KeyError: 'name'"),
        ({"more": 1}, "unexpected keyword argument 'more'"),
    ],
)
def test_fields_that_do_not_fit_each_other(changes, why):
    with pytest.raises(StoreFormatError, match=why):
        Manifest.from_json(rewritten(**changes), "m")


@pytest.mark.parametrize("name", ["", "../secret.npy", "..\\secret.npy"])
def test_blocks_lie_beside_it(name):
    blocks = [{**block, "name": name} for block in json.loads(WRITTEN)["blocks"]]
    with pytest.raises(StoreFormatError, match="which is not beside it"):
        Manifest.from_json(rewritten(blocks=blocks), "m")


def opened(contents):
    store = MemoryStore()
    store.commit(contents, overwrite=False)
    return open_coded(store)


def test_of_a_code_that_nobody_knows():
    message = r"manifest.json names a code that .* cannot rebuild.*sooner " + __version__
    with pytest.raises(StoreFormatError, match=message):
        opened(rewritten(code={"kind": "turbo"}))
    with pytest.raises(StoreFormatError, match=message):
        opened(rewritten(code={}))


def test_of_fewer_blocks_than_the_code_has():
    with pytest.raises(StoreFormatError, match="is damaged: it has 4 blocks for a code of n=9"):
        opened(rewritten(code=Uncoded(9).spec()))


def test_there_is_none(tmp_path):
    message = r"holds no coded matrix: it has no manifest.json.*interrupted; encode"
    for place in (tmp_path, tmp_path / "nowhere", MemoryStore(), None):
        with pytest.raises(StoreNotFoundError, match=message):
            open_coded(place)
    (tmp_path / "file").touch()
    with pytest.raises(StoreNotFoundError, match=message):
        open_coded(tmp_path / "file")


def test_it_cannot_be_read(tmp_path):
    (tmp_path / "manifest.json").mkdir()
    with pytest.raises(StoreError, match=r"manifest\.json cannot be read: Is a directory"):
        open_coded(tmp_path)
