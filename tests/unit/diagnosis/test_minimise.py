"""The search for the shortest history and prompt, against made-up rules of what forks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from app.diagnosis.minimise import LEVELS, Asked, Candidate, Minimiser

END = 99
"""Ends a message."""


def conversation(turns: int = 4, length: int = 20) -> Candidate:
    """Requests that grow: each prompt is the one before, an answer of 5 tokens, and one message more."""
    prompts: list[tuple[int, ...]] = [(*range(length - 1), END)]
    for turn in range(1, turns):
        answer = tuple(range(1000 * turn, 1000 * turn + 5))
        said = tuple(range(1000 * turn + 100, 1000 * turn + 100 + length - 1))
        prompts.append((*prompts[-1], *answer, *said, END))
    return Candidate(tuple(Asked(prompt, 5) for prompt in prompts[:-1]), prompts[-1])


def search(
    start: Candidate, forks: Callable[[Candidate], bool], rejected: frozenset[str] = frozenset()
) -> tuple[Minimiser, list[Candidate]]:
    """A search to its end, and what was tried, in order."""
    tried: list[Candidate] = []

    def decide(candidate: Candidate) -> bool:
        tried.append(candidate)
        return forks(candidate)

    found = Minimiser(start, {END}, rejected)
    found.run(decide)
    return found, tried


def needs(*ids: int) -> Callable[[Candidate], bool]:
    """Forks wherever the prompt and some warm-up request hold all of these ids."""

    def forks(candidate: Candidate) -> bool:
        return set(ids) <= set(candidate.prompt) and any(set(ids) <= set(asked.prompt) for asked in candidate.history)

    return forks


def without_one_unit(best: Candidate) -> list[Candidate]:
    """Every candidate that is smaller by a single request, answer token, warm-up token or token."""
    fewer = [best.without_requests(i, i + 1) for i in range(len(best.history))]
    for index, asked in enumerate(best.history):
        fewer += [best.asking(index, replace(asked, steps=asked.steps - 1))] if asked.steps > 1 else []
        fewer += [best.asking(index, replace(asked, prompt=asked.prompt[:-1]))] if len(asked.prompt) > 1 else []
    fewer += [best.without(at, at + 1) for at in range(len(best.prompt))]
    return [candidate for candidate in fewer if candidate.history and candidate.prompt]


def test_what_the_fork_does_not_need_goes() -> None:
    found, _ = search(conversation(), needs(3, 7))
    assert found.best == Candidate((Asked((3, 7), 1),), (3, 7))
    assert found.is_minimal and found.proven == LEVELS


@pytest.mark.parametrize("ids", [(0,), (2003, 18), (5, 1002, 3104)])
def test_of_what_is_left_no_single_unit_can_go(ids: tuple[int, ...]) -> None:
    start = conversation(5)
    forks = needs(*(token_id for token_id in ids if token_id in start.prompt))
    found, _ = search(start, forks)
    assert forks(found.best)
    assert not any(map(forks, without_one_unit(found.best)))


def test_a_rule_that_is_not_monotone_still_ends_where_no_single_unit_can_go() -> None:
    """Numeric forks come and go: whether one shows is as good as chance at every candidate."""
    start = conversation(5)

    def forks(candidate: Candidate) -> bool:
        return candidate == start or int(candidate.digest, 16) % 7 == 0

    found, tried = search(start, forks)
    assert found.is_minimal and found.best.token_count < start.token_count
    assert not any(map(forks, without_one_unit(found.best)))
    assert len(tried) == len(set(tried)), "nothing is asked twice"


def test_a_fork_that_needs_everything_is_proven_minimal_as_it_is() -> None:
    start = conversation()
    found, tried = search(start, lambda candidate: candidate == start)
    assert found.best == start and found.is_minimal
    assert set(without_one_unit(start)) <= set(tried)


def test_whole_requests_are_tried_before_anything_else() -> None:
    start = conversation()
    _, tried = search(start, lambda candidate: candidate == start)
    first = next(index for index, candidate in enumerate(tried) if len(candidate.history) == len(start.history))
    assert {len(candidate.history) for candidate in tried[:first]} == {1, 2}
    assert first == 5, "one and two of three, then each alone"


def test_a_message_goes_from_every_prompt_that_shares_it() -> None:
    start = conversation(3)
    first = start.history[0].prompt
    smaller = start.without(0, len(first))
    assert [asked.prompt for asked in smaller.history] == [start.history[1].prompt[len(first) :]]
    assert smaller.prompt == start.prompt[len(first) :]
    later = start.without(len(first) + 5, len(first) + 25)
    assert later.history == (start.history[0], replace(start.history[1], prompt=later.prompt[: len(first) + 5]))


def test_tokens_of_a_warm_up_prompt_that_the_request_does_not_share_stay() -> None:
    start = Candidate((Asked((1, 2, 8, 9), 1),), (1, 2, 3, 4))
    assert start.without(1, 4) == Candidate((Asked((1, 8, 9), 1),), (1,))


def test_messages_end_where_an_end_of_generation_token_stands() -> None:
    start = conversation(3)

    def forks(candidate: Candidate) -> bool:
        removed = len(start.prompt) - len(candidate.prompt)
        return candidate == start or (removed == 20 and candidate.prompt == start.prompt[20:])

    found = Minimiser(start, {END})
    found.run(forks)
    assert found.best.prompt == start.prompt[20:], "the first message went whole"


def test_a_search_that_is_taken_up_asks_nothing_that_was_rejected() -> None:
    class Enough(Exception):
        pass

    start, forks = conversation(5), needs(3, 1002, 2003)
    _, tried = search(start, forks)
    asked: list[Candidate] = []
    first = Minimiser(start, {END})

    def until_half(candidate: Candidate) -> bool:
        if len(asked) == len(tried) // 2:
            raise Enough
        asked.append(candidate)
        return forks(candidate)

    with pytest.raises(Enough):
        first.run(until_half)
    rejected = {candidate.digest for candidate in asked if not forks(candidate)}
    assert first.rejected == rejected and not first.is_minimal
    second, rest = search(first.best, forks, frozenset(first.rejected))
    assert second.is_minimal and not any(map(forks, without_one_unit(second.best)))
    assert not rejected & {candidate.digest for candidate in rest}


def test_only_what_was_gone_through_on_the_best_candidate_is_proven() -> None:
    class Enough(Exception):
        pass

    start = conversation()
    found = Minimiser(start, {END})

    def no_tokens(candidate: Candidate) -> bool:
        if found.level == "tokens" and found.grain == 1:
            raise Enough
        return candidate == start

    with pytest.raises(Enough):
        found.run(no_tokens)
    assert found.proven == ("requests", "answers", "warm-ups", "messages")
    assert not found.is_minimal


def test_what_saves_much_is_tried_before_what_saves_little() -> None:
    start = conversation(6, length=60)
    grains: list[tuple[int, int]] = []
    found = Minimiser(start, {END})

    def never(candidate: Candidate) -> bool:
        if found.level == "warm-ups":
            grains.append((found.grain, start.token_count - candidate.token_count))
        return False

    found.run(never)
    assert [grain for grain, _ in grains] == sorted((grain for grain, _ in grains), reverse=True)
    assert all(saved >= grain for grain, saved in grains)


def test_the_size_counts_prompts_and_the_history_s_answers() -> None:
    assert Candidate((Asked((1, 2, 3), 4),), (1, 2)).token_count == 9


def test_a_digest_tells_prompts_from_histories() -> None:
    names = {
        Candidate((Asked((1, 2), 3),), (4,)).digest,
        Candidate((Asked((1,), 3), Asked((2,), 3)), (4,)).digest,
        Candidate((Asked((1, 2), 34),), ()).digest,
        Candidate((Asked((12,), 3),), (4,)).digest,
    }
    assert len(names) == 4
    assert Candidate((Asked((1, 2), 3),), (4,)).digest in names
