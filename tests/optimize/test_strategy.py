import pickle
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import Bounds, OptimizeWarning

import sooner

NAN = float("nan")
CODE = sooner.PolarCode(16, 10, rng=0)


def linear(slope):
    return lambda x: 7.0 + slope @ x


@given(seed=st.integers(0, 200), lost=st.integers(0, 5))
def test_coded_directions_give_the_gradient_exactly_when_they_determine_it(seed, lost):
    rng = np.random.default_rng(seed)
    slope = rng.standard_normal(10)
    strategy = sooner.EvolutionStrategy(
        rng.standard_normal(10), sigma=0.1, learning_rate=1.0, code=CODE, rng=seed
    )
    candidates = strategy.ask()
    values = np.apply_along_axis(linear(slope), -1, np.asarray(candidates))
    values[rng.permutation(16)[:lost], rng.integers(2)] = NAN
    start = candidates.center.x
    strategy.tell(candidates, values)
    step = strategy.last_step
    assert step.n_values == 32 - lost
    if step.determined:
        np.testing.assert_allclose(step.gradient, slope, rtol=1e-7, atol=1e-7)
        np.testing.assert_allclose(strategy.x, start - slope, rtol=1e-7, atol=1e-7)
    assert step.determined  # halves of a linear objective are as good as pairs


def test_with_fewer_directions_than_variables_it_is_exact_in_their_span(strategy_of, values_of):
    slope = np.arange(25.0)
    strategy = strategy_of(25, code=CODE)
    candidates = strategy.ask()
    strategy.tell(candidates[3:], values_of(linear(slope), candidates[3:]))
    base = candidates.directions.base(0)
    np.testing.assert_allclose(base @ strategy.last_step.gradient, 2.5 * base @ slope, atol=1e-9)


@pytest.mark.parametrize("directions", ["orthogonal", "gaussian"])
@pytest.mark.parametrize("gradient", ["least_squares", "average"])
def test_half_a_pair_has_no_bias(directions, gradient, strategy_of):
    """The half that is missing is always the same one, and values are far from zero."""
    slope, seen = np.array([1.0, -2.0, 0.5]), []
    for seed in range(500):
        strategy = strategy_of(
            3, n=3, sigma=0.1, directions=directions, gradient=gradient, rng=seed
        )
        candidates = strategy.ask()
        points = np.asarray(candidates)
        values = 1000.0 + points @ slope + 3 * np.sum((points - 1) ** 2, axis=-1)
        values[0, 1] = NAN
        strategy.tell(candidates, values)
        seen.append(strategy.last_step.gradient)
    mean, error = np.mean(seen, axis=0), np.std(seen, axis=0) / np.sqrt(len(seen))
    # parallel to the slope: what it is shrunk by is common to all variables
    across = mean - slope * (mean @ slope) / (slope @ slope)
    assert np.linalg.norm(across) < 4 * np.linalg.norm(error)
    assert 0.6 < mean @ slope / (slope @ slope) < 1.4


@pytest.mark.parametrize("directions", ["orthogonal", "gaussian"])
def test_every_estimate_has_the_gradient_as_its_mean(directions, strategy_of, values_of):
    slope = np.array([3.0, 0.0, -1.0, 2.0])
    for gradient in ("least_squares", "average"):
        seen = []
        for seed in range(300):
            options = {"n": 6, "directions": directions, "gradient": gradient, "rng": seed}
            strategy = strategy_of(4, **options)
            candidates = strategy.ask()
            strategy.tell(candidates, values_of(linear(slope), candidates))
            seen.append(strategy.last_step.gradient)
        np.testing.assert_allclose(np.mean(seen, axis=0), slope, atol=0.45)


@pytest.mark.parametrize("optimizer", ["plain", "momentum", "adam"])
@pytest.mark.parametrize("shaping", [None, "ranks"])
def test_the_order_and_pieces_of_values_do_not_matter(optimizer, shaping, strategy_of, values_of):
    rng = np.random.default_rng(0)
    at_once = strategy_of(code=sooner.PolarCode(8, 6), optimizer=optimizer, shaping=shaping)
    in_pieces = pickle.loads(pickle.dumps(at_once))
    for _ in range(4):
        candidates = at_once.ask()
        values = values_of(lambda x: np.sum(x**4), candidates)
        values[rng.random(values.shape) < 0.2] = NAN
        at_once.tell(candidates, values)
        in_pieces.ask()
        for index in rng.permutation(8):
            for half in rng.permutation(2):
                in_pieces.tell(candidates[index, half], values[index, half])
    np.testing.assert_array_equal(at_once.x, in_pieces.x)


