"""What a polar code is, as a value: what its channels carry and where its outputs are."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sooner.codes.kernel import Kernel, is_binary

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
    kernels: tuple[Kernel, ...]
    """Kernels of the transform, the slowest radix first; their sizes multiply to N."""

    @property
    def n(self) -> int:
        """Number of outputs."""
        return self.positions.size

    @property
    def k(self) -> int:
        """Number of data blocks."""
        return self.scales.size

    @property
    def sizes(self) -> tuple[int, ...]:
        """Sizes of the kernels, the slowest radix first."""
        return tuple(kernel.size for kernel in self.kernels)

    @property
    def transposed(self) -> list[Kernel]:
        """Kernels of the transposed transform."""
        return [kernel.transposed for kernel in self.kernels]

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
        kernels = [kernel.to_json() for kernel in self.kernels]
        one_name = is_binary(self.kernels) and len(set(self.kernels)) == 1
        return {
            "kernel": kernels[0] if one_name else kernels,
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

        Raises
        ------
        ValueError
            If the kernels do not fit the size of the transform.
        """
        size, kernel = values["transform_size"], values["kernel"]
        names = [kernel] * (size.bit_length() - 1) if isinstance(kernel, str) else kernel
        kernels = tuple(Kernel.from_json(name) for name in names)
        if math.prod(one.size for one in kernels) != size:
            raise ValueError(f"kernels of sizes that multiply to {size} are not {names!r}")
        kinds = np.full(size, FROZEN, dtype=np.uint8)
        kinds[values["data_channels"]] = DATA
        kinds[values["parity_channels"]] = PARITY
        scales = np.array(values["scales"], dtype=np.float64)
        return cls(
            kinds.tobytes(),
            np.array(values["positions"], dtype=np.intp),
            np.array(values["parity"], dtype=np.float64).reshape(-1, scales.size),
            scales,
            kernels,
        )
