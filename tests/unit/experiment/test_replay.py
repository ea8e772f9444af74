"""A recorded fork asked again: the four answers, and what a received record may not do."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import pytest

from app.engine.base import Capabilities, EngineInfo
from app.engine.scripted import IM_END, Mishap, ScriptedEngine, ScriptedState, steps_of, tokenize
from app.engine.server_settings import ManagedSettings
from app.engine.settings import EmbeddedSettings
from app.errors import EngineDied, SettingsError
from app.experiment.pass_run import Stopped
from app.experiment.replay import replay
from app.experiment.replay_environment import differences, replay_server, replay_settings
from app.experiment.replay_report import exit_code, replay_lines, replay_report
from app.trajectory.events import Event, Notice
from app.trajectory.pair import Fork, ForkKind, ForkSide
from app.trajectory.reproducer import Difference, ReplayResult, Reproducer, WarmUp
from app.trajectory.step import IdArray, Step, StepBlock, as_ids
from app.trajectory.trajectory import Span
from tests.builders import forked_pair_of_trajectories
from tests.unit.trajectory.test_reproducer import pair

FIRST = tokenize("hello ", False)
ANSWER = [*tokenize("yes", False), IM_END]
PROMPT = [*FIRST, *ANSWER, *tokenize(" more?", False)]
CACHED = len(FIRST) + 3  # the first prompt and "yes"; the sampled end was not evaluated
CAPABLE = Capabilities(token_ids=True, rivals=True, cached_counts=True, snapshot=True, recompute=True, rebuild=True)

Answer = Callable[[IdArray, int], Sequence[Step]]


def side(text: str) -> ForkSide:
    return ForkSide(ord(text), text.encode(), -0.25, 0.02)


REPRODUCER = Reproducer(
    episode_id="made-00",
    history=(WarmUp("made-00 r1", as_ids(FIRST), as_ids(ANSWER), len(ANSWER), 0),),
    prompt_ids=as_ids(PROMPT),
    cached_tokens=CACHED,
    spans=(
        Span(0, len(FIRST), "prefill", "made-00 r1", len(FIRST)),
        Span(len(FIRST), 3, "decode", "made-00 r1"),
        Span(CACHED, len(PROMPT) - CACHED, "prefill", "made-00 r2", len(PROMPT) - CACHED),
    ),
    max_tokens=8,
    rivals=5,
    temperature=0.0,
    top_k=40,
    top_p=0.95,
    seed=42,
    fork=Fork(ForkKind.TOKEN, 1, 2, side("b"), side("c")),
    shared_ids=as_ids(tokenize("aa", False)),
)


def answers(cached: str = "aab", recompute: str = "aac", warm_up: str = "yes") -> Answer:
    """A model that says one thing where its prompt's beginning came from the cache, and another where not."""

    def play(prompt: IdArray, reused: int) -> Sequence[Step]:
        if prompt.tolist() == FIRST:
            return steps_of(warm_up)
        return steps_of(cached if reused else recompute)

    return play


class Engine(ScriptedEngine):
    """With chosen capabilities; it counts the states that were rebuilt."""

    def __init__(self, played: Answer, capabilities: Capabilities = CAPABLE, **changes: Any) -> None:
        super().__init__(played, **changes)
        self.changes: dict[str, Any] = {"capabilities": capabilities}
        self.rebuilt = 0

    def describe(self) -> EngineInfo:
        return replace(super().describe(), **self.changes)

    def open_state(self) -> ScriptedState:
        return RebuildCounter(self, as_ids(()))


class RebuildCounter(ScriptedState):
    def __init__(self, engine: Engine, held: IdArray) -> None:
        super().__init__(engine, held)
        self.counting = engine

    def rebuild(self, ids: IdArray, spans: Sequence[Span]) -> None:
        self.counting.rebuilt += 1
        super().rebuild(ids, spans)


def environment(**changes: Any) -> dict[str, Any]:
    info = ScriptedEngine().describe()
    record = {"engine": info.name, "build": dict(info.build), "model": {"sha256": "", "n_vocab": 258},
              "settings": dict(info.settings)}  # fmt: skip
    return record | changes


def run(
    engine: ScriptedEngine,
    reproducer: Reproducer = REPRODUCER,
    record: Mapping[str, Any] | None = None,
    events: list[Event] | None = None,
) -> ReplayResult:
    told: list[Event] = [] if events is None else events
    try:
        return replay(engine, reproducer, record or environment(), told.append, threading.Event())
    finally:
        engine.close()


def resending(played: Answer, **changes: Any) -> Engine:
    """An engine whose States cannot be filled entry by entry, as no server's can."""
    return Engine(played, replace(CAPABLE, rebuild=False), **changes)


