"""Token ids to logits: one decoder for every family, dense or with experts.

Everything that a pass reads is in its arguments; the only thing it changes is the pools' bytes.
Knows no request, no scheduler and no file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from kernels.kv_pool import KVPool
from kernels.linear import linear
from kernels.rms_norm import rms_norm
from models.attention_block import KVPlace, attention
from models.config import LayerConfig, ModelConfig
from models.embedding import embed
from models.experts import mixture
from models.feed_forward import feed_forward
from models.kv_groups import kv_groups
from models.model_input import ModelInput
from models.rope import rope
from models.weights import LayerWeights, Weights


class PassStopped(Exception):
    """Somebody asked for a pass to be stopped: nothing of it counts."""


class Decoder:
    """A model ready to run."""

    def __init__(self, config: ModelConfig, weights: Weights, context: int | None = None) -> None:
        """`context`: tokens a sequence is kept to, the trained length by default.

        It chooses the frequencies of the RoPE scalings that depend on a length (`models/rope.py`).
        """
        self.config = config
        self.weights = weights
        device = weights.norm.device
        self._places = _places(config)
        self._ropes = {
            _rope_key(layer): rope(layer, config.rotary_size, context or config.context, device)
            for layer in config.layers
            if layer.has_rope
        }

    @property
    def key_rule(self) -> str:
        """Names how keys in a pool are turned: pools written under different rules do not mix.

        It depends on the context where a RoPE scaling does.
        """
        digest = hashlib.sha256()
        for one in self._ropes.values():
            digest.update(one.inverse_frequencies.cpu().numpy().tobytes())
            digest.update(repr(one.factor).encode())
        return digest.hexdigest()[:16]

    @torch.inference_mode()
    def forward(
        self,
        input: ModelInput,
        pools: Sequence[KVPool],
        is_stopped: Callable[[], bool] | None = None,
    ) -> Tensor:
        """Logits of the wanted rows, float32 [R, vocab_size].

        One pool for each group of `kv_groups(config)`, in that order. Keys and values of the tokens
        are written to their slots, then read with everything that the sequences hold.
        `is_stopped` is asked before each layer; raises PassStopped.
        """
        weights, config = self.weights, self.config
        x = embed(input.tokens, weights.embedding, config.embedding_scale, weights.dtype)
        angles = {key: one.at(input.positions) for key, one in self._ropes.items()}
        for layer, its, place in zip(config.layers, weights.layers, self._places, strict=True):
            if is_stopped is not None and is_stopped():
                raise PassStopped
            turn = angles[_rope_key(layer)] if layer.has_rope else None
            x = self._layer(x, its, place, turn, input, pools[place.group])
        return self._logits(x[input.wanted])

    def _layer(
        self,
        x: Tensor,
        weights: LayerWeights,
        place: KVPlace,
        angles: tuple[Tensor, Tensor] | None,
        input: ModelInput,
        pool: KVPool,
    ) -> Tensor:
        """x [T, hidden] -> the same shape."""
        seen = self._norm(x, weights.attention_norm)
        seen = attention(seen, weights, self.config, place, angles, input, pool)
        x = x + self._norm(seen, weights.post_attention_norm)
        thought = self._norm(x, weights.feed_forward_norm)
        thought = self._feed_forward(thought, weights)
        return x + self._norm(thought, weights.post_feed_forward_norm)

    def _feed_forward(self, x: Tensor, weights: LayerWeights) -> Tensor:
        if weights.router is not None:
            return mixture(x, weights, self.config)
        assert weights.gate is not None
        assert weights.up is not None
        assert weights.down is not None
        return feed_forward(x, weights.gate, weights.up, weights.down, self.config.activation)

    def _norm(self, x: Tensor, weight: Tensor | None) -> Tensor:
        """x as it is where the family has no such norm."""
        if weight is None:
            return x
        return rms_norm(x, weight, self.config.norm_eps, self.config.norm_offset)

    def _logits(self, x: Tensor) -> Tensor:
        """[R, hidden] -> float32 [R, vocab_size]."""
        logits = linear(self._norm(x, self.weights.norm), self.weights.output).float()
        cap = self.config.logit_cap
        return logits if cap is None else cap * torch.tanh(logits / cap)


def _rope_key(layer: LayerConfig) -> tuple[object, ...]:
    return layer.rope_base, layer.rope_scaling


def _places(config: ModelConfig) -> tuple[KVPlace, ...]:
    """Of each layer, in order."""
    places = {
        layer: KVPlace(number, index, group.window)
        for number, group in enumerate(kv_groups(config))
        for index, layer in enumerate(group.layers)
    }
    return tuple(places[layer] for layer in range(len(config.layers)))
