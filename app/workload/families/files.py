"""Files: a small file system of text files in folders one level deep."""

from __future__ import annotations

from typing import Any, ClassVar

from app.workload.protocol import tool
from app.workload.world import Deal, Draft, Family, ToolFailure, World, call, turn

FOLDERS = ("reports", "letters", "drafts", "invoices", "photos", "plans")
NAMES = ("june.txt", "garden.txt", "summary.txt", "todo.txt", "recipe.txt", "minutes.txt", "budget.txt", "route.txt")
TEXTS = (
    "rent is due on the fifth",
    "call the plumber about the sink",
    "the old fence needs new paint",
    "two eggs and a cup of flour",
    "meet at the north gate",
    "all lamps were checked in may",
)


class Files(World):
    """State: files, "folder/name" -> text; folders, sorted."""

    tools: ClassVar[tuple[dict[str, Any], ...]] = (
        tool("list_files", "List the files in a folder.", folder="string: folder"),
        tool("read_file", "Read a file.", path="string: folder/name"),
        tool("write_file", "Write text to a file.", path="string: folder/name", text="string: new content"),
        tool("move_file", "Move a file to another folder.", path="string: folder/name", folder="string: target"),
        tool("delete_file", "Delete a file.", path="string: folder/name"),
        tool("make_folder", "Make a new folder.", folder="string: name"),
        tool("count_words", "Count the words of a file.", path="string: folder/name"),
    )

    def list_files(self, folder: str) -> object:
        """Names in the folder."""
        self._check_folder(folder)
        return sorted(path.split("/")[1] for path in self.state["files"] if path.split("/")[0] == folder)[:8]

    def read_file(self, path: str) -> object:
        """The text."""
        return self._text(path)

    def write_file(self, path: str, text: str) -> object:
        """Make or replace a file."""
        folder, slash, name = path.partition("/")
        self._check_folder(folder)
        if not slash or not name or "/" in name:
            raise ToolFailure("path must be folder/name")
        self.state["files"][path] = text
        return f"wrote {path}"

    def move_file(self, path: str, folder: str) -> object:
        """The same name in another folder."""
        text = self._text(path)
        self._check_folder(folder)
        del self.state["files"][path]
        target = f"{folder}/{path.split('/')[1]}"
        self.state["files"][target] = text
        return f"moved to {target}"

    def delete_file(self, path: str) -> object:
        """Take the file away."""
        self._text(path)
        del self.state["files"][path]
        return f"deleted {path}"

    def make_folder(self, folder: str) -> object:
        """A new, empty folder."""
        if not folder or "/" in folder or folder in self.state["folders"]:
            raise ToolFailure(f'cannot make "{folder}"')
        self.state["folders"] = sorted([*self.state["folders"], folder])
        return f"made {folder}"

    def count_words(self, path: str) -> object:
        """How many words the file has."""
        return {"path": path, "words": len(self._text(path).split())}

    def _text(self, path: str) -> str:
        if path not in self.state["files"]:
            raise ToolFailure(f'no file "{path}"')
        return str(self.state["files"][path])

    def _check_folder(self, folder: str) -> None:
        if folder not in self.state["folders"]:
            raise ToolFailure(f'no folder "{folder}"')


def _disk(deal: Deal) -> tuple[dict[str, Any], list[str], list[str]]:
    """A state with three folders and four files (two in the first), the folders plus an unused one, the paths."""
    folders, names, texts = deal.some(FOLDERS, 4), deal.some(NAMES, 4), deal.some(TEXTS, 4)
    paths = [f"{folders[n // 2 if n < 3 else 2]}/{name}" for n, name in enumerate(names)]
    files = dict(zip(paths, texts, strict=True))
    return {"files": files, "folders": sorted(folders[:3])}, folders, paths


def _tidy(deal: Deal) -> Draft:
    state, folders, paths = _disk(deal)
    return Draft(
        state,
        (
            turn(f"What files are in {folders[0]}?", call("list_files", folder=folders[0])),
            turn(f"Move {paths[0]} to {folders[2]}.", call("move_file", path=paths[0], folder=folders[2])),
            turn(f"Delete {paths[2]}.", call("delete_file", path=paths[2])),
            turn(f"Which files are in {folders[2]} now?", call("list_files", folder=folders[2])),
        ),
    )


def _read_and_write(deal: Deal) -> Draft:
    state, folders, paths = _disk(deal)
    new, text = f"{folders[1]}/copy.txt", deal.one(TEXTS)
    return Draft(
        state,
        (
            turn(f"Read {paths[1]}.", call("read_file", path=paths[1])),
            turn(f"How many words are in {paths[3]}?", call("count_words", path=paths[3])),
            turn(f"Write '{text}' to {new}.", call("write_file", path=new, text=text)),
            turn(f"Delete {paths[0]}.", call("delete_file", path=paths[0])),
            turn("List the files of every folder that I named.", *(call("list_files", folder=f) for f in folders[:2])),
        ),
    )


def _archive(deal: Deal) -> Draft:
    state, folders, paths = _disk(deal)
    return Draft(
        state,
        (
            turn(f"Make a folder {folders[3]}.", call("make_folder", folder=folders[3])),
            turn(f"Move {paths[0]} to {folders[3]}.", call("move_file", path=paths[0], folder=folders[3])),
            turn(f"Now move {paths[2]} there too.", call("move_file", path=paths[2], folder=folders[3])),
            turn(f"Read {paths[3]}.", call("read_file", path=paths[3])),
            turn("Delete that file.", call("delete_file", path=paths[3])),
            turn(f"List the files of {folders[3]}.", call("list_files", folder=folders[3])),
        ),
    )


def _compare_lengths(deal: Deal) -> Draft:
    state, _, paths = _disk(deal)
    text = deal.one(TEXTS)
    return Draft(
        state,
        (
            turn(
                f"Which has more words, {paths[0]} or {paths[1]}?",
                call("count_words", path=paths[0]),
                call("count_words", path=paths[1]),
            ),
            turn(f"Replace the text of {paths[0]} by '{text}'.", call("write_file", path=paths[0], text=text)),
            turn(f"Read {paths[0]} to me.", call("read_file", path=paths[0])),
        ),
    )


FAMILY = Family(
    name="files",
    world=Files,
    role="You keep the user's files.",
    examples=(
        (
            "What files are in music?",
            call("list_files", folder="music"),
            ["song.txt", "tour.txt"],
            "There are song.txt and tour.txt.",
        ),
        (
            "Read music/tour.txt.",
            call("read_file", path="music/tour.txt"),
            "bring a coat",
            "It says: bring a coat.",
        ),
        (
            "Move music/tour.txt to games.",
            call("move_file", path="music/tour.txt", folder="games"),
            "moved to games/tour.txt",
            "It is games/tour.txt now.",
        ),
        (
            "Write 'see you soon' to games/end.txt.",
            call("write_file", path="games/end.txt", text="see you soon"),
            "wrote games/end.txt",
            "I wrote games/end.txt.",
        ),
    ),
    shapes=(_tidy, _read_and_write, _archive, _compare_lengths),
)
