"""A made-up tokenizer for tests: words, spaces and signs are tokens; control tokens only where asked for."""

from __future__ import annotations

import re

IM_START, IM_END, OTHER_END = 1, 2, 0
CONTROL = {"<|im_start|>": IM_START, "<|im_end|>": IM_END, "<|endoftext|>": OTHER_END}
EOG = frozenset({IM_END, OTHER_END})


class Words:
    """Gives every new word the next free id."""

    def __init__(self) -> None:
        self._ids = dict(CONTROL)

    def __call__(self, text: str, special: bool) -> list[int]:
        control = r"<\|\w+\|>|" if special else ""
        found = re.findall(control + r" ?\w+|\s|[^\w\s]", text)
        return [self._ids.setdefault(each, len(self._ids)) for each in found]

    def text(self, ids: list[int]) -> str:
        names = {token_id: name for name, token_id in self._ids.items()}
        return "".join(names[token_id] for token_id in ids)
