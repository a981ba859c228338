"""llama.cpp's own sampler chain with the settings that sampled writing is measured with."""

from __future__ import annotations

from typing import Any

from llama_cpp import llama_cpp

from engine.request import Sampling

SAMPLED = Sampling(
    temperature=0.8, top_k=40, top_p=0.95, min_p=0.0, repeat_penalty=1.1, repeat_last_n=64, seed=7
)


class Chain:
    """Penalties, top_k, top_p, temperature, draw."""

    def __init__(self, sampling: Sampling, vocab_size: int) -> None:
        self._chain: Any = llama_cpp.llama_sampler_chain_init(
            llama_cpp.llama_sampler_chain_default_params()
        )
        for link in (
            llama_cpp.llama_sampler_init_penalties(
                vocab_size,
                sampling.repeat_last_n,
                sampling.repeat_penalty,
                sampling.frequency_penalty,
                sampling.presence_penalty,
            ),
            llama_cpp.llama_sampler_init_top_k(sampling.top_k),
            llama_cpp.llama_sampler_init_top_p(sampling.top_p, 1),
            llama_cpp.llama_sampler_init_temp(sampling.temperature),
            llama_cpp.llama_sampler_init_dist(sampling.seed),
        ):
            llama_cpp.llama_sampler_chain_add(self._chain, link)

    def sample(self, context: Any) -> int:
        """The next token after the last scores of a context."""
        return int(llama_cpp.llama_sampler_sample(self._chain, context, -1))

    def close(self) -> None:
        llama_cpp.llama_sampler_free(self._chain)
