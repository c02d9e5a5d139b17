"""The compiled core, which is optional: without a C compiler everything runs on NumPy."""

import sys

from setuptools import Extension, setup

# No fused multiply-add where NumPy rounds twice: both paths give the same bits.
flags = [] if sys.platform == "win32" else ["-std=c11", "-O3", "-ffp-contract=off", "-pthread"]

setup(
    ext_modules=[
        Extension(
            "sooner.codes._core",
            ["src/sooner/codes/_core.c"],
            depends=["src/sooner/codes/_core_tile.h"],
            extra_compile_args=flags,
            extra_link_args=flags[-1:],
            py_limited_api=True,
            optional=True,
        )
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
