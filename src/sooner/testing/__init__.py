"""Public checks that every new code and executor passes, ours or a stranger's."""

from __future__ import annotations

from sooner.testing.codes import check_code

__all__ = ["check_code"]
