"""Principal components of photographs' patches, by SciPy's solvers on a coded matrix.

Each row of A is a patch of 8 x 8 pixels of the photographs that come with scikit-learn, less the
mean patch.  The components are A's leading right singular vectors: ``svds`` finds them by
products with A and its transpose, ``eigsh`` those of ``A.H @ A`` by the same; neither sees a number
of A, which only the tasks do.  Both agree with NumPy.

    python examples/pca.py [--small] [--out PICTURE.png]
"""

import argparse
import tempfile

import matplotlib.pyplot as plt
import numpy as np
from scipy.sparse.linalg import eigsh, svds

import sooner
from sooner.demo.photographs import load_photographs, patch_matrix

COMPONENTS = 12


# %% The matrix, encoded once with its transpose
def patches(*, small):
    """Give the patches, one in each row."""
    photographs = load_photographs()
    if small:
        photographs = photographs[:, :96, :96]
    return patch_matrix(photographs, stride=4, dtype=np.float64).matrix


# %% The same components three ways
def leading(A, operator):
    """Give singular values by falling size, and components, by svds, eigsh and NumPy."""
    _, by_svds, right = svds(operator, k=COMPONENTS, tol=1e-13, return_singular_vectors="vh")
    order = np.argsort(-by_svds)
    squares, vectors = eigsh(operator.H @ operator, k=COMPONENTS, tol=1e-13)
    back = np.argsort(-squares)
    _, exact, exact_right = np.linalg.svd(A, full_matrices=False)
    return {
        "svds": (by_svds[order], right[order]),
        "eigsh": (np.sqrt(squares[back]), vectors.T[back]),
        "NumPy": (exact[:COMPONENTS], exact_right[:COMPONENTS]),
    }


def differences(found):
    """Give by how much each differs from NumPy: values relatively, components up to their sign."""
    exact, exact_right = found["NumPy"]
    return {
        name: (
            float(np.abs(values / exact - 1).max()),
            float(np.abs(np.abs(np.einsum("ij,ij->i", right, exact_right)) - 1).max()),
        )
        for name, (values, right) in found.items()
    }


# %% Drawn: what each component adds to a patch
def draw(right, values, path):
    figure, axes = plt.subplots(2, COMPONENTS // 2, figsize=(9, 3.4), layout="constrained")
    for axis, component, value in zip(axes.flat, right, values, strict=True):
        picture = component.reshape(8, 8, 3)
        axis.imshow(0.5 + 0.5 * picture / np.abs(picture).max())
        axis.set_title(f"{value:.3g}", fontsize=9)
        axis.set_axis_off()
    figure.savefig(path, dpi=150)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--small", action="store_true", help="a corner of each photograph")
    parser.add_argument("--workers", default="local:4", help="the name of an executor")
    parser.add_argument("--out", default="pca.png", help="the picture")
    options = parser.parse_args(arguments)
    A = patches(small=options.small)
    with tempfile.TemporaryDirectory() as folder:
        coded = sooner.encode(A, sooner.PolarCode(16, 12, rng=0), folder, adjoint=True)
        with sooner.CodedLinearOperator(coded, options.workers) as operator:
            found = leading(A, operator)
    for name, (values, vectors) in differences(found).items():
        print(f"{name:<6} differs from NumPy by {values:.1e}, its components by {vectors:.1e}")
    draw(*reversed(found["svds"]), options.out)
    return differences(found)


if __name__ == "__main__":
    main()
