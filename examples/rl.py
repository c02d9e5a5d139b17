"""Reinforcement learning with a linear policy, while a fifth of the evaluations never answer.

Each evaluation runs episodes with a perturbed policy.  The search directions are coded: a step is
made as soon as the pairs that came determine the gradient, whichever they are.

    python examples/rl.py               # CartPole and Swimmer, minutes
    python examples/rl.py HalfCheetah   # or Hopper: hours, better on many machines
"""

# %%
import functools
import logging
import math
import sys
import zlib

import gymnasium
import numpy as np

import sooner

SETTINGS = {  # steps per episode, episodes, code, sigma, learning rate, generations
    "CartPole": ("CartPole-v1", 500, 3, (16, 4), 0.5, 0.01, 12),
    "Swimmer": ("Swimmer-v5", 200, 1, (32, 16), 0.1, 0.004, 8),
    "HalfCheetah": ("HalfCheetah-v5", 1000, 1, (128, 96), 0.03, 0.0002, 300),
    "Hopper": ("Hopper-v5", 1000, 1, (64, 33), 0.025, 0.0002, 300),
}


# %% The objective is made once per worker process: a simulator cannot travel.
def make_objective(name, n_steps, episodes, failing=0.0):
    env = gymnasium.make(name, max_episode_steps=n_steps)
    discrete = isinstance(env.action_space, gymnasium.spaces.Discrete)

    def episode(weights, seed):
        observation, _ = env.reset(seed=seed)
        total, over = 0.0, False
        while not over:
            score = weights @ observation
            action = int(score[0] > 0) if discrete else np.clip(score, -1, 1)
            observation, reward, terminated, truncated, _ = env.step(action)
            total, over = total + float(reward), terminated or truncated
        return total

    def fun(theta, episodes=episodes):
        seed = zlib.crc32(theta.tobytes())  # of its own for every policy, the same in every run
        if seed % 1000 < 1000 * failing:
            raise RuntimeError("the simulator broke")
        weights = theta.reshape(-1, env.observation_space.shape[0])
        return -np.mean([episode(weights, seed + i) for i in range(episodes)])

    return fun


def size_of(name):
    env = gymnasium.make(name)
    return math.prod(env.action_space.shape) * math.prod(env.observation_space.shape)


# %% Workers of which some never answer; any other executor will do: "local:8", a Dask client, …
def unreliable(never=0.2, seed=0):
    rng = np.random.default_rng(seed)
    return sooner.VirtualExecutor(
        lambda *_: math.inf if rng.random() < never else rng.uniform(1, 2)
    )


def train(setting, executor, generations=None, failing=0.05):
    name, n_steps, episodes, (n, k), sigma, learning_rate, default = SETTINGS[setting]
    make = functools.partial(make_objective, name, n_steps, episodes, failing)
    test = make_objective(name, n_steps, 20)
    result = sooner.minimize(
        make,
        np.zeros(size_of(name)),
        factory=True,
        code=sooner.PolarCode(n, k, rng=0),
        sigma=sigma,
        learning_rate=learning_rate,
        noise_gain=1.5,
        maxiter=generations or default,
        executor=executor,
        callback=lambda intermediate_result: print(
            f"generation {intermediate_result.nit}: return {-intermediate_result.fun:.0f}"
        ),
    )
    before, after = (-test(x) for x in (np.zeros_like(result.x), result.strategy.x))
    return before, after, result


# %%
if __name__ == "__main__":
    logging.getLogger("sooner").setLevel(logging.ERROR)  # a fifth is lost, we know
    for setting in sys.argv[1:] or ("CartPole", "Swimmer"):
        executor = unreliable() if len(sys.argv) < 2 else "local"
        before, after, result = train(setting, executor)
        lost = f"{result.nfailed} of {result.nfev + result.nfailed} evaluations failed"
        print(
            f"{setting}: mean return of 20 episodes {before:.0f} before, {after:.0f} after; {lost}"
        )
