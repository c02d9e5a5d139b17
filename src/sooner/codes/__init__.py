"""The codes: pure mathematics, told indices and blocks; no clock, file, thread or network.

Every code follows the protocol `Code`: k data blocks become n coded blocks, and a decoder that
is told which outputs are available says when they suffice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sooner.codes.base import AnytimeCode, Code, Decoder, Plan, TwoOperandCode
from sooner.codes.construction import best_channels
from sooner.codes.dense import DenseCode
from sooner.codes.estimate import BlockEstimate
from sooner.codes.kernel import ARIKAN, HADAMARD, Kernel
from sooner.codes.lt import LTCode
from sooner.codes.mds import MDSCode
from sooner.codes.plan import DecodePlan
from sooner.codes.polar import PolarCode
from sooner.codes.polarization import erasure_probabilities, polarized_run_times
from sooner.codes.polynomial import PolynomialCode
from sooner.codes.product import ProductCode
from sooner.codes.replication import Replication, Uncoded
from sooner.codes.side_by_side import SideBySide
from sooner.errors import StoreFormatError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "ARIKAN",
    "HADAMARD",
    "AnytimeCode",
    "BlockEstimate",
    "Code",
    "DecodePlan",
    "Decoder",
    "Kernel",
    "LTCode",
    "MDSCode",
    "Plan",
    "PolarCode",
    "PolynomialCode",
    "ProductCode",
    "Replication",
    "SideBySide",
    "TwoOperandCode",
    "Uncoded",
    "best_channels",
    "erasure_probabilities",
    "from_spec",
    "polarized_run_times",
]


def from_spec(spec: dict[str, Any]) -> Code:
    """Rebuild a code from what its ``spec()`` returned.

    Parameters
    ----------
    spec
        JSON values with the key ``"kind"``.

    Returns
    -------
    Code
        The same code, bit for bit.

    Raises
    ------
    StoreFormatError
        If no code of this version has such a spec.

    Examples
    --------
    >>> from_spec(Uncoded(4).spec())
    Uncoded(4)
    """
    try:
        rebuild = _KINDS.get(spec["kind"])
        if rebuild is not None:
            return rebuild(spec)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise StoreFormatError(f"the spec of a code is damaged: {error!r}.") from error
    raise StoreFormatError(
        f"this version of sooner knows no code of kind {spec['kind']!r}. Upgrade sooner."
    )


def _product(spec: dict[str, Any]) -> ProductCode:
    factors = from_spec(spec["rows"]), from_spec(spec["columns"])
    return ProductCode(*factors, decoder=spec["decoder"])


_KINDS: dict[str, Callable[[dict[str, Any]], Code]] = {
    "dense": DenseCode.from_spec,
    "lt": LTCode.from_spec,
    "mds": MDSCode.from_spec,
    "polar": PolarCode.from_spec,
    "polynomial": PolynomialCode.from_spec,
    "product": _product,
    "replication": lambda spec: Replication(spec["n"], spec["k"]),
    "side-by-side": lambda spec: SideBySide([from_spec(part) for part in spec["codes"]]),
    "uncoded": lambda spec: Uncoded(spec["n"]),
}
