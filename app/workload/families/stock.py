"""Stock: what lies where in a store room, how many, at what price."""

from __future__ import annotations

from typing import Any, ClassVar

from app.workload.protocol import tool
from app.workload.world import Deal, Draft, Family, ToolFailure, World, call, turn

ITEMS = ("bolts", "lamps", "ropes", "gloves", "filters", "batteries", "hinges", "valves")
PLACES = ("shelf A", "shelf B", "shelf C", "cellar", "attic", "yard")


class Stock(World):
    """State: items, name -> {count, place, price}."""

    tools: ClassVar[tuple[dict[str, Any], ...]] = (
        tool("get_item", "Get count, place and price of an item.", item="string: item"),
        tool("add_stock", "Add to an item's count.", item="string: item", amount="integer: how many"),
        tool("remove_stock", "Take from an item's count.", item="string: item", amount="integer: how many"),
        tool("move_item", "Move an item to another place.", item="string: item", place="string: place"),
        tool("set_price", "Set the price of one piece.", item="string: item", price="number: price"),
        tool("list_place", "List the items at a place.", place="string: place"),
        tool("low_stock", "List items with a count below a limit.", limit="integer: limit"),
    )

    def get_item(self, item: str) -> object:
        """All of an item."""
        return dict(self._item(item))

    def add_stock(self, item: str, amount: int) -> object:
        """More of an item."""
        return self._change(item, amount, 1)

    def remove_stock(self, item: str, amount: int) -> object:
        """Less of an item, never below nothing."""
        return self._change(item, amount, -1)

    def move_item(self, item: str, place: str) -> object:
        """Another place."""
        self._check_place(place)
        self._item(item)["place"] = place
        return f"{item} moved to {place}"

    def set_price(self, item: str, price: float) -> object:
        """Another price."""
        if not 0 < price < 1e6:
            raise ToolFailure("price out of range")
        self._item(item)["price"] = price
        return f"{item} now cost {price}"

    def list_place(self, place: str) -> object:
        """Names and counts at a place."""
        self._check_place(place)
        return {name: each["count"] for name, each in self.state["items"].items() if each["place"] == place}

    def low_stock(self, limit: int) -> object:
        """Names and counts below the limit."""
        return {name: each["count"] for name, each in self.state["items"].items() if each["count"] < limit}

    def _change(self, item: str, amount: int, sign: int) -> object:
        found = self._item(item)
        if not 0 < amount <= 100_000:
            raise ToolFailure("amount out of range")
        if found["count"] + sign * amount < 0:
            raise ToolFailure(f"only {found['count']} {item} left")
        found["count"] += sign * amount
        return f"{item}: {found['count']}"

    def _item(self, item: str) -> dict[str, Any]:
        if item not in self.state["items"]:
            raise ToolFailure(f'no item "{item}"')
        found: dict[str, Any] = self.state["items"][item]
        return found

    def _check_place(self, place: str) -> None:
        if place not in PLACES:
            raise ToolFailure(f"no such place; places: {', '.join(PLACES)}")


def _room(deal: Deal) -> tuple[dict[str, Any], list[str], list[str]]:
    """A state with four items, the first at the first place and scarce; the items' names; the places."""
    items, places = deal.some(ITEMS, 4), deal.some(PLACES[:5], 4)
    rows = [
        {"count": deal.number(40, 400) if n else deal.number(3, 9), "place": places[n % 3], "price": deal.number(2, 60)}
        for n in range(4)
    ]
    return {"items": dict(zip(items, rows, strict=True))}, items, places


def _delivery(deal: Deal) -> Draft:
    state, items, places = _room(deal)
    amount, less = deal.number(11, 90), deal.number(2, 9)
    return Draft(
        state,
        (
            turn(f"How many {items[0]} do we have?", call("get_item", item=items[0])),
            turn(f"Add {amount} {items[0]}.", call("add_stock", item=items[0], amount=amount)),
            turn(f"Remove {less} {items[1]}.", call("remove_stock", item=items[1], amount=less)),
            turn(f"Move the {items[0]} to {places[3]}.", call("move_item", item=items[0], place=places[3])),
        ),
    )


def _what_is_short(deal: Deal) -> Draft:
    state, items, _ = _room(deal)
    amount = deal.number(20, 60)
    return Draft(
        state,
        (
            turn("Which items are below 10?", call("low_stock", limit=10)),
            turn(f"Order {amount} more of it.", call("add_stock", item=items[0], amount=amount)),
            turn(f"And where are the {items[2]}?", call("get_item", item=items[2])),
        ),
    )


def _prices(deal: Deal) -> Draft:
    state, items, places = _room(deal)
    price, other = deal.number(61, 99), deal.number(100, 150)
    return Draft(
        state,
        (
            turn(f"What does one of the {items[1]} cost?", call("get_item", item=items[1])),
            turn(f"Set the price of {items[1]} to {price}.", call("set_price", item=items[1], price=price)),
            turn(f"Set the price of {items[3]} to {other}.", call("set_price", item=items[3], price=other)),
            turn(f"What is at {places[2]}?", call("list_place", place=places[2])),
            turn(f"Move {items[1]} there.", call("move_item", item=items[1], place=places[2])),
        ),
    )


def _swap_places(deal: Deal) -> Draft:
    state, items, places = _room(deal)
    amount = deal.number(10, 39)
    return Draft(
        state,
        (
            turn(f"List what is at {places[0]}.", call("list_place", place=places[0])),
            turn(f"Move {items[1]} to {places[3]}.", call("move_item", item=items[1], place=places[3])),
            turn(
                f"Move {items[0]} and {items[2]} to {places[1]}.",
                call("move_item", item=items[0], place=places[1]),
                call("move_item", item=items[2], place=places[1]),
            ),
            turn(f"List what is at {places[1]}.", call("list_place", place=places[1])),
            turn(f"Remove {amount} {items[2]}.", call("remove_stock", item=items[2], amount=amount)),
            turn(f"How many {items[2]} are left?", call("get_item", item=items[2])),
        ),
    )


FAMILY = Family(
    name="stock",
    world=Stock,
    role="You keep the store room.",
    examples=(
        (
            "How many nails do we have?",
            call("get_item", item="nails"),
            {"count": 30, "place": "shelf C", "price": 1},
            "There are 30 nails on shelf C.",
        ),
        (
            "Add 15 nails.",
            call("add_stock", item="nails", amount=15),
            "nails: 45",
            "There are 45 nails now.",
        ),
        (
            "Move the nails to yard.",
            call("move_item", item="nails", place="yard"),
            "nails moved to yard",
            "The nails are in the yard.",
        ),
        ("What is at yard?", call("list_place", place="yard"), {"nails": 45}, "There are 45 nails in the yard."),
    ),
    shapes=(_delivery, _what_is_short, _prices, _swap_places),
)
