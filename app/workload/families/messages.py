"""Messages: an inbox, a list of contacts and what was sent."""

from __future__ import annotations

from typing import Any, ClassVar

from app.workload.protocol import tool
from app.workload.world import Deal, Draft, Family, ToolFailure, World, call, turn

CONTACTS = ("Ana", "Ben", "Carla", "Dev", "Elif", "Farid", "Greta", "Hugo")
TEXTS = (
    "the train is late",
    "can you bring the keys",
    "dinner is at seven",
    "the parcel has arrived",
    "the meeting moved to room four",
    "happy birthday",
    "the report is ready",
    "please call me tonight",
)


class Messages(World):
    """State: inbox, id -> {sender, text}; sent, list of {to, text}; contacts; next_id."""

    tools: ClassVar[tuple[dict[str, Any], ...]] = (
        tool("list_inbox", "List ids and senders of the inbox from an id on.", start="integer: first id"),
        tool("read_message", "Read a message.", id="integer: message id"),
        tool("send_message", "Send a message to a contact.", to="string: contact", text="string: text"),
        tool("reply", "Answer a message.", id="integer: message id", text="string: text"),
        tool("delete_message", "Delete a message.", id="integer: message id"),
        tool("messages_from", "Find messages from a contact.", sender="string: contact"),
        tool("add_contact", "Add a contact.", name="string: name"),
    )

    def list_inbox(self, start: int) -> object:
        """Up to five messages with ids from `start` on."""
        ids = sorted(id for id in map(int, self.state["inbox"]) if id >= start)[:5]
        return [{"id": id, "from": self.state["inbox"][str(id)]["sender"]} for id in ids]

    def read_message(self, id: int) -> object:
        """Sender and text."""
        message = self._message(id)
        return {"from": message["sender"], "text": message["text"]}

    def send_message(self, to: str, text: str) -> object:
        """A message to a contact."""
        if to not in self.state["contacts"]:
            raise ToolFailure(f'no contact "{to}"')
        self.state["sent"].append({"to": to, "text": text})
        return f"sent to {to}"

    def reply(self, id: int, text: str) -> object:
        """A message to the sender of another."""
        return self.send_message(self._message(id)["sender"], text)

    def delete_message(self, id: int) -> object:
        """Take a message out of the inbox."""
        self._message(id)
        del self.state["inbox"][str(id)]
        return f"deleted message {id}"

    def messages_from(self, sender: str) -> object:
        """Ids of a sender's messages."""
        ids = sorted(int(id) for id, message in self.state["inbox"].items() if message["sender"] == sender)
        return {"from": sender, "ids": ids[:8]}

    def add_contact(self, name: str) -> object:
        """A new contact."""
        if not name or name in self.state["contacts"]:
            raise ToolFailure(f'cannot add "{name}"')
        self.state["contacts"] = sorted([*self.state["contacts"], name])
        return f"added {name}"

    def _message(self, id: int) -> dict[str, str]:
        if str(id) not in self.state["inbox"]:
            raise ToolFailure(f"no message with id {id}")
        message: dict[str, str] = self.state["inbox"][str(id)]
        return message


def _inbox(deal: Deal) -> tuple[dict[str, Any], list[str], list[str]]:
    """A state with messages 1 to 4 (3 and 4 of one sender), the contacts plus an unknown one, texts to send."""
    people, texts = deal.some(CONTACTS, 5), deal.some(TEXTS, 7)
    senders = [people[0], people[1], people[2], people[2]]
    inbox = {str(n + 1): {"sender": sender, "text": texts[n]} for n, sender in enumerate(senders)}
    return {"inbox": inbox, "sent": [], "contacts": sorted(people[:4])}, people, texts[4:]


def _read_and_answer(deal: Deal) -> Draft:
    state, people, texts = _inbox(deal)
    return Draft(
        state,
        (
            turn("Read message 2.", call("read_message", id=2)),
            turn(f"Reply to message 2: '{texts[0]}'.", call("reply", id=2, text=texts[0])),
            turn("Delete message 1.", call("delete_message", id=1)),
            turn(f"Send {people[3]} the message '{texts[1]}'.", call("send_message", to=people[3], text=texts[1])),
        ),
    )


def _from_whom(deal: Deal) -> Draft:
    state, people, texts = _inbox(deal)
    return Draft(
        state,
        (
            turn(f"Do I have messages from {people[2]}?", call("messages_from", sender=people[2])),
            turn("Read both of them.", call("read_message", id=3), call("read_message", id=4)),
            turn("Delete the older one.", call("delete_message", id=3)),
            turn(f"Tell {people[2]}: '{texts[0]}'.", call("send_message", to=people[2], text=texts[0])),
            turn(f"Any messages from {people[1]}?", call("messages_from", sender=people[1])),
        ),
    )


def _new_contact(deal: Deal) -> Draft:
    state, people, texts = _inbox(deal)
    return Draft(
        state,
        (
            turn(f"Add the contact {people[4]}.", call("add_contact", name=people[4])),
            turn(f"Send {people[4]} '{texts[0]}'.", call("send_message", to=people[4], text=texts[0])),
            turn(f"Send {people[0]} '{texts[1]}'.", call("send_message", to=people[0], text=texts[1])),
        ),
    )


def _clear_inbox(deal: Deal) -> Draft:
    state, _, texts = _inbox(deal)
    return Draft(
        state,
        (
            turn("List my inbox from id 1.", call("list_inbox", start=1)),
            turn("Read message 1.", call("read_message", id=1)),
            turn("Delete message 1.", call("delete_message", id=1)),
            turn(f"Reply to message 3: '{texts[0]}'.", call("reply", id=3, text=texts[0])),
            turn("Delete message 3.", call("delete_message", id=3)),
            turn("List my inbox from id 2.", call("list_inbox", start=2)),
        ),
    )


FAMILY = Family(
    name="messages",
    world=Messages,
    role="You handle the user's messages.",
    examples=(
        (
            "Read message 9.",
            call("read_message", id=9),
            {"from": "Iris", "text": "the boat is mended"},
            "Iris writes: the boat is mended.",
        ),
        (
            "Reply to message 9: 'thank you'.",
            call("reply", id=9, text="thank you"),
            "sent to Iris",
            "I sent your reply to Iris.",
        ),
        (
            "Send Jonas 'see you soon'.",
            call("send_message", to="Jonas", text="see you soon"),
            "sent to Jonas",
            "I sent it to Jonas.",
        ),
        (
            "Are there messages from Jonas?",
            call("messages_from", sender="Jonas"),
            {"from": "Jonas", "ids": [7]},
            "Yes, message 7 is from Jonas.",
        ),
    ),
    shapes=(_read_and_answer, _from_whom, _new_contact, _clear_inbox),
)
