"""Coded matrices at rest: encode beside np.save, a task's reading beside a memory map, Zarr, S3.

All in one run, on a warm page cache.  ``--huge 20`` also encodes a sparse file of 20 GB within a
limit of memory and multiplies it through 512 tasks.
"""

import argparse
import contextlib
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import sooner
from sooner.store import slabs

COLUMNS = 16_000

# Answers GET with a range from files, as S3 does; one process, a thread per connection.
SERVER = """
import http.server, os, sys

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def log_message(self, *args):
        pass
    def do_GET(self):
        path = sys.argv[1] + "/" + self.path.partition("?")[0].rpartition("/")[2]
        size = os.path.getsize(path)
        first, last = 0, size - 1
        wanted = self.headers.get("Range")
        if wanted:
            first, last = map(int, wanted.removeprefix("bytes=").split("-"))
        self.send_response(206 if wanted else 200)
        self.send_header("Content-Length", str(last - first + 1))
        if wanted:
            self.send_header("Content-Range", f"bytes {first}-{last}/{size}")
        self.send_header("Last-Modified", "Mon, 30 Nov 2026 12:00:00 GMT")
        self.send_header("ETag", '"x"')
        self.end_headers()
        self.wfile.flush()
        with open(path, "rb") as file:
            self.connection.sendfile(file, first, last - first + 1)

server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()
"""


def seconds(call, repeats):
    """Median of the times of a call, after one for nothing."""
    call()
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def line(what, n_bytes, taken, reference=None):
    beside = "" if reference is None else f"{reference / taken:8.2f}"
    return f"{what:<58}{n_bytes / taken / 1e9:8.2f}{beside}"


def save(folder, blocks, *, flush):
    for index, block in enumerate(blocks):
        with (folder / f"saved-{index}.npy").open("wb") as file:
            np.save(file, block)
            if flush:
                file.flush()
                os.fsync(file.fileno())


