"""Least squares by coded gradient descent: cost against time and against price.

Figure 9 of arXiv 1901.06811 with its sizes, A 20000 x 4800 and X 4800 x 1000: A holds random
features of handwritten digits (scikit-learn's, shifted by a pixel), B 1000 random signs for each
digit.  Each step multiplies the Gram matrix, encoded once; the arithmetic is real, run times are
drawn: from the column ``func_end_s`` of a CSV, for 1/64 of the work, or else 1 s + Exp(0.5 s).
"""

import argparse

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import sooner
from sooner.runtimes import Empirical, ShiftedExponential

N = 64  # workers, whatever the scheme
SCHEMES = {"uncoded": sooner.Uncoded(N), "every block twice": sooner.Replication(N, N // 2)}
SCHEMES |= {f"polar, rate {k / N:g}": sooner.PolarCode(N, k, rng=0) for k in (56, 48, 40)}


# %% Images, random features, and a word of signs for each digit
def random_features(rng, rows, columns):
    images, labels = load_digits(return_X_y=True)
    images, order = images.reshape(-1, 8, 8) / 16, rng.permutation(len(images))
    train, test = order[:1400], order[1400:]
    directions, phases = rng.normal(0, 0.35, (64, columns)), rng.uniform(0, 2 * np.pi, columns)

    def features(pictures):
        return np.cos(pictures.reshape(-1, 64) @ directions + phases) * np.sqrt(2 / columns)

    drawn, shifts = rng.choice(train, rows), rng.integers(-1, 2, (rows, 2))
    shifted = np.array([np.roll(images[i], s, (0, 1)) for i, s in zip(drawn, shifts, strict=True)])
    words = rng.choice([-1.0, 1.0], (10, columns * 5 // 24))
    return features(shifted), words[labels[drawn]], features(images[test]), labels[test], words


def accuracy(X, features, labels, words):
    return float(np.mean((features @ X @ words.T).argmax(axis=1) == labels))


# %% Virtual time, and what the workers cost: each is paid until it has finished or is stopped
class Billed(sooner.VirtualExecutor):
    """Workers of virtual time whose last round of tasks is remembered."""

    def submit_many(self, fn, args, **options):
        """Remember the tasks of this round."""
        self.futures = super().submit_many(fn, args, **options)
        return self.futures


def measured(path):
    return Empirical(np.genfromtxt(path, delimiter=",", names=True)["func_end_s"])


# %% Every task's run time is in proportion to its share of the work
def descend(code, run_times, gram, right_side, steps):
    workers, path = Billed(run_times.scaled(N / code.k), rng=1), [(0.0, 0.0, 0.0)]
    operator = sooner.CodedLinearOperator(sooner.encode(gram, code), workers)

    def note(now):
        price = sum((f.finished or workers.now()) - f.started for f in workers.futures)
        path.append((workers.now(), path[-1][1] + price, now.fun))

    found = sooner.gradient_descent(
        operator, right_side, normal_equations=True, method="nesterov", rtol=0, maxiter=steps,
        step=1 / (1.01 * np.linalg.norm(gram, 2)), callback=note,
    )  # fmt: skip
    return np.array(path[1:]), found.x


# %% Every scheme on the same run times: a table, and the picture
def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--full", action="store_true", help="the paper's sizes, minutes")
    parser.add_argument("--run-times", type=measured, default=ShiftedExponential(1.0, 0.5))
    parser.add_argument("--out", default="least-squares.png", metavar="PICTURE")
    given = parser.parse_args(arguments)
    sizes = (20_000, 4800) if given.full else (2000, 480)
    A, B, *test = random_features(np.random.default_rng(0), *sizes)
    _, axes = plt.subplots(1, 2, figsize=(10, 4), sharey=True, layout="constrained")
    print(f"{'scheme':<20}{'seconds':>10}{'price':>10}{'cost':>12}{'accuracy':>10}")
    results = {}
    for name, code in SCHEMES.items():
        path, X = descend(code, given.run_times, A.T @ A, A.T @ B, steps=60)
        path[:, 2] += 0.5 * np.vdot(B, B)  # a constant that the descent does not know
        results[name] = (*path[-1].tolist(), accuracy(X, *test))
        print("{:<20}{:>10.1f}{:>10.0f}{:>12.5g}{:>10.3f}".format(name, *results[name]))
        for column, xlabel in enumerate(("time (s)", "price (seconds of workers)")):
            axes[column].loglog(path[:, column], path[:, 2], ".-", label=name)
            axes[column].set(xlabel=xlabel, ylabel="cost, |A X - B|² / 2")
    axes[1].legend()
    plt.savefig(given.out, dpi=150)
    return results


if __name__ == "__main__":
    main()
