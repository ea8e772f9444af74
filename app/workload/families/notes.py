"""Notes: titled notes with tags, and a search over them."""

from __future__ import annotations

from typing import Any, ClassVar

from app.workload.protocol import tool
from app.workload.world import Deal, Draft, Family, ToolFailure, World, call, turn

NOTES = (
    ("Boiler", "the boiler needs service in march", "boiler"),
    ("Holiday", "ferry leaves from the west harbour", "ferry"),
    ("Novel", "the lighthouse keeper finds a letter", "lighthouse"),
    ("Bread", "let the dough rest for two hours", "dough"),
    ("Bicycle", "the back brake is worn", "brake"),
    ("Lecture", "tides follow the moon", "tides"),
    ("Paint", "the hall is called pale sand", "hall"),
    ("Wine", "the best year was dry", "year"),
)
TAGS = ("home", "work", "travel", "ideas", "urgent")
LINES = ("ask for a price", "buy a new one", "see page ninety", "tell the neighbours", "check it on friday")


class Notes(World):
    """State: notes, title -> {text, tag}."""

    tools: ClassVar[tuple[dict[str, Any], ...]] = (
        tool("find_notes", "Find the titles of notes that contain a word.", word="string: word"),
        tool("read_note", "Read a note.", title="string: title"),
        tool("write_note", "Write a new note.", title="string: title", text="string: text"),
        tool("append_note", "Add text to the end of a note.", title="string: title", text="string: text"),
        tool("tag_note", "Set the tag of a note.", title="string: title", tag="string: tag"),
        tool("list_tag", "List the titles of notes with a tag.", tag="string: tag"),
        tool("delete_note", "Delete a note.", title="string: title"),
    )

    def find_notes(self, word: str) -> object:
        """Titles of notes whose text contains the word."""
        if not word:
            raise ToolFailure("word is empty")
        return {"titles": [t for t, note in self.state["notes"].items() if word.lower() in note["text"].lower()][:6]}

    def read_note(self, title: str) -> object:
        """The text."""
        return self._note(title)["text"]

    def write_note(self, title: str, text: str) -> object:
        """A new note without a tag."""
        if not title or title in self.state["notes"]:
            raise ToolFailure(f'cannot write "{title}": it is there or has no title')
        self.state["notes"][title] = {"text": text, "tag": ""}
        return f"wrote {title}"

    def append_note(self, title: str, text: str) -> object:
        """More text."""
        note = self._note(title)
        note["text"] = f"{note['text']}; {text}"
        return note["text"]

    def tag_note(self, title: str, tag: str) -> object:
        """Another tag."""
        self._note(title)["tag"] = tag
        return f"tagged {title} as {tag}"

    def list_tag(self, tag: str) -> object:
        """Titles with the tag."""
        return {"tag": tag, "titles": [title for title, note in self.state["notes"].items() if note["tag"] == tag][:6]}

    def delete_note(self, title: str) -> object:
        """Take the note away."""
        self._note(title)
        del self.state["notes"][title]
        return f"deleted {title}"

    def _note(self, title: str) -> dict[str, str]:
        if title not in self.state["notes"]:
            raise ToolFailure(f'no note "{title}"')
        note: dict[str, str] = self.state["notes"][title]
        return note


def _pad(deal: Deal) -> tuple[dict[str, Any], list[tuple[str, str, str]], list[str], list[str]]:
    """A state with the first four of five notes (two share the first tag), the notes, tags, lines to write."""
    notes, tags, lines = deal.some(NOTES, 5), deal.some(TAGS, 3), deal.some(LINES, 3)
    kept = {title: {"text": text, "tag": tags[n // 2]} for n, (title, text, _) in enumerate(notes[:4])}
    return {"notes": kept}, notes, tags, lines


def _search_and_read(deal: Deal) -> Draft:
    state, notes, _, lines = _pad(deal)
    title, _, word = notes[2]
    return Draft(
        state,
        (
            turn(f"Find notes about {word}.", call("find_notes", word=word)),
            turn("Read it to me.", call("read_note", title=title)),
            turn(f"Append '{lines[0]}' to {title}.", call("append_note", title=title, text=lines[0])),
            turn(f"Delete the note {notes[0][0]}.", call("delete_note", title=notes[0][0])),
        ),
    )


def _new_note(deal: Deal) -> Draft:
    state, notes, tags, lines = _pad(deal)
    title, text, word = notes[4]
    return Draft(
        state,
        (
            turn(f"Write a note {title}: '{text}'.", call("write_note", title=title, text=text)),
            turn(f"Tag {title} as {tags[2]}.", call("tag_note", title=title, tag=tags[2])),
            turn(f"Add '{lines[0]}' to it.", call("append_note", title=title, text=lines[0])),
            turn(f"Find notes with the word {word}.", call("find_notes", word=word)),
            turn(f"Which notes are tagged {tags[0]}?", call("list_tag", tag=tags[0])),
        ),
    )


def _tags(deal: Deal) -> Draft:
    state, notes, tags, _ = _pad(deal)
    return Draft(
        state,
        (
            turn(f"List the notes tagged {tags[1]}.", call("list_tag", tag=tags[1])),
            turn(
                f"Tag {notes[2][0]} and {notes[3][0]} as {tags[0]}.",
                call("tag_note", title=notes[2][0], tag=tags[0]),
                call("tag_note", title=notes[3][0], tag=tags[0]),
            ),
            turn(f"Read {notes[1][0]}.", call("read_note", title=notes[1][0])),
        ),
    )


def _collect(deal: Deal) -> Draft:
    state, notes, tags, lines = _pad(deal)
    return Draft(
        state,
        (
            turn(f"Find notes about {notes[0][2]}.", call("find_notes", word=notes[0][2])),
            turn(f"Find notes about {notes[3][2]}.", call("find_notes", word=notes[3][2])),
            turn(f"Write a note Plan: '{lines[0]}'.", call("write_note", title="Plan", text=lines[0])),
            turn(f"Append '{lines[1]}' to Plan.", call("append_note", title="Plan", text=lines[1])),
            turn(f"Tag Plan as {tags[2]}.", call("tag_note", title="Plan", tag=tags[2])),
            turn(f"Delete {notes[3][0]}.", call("delete_note", title=notes[3][0])),
        ),
    )


FAMILY = Family(
    name="notes",
    world=Notes,
    role="You keep the user's notes.",
    examples=(
        (
            "Write a note Kettle: 'tea at five'.",
            call("write_note", title="Kettle", text="tea at five"),
            "wrote Kettle",
            "I wrote the note Kettle.",
        ),
        (
            "Find notes about tea.",
            call("find_notes", word="tea"),
            {"titles": ["Kettle"]},
            "The note Kettle is about tea.",
        ),
        (
            "Append 'buy sugar' to Kettle.",
            call("append_note", title="Kettle", text="buy sugar"),
            "tea at five; buy sugar",
            "I added it to Kettle.",
        ),
        (
            "Tag Kettle as garden.",
            call("tag_note", title="Kettle", tag="garden"),
            "tagged Kettle as garden",
            "Kettle is tagged garden.",
        ),
    ),
    shapes=(_search_and_read, _new_note, _tags, _collect),
)
