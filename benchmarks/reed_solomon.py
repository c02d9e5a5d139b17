"""Figure 4 of the first paper: encode and decode times and errors of MDS codes and of polar codes.

A (100 n x 5000) times x (5000 x 1000), rate 1/2, one thread.  Coded over the reals: polar, Reed-
Solomon as a Vandermonde matrix, a Gaussian matrix.  Coded over a finite field, on quantized data:
Reed-Solomon with Fermat-number transforms (modulo 65537; Soro and Lacan), in NumPy; and, where it
is installed, reed-solomon-leopard (compiled, GF(2**16)) on the bytes of the same blocks.

Blocks are encoded and decoded on a part of their columns (`--share`), and times scaled; what does
not depend on the columns (plan, factorization) is timed apart and not scaled.

    python benchmarks/reed_solomon.py [--quick] [--out FOLDER]
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import measuring
import numpy as np
import scipy.linalg
from threadpoolctl import threadpool_limits

import sooner

ROWS, INNER, COLUMNS = 100, 5000, 1000
"""Rows of A per task; columns of A; columns of x: rows of A per data block are 2 * ROWS."""

PRIME = 65537  # 2**16 + 1: a root of unity for every power of two up to 2**16


class Polar:
    """The papers' code with its sequential decoder; needs more than k outputs."""

    def __init__(self, n, k, rng):
        self.code = self.make(n, k)
        decoder = self.code.decoder()
        order = rng.permutation(n).tolist()
        needed = next(m for m, i in enumerate(order, 1) if decoder.add(i))
        self.available = np.sort(order[:needed])
        self.decoder = decoder

    def make(self, n, k):
        """The code."""
        papers = {"erasure_prob": 1 - k / n, "late_parities": 0, "decoder": "sequential"}
        return sooner.PolarCode(n, k, **papers)

    def encode(self, blocks, out):
        """Coded blocks from data blocks."""
        return self.code.encode(blocks, out=out)

    def prepare(self):
        """What depends on the available outputs alone."""
        self.plan = self.decoder.plan()

    def decode(self, outputs, out):
        """Data blocks from what is available."""
        return self.plan.run(outputs, out=out)


class Default(Polar):
    """The default code, from k outputs or very nearly."""

    def make(self, n, k):
        """The code."""
        return sooner.PolarCode(n, k)


class Dense:
    """An MDS code given by its matrix; any k outputs, by LU."""

    def __init__(self, n, k, rng):
        self.matrix = self.draw(n, k, rng)
        self.available = np.sort(rng.permutation(n)[:k])

    def encode(self, blocks, out):
        """Coded blocks from data blocks."""
        return np.matmul(self.matrix, blocks, out=out)

    def prepare(self):
        """What depends on the available outputs alone."""
        self.factors = scipy.linalg.lu_factor(self.matrix[self.available])

    def decode(self, outputs, out):
        """Data blocks from what is available."""
        out[...] = scipy.linalg.lu_solve(self.factors, outputs[self.available])
        return out


class Gaussian(Dense):
    """A random matrix, any k rows of which are regular."""

    def draw(self, n, k, rng):
        """The generator."""
        return rng.standard_normal((n, k)) / np.sqrt(k)


class Vandermonde(Dense):
    """Polynomials at n points of [-1, 1]: Reed-Solomon over the reals, naively."""

    def draw(self, n, k, _rng):
        """The generator."""
        return np.vander(np.linspace(-1, 1, n), k, increasing=True)


def reduce_products(products):
    """Residues modulo 2**16 + 1 of products of residues."""
    residues = (products & 0xFFFF) - (products >> 16)
    return residues + PRIME * (residues < 0)


