"""Imported episodes are called after the file that a person gave; a redacted bundle numbers them instead."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from app.bundle.format import BundleContents, PairPart
from app.trajectory.trajectory import PassInfo, Request, Trajectory

PREFIX = "imported-"
"""How the ids of imported episodes begin."""


def nameless(contents: BundleContents) -> BundleContents:
    """The contents with "imported-1", "imported-2", ... for imported episodes, wherever one is named."""
    names = _Names(contents)
    if not names.new:
        return contents
    info = contents.experiment
    plan = dict(info.plan) | {"episode_ids": [names.text(name) for name in info.plan.get("episode_ids", ())]}
    return replace(
        contents,
        experiment=replace(info, title=names.text(info.title), plan=plan),
        pairs=tuple(names.part(part) for part in contents.pairs),
    )


class _Names:
    """Every imported episode's new name, by its own."""

    def __init__(self, contents: BundleContents) -> None:
        passes = [each for part in contents.pairs for each in (part.cached_pass, part.recompute_pass)]
        every = [*(part.pair.cached.episode_id for part in contents.pairs), *(i for p in passes for i in p.episode_ids)]
        given = [name for name in dict.fromkeys(every) if name.startswith(PREFIX)]
        self.new: Mapping[str, str] = {name: f"{PREFIX}{number}" for number, name in enumerate(given, 1)}
        self._any = re.compile("|".join(re.escape(name) for name in sorted(given, key=len, reverse=True)))

    def text(self, text: str) -> str:
        """A text, an episode's id or a writer ("imported-mine r3") with the new names."""
        return self._any.sub(lambda match: self.new[match[0]], text)

    def part(self, part: PairPart) -> PairPart:
        """A pair with all that belongs to it."""
        pair, card = part.pair, part.pair.comparison
        comparison = replace(
            card,
            episode_id=self.text(card.episode_id),
            problems=tuple(self.text(sentence) for sentence in card.problems),
            unproven=tuple(self.text(sentence) for sentence in card.unproven),
        )
        return replace(
            part,
            pair=replace(
                pair, cached=self._run(pair.cached), recompute=self._run(pair.recompute), comparison=comparison
            ),
            cached_pass=self._pass(part.cached_pass),
            recompute_pass=self._pass(part.recompute_pass),
            history=tuple(replace(warm_up, writer=self.text(warm_up.writer)) for warm_up in part.history),
        )

    def _pass(self, info: PassInfo) -> PassInfo:
        return replace(
            info,
            episode_ids=tuple(self.text(name) for name in info.episode_ids),
            invalid_reasons=tuple(self.text(reason) for reason in info.invalid_reasons),
        )

    def _run(self, run: Trajectory) -> Trajectory:
        requests = tuple(self._request(request) for request in run.requests)
        return replace(run, episode_id=self.text(run.episode_id), requests=requests)

    def _request(self, request: Request) -> Request:
        return replace(request, spans=tuple(replace(span, writer=self.text(span.writer)) for span in request.spans))
