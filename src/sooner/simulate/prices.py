"""What a product costs: a dated table of list prices, and the arithmetic."""

from __future__ import annotations

from dataclasses import dataclass

from sooner import _checks

__all__ = ["PRICES", "Bill", "Prices"]

_GB = 2**30


@dataclass(frozen=True, slots=True)
class Prices:
    """List prices in US dollars; ``dataclasses.replace`` makes others of them.

    Examples
    --------
    A million calls of 300 ms with 512 MB, the free tier aside:

    >>> x86 = PRICES["aws-lambda-x86"]
    >>> round(x86.functions(0.3e6, memory=512 * 2**20, calls=1_000_000), 2)
    2.7
    """

    as_of: str
    """When these were the prices, and where."""
    gb_second: float
    """A second of a function per GB of its memory."""
    call: float
    """A call of a function."""
    put: float
    """Writing an object."""
    get: float
    """Reading an object, or a range of one."""
    gb_month: float
    """A GB of objects at rest for a month."""

    def functions(self, seconds: float, *, memory: int, calls: float) -> float:
        """Price of calls of functions.

        Parameters
        ----------
        seconds
            That all of them together run.
        memory
            Bytes that each is given.
        calls
            How many.

        Returns
        -------
        float
            Dollars.
        """
        memory = _checks.integer(memory, "memory", at_least=1)
        return seconds * memory / _GB * self.gb_second + calls * self.call

    def requests(self, *, puts: float, gets: float) -> float:
        """Price of requests to an object store.

        Parameters
        ----------
        puts, gets
            How many.

        Returns
        -------
        float
            Dollars.
        """
        return puts * self.put + gets * self.get

    def month(self, n_bytes: int) -> float:
        """Price of objects at rest for a month.

        Parameters
        ----------
        n_bytes
            Their size.

        Returns
        -------
        float
            Dollars.
        """
        return n_bytes / _GB * self.gb_month


@dataclass(frozen=True, slots=True)
class Bill:
    """What one product and one month of its matrix at rest cost, in US dollars."""

    functions: float
    """Running the tasks to their end: functions in a cloud cannot be stopped."""
    requests: float
    """Tasks that read their blocks and write their products, and the driver that reads these."""
    month: float
    """The matrix at rest."""
    as_of: str
    """Date of the prices."""

    @property
    def product(self) -> float:
        """Price of one product."""
        return self.functions + self.requests


_S3 = {"put": 0.005 / 1000, "get": 0.0004 / 1000, "gb_month": 0.023}
_AS_OF = "May 2026, us-east-1, first tier, without free tier"

PRICES = {
    "aws-lambda-x86": Prices(_AS_OF, gb_second=0.0000166667, call=0.20 / 1e6, **_S3),
    "aws-lambda-arm": Prices(_AS_OF, gb_second=0.0000133334, call=0.20 / 1e6, **_S3),
}
"""AWS Lambda with S3, by name."""