def number_transform(values, root):
    """Values of the polynomials in the columns at the powers of `root`, in order, radix 2."""
    n = len(values)
    if n == 1:
        return values
    even = number_transform(values[0::2], root * root % PRIME)
    odd = number_transform(values[1::2], root * root % PRIME)
    twiddles = powers(root, n // 2)[:, None]
    odd = reduce_products(odd * twiddles)
    upper, lower = even + odd, even - odd
    upper -= PRIME * (upper >= PRIME)
    lower += PRIME * (lower < 0)
    return np.concatenate([upper, lower])


def powers(root, count):
    values = [1]
    for _ in range(count - 1):
        values.append(values[-1] * root % PRIME)
    return np.array(values)


class FermatReedSolomon:
    """Evaluations of a polynomial at n roots of unity modulo 65537; O(n log n) both ways."""

    tile = 256  # columns: the transform stays in the cache

    def __init__(self, n, k, rng):
        self.n, self.k = n, k
        self.root = pow(3, (PRIME - 1) // n, PRIME)  # 3 generates the group
        self.available = np.sort(rng.permutation(n)[:k])

    def encode(self, blocks, out):
        """Coded blocks from data blocks."""
        for first in range(0, blocks.shape[1], self.tile):
            part = np.zeros((self.n, blocks[:, first : first + self.tile].shape[1]), np.int64)
            part[: self.k] = blocks[:, first : first + self.tile]
            out[:, first : first + self.tile] = number_transform(part, self.root)
        return out

    def prepare(self):
        """The locator A(x) = prod (x - x_i) over what is available, and 1 / A'(x_i)."""
        locator = np.array([1])
        points = powers(self.root, self.n)
        for point in points[self.available].tolist():
            shifted = np.concatenate([[0], locator])
            shifted[:-1] -= locator * point % PRIME
            locator = shifted % PRIME
        derivative = np.zeros((self.n, 1), np.int64)
        derivative[: self.k, 0] = locator[1:] * np.arange(1, self.k + 1) % PRIME
        slopes = number_transform(derivative, self.root)[self.available, 0]
        self.weights = np.array([pow(int(slope), -1, PRIME) for slope in slopes])[:, None]
        self.double_root = pow(3, (PRIME - 1) // (2 * self.n), PRIME)
        padded = np.zeros((2 * self.n, 1), np.int64)
        padded[: self.k + 1, 0] = locator
        self.locator = number_transform(padded, self.double_root)

    def decode(self, outputs, out):
        """The data: A * sum_i y_i / A'(x_i) / (x - x_i), the fractions as series modulo x**k."""
        n, k = self.n, self.k
        inverse = pow(self.double_root, -1, PRIME)
        scale = pow(2 * n, -1, PRIME)
        for first in range(0, outputs.shape[1], self.tile):
            tile = slice(first, first + self.tile)
            received = outputs[self.available, tile]
            terms = np.zeros((n, received.shape[1]), np.int64)
            terms[self.available] = reduce_products(received * self.weights)
            # 1 / (x - x_i) = - sum_j x**j x_i**(-j - 1)
            series = number_transform(terms, pow(self.root, -1, PRIME))
            series = np.concatenate([series[1:], series[:1]])[:k]
            padded = np.zeros((2 * n, series.shape[1]), np.int64)
            padded[:k] = (PRIME - series) % PRIME
            product = reduce_products(number_transform(padded, self.double_root) * self.locator)
            out[:, tile] = reduce_products(number_transform(product, inverse)[:k] * scale)
        return out


class Leopard:
    """reed-solomon-leopard on the bytes of the blocks; systematic, k of the n shards arrive."""

    def __init__(self, n, k, rng):
        import reed_solomon_leopard

        self.library, self.n, self.k = reed_solomon_leopard, n, k
        self.available = np.sort(rng.permutation(n)[:k])

    def encode(self, blocks, out):
        """Coded blocks from data blocks."""
        self.shards = [row.tobytes() for row in blocks]
        start = time.perf_counter()
        self.recovery = self.library.encode(self.shards, self.n - self.k)
        self.seconds = time.perf_counter() - start

    def prepare(self):
        """Nothing: it keeps no plan."""

    def decode(self, outputs, out):
        """Lost shards from those that are there."""
        there = self.available.tolist()
        original = {i: self.shards[i] for i in there if i < self.k}
        recovery = {i - self.k: self.recovery[i - self.k] for i in there if i >= self.k}
        start = time.perf_counter()
        restored = self.library.decode(self.k, self.n - self.k, original, recovery)
        self.seconds = time.perf_counter() - start
        if not all(restored[i] == self.shards[i] for i in restored):
            raise AssertionError("leopard restored other bytes")


def timed(work, *args):
    """Seconds of one call, without the copies that a wrapper counts out itself."""
    owner = getattr(work, "__self__", None)
    start = time.perf_counter()
    work(*args)
    total = time.perf_counter() - start
    return owner.seconds if isinstance(owner, Leopard) else total


def quantization_error(rng):
    """Relative error of 5000-term products that fit the field when rounded to small integers."""
    a, x = rng.standard_normal((200, INNER)), rng.standard_normal((INNER, 50))
    exact = a @ x
    # six standard deviations of the sum, INNER terms of variance scale**4, fit half the field
    scale = np.sqrt((PRIME / 2) / (6 * np.sqrt(INNER)))
    rounded = np.round(a * scale) @ np.round(x * scale) / scale**2
    return float(np.linalg.norm(rounded - exact) / np.linalg.norm(exact))


def measure(scheme, n, share, rounds, rng):
    """(encode, decode, prepare, error): seconds in the figure's setting."""
    k = n // 2
    field = isinstance(scheme, FermatReedSolomon)
    dtype = np.int64 if field else np.float64
    encoded = max(int(2 * ROWS * INNER * share), 256)
    decoded = max(int(2 * ROWS * COLUMNS * share), 256)
    seconds = {"encode": [], "decode": []}
    data = rng.integers(0, PRIME, (k, encoded)) if field else rng.standard_normal((k, encoded))
    out = np.ones((n, encoded), dtype)
    for _ in range(rounds):
        seconds["encode"].append(timed(scheme.encode, data, out))
    products = data[:, :decoded].copy()
    outputs = np.ones((n, decoded), dtype)
    scheme.encode(products, outputs)
    result = np.ones((k, decoded), dtype)
    start = time.perf_counter()
    scheme.prepare()
    prepare = time.perf_counter() - start
    for _ in range(rounds):
        seconds["decode"].append(timed(scheme.decode, outputs, result))
    if isinstance(scheme, Leopard):
        error = 0.0
    elif field:
        if not np.array_equal(result, products):
            raise AssertionError("the finite field decoded other data")
        error = quantization_error(rng)
    else:
        error = float(np.linalg.norm(result - products) / np.linalg.norm(products))
    encode = np.median(seconds["encode"]) * 2 * ROWS * INNER / encoded
    return encode, np.median(seconds["decode"]) * 2 * ROWS * COLUMNS / decoded, prepare, error


SCHEMES = {
    "polar, sequential": Polar,
    "polar, default": Default,
    "Vandermonde, real": Vandermonde,
    "Gaussian, real": Gaussian,
    "Reed-Solomon, FNT": FermatReedSolomon,
    "leopard, bytes": Leopard,
}


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small n and few columns")
    parser.add_argument("--share", type=float, default=0.05, help="of the columns that are timed")
    parser.add_argument("--data", help="not used; every benchmark accepts it")
    parser.add_argument("--out", type=Path, help="folder for the results, named by the date")
    args = parser.parse_args(argv)
    sizes = (16, 64) if args.quick else (16, 32, 64, 128, 256, 512)
    share, rounds = (args.share / 10, 1) if args.quick else (args.share, 5)
    with measuring.report(args.out, "figure-4") as say, threadpool_limits(1):
        measuring.describe_machine(say)
        say(
            f"Figure 4: A ({ROWS} n x {INNER}) times x ({INNER} x {COLUMNS}), rate 1/2, one thread;"
        )
        say(f"medians of {rounds}, timed on {share:.1%} of the columns and scaled; float64")
        say(
            f"{'n':>4}  {'scheme':<18} {'outputs':>7} {'encode s':>9} {'decode s':>9} "
            f"{'prepare ms':>10} {'rel. error':>10}"
        )
        for n in sizes:
            for name, scheme in SCHEMES.items():
                rng = np.random.default_rng(n)
                try:
                    made = scheme(n, n // 2, rng)
                except ImportError:
                    say(f"{n:>4}  {name:<18} not installed")
                    continue
                encode, decode, prepare, error = measure(made, n, share, rounds, rng)
                say(
                    f"{n:>4}  {name:<18} {len(made.available):>7} {encode:>9.3f} {decode:>9.4f} "
                    f"{prepare * 1e3:>10.1f} {error:>10.1e}"
                )
        say("error: of the data from the coded blocks; for the FNT that of a product whose terms")
        say("are rounded so that their sum fits the field (its coding is exact)")


if __name__ == "__main__":
    main()
