"""Evolution strategies against time, when some evaluations come late: coded and not.

A quadratic of 200 variables, condition number 100, turned at random; 256 workers, each of which
evaluates one antithetic pair per generation.  Run times are those of real cloud functions, or a
shifted exponential.  Every strategy has the learning rate that was best on other seeds.

    python benchmarks/evolution.py [--data FOLDER] [--seeds 10] [--budget 40] [--out FILE]

``cmaes`` and ``nevergrad`` are references from outside, if they are installed.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import heapq
import importlib.util
import warnings
from pathlib import Path

import numpy as np
from measuring import describe_machine
from scipy.optimize import minimize

import sooner
from sooner.runtimes import ShiftedExponential
from sooner.simulate import read_rounds

D, WORKERS, CONDITION = 200, 256, 100.0
SIGMA = 0.5
NOISE = 4.0
SHARE = 0.75
RATES = (0.25, 0.5, 1.0, 1.5, 1.9)  # over the largest curvature
TARGETS = (0.1, 0.03, 0.001)
TRACE = "sgc-lambda-256/cnn_profile_est-mbp2__w256-n20-l0_500-b256-cno_forloop-Sydney.csv"
TUNING = 2  # seeds that learning rates are chosen on

STRATEGIES = {  # directions, gradient, share of the pairs that is waited for, k, noise gain
    "plain, drop late": ("gaussian", "average", SHARE, None, None),
    "orthogonal, wait for all": ("orthogonal", "average", 1.0, None, None),
    "orthogonal, drop late": ("orthogonal", "average", SHARE, None, None),
    "orthogonal, drop late, LS": ("orthogonal", "least_squares", SHARE, None, None),
    "same, gain 2": ("orthogonal", "least_squares", SHARE, None, 2.0),
    "coded 192": ("orthogonal", "least_squares", 1.0, 192, None),
    "coded 200": ("orthogonal", "least_squares", 1.0, 200, None),
    "coded 192, gain 2": ("orthogonal", "least_squares", 1.0, 192, 2.0),
    "coded 128, gain 1": ("orthogonal", "least_squares", 1.0, 128, 1.0),
}
WITH_LBFGS = {  # what L-BFGS has its gradients from
    "L-BFGS, wait for all": ("orthogonal", "least_squares", 1.0, None, None),
    "L-BFGS, drop late": ("orthogonal", "least_squares", SHARE, None, None),
    "L-BFGS, coded 200": ("orthogonal", "least_squares", 1.0, 200, None),
    "L-BFGS, coded 200, gain 2": ("orthogonal", "least_squares", 1.0, 200, 2.0),
}


class Quadratic:
    """The objective, its true gradient and its noise."""

    def __init__(self, seed, noise):
        self.rng = np.random.default_rng([seed, 1])
        turn = np.linalg.qr(self.rng.standard_normal((D, D)))[0]
        self.root = np.sqrt(np.geomspace(1, CONDITION, D))[:, None] * turn
        self.best = self.rng.standard_normal(D)
        self.noise = noise

    def exact(self, x):
        """Values without noise."""
        return 0.5 * np.sum(((x - self.best) @ self.root.T) ** 2, axis=-1)

    def gradient(self, x):
        """The true gradient."""
        return self.root.T @ (self.root @ (x - self.best))

    def __call__(self, x):
        """Values with noise."""
        values = self.exact(x)
        return values + self.noise * self.rng.standard_normal(values.shape)


def clock(rounds, seed):
    """Give a function that draws the workers' seconds for one generation; the median is 1."""
    rng = np.random.default_rng([seed, 2])
    if rounds is None:
        run_times = ShiftedExponential(shift=1.0, scale=0.5)
        return lambda: run_times.sample(rng, WORKERS) / run_times.quantile(0.5)
    seconds = rounds.work + rounds.startup
    return lambda: rng.permutation(rng.choice(seconds)) / np.median(seconds)


@functools.lru_cache
def code_of(k, seed):
    return sooner.PolarCode(WORKERS, k, rng=seed)


def strategy_of(plan, rate, seed, x=None, draw=0):
    directions, gradient, share, k, gain = plan
    return sooner.EvolutionStrategy(
        np.zeros(D) if x is None else x,
        sigma=SIGMA,
        learning_rate=rate / CONDITION,
        code=None if k is None else code_of(k, seed),
        n=WORKERS,
        directions=directions,
        gradient=gradient,
        noise_gain=gain,
        share=share,
        rng=np.random.SeedSequence([seed, draw]),
    )


