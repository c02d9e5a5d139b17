"""The unbiased estimate of the second paper: exact with all outputs, its error by the law."""

import numpy as np
import pytest

from sooner.codes import ARIKAN, PolarCode, Replication, SideBySide, Uncoded

PAPERS = {"late_parities": 0, "decoder": "sequential"}


@pytest.mark.parametrize("method", ["papers", "default"])
def test_with_all_outputs_of_the_papers_code_it_is_exact(method):
    code = PolarCode(64, 40, **(PAPERS if method == "papers" else {"late_parities": 0}))
    data = np.random.default_rng(0).standard_normal((40, 5))
    estimate = code.estimate(code.encode(data), np.ones(64, dtype=bool), method="unbiased")
    np.testing.assert_allclose(estimate.value, data, atol=1e-13)
    assert estimate.relative_error == 0


@pytest.mark.parametrize("kind", ["gaussian", "equal blocks", "one block"])
@pytest.mark.parametrize(
    ("n", "k", "options", "m"),
    [
        (64, 48, PAPERS, 16),
        (64, 48, PAPERS, 48),
        (64, 40, PAPERS, 32),
        (64, 48, {}, 32),  # late parities
        (50, 36, {}, 30),  # punctured as well: N is 64
        (1, 1, {}, 1),
    ],
)
def test_its_error_follows_the_closed_form_within_four_standard_errors(n, k, options, m, kind):
    rng = np.random.default_rng(7)
    data = {
        "gaussian": rng.standard_normal((k, 3)),
        "equal blocks": np.tile(rng.standard_normal(3), (k, 1)),
        "one block": np.eye(k, 1) @ rng.standard_normal((1, 3)),
    }[kind]
    excess, squares, total = [], [], np.zeros_like(data)
    n_codes, sets = 250, 6  # the law is a mean over signs and parities, so over codes
    for seed in range(n_codes):
        code = PolarCode(n, k, **options, rng=seed)
        outputs = code.encode(data)
        of_code = []
        for _ in range(sets):
            available = np.zeros(n, dtype=bool)
            available[rng.permutation(n)[:m]] = True
            estimate = code.estimate(
                np.where(available[:, None], outputs, np.nan), available, method="unbiased"
            )
            total += estimate.value
            of_code.append(np.sum((estimate.value - data) ** 2) / np.sum(data**2))
        squares.append(np.mean(of_code))
        excess.append(np.mean(of_code) - code.relative_error(m) ** 2)
        assert estimate.relative_error == code.relative_error(m)
    assert abs(np.mean(excess)) <= 4 * np.std(excess) / np.sqrt(n_codes) + 1e-12
    # Unbiased: the mean over sets and signs is the answer.
    noise = np.sqrt(np.mean(squares) / n_codes) * np.linalg.norm(data)
    assert np.linalg.norm(total / (n_codes * sets) - data) <= 4 * noise + 1e-9


def test_from_nothing_it_is_zero_and_off_by_everything():
    code = PolarCode(16, 12)
    estimate = code.estimate(np.full((16, 2), np.nan), np.zeros(16, dtype=bool))
    np.testing.assert_array_equal(estimate.value, np.zeros((12, 2)))
    assert estimate.relative_error == 1


def test_another_kernel_has_none_and_says_why():
    code = PolarCode(16, 12, kernel=ARIKAN)
    with pytest.raises(ValueError, match=r"need orthogonal kernels .* and ARIKAN is none"):
        code.estimate(np.ones((16, 2)), np.ones(16, dtype=bool))
    with pytest.raises(ValueError, match=r"need orthogonal kernels"):
        code.relative_error(3)


def test_side_by_side_estimates_each_part_from_its_own_outputs():
    parts = [PolarCode(16, 12, **PAPERS), PolarCode(8, 4, **PAPERS)]
    code = SideBySide(parts)
    data = np.random.default_rng(0).standard_normal((16, 3))
    available = np.arange(24) % 3 != 0
    estimate = code.estimate(code.encode(data), available)
    np.testing.assert_array_equal(
        estimate.value[:12],
        parts[0].estimate(parts[0].encode(data[:12]), available[:16]).value,
    )
    assert 0 < code.relative_error(12) < 3


def test_copies_are_the_data_blocks_that_came_and_zeros():
    code = Replication(6, 3)
    data = np.ones((3, 2))
    available = np.array([True, False, False, False, False, True])
    estimate = code.estimate(code.encode(data), available)
    np.testing.assert_array_equal(estimate.value, [[1, 1], [0, 0], [1, 1]])
    assert estimate.relative_error == pytest.approx(np.sqrt(1 / 3))
    assert Uncoded(4).relative_error(1) == pytest.approx(np.sqrt(3 / 4))
    # C(4, 2) / C(6, 2): both copies of a block among the four that did not come.
    assert code.relative_error(2) == pytest.approx(np.sqrt(6 / 15))
