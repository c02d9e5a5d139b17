"""The codes: pure mathematics, told indices and blocks; no clock, file, thread or network.

Every code follows the protocol `Code`: k data blocks become n coded blocks, and a decoder that
is told which outputs are available says when they suffice.
"""

from __future__ import annotations

from typing import Any

from sooner.codes.base import AnytimeCode, Code, Decoder, Plan
from sooner.codes.construction import best_channels
from sooner.codes.estimate import BlockEstimate
from sooner.codes.kernel import ARIKAN, HADAMARD, Kernel
from sooner.codes.plan import DecodePlan
from sooner.codes.polar import PolarCode
from sooner.codes.polarization import erasure_probabilities, polarized_run_times
from sooner.codes.replication import Replication, Uncoded
from sooner.codes.side_by_side import SideBySide
from sooner.errors import StoreFormatError

__all__ = [
    "ARIKAN",
    "HADAMARD",
    "AnytimeCode",
    "BlockEstimate",
    "Code",
    "DecodePlan",
    "Decoder",
    "Kernel",
    "Plan",
    "PolarCode",
    "Replication",
    "SideBySide",
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
        match spec["kind"]:
            case "polar":
                return PolarCode.from_spec(spec)
            case "side-by-side":
                return SideBySide([from_spec(part) for part in spec["codes"]])
            case "replication":
                return Replication(spec["n"], spec["k"])
            case "uncoded":
                return Uncoded(spec["n"])
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise StoreFormatError(f"the spec of a code is damaged: {error!r}.") from error
    raise StoreFormatError(
        f"this version of sooner knows no code of kind {spec['kind']!r}. Upgrade sooner."
    )
