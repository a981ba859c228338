"""`python -m engine.worker IN OUT`: the worker with llama.cpp."""

from __future__ import annotations

import sys

from engine.worker.loading import load
from engine.worker.main import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], load))
