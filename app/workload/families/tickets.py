"""Tickets: a support desk. The model gets the tools' whole schemas: documentation that is long against the answers."""

from __future__ import annotations

from typing import Any, ClassVar

from app.workload.protocol import tool
from app.workload.world import Deal, Draft, Family, ToolFailure, World, call, turn

TITLES = ("printer is jammed", "login fails", "screen flickers", "mail bounces", "door badge is lost", "disk is full")
PEOPLE = ("Noor", "Oskar", "Pia", "Quinn", "Rosa", "Sami")
PRIORITIES = ("low", "normal", "high", "urgent")


class Tickets(World):
    """State: tickets, id -> {title, priority, owner, status}; next_id."""

    tools: ClassVar[tuple[dict[str, Any], ...]] = (
        tool("show_ticket", "Get title, priority, owner and status of a ticket.", id="integer: ticket number"),
        tool(
            "create_ticket",
            "Open a new ticket without an owner.",
            title="string: what is wrong",
            priority="string: low, normal, high or urgent",
        ),
        tool(
            "assign_ticket",
            "Give an open ticket to a person.",
            id="integer: ticket number",
            person="string: first name",
        ),
        tool(
            "set_priority",
            "Change the priority of an open ticket.",
            id="integer: ticket number",
            priority="string: low, normal, high or urgent",
        ),
        tool("close_ticket", "Close an open ticket.", id="integer: ticket number"),
        tool("list_tickets", "List the open tickets of a person.", person="string: first name"),
    )

    def show_ticket(self, id: int) -> object:
        """All of a ticket."""
        return dict(self._ticket(id))

    def create_ticket(self, title: str, priority: str) -> object:
        """A new ticket."""
        self._check_priority(priority)
        id = self.state["next_id"]
        self.state["next_id"] += 1
        self.state["tickets"][str(id)] = {"title": title, "priority": priority, "owner": "", "status": "open"}
        return f"ticket {id} is open"

    def assign_ticket(self, id: int, person: str) -> object:
        """Another owner."""
        if person not in PEOPLE:
            raise ToolFailure(f'no person "{person}"; people: {", ".join(PEOPLE)}')
        self._open_ticket(id)["owner"] = person
        return f"ticket {id} belongs to {person}"

    def set_priority(self, id: int, priority: str) -> object:
        """Another priority."""
        self._check_priority(priority)
        self._open_ticket(id)["priority"] = priority
        return f"ticket {id} has {priority} priority"

    def close_ticket(self, id: int) -> object:
        """No longer open."""
        self._open_ticket(id)["status"] = "closed"
        return f"ticket {id} is closed"

    def list_tickets(self, person: str) -> object:
        """Open tickets of an owner."""
        mine = [
            int(id) for id, each in self.state["tickets"].items() if (each["owner"], each["status"]) == (person, "open")
        ]
        return {"person": person, "ids": sorted(mine)[:8]}

    def _ticket(self, id: int) -> dict[str, Any]:
        if str(id) not in self.state["tickets"]:
            raise ToolFailure(f"no ticket {id}")
        ticket: dict[str, Any] = self.state["tickets"][str(id)]
        return ticket

    def _open_ticket(self, id: int) -> dict[str, Any]:
        ticket = self._ticket(id)
        if ticket["status"] != "open":
            raise ToolFailure(f"ticket {id} is closed")
        return ticket

    def _check_priority(self, priority: str) -> None:
        if priority not in PRIORITIES:
            raise ToolFailure(f"priority must be one of {', '.join(PRIORITIES)}")


def _desk(deal: Deal) -> tuple[dict[str, Any], list[int], list[str], list[str]]:
    """A state with three open tickets, their ids and the next one; the titles plus an unused one; owners."""
    titles, people, first = deal.some(TITLES, 4), deal.some(PEOPLE, 4), deal.number(31, 79)
    ids = [first, first + 1, first + 2, first + 3]
    tickets = {
        str(id): {"title": title, "priority": PRIORITIES[n % 2], "owner": people[n % 2], "status": "open"}
        for n, (id, title) in enumerate(zip(ids[:3], titles, strict=False))
    }
    return {"tickets": tickets, "next_id": ids[3]}, ids, titles, people


def _work_one(deal: Deal) -> Draft:
    state, ids, _, people = _desk(deal)
    return Draft(
        state,
        (
            turn(f"Show ticket {ids[0]}.", call("show_ticket", id=ids[0])),
            turn(f"Assign ticket {ids[0]} to {people[2]}.", call("assign_ticket", id=ids[0], person=people[2])),
            turn(f"Close ticket {ids[1]}.", call("close_ticket", id=ids[1])),
        ),
    )


def _report(deal: Deal) -> Draft:
    state, ids, titles, people = _desk(deal)
    priority = deal.one(PRIORITIES)
    return Draft(
        state,
        (
            turn(
                f"Create a ticket '{titles[3]}' with priority {priority}.",
                call("create_ticket", title=titles[3], priority=priority),
            ),
            turn(f"Assign it to {people[3]}.", call("assign_ticket", id=ids[3], person=people[3])),
            turn(f"List the tickets of {people[0]}.", call("list_tickets", person=people[0])),
            turn(f"Set the priority of ticket {ids[2]} to urgent.", call("set_priority", id=ids[2], priority="urgent")),
        ),
    )


def _hand_over(deal: Deal) -> Draft:
    state, ids, _, people = _desk(deal)
    return Draft(
        state,
        (
            turn(f"List the tickets that {people[0]} owns.", call("list_tickets", person=people[0])),
            turn(
                f"Give them all to {people[2]}.",
                call("assign_ticket", id=ids[0], person=people[2]),
                call("assign_ticket", id=ids[2], person=people[2]),
            ),
            turn(f"Set ticket {ids[1]} to high priority.", call("set_priority", id=ids[1], priority="high")),
        ),
    )


def _close_two(deal: Deal) -> Draft:
    state, ids, _, people = _desk(deal)
    return Draft(
        state,
        (
            turn(f"Show me ticket {ids[1]}.", call("show_ticket", id=ids[1])),
            turn("Close it.", call("close_ticket", id=ids[1])),
            turn(f"Close ticket {ids[2]} as well.", call("close_ticket", id=ids[2])),
            turn(f"Does {people[0]} own any open tickets?", call("list_tickets", person=people[0])),
        ),
    )


FAMILY = Family(
    name="tickets",
    world=Tickets,
    role="You work at a support desk.",
    examples=(
        (
            "Show ticket 12.",
            call("show_ticket", id=12),
            {"title": "phone is mute", "priority": "low", "owner": "Noor", "status": "open"},
            "Ticket 12, phone is mute, belongs to Noor.",
        ),
        (
            "Assign ticket 12 to Sami.",
            call("assign_ticket", id=12, person="Sami"),
            "ticket 12 belongs to Sami",
            "Ticket 12 belongs to Sami.",
        ),
        (
            "List the tickets of Sami.",
            call("list_tickets", person="Sami"),
            {"person": "Sami", "ids": [12]},
            "Sami owns ticket 12.",
        ),
    ),
    shapes=(_work_one, _report, _hand_over, _close_two),
    verbose=True,
)
