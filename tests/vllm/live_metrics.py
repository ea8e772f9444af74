"""A real vLLM server whose answers do not tell the cached tokens: its counters prove the paths."""

from __future__ import annotations

from pathlib import Path

from app.engine.http.server import Server
from app.engine.server_settings import ServerSettings
from app.engine.vllm.engine import VllmEngine
from tests.unit.engine.conversation import ask, first_prompt
from tests.vllm.serving import CLEAN, serving

SETTINGS = ServerSettings(read_timeout_s=120)


def test_where_answers_do_not_count_the_counters_of_metrics_do(tmp_path: Path) -> None:
    with serving(CLEAN, tmp_path / "vllm.log") as url:
        engine = VllmEngine(Server(url, SETTINGS), SETTINGS)
        info = engine.describe()
        assert [gap.field for gap in info.gaps] == ["usage.prompt_tokens_details.cached_tokens", "chat_template"]
        assert (info.capabilities.cached_counts, info.capabilities.recompute) == (True, True)
        prompt = (first_prompt(engine) * 8)[:100]
        state = engine.open_state()
        reports = [ask(state, prompt, 2).report for _ in range(2)]
        assert [report.cached_tokens for report in reports] == [0, 96]
        assert all(report.note == "Cached tokens are counted by /metrics." for report in reports)
        engine.close()