@pytest.mark.parametrize("rebuild", [True, False])
def test_a_fork_at_the_same_token_into_the_same_two_is_reproduced(rebuild: bool) -> None:
    engine = Engine(answers(), replace(CAPABLE, rebuild=rebuild))
    found = run(engine)
    assert (found.verdict, found.because) == ("reproduced", "Same request, same token, same two tokens.")
    assert found.fork is not None and found.fork.label == "2:3"
    assert (found.cached.text[:3], found.recompute.text[:3]) == ("aab", "aac")
    assert engine.rebuilt == rebuild, "an engine that can rebuild is not sent the history"
    served = [(one.name, one.recorded_cached, one.cached, one.deviates_at) for one in found.served]
    forked = [("cached path", CACHED, CACHED, None), ("recompute path", 0, 0, None)]
    assert served == ([] if rebuild else [("made-00 r1", 0, 0, None)]) + forked


def test_a_record_without_chunk_sizes_is_served_again_and_not_rebuilt() -> None:
    engine = Engine(answers())
    spans = tuple(replace(span, chunk=0) for span in REPRODUCER.spans)
    assert run(engine, replace(REPRODUCER, spans=spans)).verdict == "reproduced"
    assert engine.rebuilt == 0


def test_another_token_or_another_place_forks_elsewhere() -> None:
    found = run(Engine(answers(cached="axb", recompute="aac")))
    assert (found.verdict, found.because) == ("forks elsewhere", "It forks at request 2, token 2, not at token 3.")
    found = run(Engine(answers(cached="aax")))
    assert found.verdict == "forks elsewhere" and "token 3, into other tokens" in found.because


def test_equal_answers_do_not_fork_and_the_drift_is_told() -> None:
    found = run(Engine(answers(cached="aac")))
    assert found.verdict == "does not fork" and found.fork is None
    assert found.because == "Both answers are equal. The largest change of a logprob is 0.000000 nats."


def test_a_cache_that_was_not_used_as_recorded_cannot_be_compared() -> None:
    found = run(Engine(answers()), replace(REPRODUCER, cached_tokens=CACHED - 2))
    assert found.verdict == "reproduced", "a rebuilt state holds what the record says"
    found = run(resending(answers()), replace(REPRODUCER, cached_tokens=CACHED + 1))
    assert found.verdict == "cannot be compared"
    assert found.because.startswith(
        f"The cache was not used as recorded: cached path took {CACHED} tokens from it instead of {CACHED + 1}."
    )


def test_a_warm_up_answer_that_turned_out_otherwise_is_named_as_the_cause() -> None:
    found = run(resending(answers(warm_up="yep")))
    assert found.verdict == "cannot be compared"
    assert f"took {CACHED - 1} tokens from it instead of {CACHED}" in found.because
    assert "The answer to made-00 r1 was another, from token 3 on." in found.because
    assert found.served[0].deviates_at == 2


def test_an_engine_that_reports_no_counts_leaves_the_paths_unproven() -> None:
    found = run(resending(answers(), counts=False))
    assert found.verdict == "reproduced" and "the paths are unproven" in found.because
    assert [one.cached for one in found.served] == [None, None, None]


@pytest.mark.parametrize(
    ("changes", "because"),
    [
        ({"model": {"sha256": "ab" * 32}}, "SHA-256 differs"),
        ({"level": "text"}, "no token ids"),
        ({"capabilities": replace(CAPABLE, recompute=False)}, "no recompute path"),
    ],
)
def test_what_the_engine_cannot_do_is_a_reason_before_anything_is_asked(changes: dict[str, Any], because: str) -> None:
    engine = Engine(answers(), mishaps=[Mishap(0, 0, "die")])
    engine.changes |= changes
    found = run(engine, record=environment(model={"sha256": "cd" * 32}))
    assert found.verdict == "cannot be compared" and because in found.because
    assert found.served == ()


def test_a_prompt_that_does_not_fit_the_context_cannot_be_compared() -> None:
    found = run(Engine(answers(), n_ctx=len(PROMPT)))
    assert found.verdict == "cannot be compared" and "context" in found.because


def test_an_engine_that_dies_is_no_verdict() -> None:
    with pytest.raises(EngineDied):
        run(Engine(answers(), mishaps=[Mishap(0, 1, "die")]))


def test_a_stop_ends_it_in_the_middle_of_an_answer() -> None:
    engine, stop = resending(answers(), mishaps=[Mishap(1, 1, "hang")]), threading.Event()
    events: list[Event] = []

    def tell(event: Event) -> None:
        events.append(event)
        if isinstance(event, Notice) and event.sentence.startswith("cached path: request 2"):
            stop.set()

    with pytest.raises(Stopped):
        replay(engine, REPRODUCER, environment(), tell, stop)
    assert not any("recompute" in event.sentence for event in events if isinstance(event, Notice))


