"""Identity of a Hugging Face folder's tokenizer, without making it."""

from __future__ import annotations

import hashlib
import json

from models.hf_folder import TOKENIZER, FolderFiles


def folder_fingerprint(files: FolderFiles) -> str:
    """A hash of all that decides over ids, chat templates excepted."""
    digest = hashlib.sha256()
    try:
        digest.update((files.path / TOKENIZER).read_bytes())
    except OSError:
        pass  # its absence is told when the tokenizer is made
    settings = {key: value for key, value in files.tokenizer.items() if key != "chat_template"}
    ends = (files.generation.get("eos_token_id"), files.config.get("eos_token_id"))
    rest = (settings, dict(files.special_tokens), ends)
    digest.update(json.dumps(rest, sort_keys=True, default=str).encode())
    return digest.hexdigest()[:32]
