"""A store behind a URL: where it is, with which credentials, and whether the bucket is there."""

from __future__ import annotations

import datetime as dt
import os
import re
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from sooner.doctor.finding import CheckFailedError
from sooner.doctor.network import ask_clock
from sooner.store.location import as_location

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["ask_bucket", "endpoint_of", "find_credentials", "in_haste"]

_S3 = ("s3", "s3a")

_ADVICE = {
    "NoSuchBucket": "There is no such bucket there: correct the URL, or create the bucket.",
    "InvalidBucketName": "Correct the URL.",
    "InvalidAccessKeyId": "These credentials are not known there: give those of this store.",
    "SignatureDoesNotMatch": "The secret does not belong to this key: give both again.",
    "ExpiredToken": "Get new credentials.",
    "InvalidToken": "Get new credentials.",
    "RequestTimeTooSkewed": "Set this clock by NTP, as in: timedatectl set-ntp true",
    "PermanentRedirect": "The bucket is in another region: set AWS_REGION to it.",
    "AuthorizationHeaderMalformed": "The bucket is in another region: set AWS_REGION to it.",
    "IllegalLocationConstraintException": "Set AWS_REGION to the region of the bucket.",
}
"""What to do about the codes by which S3 refuses a request."""


def endpoint_of(url: str, options: Mapping[str, Any]) -> str | None:
    """Where requests to a store go; None if that is not known here.

    Parameters
    ----------
    url
        Of the store.
    options
        For obstore.

    Returns
    -------
    str or None
        A URL.

    Examples
    --------
    >>> endpoint_of("gs://bucket/A", {})
    'https://storage.googleapis.com'
    """
    parts = urlsplit(url)
    if parts.scheme in {"http", "https"}:
        return f"{parts.scheme}://{parts.netloc}"
    if parts.scheme in _S3:
        given = _setting(options, "endpoint_url") or _setting(options, "endpoint")
        region = _setting(options, "region") or "us-east-1"
        return given or f"https://s3.{region}.amazonaws.com"
    return "https://storage.googleapis.com" if parts.scheme == "gs" else None


def _setting(options: Mapping[str, Any], name: str) -> str | None:
    """What obstore takes for a setting of S3: an option, or a variable of the environment."""
    found = (options.get(name), options.get(f"aws_{name}"), os.environ.get(f"AWS_{name.upper()}"))
    return next((str(value) for value in found if value), None)


def find_credentials(options: Mapping[str, Any], timeout: float) -> str:
    """Say which credentials obstore finds for S3.

    Parameters
    ----------
    options
        For obstore.
    timeout
        Seconds to wait for those of the machine.

    Returns
    -------
    str
        Where they are from; no secret.

    Raises
    ------
    CheckFailedError
        If there are none, or half of them.
    """
    if options.get("credential_provider") is not None:
        return "from the credential_provider"
    if (_setting(options, "skip_signature") or "").lower() in {"true", "1"}:
        return "none, and requests are not signed (skip_signature)"
    key, secret = (_setting(options, name) for name in ("access_key_id", "secret_access_key"))
    if key and secret:
        return f"access key {key[:4]}…"
    if key or secret:
        missing = "AWS_SECRET_ACCESS_KEY" if key else "AWS_ACCESS_KEY_ID"
        raise CheckFailedError(f"half of them are there: set {missing}, too.")
    if token := os.environ.get("AWS_WEB_IDENTITY_TOKEN_FILE"):
        if not Path(token).is_file():
            raise CheckFailedError(f"AWS_WEB_IDENTITY_TOKEN_FILE must be a file, got {token}.")
        return f"a web identity from {token}"
    for place in ("CONTAINER_CREDENTIALS_RELATIVE_URI", "CONTAINER_CREDENTIALS_FULL_URI"):
        if _setting(options, place.lower()):
            return f"those of this container (AWS_{place})"
    return _those_of_machine(options, timeout)


def _those_of_machine(options: Mapping[str, Any], timeout: float) -> str:
    service = _setting(options, "metadata_endpoint") or "http://169.254.169.254"
    profile = Path(os.environ.get("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials"))
    try:
        ask_clock(service, timeout)
    except CheckFailedError as error:
        unread = ""
        if "AWS_PROFILE" in os.environ or profile.expanduser().exists():
            unread = (
                f" Profiles, as in {profile}, are not read: export them with 'aws configure "
                "export-credentials --format env'."
            )
        raise CheckFailedError(
            "none found. Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give them as "
            f"storage_options.{unread}"
        ) from error
    return f"those of this machine, if its role has any, from {service}"


def in_haste(options: Mapping[str, Any], timeout: float) -> dict[str, Any]:
    """Options by which obstore gives up early.

    Parameters
    ----------
    options
        Those of the user.
    timeout
        Seconds for all attempts at one request.

    Returns
    -------
    dict
        For obstore.
    """
    each = dt.timedelta(seconds=timeout / 5)
    # obstore does not look for this in the environment when it is given client_options.
    allowed = {"allow_http": _setting(options, "allow_http") or "false"}
    client = {**options.get("client_options", allowed), "timeout": each, "connect_timeout": each}
    return {**options, "client_options": client, "retry_config": {"max_retries": 0}}


def ask_bucket(url: str, options: Mapping[str, Any]) -> str:
    """Ask for an object that is not there, and hear what is wrong beside that.

    Parameters
    ----------
    url
        Of the store.
    options
        For obstore.

    Returns
    -------
    str
        What was found.

    Raises
    ------
    CheckFailedError
        If the store cannot be used like this.
    """
    as_location(url, options)  # says it if the URL is none, or obstore is not installed
    import obstore
    from obstore.store import from_url

    parts = urlsplit(url)
    bucket = f"{parts.scheme}://{parts.netloc}"
    try:
        # Not head, whose answer has no body to say which of the two is missing.
        obstore.get(from_url(url, **options), f"sooner-doctor-{secrets.token_hex(6)}")
    except (obstore.exceptions.BaseError, OSError) as error:
        return _heard(bucket, error)
    return f"{bucket} answers"


def _heard(bucket: str, error: Exception) -> str:
    """Tell by what a store answers whether it can be used."""
    found = re.search(r"<Code>(\w+)</Code>", str(error))
    code = found[1] if found else None
    if code in _ADVICE:
        raise CheckFailedError(f"{bucket}: {code}. {_ADVICE[code]}") from error
    if isinstance(error, FileNotFoundError):
        return f"{bucket} answers"
    if code == "AccessDenied":  # what may not be listed is denied when it is not there
        return f"{bucket} answers, and does not tell what is in it"
    if "BadScheme" in str(error):
        raise CheckFailedError(
            f"{bucket}: an endpoint with http:// is refused unless AWS_ALLOW_HTTP=true is set."
        ) from error
    if "/latest/" in str(error):  # where machines have their credentials
        raise CheckFailedError(f"{bucket}: there are no credentials to ask with.") from error
    if "HTTP error" in str(error):
        raise CheckFailedError(
            f"{bucket}: no answer to a request. Is the endpoint right, and does a proxy stand in "
            "between? See above."
        ) from error
    raise CheckFailedError(f"{bucket}: {str(error).partition(chr(10))[0]}") from error