def test_situation_20_fewer_late_and_unordered_values(strategy_of, values_of):
    def fun(x):
        return np.sum(x**2)

    strategy = strategy_of(n=8)
    again = strategy.ask()
    strategy.tell(again[:0], np.zeros((0, 2)))
    first = strategy.ask()  # nothing was told: the same ones
    np.testing.assert_array_equal(again, first)
    values = values_of(fun, first)
    strategy.tell(first[:6][::-1], values[:6][::-1])  # 12 of 16, in reverse order
    with pytest.raises(ValueError, match="told once, got one for \\[2, 3\\] again"):
        strategy.tell(first[1], values[1])
    with pytest.raises(ValueError, match="the same candidate again"):
        strategy.tell(first[[7, 7]], values[[7, 7]])
    expected = strategy.x
    second = strategy.ask()
    np.testing.assert_array_equal(second.center.x, expected)
    strategy.tell(first[6:], values[6:])  # the missing 4, too late
    assert strategy.n_late == 4
    np.testing.assert_array_equal(strategy.x, expected)


@pytest.mark.parametrize("n", [1, 2, 3, 7])
def test_situation_20_few_and_odd_numbers_of_pairs(n, strategy_of, values_of):
    strategy = strategy_of(5, n=n, learning_rate=0.02)
    for _ in range(30):
        candidates = strategy.ask()
        strategy.tell(candidates, values_of(lambda x: np.sum(x**2), candidates))
    assert np.sum(strategy.x**2) < 2.5


def test_situation_20_half_of_the_only_pair_says_nothing(strategy_of):
    strategy = strategy_of(n=1)
    strategy.tell(strategy.ask()[0, 0], 3.0)
    with pytest.warns(OptimizeWarning, match=r"lost, .* 1 of 2 values came, 0 derivatives"):
        strategy.ask()
    np.testing.assert_array_equal(strategy.x, np.ones(6))


@pytest.mark.parametrize("shaping", [None, "ranks"])
@pytest.mark.parametrize("broken", [NAN, None, np.inf, -np.inf, "broken", 1j, [1.0, 2.0], object()])
def test_situation_19_a_broken_value_is_an_erasure(broken, shaping, strategy_of, values_of):
    with_it, without = (strategy_of(n=6, shaping=shaping) for _ in range(2))
    candidates = with_it.ask()
    values = values_of(lambda x: np.sum(x**2), candidates).tolist()
    told = [list(pair) for pair in values]
    told[2][0] = broken
    with_it.tell(candidates, told)
    without.tell(candidates[[0, 1, 3, 4, 5]], [values[i] for i in (0, 1, 3, 4, 5)])
    without.tell(candidates[2, 1], values[2][1])
    assert with_it.last_step.n_values == 11
    np.testing.assert_array_equal(with_it.x, without.x)


def test_situation_19_an_array_of_one_number_is_a_number(strategy_of):
    strategy = strategy_of(n=1)
    strategy.tell(strategy.ask(), [[np.array([1.0]), np.float32(2.0)]])
    assert strategy.last_step.n_values == 2


@pytest.mark.parametrize("value", [NAN, 3.0])
@pytest.mark.parametrize("optimizer", ["plain", "momentum", "adam"])
def test_situation_19_a_lost_or_flat_generation_moves_nothing_and_warns_once(
    value, optimizer, strategy_of, values_of, caplog
):
    strategy = strategy_of(n=6, optimizer=optimizer, shaping="ranks")
    candidates = strategy.ask()
    strategy.tell(candidates, values_of(lambda x: x[0], candidates))
    before = strategy.x  # momentum would go on
    strategy.tell(strategy.ask(), np.full((6, 2), value))
    kind = "flat" if np.isfinite(value) else "lost"
    with pytest.warns(OptimizeWarning, match=f"generation 1 was {kind}"):
        candidates = strategy.ask()
    np.testing.assert_array_equal(strategy.x, before)
    strategy.tell(candidates, np.full((6, 2), value))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        strategy.ask()
    assert f"generation 2 was {kind}" in caplog.text
    np.testing.assert_array_equal(strategy.x, before)


def test_a_missing_value_may_be_told_later(strategy_of):
    strategy = strategy_of(n=2)
    candidates = strategy.ask()
    strategy.tell(candidates, [[1.0, NAN], [NAN, NAN]])
    strategy.tell(candidates, [[NAN, 2.0], [3.0, 4.0]])
    assert strategy.last_step.n_values == 4


def test_a_wrong_shape_says_what_to_do(strategy_of):
    strategy = strategy_of(n=4)
    for values in (np.zeros(8), np.zeros((3, 2)), 1.0, "ab", [[1, 2], [3, 4], [5, 6], [7]]):
        with pytest.raises(ValueError, match="values must have the candidates' shape"):
            strategy.tell(strategy.ask(), values)
    with pytest.raises(ValueError, match="candidates must be of this strategy"):
        strategy.tell(strategy_of(n=5).ask(), np.zeros((5, 2)))


def test_maximizing_is_minimizing_the_negative(strategy_of, values_of):
    up, down = strategy_of(maximize=True), strategy_of()
    for strategy, sign in ((up, -1), (down, 1)):
        for _ in range(3):
            candidates = strategy.ask()
            strategy.tell(candidates, sign * values_of(lambda x: np.sum(x**2), candidates))
    np.testing.assert_array_equal(up.x, down.x)
    assert np.sum(down.x**2) < 6


