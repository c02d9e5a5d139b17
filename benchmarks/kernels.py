r"""Encoding and decoding against a memcpy of the output: the core, NumPy, and dense algebra.

Medians of interleaved runs in one process on arrays well beyond the last-level cache; with the
10 and 90 % points, the machine, the compiler and the BLAS kernel.

    env -u OPENBLAS_CORETYPE -u OPENBLAS_L2_SIZE \
        python benchmarks/kernels.py [--quick] [--out FOLDER]
"""

from __future__ import annotations

import argparse
import datetime as dt
import time
from pathlib import Path

import numpy as np
import threadpoolctl
from measuring import describe_machine, interleaved, memcpy, ratios, report

import sooner
from sooner.codes import transform

SLOW_SHARE = 16
"""Comparators that cost tens of memcpys are timed on one column in so many, and scaled."""

NUMPY_SHARE = 4
"""The same for NumPy, still beyond the last-level cache."""


def using(variant, work):
    def run():
        transform.use_core(variant)
        try:
            work()
        finally:
            transform.use_core(True)

    return run


def papers_code(n, k):
    return sooner.PolarCode(n, k, erasure_prob=1 - k / n, late_parities=0, decoder="sequential")


def until_decodable(code, rng):
    decoder = code.decoder()
    for index in rng.permutation(code.n).tolist():
        if decoder.add(index):
            break
    return decoder


def papers_recursion(values, kinds, zero):
    """The papers' decoder as they write it: values down, values up, every level a new array."""
    if len(values) == 1:
        return [values[0] if kinds[0] else zero.copy()]
    half = len(values) // 2
    uppers, lowers = values[:half], values[half:]
    pairs = list(zip(uppers, lowers, strict=True))
    worse = [None if u is None or v is None else (u + v) / 2 for u, v in pairs]
    worse = papers_recursion(worse, kinds[:half], zero)
    better = []
    for (u, v), w in zip(pairs, worse, strict=True):
        better.append((w - v if v is not None else None) if u is None else u - w)
    better = papers_recursion(better, kinds[half:], zero)
    pairs = list(zip(worse, better, strict=True))
    return [w + b for w, b in pairs] + [w - b for w, b in pairs]


def whole_array_transform(code, blocks):
    """Level by level on whole arrays."""
    values = np.zeros((code.transform_size, blocks.shape[1]), blocks.dtype)
    values[code.layout.data_channels] = blocks * code.layout.scales[:, None].astype(blocks.dtype)
    half = code.transform_size // 2
    while half:
        pairs = values.reshape(-1, 2, half, blocks.shape[1])
        pairs[:, 0], pairs[:, 1] = pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]
        half //= 2
    return values[code.layout.positions]


def arrays(n, k, dtype, n_bytes):
    """(data, coded, copy of coded, result) of whole cache lines; rows not a power of two apart."""
    columns = n_bytes // n // dtype.itemsize // 64 * 64 + 64
    if columns * dtype.itemsize % 4096 == 0:
        columns += 64
    rng = np.random.default_rng(0)
    data = np.empty((k, columns), dtype)
    for row in data:
        row[:] = rng.integers(-99, 99)
    return data, *(np.ones((rows, columns), dtype) for rows in (n, n, k))


CASES = [(np.dtype(dtype), rate) for dtype in ("float64", "float32") for rate in (0.75, 0.5)]


def encode_table(say, sizes, n_bytes, rounds):
    """1 and 4: encoding."""
    say("\n1. encode over memcpy of the coded blocks")
    found = {}
    for dtype, rate in CASES:
        for n in sizes:
            contenders = encoders(papers_code(n, int(n * rate)), dtype, n_bytes)
            seconds = interleaved(contenders, rounds)
            line = ratios(say, f"{dtype} {rate:.2f} n={n:<5}", seconds, "memcpy")
            found[dtype.name, rate, n] = line | two_threads(seconds)
    return found


def encoders(code, dtype, n_bytes):
    """The core, and at rate 3/4 what it is compared with."""
    n, k = code.n, code.k
    data, coded, copy, _ = arrays(n, k, dtype, n_bytes)
    contenders = {
        "memcpy": (lambda: memcpy(copy, coded), 1),
        "core": (lambda: code.encode(data, out=coded), 1),
        "memcpy x2": (lambda: memcpy(copy, coded, 2), 1),
        "core x2": (lambda: code.encode(data, out=coded, threads=2), 1),
    }
    if 4 * k == 3 * n:
        few, some = part(data, SLOW_SHARE), part(data, NUMPY_SHARE)
        few_coded, some_coded = (np.ones((n, x.shape[1]), dtype) for x in (few, some))
        contenders["NumPy tiles"] = (
            using(False, lambda: code.encode(some, out=some_coded)),
            NUMPY_SHARE,
        )
        contenders["NumPy whole"] = (lambda: whole_array_transform(code, some), NUMPY_SHARE)
        if n <= 2048:
            matrix = code.encode(np.eye(k, dtype=dtype))
            contenders["GEMM"] = (lambda: np.matmul(matrix, few, out=few_coded), SLOW_SHARE)
    return contenders


