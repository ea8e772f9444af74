"""Calendar: a week of events by the hour."""

from __future__ import annotations

from typing import Any, ClassVar

from app.workload.protocol import tool
from app.workload.world import Deal, Draft, Family, ToolFailure, World, call, turn

DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday")
TITLES = ("budget review", "design review", "team lunch", "interview", "planning", "dentist", "demo", "retrospective")


class Calendar(World):
    """State: events, title -> {day, hour}."""

    tools: ClassVar[tuple[dict[str, Any], ...]] = (
        tool("list_events", "List the events of a day.", day="string: weekday"),
        tool("find_event", "Find day and hour of an event.", title="string: title"),
        tool("add_event", "Add an event.", title="string: title", day="string: weekday", hour="integer: 8 to 18"),
        tool("move_event", "Move an event to another hour of its day.", title="string: title", hour="integer: 8 to 18"),
        tool("cancel_event", "Cancel an event.", title="string: title"),
        tool("next_free_hour", "First free hour of a day.", day="string: weekday"),
    )

    def list_events(self, day: str) -> object:
        """The day's events by hour."""
        self._check_day(day)
        found = sorted((each["hour"], title) for title, each in self.state["events"].items() if each["day"] == day)
        return [{"title": title, "hour": hour} for hour, title in found][:6]

    def find_event(self, title: str) -> object:
        """When an event is."""
        return {"title": title, **self._event(title)}

    def add_event(self, title: str, day: str, hour: int) -> object:
        """A new event in a free hour."""
        if not title or title in self.state["events"]:
            raise ToolFailure(f'cannot add "{title}": it is there or has no title')
        self._check_free(day, hour)
        self.state["events"][title] = {"day": day, "hour": hour}
        return f"added {title} on {day} at {hour}"

    def move_event(self, title: str, hour: int) -> object:
        """Another hour of the same day, if it is free."""
        event = self._event(title)
        self._check_free(event["day"], hour)
        event["hour"] = hour
        return f"moved {title} to {hour}"

    def cancel_event(self, title: str) -> object:
        """Take an event out."""
        self._event(title)
        del self.state["events"][title]
        return f"cancelled {title}"

    def next_free_hour(self, day: str) -> object:
        """The first hour from 8 without an event."""
        self._check_day(day)
        taken = {each["hour"] for each in self.state["events"].values() if each["day"] == day}
        free = [hour for hour in range(8, 19) if hour not in taken]
        if not free:
            raise ToolFailure(f"{day} is full")
        return {"day": day, "hour": free[0]}

    def _event(self, title: str) -> dict[str, Any]:
        if title not in self.state["events"]:
            raise ToolFailure(f'no event "{title}"')
        event: dict[str, Any] = self.state["events"][title]
        return event

    def _check_day(self, day: str) -> None:
        if day not in DAYS:
            raise ToolFailure(f'"{day}" is no weekday')

    def _check_free(self, day: str, hour: int) -> None:
        self._check_day(day)
        if not 8 <= hour <= 18:
            raise ToolFailure("hour must be from 8 to 18")
        for title, each in self.state["events"].items():
            if (each["day"], each["hour"]) == (day, hour):
                raise ToolFailure(f"{day} at {hour} is taken by {title}")


def _week(deal: Deal) -> tuple[dict[str, Any], list[str], list[str]]:
    """A state with four events (two on the first day, one each on two more), their titles plus two unused, the days."""
    titles, days = deal.some(TITLES, 6), deal.some(DAYS, 3)
    places = [(days[0], 9), (days[0], 11), (days[1], 10), (days[2], deal.number(13, 15))]
    events = {title: {"day": day, "hour": hour} for title, (day, hour) in zip(titles, places, strict=False)}
    return {"events": events}, titles, days


def _look_and_move(deal: Deal) -> Draft:
    state, titles, days = _week(deal)
    hour = deal.number(14, 17)
    return Draft(
        state,
        (
            turn(f"What is on my calendar on {days[0]}?", call("list_events", day=days[0])),
            turn(f"Move the {titles[0]} to {hour}.", call("move_event", title=titles[0], hour=hour)),
            turn(f"Cancel the {titles[1]}.", call("cancel_event", title=titles[1])),
        ),
    )


def _book(deal: Deal) -> Draft:
    state, titles, days = _week(deal)
    hour = deal.number(16, 18)
    return Draft(
        state,
        (
            turn(f"When is my first free hour on {days[1]}?", call("next_free_hour", day=days[1])),
            turn(f"Add {titles[4]} on {days[1]} at 8.", call("add_event", title=titles[4], day=days[1], hour=8)),
            turn(
                f"Add {titles[5]} on {days[2]} at {hour}.", call("add_event", title=titles[5], day=days[2], hour=hour)
            ),
            turn(f"List the events of {days[2]}.", call("list_events", day=days[2])),
        ),
    )


def _next_free(deal: Deal) -> Draft:
    state, titles, days = _week(deal)
    return Draft(
        state,
        (
            turn(f"When is the {titles[2]}?", call("find_event", title=titles[2])),
            turn(f"Move {titles[2]} to 9.", call("move_event", title=titles[2], hour=9)),
            turn(
                f"Put {titles[4]} into the first free hour of {days[0]}.",
                call("next_free_hour", day=days[0]),
                call("add_event", title=titles[4], day=days[0], hour=8),
            ),
            turn(f"And when is my next free hour on {days[0]}?", call("next_free_hour", day=days[0])),
            turn(f"What is on {days[1]}?", call("list_events", day=days[1])),
        ),
    )


def _clear_day(deal: Deal) -> Draft:
    state, titles, days = _week(deal)
    hour = deal.number(9, 12)
    return Draft(
        state,
        (
            turn(f"List the events of {days[0]}.", call("list_events", day=days[0])),
            turn("Cancel the first of them.", call("cancel_event", title=titles[0])),
            turn(f"Cancel {titles[1]} too.", call("cancel_event", title=titles[1])),
            turn(
                f"Add {titles[5]} on {days[0]} at {hour}.", call("add_event", title=titles[5], day=days[0], hour=hour)
            ),
            turn(f"When is the {titles[3]}?", call("find_event", title=titles[3])),
            turn("Move it to 18.", call("move_event", title=titles[3], hour=18)),
        ),
    )


FAMILY = Family(
    name="calendar",
    world=Calendar,
    role="You keep the user's calendar.",
    examples=(
        (
            "When is my first free hour on Friday?",
            call("next_free_hour", day="Friday"),
            {"day": "Friday", "hour": 8},
            "Your first free hour on Friday is 8.",
        ),
        (
            "Add chess club on Friday at 8.",
            call("add_event", title="chess club", day="Friday", hour=8),
            "added chess club on Friday at 8",
            "Chess club is on Friday at 8.",
        ),
        (
            "Move the chess club to 10.",
            call("move_event", title="chess club", hour=10),
            "moved chess club to 10",
            "Chess club is at 10 now.",
        ),
        (
            "List the events of Friday.",
            call("list_events", day="Friday"),
            [{"title": "chess club", "hour": 10}],
            "On Friday you have chess club at 10.",
        ),
    ),
    shapes=(_look_and_move, _book, _next_free, _clear_day),
)