@pytest.mark.parametrize("bounds", [[(0.9, 1.0)] * 6, Bounds(0.9, 1.0)])
@pytest.mark.parametrize("code", [None, sooner.PolarCode(8, 6)])
def test_nothing_leaves_the_bounds_and_a_corner_is_found(bounds, code, strategy_of, values_of):
    strategy = strategy_of(bounds=bounds, code=code, sigma=0.02, learning_rate=0.02)
    for _ in range(30):
        candidates = strategy.ask()
        points = np.asarray(candidates)
        assert (points >= 0.9).all()
        assert (points <= 1.0).all()
        strategy.tell(candidates, values_of(np.sum, candidates))
    np.testing.assert_array_equal(strategy.x, np.full(6, 0.9))


def test_steps_cut_off_at_a_bound_leave_the_gradient_exact(strategy_of, values_of):
    slope = np.arange(1.0, 7.0)
    strategy = strategy_of(bounds=[(None, 1.0)] * 6, code=sooner.PolarCode(12, 6))
    candidates = strategy.ask()
    strategy.tell(candidates, values_of(linear(slope), candidates))
    np.testing.assert_allclose(strategy.last_step.gradient, slope, atol=1e-9)


def test_it_waits_for_a_set_that_decodes_and_does_not_amplify_noise():
    plain = sooner.EvolutionStrategy(np.ones(48), sigma=0.1, learning_rate=0.1,
                                     code=sooner.PolarCode(64, 48, rng=0))  # fmt: skip
    careful = sooner.EvolutionStrategy(np.ones(48), sigma=0.1, learning_rate=0.1, noise_gain=2.0,
                                       code=sooner.PolarCode(64, 48, rng=0))  # fmt: skip
    enough = {"plain": [], "careful": []}
    rng = np.random.default_rng(0)
    for _ in range(5):
        order = rng.permutation(64)
        for name, strategy in (("plain", plain), ("careful", careful)):
            came = np.zeros((64, 2), dtype=bool)
            for number, index in enumerate(order, start=1):
                came[index] = True
                if strategy.suffices(came):
                    enough[name].append(number)
                    break
    assert np.mean(enough["plain"]) < 50
    assert np.mean(enough["plain"]) + 1 < np.mean(enough["careful"]) < 60


def test_without_a_code_all_are_waited_for(strategy_of):
    strategy = strategy_of(n=4)
    came = np.ones((4, 2), dtype=bool)
    assert strategy.suffices(came)
    came[2, 1] = False
    assert not strategy.suffices(came)
    assert strategy_of(n=4, share=0.75).suffices(came)


def test_a_noise_limit_keeps_a_step_from_amplifying(values_of):
    rng = np.random.default_rng(0)
    code = sooner.PolarCode(64, 48, rng=0)
    gains = {}
    for limit in (None, 1.5):
        strategy = sooner.EvolutionStrategy(
            np.zeros(48), sigma=0.1, learning_rate=0.1, code=code, noise_gain=limit
        )
        candidates = strategy.ask()
        some = np.sort(rng.permutation(64)[:49])
        strategy.tell(candidates[some], values_of(np.sum, candidates[some]))
        gains[limit] = strategy.last_step.noise_gain
    assert gains[None] > 2.0
    assert gains[1.5] <= 1.5


def test_a_slice_knows_what_it_holds(strategy_of):
    candidates = strategy_of(n=8).ask()
    whole = np.asarray(candidates)
    assert candidates.shape == whole.shape == (8, 2, 6)
    for key in (3, slice(2, 5), [7, 1], (slice(None), 0), (4, 1)):
        part = candidates[key]
        np.testing.assert_array_equal(np.asarray(part), whole[key])
        assert part.shape == whole[key].shape
    assert [part.ids.tolist() for part in candidates[:2]] == [[0, 1], [2, 3]]
    np.testing.assert_allclose(whole.mean(axis=1), np.ones((8, 6)))  # antithetic
    assert np.asarray(candidates, dtype=np.float32).dtype == np.float32
    with pytest.raises(ValueError, match="copy must not be False"):
        np.array(candidates, copy=False)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"sigma": 0}, "sigma must be positive"),
        ({"learning_rate": NAN}, "learning_rate must be positive"),
        ({"n": 0}, "n must be at least 1"),
        ({"directions": "random"}, "directions must be one of"),
        ({"gradient": "mean"}, "gradient must be one of"),
        ({"optimizer": "sgd"}, "optimizer must be one of"),
        ({"shaping": "centered"}, "shaping must be one of"),
        ({"share": 1.5}, "share must lie between 0 and 1"),
        ({"noise_gain": 0}, "noise_gain must be positive"),
        ({"bounds": [(0, 1)]}, "bounds must be 6 pairs"),
        ({"bounds": Bounds(2, 3)}, "with x0 between them"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(options, match, strategy_of):
    with pytest.raises(ValueError, match=match):
        strategy_of(**options)


@pytest.mark.parametrize("x0", [3.0, [], [[1.0]], [NAN, 1.0]])
def test_a_start_that_is_no_vector_is_refused(x0):
    with pytest.raises(ValueError, match="x0 must be a sequence of finite numbers"):
        sooner.EvolutionStrategy(x0, sigma=1, learning_rate=1)
