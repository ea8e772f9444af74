"""The environment record in one line for the status bar. Knows no Qt."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def environment_line(environment: Mapping[str, Any]) -> str:
    """E.g. "llama.cpp 0c1e570 · 2 threads · n_ubatch 512 · KV f16 · flash attention off"; absent parts are left out."""
    build, settings = environment.get("build") or {}, environment.get("settings") or {}
    parts = []
    commit = build.get("llama_cpp_commit") or build.get("ggml_commit") or build.get("commit")
    if commit:
        parts.append(f"llama.cpp {str(commit)[:7]}")
    elif environment.get("engine"):
        parts.append(str(environment["engine"]))
    threads = settings.get("threads")
    if threads:
        parts.append(f"{threads} thread" + ("s" if threads != 1 else ""))
    if settings.get("n_ubatch"):
        parts.append(f"n_ubatch {settings['n_ubatch']}")
    keys, values = settings.get("type_k"), settings.get("type_v")
    if keys:
        parts.append(f"KV {keys}" if keys == values else f"K {keys}, V {values}")
    flash = settings.get("flash_attention")
    if flash is not None:
        parts.append("flash attention on" if flash else "flash attention off")
    return " · ".join(parts)


def size_text(size_bytes: int) -> str:
    """A file size as a person reads it, e.g. "3.1 MB" (powers of ten)."""
    size = float(size_bytes)
    for unit in ("bytes", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "bytes" or size >= 100 else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"
