"""What never leaves the machine: keys, home paths, user and host names, in everything that is about the machine.

What the model was asked and what it answered is evidence and stays; `scan` warns of what looks private in it.
"""

from __future__ import annotations

import getpass
import json
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from app.bundle.format import BundleContents, PairPart
from app.diagnosis.verdict import judge
from app.logs import HIDDEN, without_secrets
from app.trajectory.trajectory import PassInfo, Request, Trajectory

USER, HOST, HOME = "<user>", "<host>", "~"

_COMMON_USERS = frozenset({"root", "user", "admin", "ubuntu", "runner", "docker", "localhost"})
"""Names that tell nothing, and that are words in other places."""

_SECRET_KEY = re.compile(r"(?i)authorization|api[-_]?key|(?:access|auth|hf)[-_]?token|password|passwd|secret|cookie")
_HOMES = re.compile(
    r"(?:/home|/Users)/[^/\s\"':;,]+|(?<![\w/.])/root(?=[/\s\"']|$)|[A-Za-z]:[\\/]+Users[\\/]+[^\\/\s\"']+"
)
_URL_HOST = re.compile(r"(?i)\b(https?|wss?|tcp|grpc)(://)(?:[^/\s\"'@]*@)?(\[[0-9a-f:.]+\]|[^/\s:\"'\]>?#]+)")
_HOST_OPTION = re.compile(r"(--host[= ])(\S+)")
_KEY_OPTION = re.compile(r"(--[\w-]*(?:key|token|password|secret)(?:=|\s+|$))(\S*)")
_HERE = re.compile(r"(?i)localhost|127\.[\d.]+|0\.0\.0\.0|\[?::1?\]?|<host>")


@dataclass(frozen=True)
class Machine:
    """Whose names are taken out: the user's, the host's, and the home folder."""

    user: str
    hosts: tuple[str, ...]
    home: str

    @classmethod
    def here(cls) -> Machine:
        """This machine."""
        try:
            user = getpass.getuser()
        except (OSError, KeyError, ImportError):  # a user id without a name
            user = ""
        host = socket.gethostname()
        return cls(user, (host, host.partition(".")[0]), str(Path.home()))

    def scrub(self, text: str) -> str:
        """A text about the machine without secrets, home paths, URLs' hosts, user and host names."""
        text = _KEY_OPTION.sub(lambda found: found[1] + (found[2] and HIDDEN), without_secrets(text))
        if len(self.home) > 1:
            text = re.sub(rf"(?<![\w/.]){re.escape(self.home)}(?![\w.-])", HOME, text)
        text = _HOMES.sub(HOME, text)
        text = _URL_HOST.sub(lambda found: f"{found[1]}{found[2]}{_host(found[3])}", text)
        text = _HOST_OPTION.sub(lambda found: f"{found[1]}{_host(found[2])}", text)
        for names, instead in ((self.hosts, HOST), ((self.user,), USER)):
            for name in names:
                if len(name) > 2 and name.lower() not in _COMMON_USERS:
                    text = re.sub(rf"(?<![\w-]){re.escape(name)}(?![\w-])", instead, text)
        return text

    def scrub_value(self, value: Any, *, paths: bool = True) -> Any:
        """JSON values: texts scrubbed, secrets told by their keys hidden, of absolute `paths` only the file's name."""
        if isinstance(value, str):
            return self.scrub(_name_of_path(value) if paths else value)
        if isinstance(value, Mapping):
            return {
                key: HIDDEN
                if isinstance(item, str) and item and _SECRET_KEY.search(key)
                else self.scrub_value(item, paths=paths)
                for key, item in value.items()
            }
        if isinstance(value, list | tuple):
            return [self._scrub_argument(*pair, paths) for pair in zip([None, *value], value, strict=False)]
        return value

    def _scrub_argument(self, before: Any, value: Any, paths: bool) -> Any:
        """One of a list, which may be the words of a command line: an option's value stands after it."""
        if isinstance(before, str) and isinstance(value, str):
            if (option := _KEY_OPTION.fullmatch(before)) and not option[2]:
                return HIDDEN
            if before == "--host":
                return _host(value)
        return self.scrub_value(value, paths=paths)

    def scrub_body(self, body: str | None) -> str | None:
        """A request's or response's body; JSON stays JSON."""
        if body is None:
            return None
        try:
            return json.dumps(self.scrub_value(json.loads(body), paths=False), ensure_ascii=False)
        except (ValueError, RecursionError):
            return self.scrub(body)