def came(strategy, seconds):
    """When the generation is over, and which pairs it has by then."""
    for end in np.sort(seconds)[WORKERS // 2 - 1 :]:
        mask = seconds <= end
        if strategy.suffices(np.stack([mask, mask], axis=1)):
            break
    return end, mask


def generation(strategy, objective, seconds):
    """Evaluate and tell one generation; when it is over."""
    candidates = strategy.ask()
    end, mask = came(strategy, seconds)
    steps = SIGMA * candidates.directions.all(candidates.generation)
    x = candidates.center.x
    values = objective(np.stack([x + steps, x - steps], axis=1))
    values[~mask] = np.nan
    strategy.tell(candidates, values)
    return end


def run(name, rate, seed, noise, rounds, budget):
    """Times, true values there, and errors of the gradients of one strategy."""
    objective, draw = Quadratic(seed, noise), clock(rounds, seed)
    strategy = strategy_of(STRATEGIES[name], rate, seed)
    now, points, errors = 0.0, [(0.0, objective.exact(strategy.x))], []
    while now < budget:
        true = objective.gradient(strategy.x)
        now += generation(strategy, objective, draw())
        error = np.linalg.norm(strategy.last_step.gradient - true) / np.linalg.norm(true)
        errors.append(error)
        points.append((now, objective.exact(strategy.x)))
        if not points[-1][1] < 1e3 * points[0][1]:
            break  # it diverges
    return points, errors


def run_lbfgs(name, seed, noise, rounds, budget):
    """L-BFGS with a generation for each gradient, whose center is evaluated beside it."""
    objective, draw = Quadratic(seed, noise), clock(rounds, seed)
    now, points, errors = 0.0, [(0.0, objective.exact(np.zeros(D)))], []

    def value_and_gradient(x):
        nonlocal now
        strategy = strategy_of(WITH_LBFGS[name], 1.0, seed, x, len(points))
        now += generation(strategy, objective, draw())
        gradient, true = strategy.last_step.gradient, objective.gradient(x)
        errors.append(np.linalg.norm(gradient - true) / max(np.linalg.norm(true), 1e-300))
        points.append((now, min(objective.exact(x), points[-1][1])))
        if now >= budget:
            raise TimeoutError
        return objective(x), gradient

    with contextlib.suppress(TimeoutError):
        minimize(value_and_gradient, np.zeros(D), jac=True, method="L-BFGS-B",
                 options={"maxiter": 10**6, "gtol": 0, "ftol": 0})  # fmt: skip
    return points, errors


def run_cmaes(seed, noise, rounds, budget):
    """CMA-ES with as many evaluations per generation; it needs all of them."""
    import cmaes

    objective, draw = Quadratic(seed, noise), clock(rounds, seed)
    made = cmaes.CMA(mean=np.zeros(D), sigma=SIGMA, population_size=2 * WORKERS, seed=seed)
    now, points = 0.0, [(0.0, objective.exact(np.zeros(D)))]
    while now < budget:
        asked = np.array([made.ask() for _ in range(2 * WORKERS)])
        made.tell(list(zip(asked, objective(asked).tolist(), strict=True)))
        now += draw().max()
        points.append((now, objective.exact(made.mean)))
    return points, []


def run_nevergrad(seed, noise, rounds, budget):
    """NGOpt, asynchronous: a worker gets two new points as soon as it has told the last ones."""
    import nevergrad

    objective, draw = Quadratic(seed, noise), clock(rounds, seed)
    space = nevergrad.p.Array(init=np.zeros(D)).set_mutation(sigma=SIGMA)
    space.random_state.seed(seed)
    evaluations = round(2 * WORKERS * budget)
    made = nevergrad.optimizers.NGOpt(space, budget=evaluations, num_workers=2 * WORKERS)
    points = [(0.0, objective.exact(np.zeros(D)))]
    pool = list(draw())
    busy = [(seconds, worker) for worker, seconds in enumerate(pool)]
    heapq.heapify(busy)
    asked = {worker: (made.ask(), made.ask()) for worker in range(WORKERS)}
    while busy[0][0] < budget:
        now, worker = heapq.heappop(busy)
        for candidate in asked[worker]:
            made.tell(candidate, float(objective(candidate.value)))
        asked[worker] = made.ask(), made.ask()
        pool = pool or list(draw())
        heapq.heappush(busy, (now + pool.pop(), worker))
        if now >= points[-1][0] + 1:
            points.append((now, objective.exact(made.provide_recommendation().value)))
    return points, []


def value_at(points, time):
    return [value for moment, value in points if moment <= time][-1] / points[0][1]


def time_to(points, target):
    times = [moment for moment, value in points if value <= target * points[0][1]]
    return times[0] if times else np.inf


def best_rate(name, noise, rounds, budget):
    """The learning rate with the least median value at the end, on seeds of its own."""
    final = {
        rate: np.median([
            value_at(run(name, rate, 1000 + seed, noise, rounds, budget / 2)[0], budget)
            for seed in range(TUNING)
        ])
        for rate in RATES
    }
    return min(final, key=final.get)


def quartiles(values):
    with np.errstate(invalid="ignore"):
        low, middle, high = np.quantile(values, [0.25, 0.5, 0.75], method="nearest")
    return f"{middle:.3g} ({low:.3g}-{high:.3g})"


def compare(say, rounds, noise, seeds, budget):
    """One table; the median time of each strategy to each target."""
    moments = (budget / 4, budget / 2, budget)
    say(
        f"{'':<26}{'rate':>5}"
        + "".join(f"{f'at {moment:g}':>25}" for moment in moments)
        + "".join(f"{f'time to {target:g}':>22}" for target in TARGETS)
        + f"{'generations':>12}{'gradient off':>13}"
    )
    results = {}
    for name in STRATEGIES:
        rate = best_rate(name, noise, rounds, budget)
        runs = [run(name, rate, seed, noise, rounds, budget) for seed in range(seeds)]
        results[name] = row(say, name, f"{rate:g}", runs, moments)
    for name in WITH_LBFGS:
        runs = [run_lbfgs(name, seed, noise, rounds, budget) for seed in range(seeds)]
        results[name] = row(say, name, "", runs, moments)
    for module, outside in (("cmaes", run_cmaes), ("nevergrad", run_nevergrad)):
        if importlib.util.find_spec(module) is None:
            say(f"{module}: not installed")
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            runs = [outside(seed, noise, rounds, budget) for seed in range(seeds)]
        results[module] = row(say, module, "", runs, moments)
    return results


def row(say, name, rate, runs, moments):
    """One line of a table; the times to the targets, by target and seed."""
    values = [[value_at(points, moment) for points, _ in runs] for moment in moments]
    times = {target: [time_to(points, target) for points, _ in runs] for target in TARGETS}
    errors = [np.median(errors) for _, errors in runs if errors]
    generations = np.median([len(points) - 1 for points, _ in runs])
    say(
        f"{name:<26}{rate:>5}"
        + "".join(f"{quartiles(each):>25}" for each in values)
        + "".join(f"{quartiles(times[target]):>22}" for target in TARGETS)
        + f"{generations:>12.0f}"
        + (f"{np.median(errors):>13.1e}" if errors else "")
    )
    return times


def verdict(say, results):
    """Times of the others over those of a coded strategy: above 1 coding wins."""
    for coded in (name for name in results if "coded" in name):
        for other in results:
            if "coded" in other or ("L-BFGS" in coded) != ("L-BFGS" in other):
                continue
            ratios = []
            for target in TARGETS:
                mine, its = (np.median(results[name][target]) for name in (coded, other))
                known = np.isfinite(mine) or np.isfinite(its)
                ratios.append(f"{its / mine:.2f}" if known else "neither")
            say(f"  {other:<26} over {coded:<18} " + ", ".join(ratios))


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder of measured run times")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--budget", type=float, default=40.0, help="in median run times")
    parser.add_argument("--noise", type=float, nargs="*", default=(0.0, NOISE))
    parser.add_argument("--out", type=Path)
    args = parser.parse_args(argv)
    lines = []

    def say(line=""):
        print(line, flush=True)
        lines.append(line)

    describe_machine(say)
    say(
        f"value over the first one, {WORKERS} workers, {args.seeds} seeds: median (quartiles); "
        "time in median run times;\ngradient off: median relative error of the estimate; "
        f"drop late: go on with {SHARE:.0%} of the pairs; LS: least squares"
    )
    title = Path(TRACE).stem if args.data else "shifted exponential"
    rounds = read_rounds(args.data / TRACE) if args.data else None
    for noise in args.noise:
        say(f"\n{title}, noise {noise:g} (the first value is about 2200)")
        results = compare(say, rounds, noise, args.seeds, args.budget)
        say(f"median time of others over that of coded ones, to {TARGETS}; above 1 coding wins")
        verdict(say, results)
    if args.out:
        args.out.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
