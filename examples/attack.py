"""An adversarial attack on an image classifier that answers queries and shows nothing else.

The classifier of rapidocr-onnxruntime tells whether a line of text is upright or upside down.  The
attack sees its probabilities only, a tenth of which never come, and changes coarse gray squares
within narrow bounds until the classifier is wrong.

    python examples/attack.py [attack.png]
"""

# %%
import functools
import logging
import math
import sys
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

import sooner

SHAPE, GRID = (48, 192), (12, 48)  # of the classifier's input, and of the gray squares
BOUND = 0.15  # most that a pixel may change, of the range from black to white
CODE = sooner.PolarCode(64, 48, rng=0)


# %% The classifier: its model file is inside the package.
def load_classifier():
    import onnxruntime
    import rapidocr_onnxruntime

    folder = Path(rapidocr_onnxruntime.__file__).parent / "models"
    session = onnxruntime.InferenceSession(str(folder / "ch_ppocr_mobile_v2.0_cls_infer.onnx"))

    def probabilities(image):  # gray, from 0 to 1: of "upright" and "upside down"
        pixels = np.broadcast_to(2 * image - 1, (1, 3, *SHAPE)).astype(np.float32)
        return session.run(None, {"x": pixels})[0][0]

    return probabilities


def text(line="sooner or later"):
    image = Image.new("L", SHAPE[::-1], 235)
    ImageDraw.Draw(image).text((8, 10), line, fill=30, font=ImageFont.load_default(size=24))
    return np.asarray(image) / 255


def changed(image, squares):
    return np.clip(image + np.kron(squares.reshape(GRID), np.ones((4, 4))), 0, 1)


# %% The objective: log-probability of the true class less that of the runner-up.
def make_objective(image, true):
    probabilities = load_classifier()

    def margin(squares):
        logs = np.log(np.maximum(probabilities(changed(image, squares)), 1e-30))
        return logs[true] - np.max(np.delete(logs, true))

    return margin


def attack(image, true, executor, queries=3000):
    def callback(intermediate_result):
        found = intermediate_result
        print(f"generation {found.nit}: {found.nfev} queries, margin {found.fun:.2f}")
        if found.fun < 0 or found.nfev + 2 * CODE.n + 1 > queries:
            raise StopIteration

    make = functools.partial(make_objective, image, true)
    bounds = [(-BOUND, BOUND)] * math.prod(GRID)
    return sooner.minimize(
        make, np.zeros(len(bounds)), factory=True, code=CODE, sigma=0.05, learning_rate=0.002,
        bounds=bounds, executor=executor, callback=callback,
    )  # fmt: skip


def picture(path, before, after):
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(3, figsize=(6, 5), layout="constrained")
    shown = {"before": before, "after": after, "difference": after - before + 0.5}
    for ax, (title, image) in zip(axes, shown.items(), strict=True):
        ax.imshow(image, cmap="gray", vmin=0, vmax=1)
        ax.set(title=title, xticks=[], yticks=[])
    figure.savefig(path, dpi=120)
    plt.close(figure)


# %%
if __name__ == "__main__":
    logging.getLogger("sooner").setLevel(logging.ERROR)  # a tenth is lost, we know
    rng, path = np.random.default_rng(0), sys.argv[1] if len(sys.argv) > 1 else "attack.png"
    unreliable = sooner.VirtualExecutor(lambda *_: rng.choice([math.inf, 1.0], p=[0.1, 0.9]))
    image, probabilities = text(), load_classifier()
    result = attack(image, 0, unreliable)
    after = changed(image, result.x)
    picture(path, image, after)
    print(f"upright: {probabilities(image)[0]:.4f} before, {probabilities(after)[0]:.4f} after")
