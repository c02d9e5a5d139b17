"""The ``sooner`` command: data on stdout, progress and remarks on stderr.

Exit codes: 0 exact, 3 an estimate at the deadline, 4 not decodable, 1 another error, 2 usage,
130 and 143 interrupted (SIGINT, SIGTERM).
"""

from sooner.cli._main import main

__all__ = ["main"]
