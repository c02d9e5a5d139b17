"""Whether something answers at an address, whether a proxy is in between, and what its clock says.

Short questions with a time-out of their own, asked before a library that would go on trying.
"""

from __future__ import annotations

import email.utils
import http.client
import socket
import ssl
import time
import urllib.error
import urllib.request
from urllib.parse import urlsplit

from sooner.doctor.finding import CheckFailedError

__all__ = ["CLOCK_TOLERANCE", "ask_clock", "ask_proxy", "connect_to", "hear_from"]

CLOCK_TOLERANCE = 300.0
"""Seconds that clocks may differ by: object stores refuse requests that are 900 s off."""

# How a client begins, and the type of what both say first (RFC 9113, 3.4 and 6.5): settings.
_SETTINGS = b"\x04"
_HTTP2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + _SETTINGS + bytes(5)


def connect_to(host: str, port: int, timeout: float) -> socket.socket:
    """Connect.

    Parameters
    ----------
    host, port
        Where.
    timeout
        Seconds for this, and for each use of the connection.

    Returns
    -------
    socket
        The connection.

    Raises
    ------
    CheckFailedError
        If nothing listens there.
    """
    try:
        return socket.create_connection((host, port), timeout)
    except OSError as error:
        raise CheckFailedError(_why_unreachable(f"{host}:{port}", error, timeout)) from error


def hear_from(connection: socket.socket, *, http2: bool = False) -> None:
    """Hear the first word of a server: some accept connections and never say one.

    Parameters
    ----------
    connection
        To a server that speaks first; or,
    http2
        to one that answers to this.

    Raises
    ------
    CheckFailedError
        If it says nothing, or is another server.
    """
    host, port = connection.getpeername()[:2]
    where, timeout = f"{host}:{port}", connection.gettimeout() or 0.0
    try:
        connection.sendall(_HTTP2 if http2 else b"")
        heard = connection.recv(9)
    except OSError as error:
        raise CheckFailedError(_why_unreachable(where, error, timeout)) from error
    if not heard or (http2 and heard[3:4] != _SETTINGS):
        raise CheckFailedError(f"something else listens at {where}. Correct the address.")


def _why_unreachable(where: str, error: BaseException, timeout: float) -> str:
    if isinstance(error, ConnectionRefusedError):
        return f"nothing listens at {where}. Start it, or correct the address."
    if isinstance(error, socket.gaierror):
        return f"no host is known by the name in {where}. Correct the address, or the name server."
    if isinstance(error, TimeoutError):
        return (
            f"{where} does not answer within {timeout:g} s. Is a firewall in between, or does "
            "something else listen there?"
        )
    return f"{where} cannot be reached: {error}."


def ask_proxy(url: str, timeout: float) -> str:
    """Say which proxy requests go through, by the environment, and whether it is there.

    Parameters
    ----------
    url
        Of the requests.
    timeout
        Seconds to wait for the proxy.

    Returns
    -------
    str
        What was found.

    Raises
    ------
    CheckFailedError
        If the proxy cannot be reached.
    """
    proxy = _proxy_of(url)
    if proxy is None:
        return f"none for {url}"
    parts = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    shown = f"{host}:{port}"  # without the password
    try:
        connect_to(host, port, timeout).close()
    except CheckFailedError as error:
        scheme = urlsplit(url).scheme.upper()
        raise CheckFailedError(
            f"requests to {url} go through the proxy {shown}, and it is not there: {error} Or "
            f"unset {scheme}_PROXY, or add {urlsplit(url).hostname} to NO_PROXY."
        ) from error
    return f"requests to {url} go through {shown}"


def _proxy_of(url: str) -> str | None:
    parts = urlsplit(url)
    if urllib.request.proxy_bypass(parts.hostname or ""):
        return None
    proxies = urllib.request.getproxies()
    return proxies.get(parts.scheme) or proxies.get("all")


def ask_clock(url: str, timeout: float) -> str:
    """Compare the clock of an HTTP server with this one, whatever else it answers.

    Parameters
    ----------
    url
        Of the server.
    timeout
        Seconds to wait for its answer.

    Returns
    -------
    str
        What was found.

    Raises
    ------
    CheckFailedError
        If it does not answer, or the clocks differ too much.
    """
    if urlsplit(url).scheme not in {"http", "https"}:
        raise CheckFailedError(
            f"the endpoint must be a URL such as https://host:9000, got {url!r}."
        )
    asked = time.time()
    try:
        date = _date_of(url, timeout)
    except ssl.SSLCertVerificationError as error:  # a store may trust other certificates
        return f"{url} answers; its clock is not known, since {error.verify_message}"
    if date is None:
        return f"{url} answers, and does not tell the time"
    there = email.utils.parsedate_to_datetime(date).timestamp()
    # Its answer tells whole seconds, and was written some time between question and arrival.
    ahead = max(0.0, asked - there - 1) - max(0.0, there - time.time())
    if abs(ahead) > CLOCK_TOLERANCE:
        raise CheckFailedError(
            f"this clock is {abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'} that of "
            f"{url}, and signed requests are refused. Set it by NTP, as in: timedatectl set-ntp "
            "true"
        )
    return f"{url} answers, and its clock agrees within {abs(ahead) + 1:.0f} s"


def _date_of(url: str, timeout: float) -> str | None:
    proxy = _proxy_of(url)
    proxies = {} if proxy is None else {urlsplit(url).scheme: proxy}
    opener = urllib.request.build_opener(urllib.request.ProxyHandler(proxies))
    try:
        with opener.open(urllib.request.Request(url, method="HEAD"), timeout=timeout) as answer:
            headers = answer.headers
    except urllib.error.HTTPError as error:  # also an answer
        with error:
            headers = error.headers
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        if isinstance(reason, ssl.SSLCertVerificationError):
            raise reason from error
        raise CheckFailedError(_why_unreachable(url, reason, timeout)) from error
    date: str | None = headers["Date"]
    return date
