"""Regret of `sooner.design`: it sees half of each trace, and the other half is replayed.

Rounds are split in time, the first half is seen.  A trace of one job has no second round; of its
tasks every other one is seen, since tasks of one job that start later wait longer; what seeing
the first half of them instead would do is said at the end.  Regret: time of the recommendation on
the unseen half over that of the scheme which is best there, less one; the schemes are the
candidates of `design`, backup tasks among them.

    python benchmarks/design.py --data FOLDER [--workers 256] [--out FILE]
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from measuring import describe_machine

import sooner
from sooner.simulate import Comparison, Rounds, read_rounds


def halves(rounds, *, every_other=True):
    """What is seen, and what is replayed."""
    if rounds.n_rounds > 1:
        middle = rounds.n_rounds // 2
        return rounds[:middle], rounds[middle:]
    middle = rounds.n_workers // 2
    seen = slice(0, None, 2) if every_other else slice(None, middle)
    unseen = slice(1, None, 2) if every_other else slice(middle, None)
    return tuple(Rounds(rounds.work[:, s], rounds.startup[:, s]) for s in (seen, unseen))


def judged(seen, unseen, workers):
    """Recommendation, its regret, what is best in hindsight, and the speedup that was found."""
    found = sooner.design(seen, workers=workers)
    hindsight = Comparison(unseen, found.candidates, workers=workers, rng=1)
    seconds = {scheme: hindsight.seconds(scheme).value for scheme in hindsight.schemes}
    best = min(seconds, key=seconds.__getitem__)
    regret = seconds[found.scheme] / seconds[best] - 1
    return found, regret, best, seconds[hindsight.uncoded] / seconds[found.scheme]


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of measured run times")
    parser.add_argument("--workers", type=int, default=256)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args(argv)
    lines = []

    def say(line=""):
        print(line, flush=True)
        lines.append(line)

    describe_machine(say)
    say(f"{args.workers} workers; speedup over uncoded in the mean: promised, its interval, found")
    say(f"{'trace':<52} {'recommended':<24} {'regret':>7}  {'best in hindsight':<30} speedup")
    regrets, broken, jobs = [], [], {}
    for path in sorted(args.data.glob("*/*.csv")):
        rounds = read_rounds(path)
        found, regret, best, speedup = judged(*halves(rounds), args.workers)
        if rounds.n_rounds == 1:
            jobs[path.stem] = judged(*halves(rounds, every_other=False), args.workers)
        promised = found.expected.speedup
        regrets.append(regret)
        if speedup < promised.low:
            broken.append(path.stem)
        say(
            f"{path.stem.replace('_profile_est', '').replace('-cno_forloop', ''):<52} "
            f"{found.scheme!s:<24} {regret:7.1%}  {best!s:<30} {promised}, {speedup:.3g}"
        )
    regrets = np.array(regrets)
    say(
        f"\nregret over {regrets.size} traces: median {np.median(regrets):.1%}, 90 % of them below "
        f"{np.quantile(regrets, 0.9):.1%}, worst {regrets.max():.1%}; at most 6 %: "
        f"{np.mean(regrets <= 0.06):.0%}"
    )
    say(f"speedup below its interval on {len(broken)}: {', '.join(broken) or 'none'}")
    say("single jobs, their first half of functions seen and the second replayed:")
    for name, (found, regret, best, _) in jobs.items():
        say(f"  {name:<50} {found.scheme!s:<24} {regret:7.1%}  {best}")
    whole = args.data / "lithops-flops" / "aws_lambda_1000_flops.csv"
    if whole.exists():
        found = sooner.design(whole, workers=args.workers)
        say(
            f"{whole.name}, all of it: {found.scheme}, rate {found.scheme.rate:.3f}; {found.reason}"
        )
    if args.out:
        args.out.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
