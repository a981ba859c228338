"""Token ids to logits: one decoder for every family, dense or with experts.

Everything that a pass reads is in its arguments; the only things it changes are the pools' bytes
and the room it is given. Knows no request, no scheduler and no file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from kernels.kv_pool import KVPool
from models.attention_block import AttentionLayer, KVPlace, attention, attention_layer
from models.config import LayerConfig, ModelConfig
from models.experts import mixture, runs_on_device
from models.feed_forward import feed_forward
from models.joined_weights import join_projections
from models.kv_groups import kv_groups
from models.missing_kernels import missing_kernels
from models.model_input import ModelInput
from models.ops import KernelSettings, Norm, Ops
from models.rope import rope
from models.weights import LayerWeights, Weights
from models.workspace import ALLOCATED, Workspace, workspace_for

FEW_ROWS = 16
"""Of which a product reads its weight once, without decoding it first."""


class PassStopped(Exception):
    """Somebody asked for a pass to be stopped: nothing of it counts."""


class Decoder:
    """A model ready to run."""

    def __init__(
        self,
        config: ModelConfig,
        weights: Weights,
        context: int | None = None,
        kernels: KernelSettings | None = None,
    ) -> None:
        """`context`: tokens a sequence is kept to, the trained length by default; it chooses the
        frequencies of the RoPE scalings that depend on a length (`models/rope.py`). `kernels`: by
        default what fits the device that the weights lie on.
        """
        device = weights.norm.device
        self.config = config
        self.ops = Ops(kernels or KernelSettings.of(device), device)
        self.weights = join_projections(weights, self.ops)
        self._attention = tuple(
            attention_layer(layer, place, config)
            for layer, place in zip(self.weights.layers, _places(config), strict=True)
        )
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

    def missing_kernels(self, pools: Sequence[KVPool], vocab_size: int) -> dict[str, str]:
        """As `models/missing_kernels.py` finds them."""
        return missing_kernels(self.config, self.weights, self.ops, pools, vocab_size)

    def why_not_recorded(self, tokens: int, new: int, pools: Sequence[KVPool]) -> str | None:
        """Why a pass of so many tokens, at most `new` of a sequence, cannot be recorded: something
        in it asks the device for a number. None: it can.
        """
        for pool in pools:
            choice = self.ops.heads("attention", self.config.heads, pool, new)
            if not choice.is_kernel:
                return f"attention has no kernel: {choice.reason}"
        if any(layer.router is not None for layer in self.weights.layers):
            row = torch.empty(tokens, self.config.hidden, dtype=self.weights.dtype, device="meta")
            if not all(runs_on_device(row, one, self.ops) for one in self.weights.layers):
                return "the experts' numbers are read by the host"
        return None

    def workspace(self, tokens: int, wanted: int) -> Workspace:
        """Room for passes of so many tokens and rows of logits."""
        where = self.weights.dtype, self.weights.norm.device
        return workspace_for(self.config, len(self._ropes), tokens, wanted, *where)

    @torch.inference_mode()
    def forward(
        self,
        input: ModelInput,
        pools: Sequence[KVPool],
        is_stopped: Callable[[], bool] | None = None,
        room: Workspace = ALLOCATED,
    ) -> Tensor:
        """Logits of the wanted rows, float32 [R, vocab_size].

        One pool for each group of `kv_groups(config)`, in that order. Keys and values of the tokens
        are written to their slots, then read with everything that the sequences hold.
        `is_stopped` is asked before each layer; raises PassStopped. `room`: for exactly these
        tokens and rows; the logits lie in it then.
        """
        weights, config = self.weights, self.config
        table = weights.embedding, config.embedding_scale, weights.dtype
        x = self.ops.embed(input.tokens, *table, room.first, input.chosen)
        angles = {
            key: one.at(input.positions, room.angles[index] if room.angles else None)
            for index, (key, one) in enumerate(self._ropes.items())
        }
        for layer, its, attending in zip(
            config.layers, weights.layers, self._attention, strict=True
        ):
            if is_stopped is not None and is_stopped():
                raise PassStopped
            turn = angles[_rope_key(layer)] if layer.has_rope else None
            pool = pools[attending.place.group]
            x = self._attend(x, its, attending, turn, input, pool, room)
            x = self._think(x, its, room)
        return self._logits(x, input.wanted, room)

    def _attend(
        self,
        x: Tensor,
        weights: LayerWeights,
        layer: AttentionLayer,
        angles: tuple[Tensor, Tensor] | None,
        input: ModelInput,
        pool: KVPool,
        room: Workspace,
    ) -> Tensor:
        """x [T, hidden] -> the same shape."""
        seen = attention(x, layer, self.config, self.ops, angles, input, pool, room).flatten(1)
        out = room.second
        if weights.post_attention_norm is None:
            return self.ops.linear(seen, weights.o, weights.o_bias, residual=x, out=out)
        found = self.ops.linear(seen, weights.o, weights.o_bias, out=room.normed)
        return self.ops.norm(found, self._norm(weights.post_attention_norm), residual=x, out=out)

    def _think(self, x: Tensor, weights: LayerWeights, room: Workspace) -> Tensor:
        """x [T, hidden] -> the same shape."""
        out = room.first
        norm = self._norm(weights.feed_forward_norm)
        after = weights.post_feed_forward_norm
        if weights.router is not None:
            seen = self.ops.norm(x, norm, out=room.normed)
            found = mixture(seen, weights, self.config, self.ops)
            if after is None:
                return torch.add(x, found, out=out)
            return self.ops.norm(found, self._norm(after), residual=x, out=out)
        assert weights.gate is not None
        assert weights.up is not None
        assert weights.down is not None
        network = weights.gate, weights.up, weights.down, self.config.activation, self.ops, norm
        if after is None:
            return feed_forward(x, *network, residual=x, out=out, room=room)
        found = feed_forward(x, *network, out=room.normed, room=room)
        return self.ops.norm(found, self._norm(after), residual=x, out=out)

    def _norm(self, weight: Tensor) -> Norm:
        return Norm(weight, self.config.norm_eps, self.config.norm_offset)

    def _logits(self, x: Tensor, wanted: Tensor, room: Workspace) -> Tensor:
        """Rows `wanted` of [T, hidden] -> float32 [R, vocab_size]."""
        last = self._norm(self.weights.norm)
        seen = self.ops.norm(x, last, rows=wanted, out=room.wanted)
        out = room.logits
        if out is None and self.ops.settings.capability is not None:
            # As a recorded pass has them: not rounded to the activations' dtype.
            shape = len(wanted), self.config.vocab_size
            out = torch.empty(shape, dtype=torch.float32, device=x.device)
        logits = self._head(seen, out).float()
        cap = self.config.logit_cap
        if cap is None:
            return logits
        if room.logits is None:
            return cap * torch.tanh(logits / cap)
        return logits.div_(cap).tanh_().mul_(cap)

    def _head(self, seen: Tensor, out: Tensor | None) -> Tensor:
        """[R, hidden] -> [R, vocab_size]. A packed matrix is read again for every few rows rather
        than decoded: it is the largest of all.
        """
        if isinstance(self.weights.output, Tensor) or out is None or len(seen) <= FEW_ROWS:
            return self.ops.linear(seen, self.weights.output, out=out)
        for rows, part in zip(torch.split(seen, FEW_ROWS), torch.split(out, FEW_ROWS), strict=True):
            self.ops.linear(rows, self.weights.output, out=part)
        return out


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
