"""Units: a calculator with named memories, and unit conversion."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar, Final

from app.workload.protocol import tool
from app.workload.world import Deal, Draft, Family, ToolFailure, World, call, turn

FACTORS: Final[dict[str, tuple[str, float]]] = {
    "meters": ("length", 1.0),
    "kilometers": ("length", 1000.0),
    "miles": ("length", 1609.344),
    "feet": ("length", 0.3048),
    "kilograms": ("mass", 1.0),
    "grams": ("mass", 0.001),
    "pounds": ("mass", 0.45359237),
    "liters": ("volume", 1.0),
    "gallons": ("volume", 3.785411784),
    "minutes": ("time", 60.0),
    "hours": ("time", 3600.0),
    "days": ("time", 86400.0),
}
"""Unit -> quantity and factor to its base unit; pound, foot, mile and US gallon by their international definitions."""

PAIRS = (
    ("miles", "kilometers"),
    ("pounds", "kilograms"),
    ("gallons", "liters"),
    ("hours", "minutes"),
    ("feet", "meters"),
    ("kilograms", "grams"),
)
THINGS = ("rent", "fuel", "trip", "paint", "fence", "feed")
LARGEST: Final = 1e12


class Units(World):
    """State: memory, name -> number."""

    tools: ClassVar[tuple[dict[str, Any], ...]] = (
        tool("add", "Add two numbers.", a="number: first", b="number: second"),
        tool("subtract", "Subtract b from a.", a="number: first", b="number: second"),
        tool("multiply", "Multiply two numbers.", a="number: first", b="number: second"),
        tool("divide", "Divide a by b.", a="number: first", b="number: second"),
        tool(
            "convert",
            "Convert a value to another unit.",
            value="number: value",
            source="string: unit",
            target="string: unit",
        ),
        tool("store", "Keep a number under a name.", name="string: name", value="number: value"),
        tool("recall", "Get a kept number.", name="string: name"),
    )

    def add(self, a: float, b: float) -> object:
        """The sum."""
        return _of_two(lambda x, y: x + y, a, b)

    def subtract(self, a: float, b: float) -> object:
        """The difference."""
        return _of_two(lambda x, y: x - y, a, b)

    def multiply(self, a: float, b: float) -> object:
        """The product."""
        return _of_two(lambda x, y: x * y, a, b)

    def divide(self, a: float, b: float) -> object:
        """The quotient."""
        if b == 0:
            raise ToolFailure("division by zero")
        return _of_two(lambda x, y: x / y, a, b)

    def convert(self, value: float, source: str, target: str) -> object:
        """The value in the target unit."""
        for unit in (source, target):
            if unit not in FACTORS:
                raise ToolFailure(f'unknown unit "{unit}"; units: {", ".join(FACTORS)}')
        if FACTORS[source][0] != FACTORS[target][0]:
            raise ToolFailure(f"cannot convert {source} to {target}")
        return {**_of_two(lambda x, factor: x * factor, value, FACTORS[source][1] / FACTORS[target][1]), "unit": target}

    def store(self, name: str, value: float) -> object:
        """Keep the number."""
        self.state["memory"][name] = _rounded(value)
        return {name: self.state["memory"][name]}

    def recall(self, name: str) -> object:
        """The kept number."""
        if name not in self.state["memory"]:
            raise ToolFailure(f'nothing is kept as "{name}"')
        return {name: self.state["memory"][name]}


def _of_two(operation: Callable[[float, float], float], a: float, b: float) -> dict[str, float]:
    if max(abs(a), abs(b)) > LARGEST:
        raise ToolFailure("number too large")
    return {"result": _rounded(operation(a, b))}


def _rounded(value: float) -> float:
    """Six significant digits, whole numbers without a point."""
    if abs(value) > LARGEST**2 or not math.isfinite(value):
        raise ToolFailure("number too large")
    short = float(f"{value:.6g}")
    return int(short) if short.is_integer() else short


def _convert_and_keep(deal: Deal) -> Draft:
    source, target = deal.one(PAIRS)
    value, name, more = deal.number(3, 60), deal.one(THINGS), deal.number(100, 900)
    return Draft(
        {"memory": {}},
        (
            turn(f"Convert {value} {source} to {target}.", call("convert", value=value, source=source, target=target)),
            turn(f"Store {more} as {name}.", call("store", name=name, value=more)),
            turn(f"Recall {name}.", call("recall", name=name)),
            turn(f"Divide {more} by 8.", call("divide", a=more, b=8)),
        ),
    )


def _bill(deal: Deal) -> Draft:
    price, count, discount = deal.number(12, 95), deal.number(3, 19), deal.number(4, 30)
    name, total = deal.one(THINGS), price * count
    return Draft(
        {"memory": {}},
        (
            turn(f"Multiply {price} by {count}.", call("multiply", a=price, b=count)),
            turn(f"Subtract {discount} from that.", call("subtract", a=total, b=discount)),
            turn(f"Add {price} to the result.", call("add", a=total - discount, b=price)),
            turn(f"Store the last result as {name}.", call("store", name=name, value=total - discount + price)),
            turn("Divide the result by 4.", call("divide", a=total - discount + price, b=4)),
        ),
    )


def _two_conversions(deal: Deal) -> Draft:
    (source, target), (other, another) = deal.some(PAIRS, 2)
    value, second = deal.number(5, 80), deal.number(90, 400)
    return Draft(
        {"memory": {}},
        (
            turn(f"Convert {value} {source} to {target}.", call("convert", value=value, source=source, target=target)),
            turn(
                f"And convert {second} {other} to {another}.",
                call("convert", value=second, source=other, target=another),
            ),
            turn(f"Add {value} and {second}.", call("add", a=value, b=second)),
        ),
    )


def _household(deal: Deal) -> Draft:
    first, second = deal.some(THINGS, 2)
    kept, new, times = deal.number(200, 800), deal.number(30, 90), deal.number(2, 9)
    return Draft(
        {"memory": {first: kept}},
        (
            turn(f"Recall {first}.", call("recall", name=first)),
            turn(f"Multiply {new} by {times}.", call("multiply", a=new, b=times)),
            turn(f"Store {new * times} as {second}.", call("store", name=second, value=new * times)),
            turn(f"Recall {second}.", call("recall", name=second)),
            turn(f"Add {first} and {second}.", call("add", a=kept, b=new * times)),
            turn(f"Subtract {times} from {kept}.", call("subtract", a=kept, b=times)),
        ),
    )


FAMILY = Family(
    name="units",
    world=Units,
    role="You calculate for the user.",
    examples=(
        (
            "Convert 2 days to hours.",
            call("convert", value=2, source="days", target="hours"),
            {"result": 48, "unit": "hours"},
            "2 days are 48 hours.",
        ),
        ("Add 17 and 25.", call("add", a=17, b=25), {"result": 42}, "17 plus 25 is 42."),
        ("Store 42 as boat.", call("store", name="boat", value=42), {"boat": 42}, "I keep 42 as boat."),
        ("Divide 42 by 3.", call("divide", a=42, b=3), {"result": 14}, "42 divided by 3 is 14."),
    ),
    shapes=(_convert_and_keep, _bill, _two_conversions, _household),
)
