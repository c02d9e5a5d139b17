"""An evolution strategy that steps with whatever evaluations came: ask and tell."""

from __future__ import annotations

import dataclasses
import functools
import json
import os
from typing import TYPE_CHECKING, Any

import numpy as np

from sooner import _checks
from sooner.codes import from_spec
from sooner.optimize import checkpoint
from sooner.optimize.candidates import Candidates, Center, read_bounds
from sooner.optimize.directions import CodedDirections, make_directions
from sooner.optimize.gradient import noise_gain as noise_gain_of
from sooner.optimize.step import Options, Step, estimate, warn_of_standstill
from sooner.optimize.updates import next_step
from sooner.optimize.values import as_values

if TYPE_CHECKING:
    from typing import Self

    from numpy.typing import ArrayLike, NDArray

    from sooner._types import Array, RNGLike
    from sooner.codes.base import Code, Decoder

__all__ = ["EvolutionStrategy"]


class EvolutionStrategy:
    """Minimize a black box with evaluations of which some are late, lost or broken.

    `ask` gives points in antithetic pairs, `tell` takes values of any of them, in any order and in
    pieces; the gradient is the best that follows from what came.  With a code, about any k of its n
    directions give the derivatives along k orthonormal ones exactly.

    Parameters
    ----------
    x0
        Where to start, shape (d,).
    sigma
        Step along a direction; directions have length sqrt(d), so that it is the step of each
        variable in the root mean square.
    learning_rate
        How far to go against the gradient.
    code
        A code with ``k <= d``: the directions are coded then, and a generation has ``code.n``
        pairs.  None for directions without a code.
    n
        Pairs per generation without a code; None for ``4 + 3 log(d)``.
    directions
        ``"orthogonal"`` (structured, in blocks of d) or ``"gaussian"``.
    gradient
        ``"least_squares"``: exact in the span of the directions that came, as far as the objective
        is linear at the scale of `sigma`.  ``"average"``: the mean of direction times derivative.
        Both have the gradient as their mean when all came and the directions are no fewer than d;
        with fewer, the former is scaled as if those missing were zero.
    noise_gain
        Most that the noise of evaluations may be amplified by.  Close to the smallest set that
        decodes it is 7 times at n = 64 and 33 times at n = 1024, with 1.1 k pairs 1.7 times: then
        `suffices` waits for more, and a step leaves out what would exceed it.  None for no limit,
        right for objectives without noise.
    optimizer
        ``"plain"``, ``"momentum"`` or ``"adam"``.
    shaping
        ``"ranks"`` replaces values by centered ranks: steps no longer depend on their scale.  It
        breaks linearity, so coded directions lose their exactness.
    share
        Of the pairs, without a code, with which `suffices` goes on.
    maximize
        Whether larger values are better.
    bounds
        A `scipy.optimize.Bounds`, or pairs of lower and upper bound per variable, None for none.
        No candidate leaves them; steps end there.
    rng
        Seed or generator of the directions (SPEC 7).

    Raises
    ------
    ValueError
        If the arguments do not fit each other.

    Notes
    -----
    Values that are NaN, infinite, None or no number count as not having come.  Of a pair with one
    half missing the other is compared with the mean over all complete pairs.  The trajectory
    depends on the values alone, not on their order or on the number of workers.  [B23] describes
    coded directions; the orthogonal ones are those of structured evolution strategies
    (arXiv 1804.02395).

    Examples
    --------
    >>> import sooner
    >>> code = sooner.PolarCode(16, 10)
    >>> strategy = EvolutionStrategy(np.ones(10), sigma=1e-3, learning_rate=0.25, code=code)
    >>> for _ in range(20):
    ...     candidates = strategy.ask()
    ...     values = np.sum(np.asarray(candidates) ** 2, axis=-1)
    ...     values[[3, 8]] = np.nan  # two pairs never came
    ...     strategy.tell(candidates, values)
    >>> float(np.abs(strategy.x).max()) < 1e-5
    True
    """

    def __init__(
        self,
        x0: ArrayLike,
        *,
        sigma: float,
        learning_rate: float,
        code: Code | None = None,
        n: int | None = None,
        directions: str = "orthogonal",
        gradient: str = "least_squares",
        noise_gain: float | None = None,
        optimizer: str = "plain",
        shaping: str | None = None,
        share: float = 1.0,
        maximize: bool = False,
        bounds: Any = None,
        rng: RNGLike = 0,
    ) -> None:
        x = np.array(x0, dtype=np.float64)
        if x.ndim != 1 or not x.size or not np.isfinite(x).all():
            raise ValueError(f"x0 must be a sequence of finite numbers, got {x0!r}.")
        sigma = _checks.positive(sigma, "sigma")
        self._options = Options(
            learning_rate, gradient, noise_gain, optimizer, shaping, share, maximize
        )
        self._code = code
        self._kind = _checks.one_of(directions, "directions", ("orthogonal", "gaussian"))
        n = None if n is None else _checks.integer(n, "n", at_least=1)
        self._make_directions = functools.partial(make_directions, self._kind, n, x.size, code)
        self.directions = self._make_directions(int(np.random.default_rng(rng).integers(2**63)))
        self._begin(Center(x, sigma, 0, *read_bounds(bounds, x)))
        self._state: dict[str, Array] = {}
        self._last: Step | None = None
        self._has_warned = False
        self.n_late = 0
        """Values that came after their generation was over, and were ignored."""

    def _begin(self, center: Center) -> None:
        self._center = center
        self._values = np.full((self.directions.n, 2), np.nan)
        self._told = False
        self._decoder: Decoder | None = None  # of the pairs that `suffices` was told of
        self._outcome: tuple[NDArray[np.float64], dict[str, Array], Step] | None = None

    def __repr__(self) -> str:
        return (
            f"<EvolutionStrategy of {self._center.x.size} variables, {self.directions.n} pairs, "
            f"generation {self.generation}>"
        )

    @property
    def generation(self) -> int:
        """The generation under way, from 0."""
        return self._center.generation

    @property
    def n_told(self) -> int:
        """Generations of which something was told, the one under way included."""
        return self.generation + self._told

    @property
    def x(self) -> NDArray[np.float64]:
        """The current point, shape (d,): after a step with all that was told up to now."""
        return (self._stepped()[0] if self._told else self._center.x).copy()

    @property
    def last_step(self) -> Step | None:
        """What led to `x`; None before anything was told."""
        return self._stepped()[2] if self._told else self._last

    def ask(self) -> Candidates:
        """Give the points of the next generation.

        What was told of the present one makes the step, and the generation is over.  As long as
        nothing was told, it gives the same points again.

        Returns
        -------
        Candidates
            Shape ``(n, 2, d)``.
        """
        if self._told:
            self._go_on()
        return Candidates(self.directions, self._center)

    def tell(self, candidates: Candidates, values: ArrayLike) -> None:
        """Take values of some candidates.

        Parameters
        ----------
        candidates
            What `ask` gave, or a part of it.  Those of an earlier generation are ignored, and
            counted in `n_late`.
        values
            Shape of ``candidates.ids``, for a whole generation ``(n, 2)``.  NaN, None, infinities
            and what is no number count as not having come; they may still be told later.

        Raises
        ------
        ValueError
            If the shape is another, or a value is told a second time; nothing is taken then.
        """
        numbers = as_values(values, candidates.ids.shape).ravel()
        came = np.isfinite(numbers)
        if candidates.generation > self.generation or candidates.directions.n != self.directions.n:
            raise ValueError(f"candidates must be of this strategy, got {candidates!r}.")
        if candidates.generation < self.generation:
            self.n_late += int(np.count_nonzero(came))
            return
        ids, known = candidates.ids.ravel()[came], self._values.reshape(-1)
        twice = ids[np.isfinite(known[ids])].tolist()
        if twice or np.unique(ids).size < ids.size:
            raise ValueError(
                f"a value must be told once, got one for {twice or 'the same candidate'} again. "
                "Ask for new candidates first."
            )
        known[ids] = numbers[came]
        self._told, self._outcome = self._told or numbers.size > 0, None

    def suffices(self, available: ArrayLike) -> bool:
        """Tell whether it is time to go on: more evaluations would hardly change the step.

        Parameters
        ----------
        available
            Boolean mask of the values that came, shape ``(n, 2)``.

        Returns
        -------
        bool
            With a code, whether the complete pairs decode and amplify noise by no more than
            `noise_gain`; without, whether they are the `share` that was asked for.
        """
        came = np.asarray(available, dtype=np.bool_)
        pairs = came.all(axis=1)
        code, limit = self._code, self._options.noise_gain
        if code is None or not isinstance(self.directions, CodedDirections):
            return bool(np.mean(pairs) >= self._options.share)
        if pairs.all() or np.count_nonzero(pairs) < code.k:
            return bool(pairs.all())
        if self._decoder is None or (self._decoder.available & ~pairs).any():
            self._decoder = code.decoder()
        for index in np.flatnonzero(pairs & ~self._decoder.available).tolist():
            self._decoder.add(index)
        if not self._decoder.decodable or limit is None:
            return self._decoder.decodable
        return noise_gain_of(self.directions.coefficients[pairs]) <= limit

    def _stepped(self) -> tuple[NDArray[np.float64], dict[str, Array], Step]:
        """Point, state of the optimizer and account of a step with all that was told."""
        if self._outcome is None:
            step = estimate(self.directions, self._center, self._values, self._options)
            x, state = self._center.x, self._state
            if step.gradient.any():
                change, state = next_step(self._options.optimizer, step.gradient, state)
                x = self._center.clipped(x - self._options.learning_rate * change)
            self._outcome = x, state, step
        return self._outcome

    def _go_on(self) -> None:
        """Make the step, and begin the next generation."""
        old = self._center
        x, self._state, self._last = self._stepped()
        if not self._last.gradient.any():
            warn_of_standstill(self._last, self._values.size, again=self._has_warned)
            self._has_warned = True
        self._begin(Center(x, old.sigma, old.generation + 1, old.lower, old.upper))

    def save(self, path: str | os.PathLike[str], **facts: Any) -> None:
        """Write all that `load` needs to go on, bit for bit, also in the middle of a generation.

        The file is replaced at once, and the one before stays as ``<path>.previous``.

        Parameters
        ----------
        path
            Where.
        **facts
            More to keep, as JSON values.
        """
        center = self._center
        arrays = {f"optimizer.{name}": value for name, value in self._state.items()}
        arrays |= {"x": center.x, "values": self._values}
        if center.lower is not None and center.upper is not None:
            arrays |= {"lower": center.lower, "upper": center.upper}
        progress = {
            "seed": self.directions.seed,
            "generation": center.generation,
            "told": self._told,
            "n_late": self.n_late,
            "has_warned": self._has_warned,
        }
        facts = {"settings": self._settings(), "progress": progress, **facts}
        checkpoint.write(path, arrays, facts)

    def _settings(self) -> dict[str, Any]:
        """What stays the same in all generations, as JSON values."""
        return {
            "code": None if self._code is None else self._code.spec(),
            "kind": self._kind,
            "n": self.directions.n,
            "sigma": self._center.sigma,
            "options": dataclasses.asdict(self._options),
        }

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read what `save` wrote; if that is damaged, the one before.

        Parameters
        ----------
        path
            Where.

        Returns
        -------
        EvolutionStrategy
            It goes on bit for bit as the one that was saved.
        """
        arrays, facts = checkpoint.read(path)
        settings = facts["settings"]
        made = cls(
            arrays["x"],
            sigma=settings["sigma"],
            code=None if settings["code"] is None else from_spec(settings["code"]),
            n=settings["n"],
            directions=settings["kind"],
            **settings["options"],
        )
        made._recall(arrays, facts["progress"])
        return made

    def resume(self, path: str | os.PathLike[str]) -> dict[str, Any]:
        """Go on where the same strategy was when it was saved, whatever `x0` and `rng` are now.

        Parameters
        ----------
        path
            Where it was saved.

        Returns
        -------
        dict
            The facts that were kept with it.

        Raises
        ------
        ValueError
            If that strategy had other settings.
        """
        arrays, facts = checkpoint.read(path)
        settings = json.loads(json.dumps(self._settings()))
        other = [name for name in settings if settings[name] != facts["settings"].get(name)]
        if arrays["x"].shape != self._center.x.shape:
            other.insert(0, "x0")
        if other:
            raise ValueError(
                f"the checkpoint {os.fspath(path)} must be of the same strategy to go on from it, "
                f"and it differs in {', '.join(other)}. Remove it to begin anew."
            )
        self._recall(arrays, facts["progress"])
        return facts

    def _recall(self, arrays: dict[str, Array], progress: dict[str, Any]) -> None:
        self.directions = self._make_directions(progress["seed"])
        self._begin(
            Center(
                arrays["x"],
                self._center.sigma,
                progress["generation"],
                arrays.get("lower"),
                arrays.get("upper"),
            )
        )
        self._values, self._told = arrays["values"], progress["told"]
        self._state = {
            name.removeprefix("optimizer."): value
            for name, value in arrays.items()
            if name.startswith("optimizer.")
        }
        self._has_warned, self.n_late = progress["has_warned"], progress["n_late"]