def test_differences_of_the_environment_are_listed_and_what_one_side_lacks_is_not() -> None:
    info = replace(ScriptedEngine().describe(), build={"ggml_commit": "1", "cpu": "x"}, settings={"threads": 2, "a": 1})
    record = environment(engine="embedded", build={"ggml_commit": "2", "os": "y"}, settings={"threads": 1})
    found = [(one.name, one.recorded, one.here) for one in differences(record, info)]
    assert found == [
        ("engine", "embedded", "scripted"),
        ("build ggml_commit", "2", "1"),
        ("settings threads", "1", "2"),
    ]
    (told,) = differences(environment(model={"sha256": "ab"}), ScriptedEngine().describe())
    assert (told.name, told.recorded, told.here) == ("model sha256", "ab", "not told")
    assert len(differences({}, info)) == 1, "an empty record differs in the engine's name"


def test_settings_are_taken_by_an_allow_list_and_nothing_else_of_a_record_is() -> None:
    own = EmbeddedSettings(n_ctx=2048, n_ubatch=64, threads=3, type_k="q8_0", flash_attention=True)
    record = asdict(own) | {"command": "rm -rf /", "model": "/etc/passwd", "path": "/etc", "binary": "/bin/sh"}
    assert replay_settings({"settings": record}, {}) == own
    plan = {"engine": "managed", "managed": {"ctx_size": 1024, "ubatch_size": 8, "cache_ram": None, "parallel": 2,
            "binary": "/bin/sh", "arguments": ["--path", "/"], "cache_prompt": False}}  # fmt: skip
    server = replay_server({"settings": {"n_ctx": 512}}, plan, None)
    assert server == ManagedSettings(ctx_size=512, ubatch_size=8, parallel=2, cache_prompt=False)
    assert replay_server({"settings": record}, {"engine": "embedded"}, None) == ManagedSettings(
        ctx_size=2048, ubatch_size=64, threads=3, cache_type_k="q8_0", flash_attention=True,
        cache_ram=0, cache_reuse=0, ctx_checkpoints=0,
    )  # fmt: skip


NONSENSE: list[dict[str, object]] = [
    {"n_ctx": "4096"}, {"n_ctx": True}, {"n_ctx": 2**40}, {"n_ubatch": 0}, {"type_k": "sh"}, {"threads": 10**6},
    {"swa_full": 1},
]  # fmt: skip


@pytest.mark.parametrize("settings", NONSENSE)
def test_settings_that_are_nonsense_are_refused(settings: dict[str, object]) -> None:
    with pytest.raises(SettingsError):
        replay_settings({"settings": settings}, {})


def test_the_report_lays_the_record_and_the_replay_side_by_side() -> None:
    forked = pair(*forked_pair_of_trajectories())
    sides = [forked.cached.requests[2].steps, forked.recompute.requests[2].steps]
    told = differences(environment(engine="x"), ScriptedEngine().describe())
    served, fork = run(resending(answers())).served, forked.comparison.fork
    found = ReplayResult("made-00", "reproduced", "Same request.", told, served, sides[0], sides[1], fork)
    lines = list(replay_lines(found, forked))
    assert lines[0] == "  engine: recorded x, here scripted", "what is different of the environment comes first"
    (row,) = [line for line in lines if line.startswith("     17 ")]
    ids = [str(block.token_ids[16]) for block in (*sides, *sides)]
    assert [word for word in row.split() if word in ids] == ids
    assert "  made-00 r1: cached tokens 0, recorded 0" in lines
    assert lines[-1] == "made-00: reproduced. Same request."
    report = replay_report(found, forked)
    assert report["reported"] == report["here"]
    assert report["here"]["request"] == 3 and report["here"]["step"] == 17


def test_a_replay_that_was_refused_does_not_say_that_this_machine_is_as_recorded() -> None:
    empty, forked = StepBlock.empty(), pair(*forked_pair_of_trajectories())
    refused = ReplayResult("made-00", "cannot be compared", "It is redacted.", (), (), empty, empty, None)
    assert list(replay_lines(refused, forked)) == ["made-00: cannot be compared. It is redacted."]
    same = replace(refused, served=run(resending(answers())).served)
    assert "  engine, build, model and settings are as recorded" in list(replay_lines(same, forked))


def test_of_long_values_only_the_words_that_differ_are_shown() -> None:
    same = " ".join(f"GGML_{n}=ON" for n in range(40))
    told = (Difference("build compile_flags", f"{same} GGML_AVX512=ON", f"GGML_CUDA=ON {same}"),)
    empty = StepBlock.empty()
    found = ReplayResult("made-00", "does not fork", "", told, (), empty, empty, None)
    line = next(replay_lines(found, pair(*forked_pair_of_trajectories())))
    assert line == "  build compile_flags: recorded GGML_AVX512=ON, here GGML_CUDA=ON"


def test_the_worst_verdict_is_the_exit_code() -> None:
    empty = StepBlock.empty()
    results = [ReplayResult("a", verdict, "", (), (), empty, empty, None) for verdict in
               ("reproduced", "forks elsewhere", "does not fork", "cannot be compared")]  # fmt: skip
    assert [exit_code([result]) for result in results] == [0, 1, 1, 2]
    assert exit_code(results[:3]) == 1 and exit_code(results) == 2 and exit_code([]) == 2
