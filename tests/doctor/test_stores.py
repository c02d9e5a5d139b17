"""What is wrong with a store: credentials, bucket, clock, proxy, and whether anybody answers."""

from __future__ import annotations

import time

import pytest

from sooner import doctor
from sooner.doctor import buckets, examination, network
from sooner.doctor.finding import CheckFailedError, check

STORE = "s3://bucket/A"
HASTE = 1.5  # seconds for a check that cannot succeed
END = 60.0  # seconds in which anything here ends


def examine_store(store=STORE, *, timeout=10.0):
    found = examination.examine_store(store, {}, timeout)
    return {finding.name: finding for finding in found}


def test_no_credentials(s3_server, use_s3, unreachable, tmp_path):
    use_s3(
        s3_server,
        AWS_ACCESS_KEY_ID=None,
        AWS_SECRET_ACCESS_KEY=None,
        AWS_METADATA_ENDPOINT=f"http://{unreachable.at}",  # by which machines have them
    )
    found = examine_store(timeout=HASTE)
    message = "none found. Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give them as storage"
    assert found["credentials"].message.startswith(message)
    assert not found["credentials"].ok
    assert found["bucket"].message == "s3://bucket: there are no credentials to ask with."
    assert not found["bucket"].ok
    (tmp_path / "credentials").write_text("[default]\n")
    found = examine_store(timeout=HASTE)
    assert "are not read: export them with" in found["credentials"].message


@pytest.mark.parametrize(
    ("settings", "ok", "message"),
    [
        ({"AWS_SECRET_ACCESS_KEY": None}, False, "half of them are there: set AWS_SECRET_ACCESS"),
        ({"AWS_ACCESS_KEY_ID": None}, False, "half of them are there: set AWS_ACCESS_KEY_ID"),
        ({"AWS_SKIP_SIGNATURE": "true"}, True, "requests are not signed"),
    ],
)
def test_other_credentials(s3_server, use_s3, settings, ok, message):
    use_s3(s3_server, **settings)
    found = examine_store()
    assert found["credentials"].ok == ok
    assert message in found["credentials"].message


@pytest.mark.parametrize(
    ("variable", "exists", "message"),
    [
        ("AWS_WEB_IDENTITY_TOKEN_FILE", True, "a web identity from"),
        ("AWS_WEB_IDENTITY_TOKEN_FILE", False, "must be a file, got"),
        ("AWS_CONTAINER_CREDENTIALS_FULL_URI", False, "those of this container"),
    ],
)
def test_credentials_of_roles(monkeypatch, tmp_path, variable, exists, message):
    token = tmp_path / "token"
    if exists:
        token.write_text("")
    monkeypatch.setenv(variable, str(token))
    found = check("credentials", END, lambda: buckets.find_credentials({}, HASTE))
    assert message in found.message
    assert found.ok == ("must be" not in message)


def test_a_wrong_bucket(s3_server, use_s3):
    use_s3(s3_server)
    found = examine_store("s3://buckett/A")
    assert not found["bucket"].ok
    assert found["bucket"].message.startswith("s3://buckett: NoSuchBucket. There is no such bucket")
    assert "store" not in found


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        ("InvalidAccessKeyId", "are not known there"),
        ("SignatureDoesNotMatch", "does not belong to this key"),
        ("ExpiredToken", "new credentials"),
        ("RequestTimeTooSkewed", "Set this clock by NTP"),
        ("PermanentRedirect", "set AWS_REGION"),
        ("Unheard", "Unheard"),
    ],
)
def test_what_a_bucket_refuses(server_that, use_s3, code, advice):
    with server_that(code) as endpoint:
        use_s3(endpoint)
        found = examine_store()
    assert not found["bucket"].ok
    assert code in found["bucket"].message
    assert advice in found["bucket"].message


def test_no_rights(server_that, use_s3):
    with server_that("AccessDenied") as endpoint:
        use_s3(endpoint)
        found = examine_store()
    assert found["bucket"].ok, "a missing object is denied to those who may not list"
    assert not found["store"].ok
    assert "permission denied. Give credentials that may" in found["store"].message


def test_http_must_be_allowed(s3_server, use_s3):
    use_s3(s3_server, AWS_ALLOW_HTTP=None)
    assert "AWS_ALLOW_HTTP=true" in examine_store()["bucket"].message


@pytest.mark.parametrize(
    ("store", "message"),
    [("nowhere://bucket/A", "store must be a path to a local folder"), ("", "store must be")],
)
def test_a_store_that_is_none(store, message):
    assert any(
        not finding.ok and message in finding.message for finding in examine_store(store).values()
    )


@pytest.mark.parametrize(
    ("skew", "message"),
    [
        (3600.0, "this clock is 3[56]\\d\\d s behind that of http"),
        (-3600.0, "this clock is 3[56]\\d\\d s ahead of that of http"),
    ],
)
def test_a_clock_that_is_wrong(server_that, use_s3, skew, message):
    with server_that("RequestTimeTooSkewed", clock=lambda: time.time() + skew) as endpoint:
        use_s3(endpoint)
        found = examine_store()
        with pytest.raises(CheckFailedError, match=message):
            network.ask_clock(endpoint, END)
    assert not found["endpoint"].ok
    assert "Set it by NTP" in found["endpoint"].message
    assert "RequestTimeTooSkewed" in found["bucket"].message


def test_a_clock_that_is_right(server_that):
    with server_that("", clock=lambda: time.time() + 30) as endpoint:
        assert "its clock agrees within" in network.ask_clock(endpoint, END)


def test_a_proxy_that_is_not_there(s3_server, use_s3, monkeypatch, unreachable):
    use_s3(s3_server)
    monkeypatch.setenv("HTTP_PROXY", f"http://user:password@{unreachable.at}")
    found = examine_store(timeout=HASTE)
    assert unreachable.at in found["proxy"].message
    assert not (found["proxy"].ok and found["endpoint"].ok)
    if not found["proxy"].ok:
        assert "unset HTTP_PROXY, or add 127.0.0.1 to NO_PROXY" in found["proxy"].message
    assert not found["bucket"].ok
    assert "password" not in str(list(found.values()))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    found = examine_store()
    assert all(finding.ok for finding in found.values()), found
    assert found["proxy"].message.startswith("none for")


def test_a_store_that_does_not_answer(use_s3, unreachable):
    use_s3(f"http://{unreachable.at}")
    found = {each.name: each for each in doctor.examine(store=STORE, timeout=HASTE)}
    assert unreachable.said in found["endpoint"].message
    assert "no answer to a request" in found["bucket"].message
    assert not found["endpoint"].ok
    assert not found["bucket"].ok
    assert "store" not in found
    assert found["product"].ok
