"""Linear algebra that people already know, on coded matrices."""

from __future__ import annotations

from sooner.linalg.anytime import Anytime
from sooner.linalg.least_squares import gradient_descent
from sooner.linalg.operator import CodedLinearOperator
from sooner.linalg.power import power_iteration

__all__ = ["Anytime", "CodedLinearOperator", "gradient_descent", "power_iteration"]
