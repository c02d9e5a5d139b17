"""Compute the table of run times that the demo draws from: src/sooner/demo/run_times.json.

The times are those of real cloud functions, which the project does not contain; only quantiles
of them are shipped.  Prints the table; ``--write`` puts it into the package.

    python benchmarks/run_time_quantiles.py --data FOLDER [--write]
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
from pathlib import Path
from typing import Any

import numpy as np

FILE = "sgc-lambda-256/cnn_profile_est_desktop_long__w256-n30-l0_750-b2048-cno_forloop-Canada.csv"
TABLE = Path(__file__).parent.parent / "src" / "sooner" / "demo" / "run_times.json"
# Dense at the upper end: 15 of the 7680 times (0.2 %) are above 4 s, and they are the point.
PROBABILITIES = [
    *(0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99),
    *(0.995, 0.998, 0.9981, 0.9983, 0.999, 0.9995, 1),
]


def quantile_table(path: Path) -> dict[str, Any]:
    """Quantiles of the times in one file of rounds x functions, with where they come from."""
    times = np.loadtxt(path, delimiter=",", ndmin=2)
    rounds, functions = times.shape
    return {
        "what": "seconds from the call of a cloud function to its answer: quantiles",
        "measured": f"AWS Lambda, 2500 MB, Canada: {rounds} rounds of {functions} functions, "
        "each the gradient of a small neural network on its share of a batch",
        "source": "github.com/mamaj/Sequential-Gradient-Coding-2, commit 21933da, "
        f"delay_profiles, {path.name}",
        "licence": "none stated by the source; nothing of it is contained but these quantiles",
        "computed": f"{dt.datetime.now(tz=dt.UTC).date()} by benchmarks/run_time_quantiles.py",
        "probabilities": PROBABILITIES,
        "seconds": [round(float(time), 4) for time in np.quantile(times, PROBABILITIES)],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with sgc-lambda-256")
    parser.add_argument("--write", action="store_true", help=f"replace {TABLE.name}")
    arguments = parser.parse_args()
    text = json.dumps(quantile_table(arguments.data / FILE), indent=2) + "\n"
    if arguments.write:
        TABLE.write_text(text, encoding="utf-8")
    print(text, end="")


if __name__ == "__main__":
    main()
