"""Policies on real run times: uncoded, backup tasks, dropping the rest, coded at once and on lag.

Every scheme gets the same 256 workers and the same matrix, so that fewer blocks mean longer
tasks.  Of the gradient traces all of a task's time is taken to grow with its load, which is the
least favourable to coding; ``--startup`` of their load-0 median is the other reading.  Of the
functions that multiplied matrices the computation grows and what comes before does not.

    python benchmarks/policies.py --data FOLDER [--workers 256] [--resamples 200] [--out FILE]
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from measuring import describe_machine

import sooner
from sooner.simulate import Comparison, Rounds, Scheme, read_rounds, replay

RATES = (0.75, 0.875, 0.97)


def schemes(workers):
    """What is compared, by the name of its column."""
    coded = {rate: round(workers * rate) for rate in RATES}
    spare = workers + workers // 8
    return {
        "uncoded": Scheme.uncoded(workers),
        "backup 1.5": Scheme.backup(workers, 1.5),
        "backup 3": Scheme.backup(workers, 3.0),
        "drop 5 %": Scheme.wait_for_share(workers, 0.95),
        **{f"coded {rate}": Scheme.at_once(workers, k) for rate, k in coded.items()},
        "on lag": Scheme.on_lag(spare, workers),
        **{
            f"both {rate}": Scheme.on_lag(spare, k, first=workers)
            for rate, k in coded.items()
            if rate > 0.75
        },
    }


def traces(folder, startup):
    """Name and run times of every trace, gradients first."""
    for path in sorted(folder.glob("sgc-lambda-256/*.csv")):
        rounds = read_rounds(path)
        if startup:
            rounds = split(rounds, path)
        yield path.stem, rounds
    for path in sorted(folder.glob("lithops-*/*.csv")):
        yield path.stem, read_rounds(path)


def split(rounds, path):
    """Start-up as the median of the same function at load 0, where that was measured."""
    series, _, rest = path.name.partition("-l")
    idle = [*path.parent.glob(f"{series}-l0_000{rest[5:]}")]
    if not idle:
        return rounds
    seconds = np.minimum(np.median(read_rounds(idle[0]).work), rounds.work)
    return Rounds(rounds.work - seconds, seconds)


def cells(comparison, scheme):
    """Mean with its interval, 95 and 99 %, cost over uncoded, waste."""
    mean, cost = comparison.seconds(scheme), comparison.cost(scheme)
    p95, p99 = (comparison.seconds(scheme, share).value for share in (0.95, 0.99))
    return (
        f"{mean.value:8.2f} ({mean.low:7.2f} - {mean.high:7.2f}) {p95:8.2f} {p99:8.2f} "
        f"{cost.value:6.2f} {comparison.wasted(scheme):6.1%}"
    )


def verdicts(say, comparisons, names):
    """For each coded scheme: on how many traces it beats backup tasks, and by how much."""
    say(
        "\ntime of backup tasks at 1.5 medians over that of a coded scheme, same rounds; clear: the"
    )
    say("95 % bootstrap interval of the ratio of means leaves 1 out")
    header = f"{'':<12} {'mean: median':>13} {'10 %':>6} {'90 %':>6} {'p95: median':>12}"
    say(f"{header} clear wins, losses")
    backup = names["backup 1.5"]
    for name, scheme in names.items():
        if scheme.kind != "coded":
            continue
        means = [comparison.ratio(backup, scheme) for comparison in comparisons.values()]
        tails = [
            comparison.ratio(backup, scheme, 0.95).value for comparison in comparisons.values()
        ]
        low, middle, high = np.quantile([ratio.value for ratio in means], [0.1, 0.5, 0.9])
        wins, losses = (sum(r.low > 1 for r in means), sum(r.high < 1 for r in means))
        say(
            f"{name:<12} {middle:13.2f} {low:6.2f} {high:6.2f} {np.median(tails):12.2f} "
            f"{wins} and {losses} of {len(means)}"
        )


def exceptions(say, comparisons, names):
    """Traces on which no coded scheme beats both uncoded and backup tasks by 2 %."""
    say("\nwhere coding does not pay: best of uncoded and backup over best coded below 1.02")
    plain = [names[name] for name in ("uncoded", "backup 1.5", "backup 3")]
    coded = [scheme for scheme in names.values() if scheme.kind == "coded"]
    for trace, comparison in comparisons.items():
        best, other = (
            min(group, key=lambda scheme: comparison.seconds(scheme).value)
            for group in (coded, plain)
        )
        ratio = comparison.ratio(other, best)
        if ratio.value < 1.02:
            say(f"  {trace}: {ratio} ({other} against {best})")


def real_code(say, comparisons, workers):
    """Mean time of real codes over that of ideal ones, on at most 20 rounds of each trace."""
    say("\na real code (PolarCode, default) over an ideal one, all at once: mean, worst trace")
    for rate in RATES:
        scheme = Scheme.at_once(workers, round(workers * rate))
        code = sooner.PolarCode(scheme.n, scheme.k, rng=0)
        ratios = []
        for comparison in comparisons.values():
            rounds = comparison.rounds[comparison.measured[:20]]
            ideal, real = replay(rounds, scheme), replay(rounds, scheme, code=code)
            ratios.append(real.seconds.mean() / ideal.seconds.mean())
        say(f"  rate {rate}: {np.mean(ratios):.4f}, {np.max(ratios):.4f}")


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of measured run times")
    parser.add_argument("--workers", type=int, default=256)
    parser.add_argument("--resamples", type=int, default=200)
    parser.add_argument("--startup", action="store_true", help="gradients: start-up from load 0")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args(argv)
    lines = []

    def say(line=""):
        print(line, flush=True)
        lines.append(line)

    describe_machine(say)
    say(
        f"{args.workers} workers for every scheme; seconds: mean (95 % bootstrap interval), p95, "
        "p99; worker-seconds over uncoded; share of them wasted"
    )
    names = schemes(args.workers)
    for name, scheme in names.items():
        say(f"  {name:<12} {scheme}")
    comparisons = {}
    for trace, rounds in traces(args.data, args.startup):
        comparison = Comparison(
            rounds, names.values(), workers=args.workers, resamples=args.resamples
        )
        comparisons[trace] = comparison
        say(f"\n{trace}: {rounds}")
        for name, scheme in names.items():
            say(f"  {name:<12} {cells(comparison, scheme)}")
    verdicts(say, comparisons, names)
    exceptions(say, comparisons, names)
    real_code(say, comparisons, args.workers)
    if args.out:
        args.out.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
