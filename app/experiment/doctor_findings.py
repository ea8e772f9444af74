"""From what an engine answered to the doctor's findings: each a question, a mark, a sentence, and what was seen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from textwrap import shorten

import numpy as np

from app.diagnosis.wording import nats
from app.engine.base import EngineInfo
from app.experiment.acceptance import has_depth
from app.experiment.doctor_diagnosis import Diagnosis, Finding, Mark, ProbeRow
from app.experiment.doctor_flags import command_for
from app.experiment.doctor_probes import RIVALS, Around, Asked, Probe, comparison, difference
from app.trajectory.pair import Comparison, ForkKind
from app.trajectory.piece_text import quoted

LONGEST_FACT = 60
LONGEST_GAP = 170
MOST_GAPS = 3


class Case:
    """Everything that was asked of an engine, and what it says. `stored` is A around X with the cache asked for."""

    def __init__(
        self, info: EngineInfo, around: Around, stored: Around, probes: Sequence[Probe], everything: Sequence[Asked]
    ) -> None:
        self.info = info
        self.caching = info.capabilities.caching is not False
        self.around = around
        self.stored = stored
        self.probes = probes
        self.problems = list(dict.fromkeys(asked.report.problem for asked in everything if asked.report.problem))
        self.lacking = sum(not has_depth(asked.steps, RIVALS) for asked in everything)
        self.asked = len(everything)
        self.counted = all(asked.cached is not None for asked in everything)
        self.compared = [made for probe in probes if (made := probe.comparison) is not None]

    def diagnose(self) -> Diagnosis:
        """Every question answered, and the whole."""
        findings = (
            self._server_cache(),
            self._history(),
            self._state(),
            self._recompute_repeats(),
            self._cached_repeats(),
            self._paths(),
            self._returned(),
        )
        exit_code = 1 if self._differs() else 0 if not self._unproven() else 2
        command, advice = command_for(self.info, exit_code)
        rows = tuple(_row(probe, made) for probe in self.probes if (made := probe.comparison) is not None)
        return Diagnosis(self._facts(), findings, rows, self._verdict(exit_code), exit_code, command, advice)

    # What was seen.

    def _differs(self) -> bool:
        changed = difference(self.around.at_once, self.around.cold) or difference(self.around.after, self.around.cold)
        apart = any(probe.difference for probe in self.probes)
        return bool(changed) or apart or any(_unequal(runs) for probe in self.probes for runs in _repeated(probe))

    def _unproven(self) -> list[str]:
        """Why equal answers would prove nothing, as parts of a sentence."""
        info, probes = self.info, self.probes
        reasons = [] if self.counted else ["it does not report how many prompt tokens come from its cache"]
        if info.level != "ids":
            reasons.append(f"its answers can be compared by {info.level} only")
        if self.lacking:
            reasons.append(f"logprobs or rivals are missing in {self.lacking} of {self.asked} answers")
        if info.capabilities.recompute is False:
            reasons.append("no request can be kept from its cache")
        if any(asked.cached for probe in probes for asked in (*probe.opening, *probe.recompute)):
            reasons.append("requests that were to be recomputed took tokens from the cache")
        if self.caching and self.counted and not any(asked.cached for probe in probes for asked in probe.cached):
            reasons.append("nothing was ever taken from the cache")
        return reasons + ["its counts contradict themselves"] * bool(self.problems)

    @property
    def _restored(self) -> bool | None:
        """Whether A came back after an unrelated prompt; None where counts are missing."""
        return None if self.stored.after.cached is None else self.stored.after.cached > 0

    # The questions.

    def _server_cache(self) -> Finding:
        question = "Is there a server-level prompt cache, and is it on?"
        after, unasked = self.stored.after, "" if self.caching else ", but only for requests that ask for it"
        evidence = (f"A after an unrelated prompt X: {after.told}",)
        if self._restored is None:
            answer = "It cannot be seen: the number of tokens taken from the cache is not reported."
            return Finding(question, Mark.UNKNOWN, answer, evidence)
        if not self._restored:
            answer = "No, or it is off: after an unrelated prompt, nothing of an earlier one comes back."
            return Finding(question, Mark.OK, answer, evidence)
        answer = f"Yes, it is on{unasked}: after an unrelated prompt, an earlier one is restored from it."
        return Finding(question, Mark.WARN if self.caching else Mark.OK, answer, evidence)

    def _history(self) -> Finding:
        around = self.around
        pairs = (("A again at once", around.at_once), ("A after X", around.after))
        changed = [name for name, asked in pairs if difference(asked, around.cold)]
        evidence = (
            f"A for the first time: {around.cold.told}",
            *(f"{name}: {asked.told}; {_told(comparison(asked, around.cold))}" for name, asked in pairs),
        )
        forked = any(comparison(asked, around.cold).fork is not None for _, asked in pairs)
        if not changed:
            mark, answer = Mark.OK, "No: A, A again, and A after X are the same, ids and logprobs bit for bit."
            if any(not has_depth(asked.steps, RIVALS) for asked in (around.cold, around.at_once, around.after)):
                mark, answer = Mark.UNKNOWN, "Not that could be seen: the tokens agree, logprobs are missing."
        else:
            what = "another answer" if forked else "other logprobs (the tokens agree)"
            mark, answer = (Mark.FAIL if forked else Mark.WARN), f"Yes: {' and '.join(changed)} gives {what}."
        return Finding("Does what was served before change an answer (A, X, A)?", mark, answer, evidence)

    def _state(self) -> Finding:
        can = self.info.capabilities
        observed = "What it holds can be observed" if self.counted else "What it holds cannot be observed"
        pinned = can.salt or can.slots or can.rebuild
        how = "by slot" if can.slots else "by salt" if can.salt else "it is ours" if can.rebuild else ""
        words = {True: "yes", False: "no", None: "unknown"}
        evidence = (
            f"observed: {'cached tokens are reported with every answer' if self.counted else 'not reported'}",
            f"pinned: {words[pinned]}{f' ({how})' if how else ''}",
            f"kept from a request: {words[can.recompute]}{_brackets(self.info.recompute_by)}",
            f"reset or erased: {words[can.reset]}; saved and restored: {words[can.snapshot]}",
            *self.problems[:2],
        )
        answer = f"{observed}, a request can{'' if pinned else 'not'} be pinned to it"
        answer += {
            True: " and can be kept from it.",
            False: " and cannot be kept from it.",
            None: "; that it can be kept from it is not proved.",
        }[can.recompute]
        mark = Mark.OK if self.counted and pinned and can.recompute else Mark.WARN if self.counted else Mark.UNKNOWN
        return Finding(
            "Can cache state be observed, pinned, reset?", Mark.FAIL if self.problems else mark, answer, evidence
        )

    def _recompute_repeats(self) -> Finding:
        question = "Does recompute repeat itself exactly?"
        runs = [each for probe in self.probes for each in (probe.opening, probe.recompute) if len(each) == 2]
        taken = sum(bool(asked.cached) for each in runs for asked in each)
        if self.info.capabilities.recompute is False:
            return Finding(question, Mark.UNKNOWN, "There is no recompute path: no request can be kept from the cache.")
        if taken:
            answer = f"{taken} requests that were to be recomputed took tokens from the cache."
            return Finding(question, Mark.FAIL, answer)
        return _repeats(question, runs, "requests, recomputed twice", certain=self.counted and not self.lacking)

    def _cached_repeats(self) -> Finding:
        question = "Does cached repeat itself from the same state?"
        if not self.caching:
            return Finding(question, Mark.OK, "Nothing comes from the cache unless a request asks for it.")
        runs = [probe.cached for probe in self.probes]
        if self.counted and not any(asked.cached for each in runs for asked in each):
            return Finding(question, Mark.UNKNOWN, "Nothing was ever taken from the cache.")
        return _repeats(question, runs, "probes, served twice", certain=self.counted and not self.lacking)

    def _paths(self) -> Finding:
        question = "How far are cached and recomputed answers apart?"
        if not self.caching:
            answer = "Not at all as long as requests do not ask for the cache: every one is recomputed."
            return Finding(question, Mark.OK, answer)
        if not self.compared:
            return Finding(question, Mark.UNKNOWN, "There is no recompute path to compare with.")
        forks = [made.fork for made in self.compared if made.fork is not None]
        drifts = np.concatenate([np.empty(0), *(probe.drift for probe in self.probes)])
        count = f"{len(forks)} of {len(self.compared)} probes forked"
        margins = [fork.recompute.margin for fork in forks if fork.recompute and fork.recompute.margin is not None]
        at = f", at margins of {', '.join(map(nats, sorted(margins)))} nats" if margins else ""
        if not len(drifts):
            return Finding(question, Mark.FAIL if forks else Mark.UNKNOWN, f"{count}{at}; no logprobs to compare.")
        largest = f"largest drift {nats(float(drifts.max()))} nats, median {nats(float(np.median(drifts)))}"
        mark = Mark.FAIL if forks else Mark.WARN if any(probe.difference for probe in self.probes) else Mark.OK
        evidence = (f"drift over {len(drifts):,} shared steps",)
        return Finding(question, mark, f"{count}{at}; {largest}.", evidence)

    def _returned(self) -> Finding:
        can = self.info.capabilities
        words = {True: "yes", False: "no", None: "unknown"}
        kinds = {
            "ids": can.token_ids,
            "rivals with logprobs": can.rivals,
            "bytes": can.piece_bytes,
            "cached counts": self.counted,
            "slots": can.slots,
            "salt": can.salt,
        }
        answer = ", ".join(f"{name} {words[value]}" for name, value in kinds.items()) + "."
        told = (f"{gap.field}: {gap.found}; impossible: {gap.impossible}" for gap in self.info.gaps)
        gaps = [shorten(text, LONGEST_GAP, placeholder=" …") for text in told]
        more = [f"and {len(gaps) - MOST_GAPS} more"] if len(gaps) > MOST_GAPS else []
        whole = can.token_ids and can.rivals and self.counted
        return Finding("What can it return?", Mark.OK if whole else Mark.WARN, answer, (*gaps[:MOST_GAPS], *more))

    # The whole.

    def _verdict(self, exit_code: int) -> str:
        reasons = self._unproven()
        if exit_code == 0:
            how = "" if self.caching else " Requests are recomputed unless they ask for the cache (cache_prompt)."
            return f"Reproducible: ids and logprobs are bit-identical on every probe.{how}"
        if exit_code == 2:
            return f"Not proved: nothing differed, but {'; '.join(reasons)}."
        parts = []
        if self._restored and self.caching:
            parts.append("a server-level prompt cache is on, so what was asked earlier decides what is recomputed")
        if difference(self.around.at_once, self.around.cold):
            parts.append("a repeated prompt is answered from the cache with other numbers")
        if forks := sum(made.fork is not None for made in self.compared):
            parts.append(f"{forks} of {len(self.compared)} probes forked between cached and recompute")
        elif any(probe.difference for probe in self.probes):
            drifts = [made.drift_max or 0.0 for made in self.compared]
            parts.append(f"cached and recomputed logprobs drift apart by up to {nats(max(drifts))} nats")
        if any(_unequal(runs) for probe in self.probes for runs in (probe.opening, probe.recompute)):
            parts.append("the same request does not even repeat itself when it is recomputed")
        if reasons:
            parts.append(f"how much the cache had to do with it is not proved, since {'; '.join(reasons)}")
        end = " No server-level cache is on: an unrelated request leaves nothing behind."
        return f"Not reproducible: {'; '.join(parts)}." + end * (self._restored is False and self.caching)

    def _facts(self) -> tuple[tuple[str, str], ...]:
        info = self.info
        model = info.model
        size, digest = model.get("size_bytes"), str(model.get("sha256") or "")
        about = [str(model.get("name") or "not told")]
        about += [f"{size:,} bytes"] if isinstance(size, int) else []
        about += [f"SHA-256 {digest[:16]}…"] if digest else ["SHA-256 not told"]
        simple = {name: value for name, value in info.settings.items() if _is_short(value)}
        command = info.settings.get("command")
        simple.pop("command", None)
        return (
            ("engine", info.name),
            (
                "build",
                ", ".join(f"{key} {value}" for key, value in info.build.items() if _is_short(value)) or "not told",
            ),
            ("model", ", ".join(about)),
            ("settings", ", ".join(f"{name} {value}" for name, value in simple.items()) or "not told"),
            *([("started as", str(command))] if command else []),
            ("asked", f"{self.asked} requests, {len(self.probes)} probes, greedy, compared by {info.level}"),
        )


def _repeated(probe: Probe) -> Iterator[Sequence[Asked]]:
    yield from (probe.opening, probe.cached, probe.recompute)


def _unequal(runs: Sequence[Asked]) -> str:
    """Where the second run of a request differs from the first, "" where it does not, or there is none."""
    return difference(runs[1], runs[0]) if len(runs) > 1 else ""


def _repeats(question: str, runs: Sequence[Sequence[Asked]], what: str, *, certain: bool) -> Finding:
    unequal = [where for each in runs if (where := _unequal(each))]
    count = f"{len(runs) - len(unequal)} of {len(runs)} {what}, are bit-identical"
    if unequal:
        return Finding(question, Mark.FAIL, f"No: {count}.", (f"first difference: {unequal[0]}",))
    if not certain:
        return Finding(question, Mark.UNKNOWN, f"As far as can be seen: {count}, but the path is not proved.")
    return Finding(question, Mark.OK, f"Yes: {count}.")


def _told(made: Comparison) -> str:
    if made.fork is not None:
        margin = made.fork.recompute.margin if made.fork.recompute else None
        return f"another answer from token {(made.fork.step or 0) + 1}" + (
            "" if margin is None else f" (margin {nats(margin)} nats)"
        )
    if made.logprobs_equal:
        return "bit-identical to the first"
    if made.drift_max is None:
        return f"the same {made.aligned_steps} tokens, without logprobs to compare"
    return f"the same {made.aligned_steps} tokens, drift up to {nats(made.drift_max)} nats"


def _row(probe: Probe, made: Comparison) -> ProbeRow:
    fork, asked = made.fork, probe.cached[0]
    tokens = ""
    if fork is not None and fork.kind is ForkKind.TOKEN and fork.cached and fork.recompute:
        tokens = f"{quoted(fork.cached.piece)} against {quoted(fork.recompute.piece)}"
    return ProbeRow(
        name=probe.name,
        prompt=len(asked.prompt),
        cached=asked.cached,
        drift=made.drift_max,
        fork=None if fork is None or fork.step is None else fork.step + 1,
        margin=fork.recompute.margin if fork and fork.recompute else None,
        tokens=tokens,
    )


def _is_short(value: object) -> bool:
    """Whether a setting is a word or a number, not a list of flags."""
    return isinstance(value, str | int | float) and len(str(value)) <= LONGEST_FACT


def _brackets(text: str) -> str:
    return f" ({text})" if text else ""
