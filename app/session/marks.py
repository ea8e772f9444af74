"""Marks on the pairs of an open file: what a person has chosen to export, with a note on each."""

from __future__ import annotations

import os
from collections.abc import Mapping

from app import paths
from app.errors import StoreError
from app.session.session import Session
from app.store.marks import read_marks, write_mark


def marks_of(session: Session, experiment_id: int) -> Mapping[str, str]:
    """The note of every marked pair, by episode. In a bundle those are marked that came with a note.

    Raises StoreError where the file cannot be read any more.
    """
    found = session.verification
    if found is not None:
        parts = found.contents.pairs if found.contents is not None else ()
        return {part.pair.cached.episode_id: part.note for part in parts if part.note}
    return read_marks(session.path, experiment_id)


def mark(session: Session, experiment_id: int, episode_id: str, note: str | None = "") -> None:
    """Mark a pair with a note, or (None) take its mark away; a run may be writing the file. Raises StoreError."""
    if reason := why_no_marks(session):
        raise StoreError(reason, "Copy the file to a folder of your own and open the copy to mark pairs in it.")
    write_mark(session.path, experiment_id, episode_id, note)


def why_no_marks(session: Session) -> str:
    """Why pairs of this file cannot be marked, as a sentence; "" where they can."""
    path = session.path
    if session.verification is not None:
        return "A bundle stays as it was written."
    if path.resolve() == paths.sample_file().resolve():
        return "The sample stays as it was recorded."
    if not os.access(path, os.W_OK) or not os.access(path.absolute().parent, os.W_OK):
        return f"{path.name} is read-only, so its pairs cannot be marked."
    return ""