def writing(folder, gigabytes, repeats):
    """Encode beside np.save of the same output."""
    code = sooner.PolarCode(64, 48, rng=0)
    rows = max(1, round(gigabytes * 1e9 / 8 / COLUMNS / code.k)) * code.k
    A = np.random.default_rng(0).standard_normal((rows, COLUMNS))
    output = [np.full((rows // code.k, COLUMNS), i, float) for i in range(code.n)]
    n_bytes = sum(block.nbytes for block in output)
    times = {}
    for _ in range(repeats):  # in turn, since disks have moods
        for what, call in (
            ("np.save of the same output", lambda new: save(new, output, flush=False)),
            ("np.save of the same output, flushed", lambda new: save(new, output, flush=True)),
            ("encode (flushed)", lambda new: sooner.encode(A, code, new)),
        ):
            new = folder / "new"
            new.mkdir()
            os.sync()
            began = time.perf_counter()
            call(new)
            times.setdefault(what, []).append(time.perf_counter() - began)
            shutil.rmtree(new)
    taken = {what: statistics.median(values) for what, values in times.items()}
    reference = taken["np.save of the same output"]
    return [
        f"writing {n_bytes / 1e9:.2f} GB: n=64, k=48, {rows} x {COLUMNS} float64; GB/s, of np.save",
        *(line(what, n_bytes, value, reference) for what, value in taken.items()),
    ]


def multiply(source, x, out):
    for first, rows in slabs.iter_slabs(source):
        np.matmul(rows, x, out=out[first : first + len(rows)])


def reading(folder, repeats):
    """A task's reading and multiplying beside that of a plain memory map, of Zarr and of S3."""
    blocks = 4
    A = np.random.default_rng(0).standard_normal((blocks * 512, COLUMNS))
    coded = sooner.encode(A, sooner.Uncoded(blocks), folder / "blocks")
    x, out = np.random.default_rng(1).standard_normal(COLUMNS), np.empty(512)
    paths = [folder / "blocks" / block.name for block in coded.manifest.blocks]
    sources = [coded.block_source(i) for i in range(blocks)]

    def mapped():
        for path in paths:
            np.matmul(np.load(path, mmap_mode="r"), x, out=out)

    def task():
        for source in sources:
            multiply(source, x, out)

    def unverified():
        slabs._intact.clear()
        task()

    reference = seconds(mapped, repeats)
    lines = [
        f"\nreading and multiplying {blocks} blocks of 512 x {COLUMNS} float64; GB/s, of the map",
        line("memory map of the same files", coded.nbytes, reference, reference),
        line("a task, slabs verified before", coded.nbytes, seconds(task, repeats), reference),
        line("a task, every slab verified", coded.nbytes, seconds(unverified, repeats), reference),
    ]
    with contextlib.suppress(ImportError):
        lines.append(in_zarr(folder, coded, x, out, repeats, reference))
    with contextlib.suppress(ImportError):
        lines += behind_a_url(folder, coded, x, out, repeats)
    return lines


def in_zarr(folder, coded, x, out, repeats, reference):
    import zarr

    chunks = (coded.slab_rows, COLUMNS)
    arrays = [
        zarr.create_array(
            folder / f"{i}.zarr", data=coded.block(i), chunks=chunks, compressors=None
        )
        for i in range(coded.code.n)
    ]

    def read():
        for array in arrays:
            for first in range(0, 512, coded.slab_rows):
                rows = array[first : first + coded.slab_rows]
                np.matmul(rows, x, out=out[first : first + len(rows)])

    return line(
        f"Zarr {zarr.__version__}, a chunk per slab, uncompressed",
        coded.nbytes,
        seconds(read, repeats),
        reference,
    )


def behind_a_url(folder, coded, x, out, repeats):
    """The same blocks through S3's protocol on loopback, nothing kept."""
    import obstore
    from obstore.store import from_url

    os.environ["SOONER_CACHE_BYTES"] = "0"
    with subprocess.Popen(
        [sys.executable, "-c", SERVER, str(folder / "blocks")], stdout=subprocess.PIPE
    ) as server:
        port = int(server.stdout.readline())
        options = {
            "endpoint": f"http://127.0.0.1:{port}",
            "skip_signature": True,
            "region": "us-east-1",
            "client_options": {"allow_http": True},
        }
        remote = sooner.open_coded("s3://bucket/blocks", storage_options=options)
        client = from_url("s3://bucket/blocks", **options)
        names = [block.name for block in coded.manifest.blocks]

        def get():
            for name in names:
                data = obstore.get(client, name).bytes()
                rows = np.frombuffer(data, np.float64, offset=128).reshape(512, COLUMNS)
                np.matmul(rows, x, out=out)

        def task():
            for index in range(len(names)):
                multiply(remote.block_source(index), x, out)

        reference = seconds(get, repeats)
        lines = [
            "\nthe same behind a URL (S3 protocol, loopback); GB/s, of a plain get",
            line("get of a whole object, then multiply", coded.nbytes, reference, reference),
            line("a task, slab by slab, verified", coded.nbytes, seconds(task, repeats), reference),
        ]
        server.kill()
    return lines


def huge(folder, gigabytes, megabytes):
    """A sparse file larger than the limit of memory, through 512 tasks; in a process of its own."""
    rows = round(gigabytes * 1e9 / 8 / COLUMNS)
    script = f"""
import re, resource, time
from pathlib import Path
import numpy as np, sooner
A = np.memmap("A.bin", np.float64, "r+", shape=({rows}, {COLUMNS}))
A[::10_007, 5] = 1.0
A.flush()
code = sooner.PolarCode(512, 384, rng=0)
sooner.encode(np.eye(2), code)
used = int(re.search(r"VmData:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) << 10
limit = used + ({megabytes} << 20)
resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
began = time.perf_counter()
coded = sooner.encode(A, code, "huge", max_memory={megabytes} << 18)
encoded = time.perf_counter()
x = np.arange({COLUMNS}) % 7.0
with sooner.matvec(coded, x, executor="local:2") as job:
    y = job.result()
ended = time.perf_counter()
expected = np.zeros({rows}); expected[::10_007] = x[5]
assert np.allclose(y, expected)
print(encoded - began, ended - encoded, coded.nbytes)
"""
    with (folder / "A.bin").open("wb") as file:
        file.truncate(rows * COLUMNS * 8)
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=folder, check=True, capture_output=True, text=True
    )
    encoding, product, stored = map(float, done.stdout.split())
    return [
        f"\n{gigabytes:g} GB sparse file, RLIMIT_DATA {megabytes} MiB above what Python takes: "
        f"encode to {stored / 1e9:.1f} GB in {encoding:.1f} s, exact product through 512 tasks in "
        f"{product:.1f} s"
    ]


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gigabytes", type=float, default=1.0)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--huge", type=float, help="gigabytes of a sparse file")
    parser.add_argument("--limit", type=int, default=512, help="megabytes for --huge")
    parser.add_argument("--folder", help="on the disk to measure")
    parser.add_argument("--data", help="not used; every benchmark accepts it")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args(argv)
    lines = [
        f"sooner {sooner.__version__}, numpy {np.__version__}, {os.cpu_count()} cores, medians of "
        f"{args.repeats}, {time.strftime('%Y-%m-%d')}"
    ]
    with tempfile.TemporaryDirectory(dir=args.folder) as name:
        folder = Path(name)
        lines += writing(folder, args.gigabytes, args.repeats)
        lines += reading(folder, args.repeats)
        if args.huge:
            lines += huge(folder, args.huge, args.limit)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    lines.append(f"\npeak of this process {peak:.2f} GB, the matrix and its copy for np.save in it")
    print("\n".join(lines))
    if args.out:
        args.out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
