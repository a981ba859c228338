"""The worker with the scripted backend: `python scripted.py [--delay SECONDS] [--watch] IN OUT`.

--watch: every event of the socket module is written to the log as `socket event NAME`.
"""

from __future__ import annotations

import argparse
import functools
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))


def watch_sockets() -> None:
    def hook(event: str, _arguments: object) -> None:
        if event.startswith("socket."):
            print(f"socket event {event}", file=sys.stderr, flush=True)

    sys.addaudithook(hook)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--delay", type=float, default=0.0)
    parser.add_argument("--watch", action="store_true")
    parser.add_argument("ends", nargs=2)
    arguments = parser.parse_args()
    if arguments.watch:
        watch_sockets()

    from engine.worker.main import main
    from tests.engine.workers.bytes_model import load

    sys.exit(main(arguments.ends, functools.partial(load, delay_s=arguments.delay)))
