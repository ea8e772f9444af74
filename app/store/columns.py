"""Columns of JSON text: decoded all at once, or where somebody looks at them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import Any, TypeVar, overload

from app.errors import StoreError
from app.trajectory.codec import decode, parse
from app.trajectory.trajectory import Span

T = TypeVar("T")


def parsed(texts: Sequence[str]) -> list[Any]:
    """JSON values parsed together: that is five times as fast as one by one."""
    values: list[Any] = parse(f"[{','.join(texts)}]")
    if len(values) != len(texts):
        raise _damaged("a column is no JSON")
    return values


def lists_of(kind: Any, texts: Sequence[str | None]) -> list[tuple[Any, ...]]:
    """Lists of values of type `kind`, decoded end to end: that is twice as fast as list by list."""
    lists = parsed([text or "[]" for text in texts])
    if not set(map(type, lists)) <= {list}:
        raise _damaged("a list was expected")
    values = iter(decode(tuple[kind, ...], list(chain.from_iterable(lists))))
    return [tuple(islice(values, len(each))) for each in lists]


class StoredList(Sequence[T]):
    """A list of `kind` in a row, decoded when somebody looks at it: a long pair holds hundreds of thousands of values,
    and a person sees those of one request.

    Equal to whatever sequence holds the same. The first look raises StoreError where it cannot be understood.
    """

    def __init__(self, kind: type[T], text: str) -> None:
        self._kind, self._text = kind, text
        self._decoded: tuple[T, ...] | None = None

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[T, ...]: ...
    def __getitem__(self, index: int | slice) -> T | tuple[T, ...]:
        return self._values()[index]

    def __len__(self) -> int:
        return len(self._values())

    def __iter__(self) -> Iterator[T]:
        return iter(self._values())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self._values() == tuple(other)

    __hash__ = None  # type: ignore[assignment]  # equal to a list

    def _values(self) -> tuple[T, ...]:
        if self._decoded is None:
            self._decoded = self._decode()
        return self._decoded

    def _decode(self) -> tuple[T, ...]:
        return lists_of(self._kind, [self._text])[0]


class StoredSpans(StoredList[Span]):
    """The spans of one request: the first `shared` of those of the request before, and its own."""

    def __init__(self, before: StoredSpans | None, shared: int, own: str) -> None:
        super().__init__(Span, own)
        self._before, self._shared = before, shared

    def _decode(self) -> tuple[Span, ...]:
        """Walks back through the requests for as long as something of them is still shared."""
        texts, sizes, known = [self._text], list[int | None]([None]), tuple[Span, ...]()
        wanted, at = self._shared, self._before
        while wanted > 0 and at is not None:
            if at._decoded is not None:
                known = at._decoded[:wanted]
                break
            if wanted > at._shared:
                texts.append(at._text)
                sizes.append(wanted - at._shared)
                wanted = at._shared
            at = at._before
        own, *others = (spans[:size] for spans, size in zip(lists_of(Span, texts), sizes, strict=True))
        spans = (*known, *chain.from_iterable(reversed(others)), *own)
        if len(spans) != self._shared + len(own):
            raise _damaged("a prompt shares more spans than there were before it")
        return spans


def _damaged(why: str) -> StoreError:
    return StoreError(f"The file holds something that Forkpoint did not write ({why}).", "It may be damaged or edited.")