def scrubbed(contents: BundleContents, machine: Machine) -> BundleContents:
    """The contents without what never leaves the machine."""
    info = contents.experiment
    kept = {key: info.plan[key] for key in ("imported_episodes", "episode_ids") if key in info.plan}  # what was asked
    return replace(
        contents,
        experiment=replace(
            info,
            title=machine.scrub(info.title),
            plan=machine.scrub_value(info.plan) | kept,
            environment=_environment(info.environment, machine),
        ),
        pairs=tuple(_pair(part, contents.near_tie, machine) for part in contents.pairs),
        answers={key: machine.scrub(answer) for key, answer in contents.answers.items()},
        replay_log={name: machine.scrub(said) for name, said in contents.replay_log.items()},
    )


def _environment(environment: Mapping[str, Any], machine: Machine) -> Mapping[str, Any]:
    scrubbed: dict[str, Any] = machine.scrub_value(environment)
    model = environment.get("model")
    if isinstance(model, Mapping) and "chat_template" in model:  # it is the model's, and its hash must fit
        scrubbed["model"]["chat_template"] = model["chat_template"]
    return scrubbed


def _pair(part: PairPart, near_tie: float, machine: Machine) -> PairPart:
    pair = part.pair
    sides = _run(pair.cached, machine), _run(pair.recompute, machine)
    comparison = replace(
        pair.comparison,
        problems=tuple(map(machine.scrub, pair.comparison.problems)),
        unproven=tuple(map(machine.scrub, pair.comparison.unproven)),
    )
    verdict = judge(comparison, *sides, pair.noise_floor, near_tie=near_tie)
    return replace(
        part,
        pair=replace(pair, cached=sides[0], recompute=sides[1], comparison=comparison, verdict=verdict),
        cached_pass=_pass(part.cached_pass, machine),
        recompute_pass=_pass(part.recompute_pass, machine),
        note=machine.scrub(part.note),
        log_excerpt=machine.scrub(part.log_excerpt),
    )


def _pass(info: PassInfo, machine: Machine) -> PassInfo:
    reasons = tuple(map(machine.scrub, info.invalid_reasons))
    return replace(info, settings=machine.scrub_value(info.settings), invalid_reasons=reasons)


def _run(run: Trajectory, machine: Machine) -> Trajectory:
    return replace(
        run,
        outcome=replace(run.outcome, detail=machine.scrub(run.outcome.detail)),
        requests=tuple(_request(request, machine) for request in run.requests),
    )


def _request(request: Request, machine: Machine) -> Request:
    report = request.report
    if report is None or not (report.raw_request or report.raw_response or report.problem or report.note):
        return request
    return replace(
        request,
        report=replace(
            report,
            problem=report.problem and machine.scrub(report.problem),
            note=report.note and machine.scrub(report.note),
            raw_request=machine.scrub_body(report.raw_request),
            raw_response=machine.scrub_body(report.raw_response),
        ),
    )


def _host(name: str) -> str:
    return name if _HERE.fullmatch(name) else HOST


def _name_of_path(text: str) -> str:
    """Of an absolute path, and nothing but one, the last name."""
    if "\n" not in text and PurePosixPath(text).is_absolute():
        return PurePosixPath(text).name
    return PureWindowsPath(text).name if re.match(r"[A-Za-z]:[\\/]|\\\\", text) else text
