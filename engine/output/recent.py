"""The tokens that the penalties look back on, with their counts; constant work for each new
token.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable


class RecentTokens:
    def __init__(self, last_n: int, ids: Iterable[int]) -> None:
        """`last_n` tokens are looked back on; -1 is all, 0 none."""
        self._window: deque[int] | None = None if last_n < 0 else deque(maxlen=last_n)
        self.counts: dict[int, int] = {}
        """How often each token occurs in the window."""
        for token_id in ids:
            self.push(token_id)

    def push(self, token_id: int) -> None:
        window = self._window
        if window is not None:
            if window.maxlen == 0:
                return
            if len(window) == window.maxlen:
                self._forget(window[0])
            window.append(token_id)
        self.counts[token_id] = self.counts.get(token_id, 0) + 1

    def _forget(self, token_id: int) -> None:
        left = self.counts[token_id] - 1
        if left:
            self.counts[token_id] = left
        else:
            del self.counts[token_id]
