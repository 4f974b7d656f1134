"""Iterators, kept in a temporary file so that they can be read again."""

from __future__ import annotations

import pickle
import tempfile
import weakref
from collections.abc import Iterable, Iterator
from typing import Any

from mercer.exceptions import DataError


class Spool:
    """An iterator whose items are written to disk as they are read, so that it can start again.

    The file has no name, and is removed with this object. It is in the directory for temporary
    files, which the environment variable ``TMPDIR`` names.
    """

    def __init__(self, items: Iterable[Any]) -> None:
        self._items = iter(items)
        self._file: Any = None
        self._offsets: list[int] = []
        self._broken: BaseException | None = None

    def __iter__(self) -> Iterator[Any]:
        self._require_whole()
        for offset in list(self._offsets):
            self._file.seek(offset)
            yield pickle.load(self._file)
        while True:
            try:
                item = next(self._items)
                self._keep(item)
            except StopIteration:
                return
            except BaseException as error:
                self._broken = error
                raise
            yield item

    def _require_whole(self) -> None:
        """Refuse an iterator that raised an error: in the next pass it would seem to have ended."""
        if self._broken is not None:
            raise DataError(
                f"a stream of blocks broke off after {len(self._offsets)} of them, with "
                f"{self._broken!r:.200}, and cannot go on; pass a fresh iterator, or a function "
                "that returns one."
            ) from self._broken

    def _keep(self, item: Any) -> None:
        try:
            if self._file is None:
                # Open as long as this object exists.
                self._file = tempfile.TemporaryFile()  # noqa: SIM115
                weakref.finalize(self, self._file.close)
            offset = self._file.seek(0, 2)
            pickle.dump(item, self._file, protocol=pickle.HIGHEST_PROTOCOL)
            self._file.flush()
        except OSError as error:
            raise DataError(
                f"a stream of blocks is kept in {tempfile.gettempdir()!r} to be read again, and "
                f"that failed ({error}); set TMPDIR to a directory with more room, or pass blocks "
                "that can be iterated more than once."
            ) from error
        self._offsets.append(offset)
