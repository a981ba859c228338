"""`python -m engine.worker IN OUT`: the worker with the real backends."""

from __future__ import annotations

import sys

from engine.worker.dispatch import load
from engine.worker.main import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], load))
