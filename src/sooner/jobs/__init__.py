"""Jobs: encode a matrix once, then multiply by it on workers that may be slow or die.

The only place that decides by time; its clock is the executor's.
"""

from __future__ import annotations

from sooner.jobs.encoding import encode
from sooner.jobs.estimate import Estimate
from sooner.jobs.job import Job
from sooner.jobs.products import matmat, matvec
from sooner.jobs.task import TaskOutput
from sooner.jobs.two_operands import matmul
from sooner.jobs.work import Work

__all__ = ["Estimate", "Job", "TaskOutput", "Work", "encode", "matmat", "matmul", "matvec"]
