"""What a polar code is, as a value: what its channels carry and where its outputs are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sooner._types import Indices

__all__ = ["DATA", "FROZEN", "PARITY", "ChannelLayout"]

FROZEN, DATA, PARITY = 0, 1, 2


@dataclass(frozen=True, slots=True)
class ChannelLayout:
    """What each channel of the transform carries, and where the outputs are."""

    kinds: bytes
    """FROZEN, DATA or PARITY of each channel, length N."""
    positions: Indices
    """Row of the transform that each output is, shape (n,)."""
    parity: NDArray[np.float64]
    """What the parity channels carry, as combinations of the data channels, shape (e, k)."""
    scales: NDArray[np.float64]
    """What a data block is multiplied by on its channel: sign times power of two, shape (k,)."""
    hadamard: bool
    """Whether the kernel is HADAMARD; ARIKAN otherwise."""

    @property
    def n(self) -> int:
        """Number of outputs."""
        return self.positions.size

    @property
    def k(self) -> int:
        """Number of data blocks."""
        return self.scales.size

    @property
    def data_channels(self) -> Indices:
        """Channels that carry data, in order, shape (k,)."""
        return np.flatnonzero(np.frombuffer(self.kinds, np.uint8) == DATA)

    @property
    def parity_channels(self) -> Indices:
        """Channels that carry parities, in order, shape (e,)."""
        return np.flatnonzero(np.frombuffer(self.kinds, np.uint8) == PARITY)

    def to_json(self) -> dict[str, Any]:
        """All of it as JSON values.

        Returns
        -------
        dict
            What `from_json` reads.
        """
        return {
            "kernel": "hadamard" if self.hadamard else "arikan",
            "transform_size": len(self.kinds),
            "data_channels": self.data_channels.tolist(),
            "parity_channels": self.parity_channels.tolist(),
            "positions": self.positions.tolist(),
            "parity": self.parity.tolist(),
            "scales": self.scales.tolist(),
        }

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> ChannelLayout:
        """Rebuild what `to_json` gave.

        Parameters
        ----------
        values
            JSON values; other keys are passed over.

        Returns
        -------
        ChannelLayout
            The same layout, bit for bit.
        """
        kinds = np.full(values["transform_size"], FROZEN, dtype=np.uint8)
        kinds[values["data_channels"]] = DATA
        kinds[values["parity_channels"]] = PARITY
        scales = np.array(values["scales"], dtype=np.float64)
        return cls(
            kinds.tobytes(),
            np.array(values["positions"], dtype=np.intp),
            np.array(values["parity"], dtype=np.float64).reshape(-1, scales.size),
            scales,
            values["kernel"] == "hadamard",
        )
