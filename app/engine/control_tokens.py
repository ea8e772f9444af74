"""Control tokens on servers whose tokenizer always parses them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

END_TOKENS: Final = (
    *("<|im_end|>", "<|endoftext|>", "</s>", "<|eot_id|>", "<|eom_id|>"),
    *("<|end|>", "<end_of_turn>", "<|end_of_text|>", "<|return|>", "<|call|>"),
)
"""End tokens in circulation: candidates, each of which a server must prove."""

_LIKE_CONTROL: Final = re.compile(r"<[^<>\s]{1,40}>|\[[A-Z_/]{2,20}\]")
"""What control tokens look like: <|im_end|>, </s>, [INST]."""


class ControlTokens:
    """Tokenizes by `parse`, which parses control tokens, and keeps plain text plain where that is asked for."""

    def __init__(self, parse: Callable[[str], list[int]]) -> None:
        self._parse = parse
        self._seen: dict[str, bool] = {}

    def tokenize(self, text: str, special: bool) -> list[int]:
        """Token ids of `text`. Where not `special`, what would become one control token is sent in two parts."""
        if not special:
            ends = [found.start() + 1 for found in _LIKE_CONTROL.finditer(text) if self._is_one(found[0])]
            parts = [text[start:end] for start, end in zip([0, *ends], [*ends, len(text)], strict=True)]
        else:
            parts = [text]
        return [token_id for part in parts if part for token_id in self._parse(part)]

    def _is_one(self, text: str) -> bool:
        if text not in self._seen:
            self._seen[text] = len(self._parse(text)) == 1
        return self._seen[text]
