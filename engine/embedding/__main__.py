"""`python -m engine.embedding IN OUT`: the inherited ends of two pipes."""

from __future__ import annotations

import sys

from engine.embedding.main import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
