"""A session, runs and verbs with made-up data, for tests of the window alone. Never shown to a user."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from app.bundle.opening import is_bundle
from app.bundle.verify import Verification, verify_bundle
from app.diagnosis.noise import noise_floor
from app.diagnosis.verdict import judge
from app.errors import AppError, ModelFileError, SettingsError, StoreError
from app.session import (
    ConnectionTest,
    Diagnosis,
    EngineInfo,
    Examination,
    ExportJob,
    Prepared,
    Pulse,
    ReplayOn,
    RunHandle,
    RunRequest,
    ServerSettings,
    Session,
)
from app.trajectory.compare import compare, shared_drift
from app.trajectory.episode import Episode
from app.trajectory.events import Event, RunEnded, RunFailed
from app.trajectory.pair import Pair, PairRow, Repeats
from app.trajectory.trajectory import ExperimentInfo, Status, Trajectory
from app.views.verbs import Verbs
from tests.builders import WORDS, forked_pair_of_trajectories
from tests.unit.bundle.made_bundles import EXTRA, contents_of_two_pairs

FAMILIES = ("files", "units", "calendar", "messages", "tickets", "stock", "travel", "notes")
ENVIRONMENT: dict[str, Any] = {
    "engine": "embedded",
    "build": {"llama_cpp_commit": "0c1e570aa"},
    "model": {"name": "made-up.gguf"},
    "settings": {"threads": 2, "n_ubatch": 512, "type_k": "f16", "type_v": "f16", "flash_attention": False},
}
EXPERIMENT = ExperimentInfo(1, "pair · made-up Q4_1 · embedded", "2026-11-29T12:00:00Z", Status.DONE, {}, ENVIRONMENT)


def pair_of(cached: Trajectory, recompute: Trajectory) -> Pair:
    repeats = {"cached": Repeats(2, True), "recompute": Repeats(2, True)}
    comparison = compare(cached, recompute, repeats=repeats)
    noise = noise_floor([shared_drift(cached, recompute)])
    verdict = judge(comparison, cached, recompute, noise, near_tie=0.1)
    pieces = {number: WORDS[number % len(WORDS)].encode() for number in range(500)}
    return Pair(cached, recompute, comparison, verdict, noise, pieces)


def row_of(pair: Pair) -> PairRow:
    comparison, fork = pair.comparison, pair.comparison.fork
    return PairRow(
        experiment_id=1,
        episode_id=comparison.episode_id,
        family=comparison.family,
        repeat=1,
        diverged=fork is not None,
        kind=fork.kind.value if fork else None,
        request=fork.request if fork else None,
        step=fork.step if fork else None,
        margin=fork.recompute.margin if fork and fork.recompute else None,
        near_ties=comparison.near_ties,
        tool_calls_changed=comparison.tool_calls_changed,
        outcome_changed=comparison.outcome_changed,
        valid=comparison.valid,
        code=pair.verdict.code,
        headline=pair.verdict.headline,
    )


def made_up_pairs(count: int = 22) -> dict[str, Pair]:
    """Every third pair does not fork."""
    pairs = {}
    for number in range(count):
        family = FAMILIES[number % len(FAMILIES)]
        name = f"{family}-{number:02d}"
        cached, recompute = forked_pair_of_trajectories(seed=number, requests=4 + number % 3, steps_each=31)
        if number % 3 == 0:
            cached = replace(recompute, path=cached.path)
        sides = (
            replace(side, id=2 * number + at, episode_id=name, family=family)
            for at, side in enumerate((cached, recompute), start=1)
        )
        pairs[name] = pair_of(*sides)
    return pairs


class FakeSession:
    """Has what `Session` has; the pairs are in memory."""

    def __init__(self, path: Path, pairs: Mapping[str, Pair], notice: str = "") -> None:
        self.path = path
        self.notice = notice
        self.near_tie = 0.1
        self.verification: Verification | None = None
        self.read_only = bool(notice)
        self.pairs = dict(pairs)
        self.is_closed = False
        self.experiment_infos = [EXPERIMENT] if pairs else []

    def experiments(self) -> list[ExperimentInfo]:
        return self.experiment_infos

    def rows(self, experiment_id: int) -> list[PairRow]:
        assert experiment_id == 1
        return [row_of(pair) for pair in self.pairs.values()]

    def pair(self, experiment_id: int, episode_id: str, repeat: int = 1) -> Pair:
        assert (experiment_id, repeat) == (1, 1)
        if episode_id not in self.pairs:
            raise StoreError(f"{episode_id} has not been run on both paths.", "It comes later.")
        return self.pairs[episode_id]

    def size_bytes(self) -> int:
        return 3_100_000

    def close(self) -> None:
        self.is_closed = True


@dataclass
class FakeRun:
    """A run whose events a test puts into the inbox; it is over with its last event, or when a test says so."""

    path: Path
    inbox: deque[Event] = field(default_factory=deque)
    died: bool = False
    stops: int = 0

    @property
    def is_running(self) -> bool:
        return not self.died and not (self.inbox and isinstance(self.inbox[-1], RunEnded | RunFailed))

    def stop(self) -> None:
        self.stops += 1

    def join(self, timeout_s: float | None = None) -> bool:  # noqa: ARG002 - as the real one
        return True


@dataclass
class FakeExport(FakeRun):
    """An export that has made a small bundle at once."""

    made: Prepared | None = None


@dataclass
class FakeTest:
    """A connection test that ends when a test lets it."""

    url: str
    server: ServerSettings
    told: EngineInfo | AppError
    is_running: bool = True
    stops: int = 0

    @property
    def info(self) -> EngineInfo | None:
        return self.told if isinstance(self.told, EngineInfo) else None

    @property
    def failure(self) -> AppError | None:
        return self.told if isinstance(self.told, AppError) else None

    def stop(self) -> None:
        self.stops += 1


@dataclass
class FakePulse:
    """A server that is there or not, as a test says."""

    is_there: bool | None = None
    is_closed: bool = False

    def close(self) -> None:
        self.is_closed = True


@dataclass
class FakeExamination:
    """An examination that ends where a test gives it a diagnosis or a failure."""

    target: str
    asked: dict[str, Any]
    said: deque[str] = field(default_factory=deque)
    diagnosis: Diagnosis | None = None
    failure: AppError | None = None
    stops: int = 0

    def stop(self) -> None:
        self.stops += 1

    def join(self, timeout_s: float | None = None) -> bool:  # noqa: ARG002 - as the real one
        return self.diagnosis is not None or self.failure is not None


class FakeProduct:
    """Gives out fake sessions and runs as `Verbs`, and remembers what was asked."""

    def __init__(self, pairs: Mapping[str, Pair], events: Iterable[Event] = ()) -> None:
        self.pairs = pairs
        self.events = tuple(events)
        self.asked: list[RunRequest] = []
        self.runs: list[FakeRun] = []
        self.sessions: list[FakeSession] = []
        self.notice = ""
        self.marks: dict[str, str] = {}
        self.why_no_marks = ""
        self.searches: list[tuple[str, float]] = []
        self.server: Path | None = Path("llama-server")
        self.told: EngineInfo | AppError = AppError("Nothing listens at http://127.0.0.1:8080.", "Start the server.")
        self.tests: list[FakeTest] = []
        self.pulse = FakePulse()
        self.examinations: list[FakeExamination] = []
        self.diagnosis: Diagnosis | None = None
        self.tried: list[tuple[Sequence[str], ReplayOn]] = []

    def verbs(self) -> Verbs:
        return Verbs(
            open_session=self.open_session,
            start_run=self.start_run,
            resume_run=lambda path, _id, _near_tie: self._run(path),
            run_again=lambda session, _pair, _id: self._run(session.path),
            choose=self.choose,
            check_model=self.check_model,
            default_model=lambda: Path("SmolLM2-135M-Instruct.Q4_1.gguf"),
            default_model_licence=lambda: "Apache License …",
            test_connection=self.test_connection,
            watch_server=lambda _url, _server: cast(Pulse, self.pulse),
            find_server=self.find_server,
            server_command=lambda model, managed: f"llama-server --model {model} --cache-ram {managed.cache_ram}",
            examine=self.examine,
            replay_pairs=self.replay_pairs,
            marks_of=lambda _session, _id: dict(self.marks),
            mark=self.mark,
            why_no_marks=lambda _session: self.why_no_marks,
            shrink=self.shrink,
            prepare_export=lambda session, _request, _check: self.export_job(session.path, "prepared"),
            write_export=self.write_export,
        )

    def open_session(self, path: Path, _near_tie: float) -> Session:
        if "broken" in path.name:
            raise StoreError(f"{path.name} is no Forkpoint file.", "Open a file that ends in .forkpoint.")
        session = FakeSession(path, {} if "empty" in path.name else self.pairs, self.notice)
        if is_bundle(path):
            session.verification = verify_bundle(path)
        self.sessions.append(session)
        return cast(Session, session)

    def start_run(self, request: RunRequest, _near_tie: float) -> RunHandle:
        self.asked.append(request)
        return self._run(request.out or Path("run.forkpoint"))

    def find_server(self, chosen: Path | None) -> Path:
        found = chosen or self.server
        if found is None or "nowhere" in found.parts:
            raise SettingsError("No llama-server was found.", "Choose one.")
        return found

    def test_connection(self, url: str, server: ServerSettings) -> ConnectionTest:
        self.tests.append(FakeTest(url, server, self.told))
        return cast(ConnectionTest, self.tests[-1])

    def examine(self, target: str, **asked: Any) -> Examination:
        self.examinations.append(FakeExamination(target, asked, diagnosis=self.diagnosis))
        return cast(Examination, self.examinations[-1])

    @staticmethod
    def export_job(path: Path, end: str) -> ExportJob:
        return cast(
            ExportJob, FakeExport(path, deque([RunEnded(0, end)]), made=Prepared(contents_of_two_pairs(), EXTRA, ()))
        )

    def write_export(self, made: Prepared, target: Path) -> ExportJob:
        made.write(target)
        return self.export_job(target, "written")

    def mark(self, _session: Session, _experiment_id: int, episode_id: str, note: str | None) -> None:
        if self.why_no_marks:
            raise StoreError(self.why_no_marks)
        if note is None:
            del self.marks[episode_id]
        else:
            self.marks[episode_id] = note

    def shrink(self, session: Session, episode_id: str, budget_s: float, _id: int) -> RunHandle:
        self.searches.append((episode_id, budget_s))
        return self._run(session.path)

    def replay_pairs(
        self, session: Session, _experiment_id: int, episode_ids: Sequence[str], where: ReplayOn
    ) -> RunHandle:
        self.tried.append((episode_ids, where))
        return self._run(session.path)

    def _run(self, path: Path) -> RunHandle:
        run = FakeRun(path, deque(self.events))
        self.runs.append(run)
        return cast(RunHandle, run)

    @staticmethod
    def choose(request: RunRequest) -> Sequence[Episode]:
        numbers: list[int] = []
        for part in request.episodes.split(","):
            low, _, high = part.partition("-")
            if low in FAMILIES and high.isdecimal():
                numbers.append(int(high))
            elif low.isdecimal():
                numbers += range(int(low), int(high or low) + 1)
            else:
                raise StoreError(f"There is no episode {part}.", "Write 0-7 or calendar-02.")
        return [
            Episode(f"{FAMILIES[n % 8]}-{n:02d}", FAMILIES[n % 8], (), ("Do it.", "Do it again.", "And tell me."))
            for n in numbers
        ]

    @staticmethod
    def model(name: str) -> Mapping[str, Any]:
        return {
            "name": name, "size_bytes": 98_000_000, "architecture": "llama", "n_ctx_train": 8192,
            "tensor_types": {"Q4_1": 210, "F32": 61}, "chat_template": "{{ x }}",
        }  # fmt: skip

    def check_model(self, path: Path) -> Mapping[str, Any]:
        if "short" in path.name:
            raise ModelFileError(f"{path.name} is cut short.", "Download it again.")
        return self.model(path.name)
