"""Travel: trains, hotels and bookings. The model gets the tools' whole schemas, which are long against the answers."""

from __future__ import annotations

from typing import Any, ClassVar

from app.workload.protocol import tool
from app.workload.world import Deal, Draft, Family, ToolFailure, World, call, turn

CITIES = ("Lisbon", "Oslo", "Turin", "Ghent", "Porto", "Krakow", "Malmo")
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
HOTELS = ("Harbour Inn", "Old Mill", "Park Hotel", "Blue Door")


class Travel(World):
    """State: trains, number -> {from, to, day, price}; hotels, name -> {city, price}; bookings; next_booking."""

    tools: ClassVar[tuple[dict[str, Any], ...]] = (
        tool(
            "find_trains",
            "Find the trains between two cities.",
            origin="string: city",
            destination="string: city",
        ),
        tool(
            "book_train",
            "Book seats on a train.",
            train="string: train number",
            seats="integer: how many people",
        ),
        tool("find_hotels", "Find hotels in a city.", city="string: city"),
        tool(
            "book_hotel",
            "Book a room in a hotel.",
            hotel="string: name of the hotel",
            nights="integer: how many nights",
        ),
        tool("cancel_booking", "Cancel a booking.", booking="integer: booking number"),
    )

    def find_trains(self, origin: str, destination: str) -> object:
        """Trains from one city to another."""
        found = [
            {"train": id, "day": each["day"], "price": each["price"]}
            for id, each in self.state["trains"].items()
            if (each["from"], each["to"]) == (origin, destination)
        ]
        if not found:
            raise ToolFailure(f"no train from {origin} to {destination}")
        return found[:3]

    def book_train(self, train: str, seats: int) -> object:
        """Seats on a train."""
        if train not in self.state["trains"]:
            raise ToolFailure(f'no train "{train}"')
        return self._book(f"{train} x {seats}", seats, self.state["trains"][train]["price"])

    def find_hotels(self, city: str) -> object:
        """Hotels of a city."""
        found = [
            {"hotel": name, "price": each["price"]}
            for name, each in self.state["hotels"].items()
            if each["city"] == city
        ]
        if not found:
            raise ToolFailure(f"no hotel in {city}")
        return found[:3]

    def book_hotel(self, hotel: str, nights: int) -> object:
        """Nights in a hotel."""
        if hotel not in self.state["hotels"]:
            raise ToolFailure(f'no hotel "{hotel}"')
        return self._book(f"{hotel} x {nights}", nights, self.state["hotels"][hotel]["price"])

    def cancel_booking(self, booking: int) -> object:
        """Give a booking back."""
        if str(booking) not in self.state["bookings"]:
            raise ToolFailure(f"no booking {booking}")
        return f"cancelled {self.state['bookings'].pop(str(booking))}"

    def _book(self, what: str, count: int, price: int) -> object:
        if not 1 <= count <= 9:
            raise ToolFailure("from 1 to 9 can be booked")
        booking = self.state["next_booking"]
        self.state["next_booking"] += 1
        self.state["bookings"][str(booking)] = what
        return f"booking {booking}, price {count * price}"


def _offers(deal: Deal) -> tuple[dict[str, Any], list[str], list[str], list[str]]:
    """A state with two trains there and one back, a hotel in each city and booking 50; cities, trains, hotels."""
    cities, days, hotels, first = deal.some(CITIES, 2), deal.some(DAYS, 3), deal.some(HOTELS, 2), deal.number(11, 60)
    trains = [f"T{first + n}" for n in range(3)]
    ways = [(cities[0], cities[1]), (cities[0], cities[1]), (cities[1], cities[0])]
    state = {
        "trains": {
            train: {"from": way[0], "to": way[1], "day": day, "price": deal.number(20, 90)}
            for train, way, day in zip(trains, ways, days, strict=True)
        },
        "hotels": {
            name: {"city": city, "price": deal.number(50, 150)} for name, city in zip(hotels, cities, strict=True)
        },
        "bookings": {"50": "Night Ferry x 2"},
        "next_booking": 51,
    }
    return state, cities, trains, hotels


def _there(deal: Deal) -> Draft:
    state, cities, trains, _ = _offers(deal)
    seats = deal.number(2, 6)
    return Draft(
        state,
        (
            turn(
                f"Find trains from {cities[0]} to {cities[1]}.",
                call("find_trains", origin=cities[0], destination=cities[1]),
            ),
            turn(f"Book train {trains[1]} for {seats} people.", call("book_train", train=trains[1], seats=seats)),
            turn("Cancel booking 50.", call("cancel_booking", booking=50)),
        ),
    )


def _there_and_back(deal: Deal) -> Draft:
    state, cities, trains, _ = _offers(deal)
    seats = deal.number(1, 4)
    return Draft(
        state,
        (
            turn(
                f"Are there trains from {cities[0]} to {cities[1]}?",
                call("find_trains", origin=cities[0], destination=cities[1]),
            ),
            turn("Book the first one for one person.", call("book_train", train=trains[0], seats=1)),
            turn("And back?", call("find_trains", origin=cities[1], destination=cities[0])),
            turn(f"Book train {trains[2]} for {seats} people.", call("book_train", train=trains[2], seats=seats)),
        ),
    )


def _stay(deal: Deal) -> Draft:
    state, cities, _, hotels = _offers(deal)
    nights = deal.number(2, 8)
    return Draft(
        state,
        (
            turn(f"Find hotels in {cities[1]}.", call("find_hotels", city=cities[1])),
            turn(f"Book hotel {hotels[1]} for {nights} nights.", call("book_hotel", hotel=hotels[1], nights=nights)),
            turn(f"Find hotels in {cities[0]} too.", call("find_hotels", city=cities[0])),
        ),
    )


def _whole_trip(deal: Deal) -> Draft:
    state, cities, trains, hotels = _offers(deal)
    nights = deal.number(1, 5)
    return Draft(
        state,
        (
            turn("Cancel my booking 50.", call("cancel_booking", booking=50)),
            turn(
                f"Which trains go from {cities[1]} to {cities[0]}?",
                call("find_trains", origin=cities[1], destination=cities[0]),
            ),
            turn(
                f"Book train {trains[2]} for 2 people and hotel {hotels[0]} for {nights} nights.",
                call("book_train", train=trains[2], seats=2),
                call("book_hotel", hotel=hotels[0], nights=nights),
            ),
        ),
    )


FAMILY = Family(
    name="travel",
    world=Travel,
    role="You book the user's travel.",
    examples=(
        (
            "Find trains from Bern to Graz.",
            call("find_trains", origin="Bern", destination="Graz"),
            [{"train": "T7", "day": "Sunday", "price": 40}],
            "Train T7 goes on Sunday for 40.",
        ),
        (
            "Book train T7 for 3 people.",
            call("book_train", train="T7", seats=3),
            "booking 31, price 120",
            "Train T7 is booked, booking 31.",
        ),
        (
            "Find hotels in Graz.",
            call("find_hotels", city="Graz"),
            [{"hotel": "Town Gate", "price": 70}],
            "Town Gate costs 70 a night.",
        ),
    ),
    shapes=(_there, _there_and_back, _stay, _whole_trip),
    verbose=True,
)
