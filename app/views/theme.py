"""Colours of the window, light and dark. Paths and fork differ in shape too, never in colour alone."""

from __future__ import annotations

from dataclasses import dataclass

CACHED_MARK = "◆"
RECOMPUTE_MARK = "●"
FORK_MARK = "◆"
EQUAL_MARK = "○"


@dataclass(frozen=True, slots=True)
class Theme:
    """Colours as #rrggbb. Text keeps a contrast of 4.5 : 1 or more on `window` and `panel`, on `block` 4 : 1."""

    name: str
    window: str
    menu: str
    panel: str
    block: str
    line: str
    text: str
    muted: str
    faint: str
    cached: str
    recompute: str
    fork: str
    fork_fill: str
    equal: str
    near_tie: str
    near_tie_text: str
    selection: str
    button: str
    prefill: str
    prefill_alternate: str


LIGHT = Theme(
    name="light", window="#ffffff", menu="#f5f7f9", panel="#ffffff", block="#eff1f5", line="#dfe3e8", text="#1c2230",
    muted="#4b5566", faint="#6c7586", cached="#0b63c5", recompute="#b35300", fork="#c2185b", fork_fill="#fbe3ec",
    equal="#1a7f37", near_tie="#f3e7c3", near_tie_text="#6b5310", selection="#e2ecfb", button="#eff3f7",
    prefill="#aab2be", prefill_alternate="#cdd3db",
)  # fmt: skip
DARK = Theme(
    name="dark", window="#1f232b", menu="#191c23", panel="#1f232b", block="#282c35", line="#343945", text="#e6e9ef",
    muted="#abb3c0", faint="#8b94a4", cached="#6cb0ff", recompute="#ffae5c", fork="#ff6aa8", fork_fill="#4a2236",
    equal="#6cd08a", near_tie="#3b3421", near_tie_text="#d6c187", selection="#23385a", button="#2a2f39",
    prefill="#6b7382", prefill_alternate="#4d5462",
)  # fmt: skip