def part(blocks, share):
    return np.ascontiguousarray(blocks[:, : blocks.shape[1] // share])


def two_threads(seconds):
    """Speed-up by medians, by the fastest rounds (others use the machine too), and of memcpy."""
    found = {}
    for name, statistic in (("speed-up", np.median), ("fastest", np.min)):
        found[name] = float(statistic(seconds["core"]) / statistic(seconds["core x2"]))
        found[f"memcpy {name}"] = float(
            statistic(seconds["memcpy"]) / statistic(seconds["memcpy x2"])
        )
    return found


def decode_table(say, sizes, n_bytes, rounds):
    """2 and 4: decoding with the sequential decoder."""
    say("\n2. decode over memcpy of the data blocks: sequential, random decodable pattern")
    found = {}
    for dtype, rate in CASES:
        for n in sizes:
            code = papers_code(n, int(n * rate))
            decoder = until_decodable(code, np.random.default_rng(n))
            contenders = decoders(code, decoder, dtype, n_bytes)
            seconds = interleaved(contenders, rounds)
            line = ratios(say, f"{dtype} {rate:.2f} n={n:<5}", seconds, "memcpy")
            found[dtype.name, rate, n] = line | two_threads(seconds)
    return found


def decoders(code, decoder, dtype, n_bytes):
    """The core, and in float64 what it is compared with."""
    data, coded, copy, result = arrays(code.n, code.k, dtype, n_bytes)
    code.encode(data, out=coded)
    plan = decoder.plan()
    if not np.array_equal(plan.run(coded, out=result), data):
        raise AssertionError("decoded data differ")
    contenders = {
        "memcpy": (lambda: memcpy(result, copy[: code.k]), 1),
        "core": (lambda: plan.run(coded, out=result), 1),
        "memcpy x2": (lambda: memcpy(result, copy[: code.k], 2), 1),
        "core x2": (lambda: plan.run(coded, out=result, threads=2), 1),
    }
    if dtype == np.float64:
        contenders |= numpy_decoders(code, decoder, coded)
        if code.n <= 2048:
            contenders |= dense_decoders(code, decoder, coded)
    return contenders


def numpy_decoders(code, decoder, coded):
    """The same program in NumPy, and the papers' recursion."""
    plan = decoder.plan()
    few, some = part(coded, SLOW_SHARE), part(coded, NUMPY_SHARE)
    some_result = np.ones((code.k, some.shape[1]))
    values = [None] * code.transform_size
    for index in np.flatnonzero(decoder.available).tolist():
        values[code.layout.positions[index]] = few[index]
    zero = np.zeros_like(few[0])
    return {
        "NumPy tiles": (using(False, lambda: plan.run(some, out=some_result)), NUMPY_SHARE),
        "recursion": (lambda: papers_recursion(values, code.layout.kinds, zero), SLOW_SHARE),
    }


def dense_decoders(code, decoder, coded):
    """A precomputed pseudo-inverse, and a Gaussian MDS code factored and solved."""
    available = np.flatnonzero(decoder.available)
    inverse = np.linalg.pinv(code.encode(np.eye(code.k))[available])
    few = part(coded, SLOW_SHARE)[available]
    few_result = np.ones((code.k, few.shape[1]))
    gaussian = np.random.default_rng(0).standard_normal((code.k, code.k))
    received = coded[: code.k]
    return {
        "GEMM": (lambda: np.matmul(inverse, few, out=few_result), SLOW_SHARE),
        # all columns: factoring costs the same for few of them
        "Gaussian": (lambda: np.linalg.solve(gaussian, received), 1),
    }


def default_table(say, sizes, n_bytes, rounds):
    """3: the default code at its threshold."""
    say("\n3. the default code at its threshold over memcpy of the data blocks, float64, 1 thread")
    for rate in (0.75, 0.5):
        for n in sizes:
            code = sooner.PolarCode(n, int(n * rate))
            decoder = until_decodable(code, np.random.default_rng(n))
            contenders = default_decoders(code, decoder, n_bytes)
            line = ratios(say, f"{rate:.2f} n={n:<5}", interleaved(contenders, rounds), "memcpy")
            plan = decoder.plan()
            over = ", ".join(
                f"{name} {line[name] / line['sequential']:.2f}"
                for name in line
                if name not in {"memcpy", "sequential"}
            )
            say(
                f"     {plan.n_unknowns} unknowns, condition {plan.condition:.0f}, "
                f"{plan.n_refinements(np.dtype(np.float64))} refinements decided; "
                f"over sequential: {over}"
            )


def default_decoders(code, decoder, n_bytes):
    """The default code's plan, refined or not, the papers' plan, and a Gaussian MDS code."""
    n, k = code.n, code.k
    plan = decoder.plan()
    sequential = until_decodable(papers_code(n, k), np.random.default_rng(n)).plan()
    data, coded, copy, result = arrays(n, k, np.dtype(np.float64), n_bytes)
    code.encode(data, out=coded)
    gaussian = np.random.default_rng(0).standard_normal((k, k))

    def decode(n_refinements):
        return transform.run_with_unknowns(
            plan.equations,
            plan.data,
            plan.solve,
            coded,
            n_refinements=n_refinements,
            out=result,
        )

    contenders = {
        "memcpy": (lambda: memcpy(result, copy[:k]), 1),
        "sequential": (lambda: sequential.run(coded, out=result), 1),
        "Gaussian": (lambda: np.linalg.solve(gaussian, coded[:k]), 1),
    }
    if plan.equations is not None:
        contenders["unrefined"] = (lambda: decode(0), 1)
        contenders["refined"] = (lambda: decode(1), 1)
    return contenders


def plan_table(say):
    """Making plans."""
    say("\nplans at rate 3/4, best of 3: of the papers' code; of the default code at its threshold")
    for n in (256, 1024, 2048, 65536):
        times = [plan_seconds(papers_code(n, n * 3 // 4), n)]
        if n <= 1024:
            times.append(plan_seconds(sooner.PolarCode(n, n * 3 // 4), n))
        say(f"n={n}: " + ", ".join(f"{seconds * 1e3:.1f} ms" for seconds in times))


def plan_seconds(code, seed):
    available = until_decodable(code, np.random.default_rng(seed)).available
    seconds = []
    for _ in range(3):
        decoder = code.decoder()
        for index in np.flatnonzero(available).tolist():
            decoder.add(index)
        decoder._walk = None  # what deciding left behind
        start = time.perf_counter()
        decoder.plan()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def draw(path, encode, decode):
    """Cost over memcpy against n."""
    from matplotlib import figure as mpl

    figure = mpl.Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    for found, name, color in ((encode, "encode", "C0"), (decode, "decode", "C1")):
        for dtype, rate, style in (
            ("float64", 0.75, "-"),
            ("float64", 0.5, "--"),
            ("float32", 0.75, ":"),
        ):
            n = [key[2] for key in found if key[:2] == (dtype, rate)]
            axes.plot(
                n,
                [found[dtype, rate, size]["core"] for size in n],
                style,
                color=color,
                marker="o",
                markersize=3,
                label=f"{name}, {dtype}, rate {rate:g}",
            )
    axes.set(
        xscale="log", xlabel="tasks n", ylabel="time over memcpy of the output", ylim=(0, None)
    )
    axes.set_xscale("log", base=2)
    axes.legend(fontsize="small")
    figure.savefig(path, dpi=150)


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few sizes, small arrays")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--data", help="not used; every benchmark accepts it")
    parser.add_argument("--out", type=Path, help="folder for the results, named by the date")
    args = parser.parse_args(argv)
    sizes = (64, 256) if args.quick else (64, 256, 512, 2048, 8192)
    n_bytes, rounds = (32 << 20, 3) if args.quick else (160 << 20, args.rounds)
    with report(args.out, "kernels") as say, threadpoolctl.threadpool_limits(1):
        describe_machine(say)
        say(
            f"coded blocks of {n_bytes >> 20} MiB, medians of {rounds} interleaved rounds "
            f"(10-90 %), BLAS with one thread;"
        )
        say(f"NumPy timed on one column in {NUMPY_SHARE}, GEMM and the recursion in {SLOW_SHARE}")
        encode = encode_table(say, sizes, n_bytes, rounds)
        decode = decode_table(say, sizes, n_bytes, rounds)
        say("\n4. two threads over one: of medians, of the fastest rounds; the same of memcpy")
        for name, found in (("encode", encode), ("decode", decode)):
            for (dtype, rate, n), line in found.items():
                say(
                    f"{name} {dtype} {rate:.2f} n={n:<5} {line['speed-up']:.2f} "
                    f"{line['fastest']:.2f}; memcpy {line['memcpy speed-up']:.2f} "
                    f"{line['memcpy fastest']:.2f}"
                )
        default_table(say, [n for n in (*sizes[:3], 1024) if n <= 1024], n_bytes, rounds)
        plan_table(say)
        if args.out is not None:
            today = dt.date.today().isoformat()
            draw(args.out / f"{today}-kernels.png", encode, decode)


if __name__ == "__main__":
    main()
