"""Writing at a depth of 4,096 tokens: the setting that tuning chooses against the best there is.

    python -m tests.bench.tuned [MODEL] [KV_TYPE...]      default: the starter, f16 q8

Every flash attention and thread setting is tried in turns, seven rounds, synthetic depth; medians.
The last line is JSON.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from statistics import median

from engine.backends.llama_cpp.kv_types import KVType, find_kv_type
from engine.backends.llama_cpp.loader import load_model
from engine.backends.llama_cpp.model import LoadedModel
from engine.backends.llama_cpp.settings import MICRO_BATCH, BackendOptions, ContextSettings
from engine.backends.llama_cpp.threads import allowed_cores
from engine.backends.llama_cpp.trial import Setting, Trials
from engine.backends.llama_cpp.tuning import MAX_SECONDS, make_tuner
from tests import real_models

DEPTH = 4096
ROUNDS = 7


def compare(model: LoadedModel, kv: KVType) -> dict[str, object]:
    """The tuned setting's writing speed over that of the fastest."""
    tuner = make_tuner(model, kv, ContextSettings(2 * DEPTH, kv.name))
    tuned = tuner.run(MAX_SECONDS, lambda: False)
    assert tuned is not None
    chosen = Setting(tuned.flash, tuned.threads, tuned.n_ubatch)
    flashes = (True,) if kv.needs_flash else (False, True)
    others = [
        Setting(flash, threads, MICRO_BATCH)
        for flash in flashes
        for threads in range(1, allowed_cores() + 1)
    ]
    steps: dict[Setting, list[float]] = {}
    trials = Trials(model, kv)
    for _ in range(ROUNDS):
        for setting in dict.fromkeys((chosen, *others)):
            rates = trials.run(setting, DEPTH, lambda: False)
            steps.setdefault(setting, []).append(rates.decode_s)
    speed = {setting: 1 / median(times) for setting, times in steps.items()}
    return {
        "kv_type": kv.name,
        "tuned": asdict(chosen),
        "ratio": round(speed[chosen] / max(speed.values()), 3),
        "tokens_per_s": [
            {**asdict(setting), "tokens_per_s": round(rate, 1)} for setting, rate in speed.items()
        ],
    }


def main() -> None:
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else real_models.starter()
    model = load_model(path, BackendOptions(), lambda _done, _total: True)
    names = sys.argv[2:] or ["f16", "q8"]
    print(json.dumps([compare(model, find_kv_type(name)) for name in names]))


if __name__ == "__main__":
    main()
