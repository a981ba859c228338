"""A model's tokenizer as the engine sees it: size, ends, pieces, and the thinking tokens."""

from __future__ import annotations

from models.templates.thinking import ThinkingTags
from models.tokenizers.base import Tokenizer


class ChatVocabulary:
    """Satisfies `engine.vocabulary.Vocabulary`."""

    def __init__(self, tokenizer: Tokenizer, tags: ThinkingTags | None) -> None:
        self.vocab_size = tokenizer.vocab_size
        self.end_ids = tokenizer.end_ids
        self.think_open = tokenizer.find(tags.open) if tags else None
        self.think_close = tokenizer.find(tags.close) if tags else None
        self.piece = tokenizer.piece
