"""Strings as arrays of letters: what counts as a string, and the named alphabets.

A letter is its code point. A token that is no single character has a number beyond all code points.
A letter that matches nothing is -1.
"""

from __future__ import annotations

from collections.abc import Hashable
from threading import Lock
from typing import Any

import numpy as np

from mercer import _core
from mercer.arrays import AnyArray as Array
from mercer.exceptions import DataError, DataTypeError, ParameterError
from mercer.kernels.containers import is_missing, row_number
from mercer.kernels.structured import EncodedKernel, Ragged
from mercer.parallel import thread_count

#: The letters of each named alphabet, and the letters that match nothing in it.
ALPHABETS = {
    "dna": ("ACGT", "RYSWKMBDHVN-."),
    "rna": ("ACGU", "RYSWKMBDHVN-."),
    "protein": ("ACDEFGHIKLMNPQRSTVWY", "BJOUXZ*-."),
}
NAMES = ("any", *ALPHABETS)
#: The first number of a token that is no single character.
_FIRST_TOKEN = 0x110000

#: The tokens that this process has seen, in the order of their numbers, and the number of each.
_tokens: list[Hashable] = []
_numbers: dict[Hashable, int] = {}
_lock = Lock()


def encoded(
    objects: list[Any], owner: str, alphabet: str = "any", both_strands: bool = False
) -> Ragged:
    """The letters of strings, or of lists of tokens; a missing string is empty.

    With both strands, a string is followed by a gap and its reverse complement.
    """
    strings: list[Any] = [_string(item, i, owner) for i, item in enumerate(objects)]
    kinds = {type(s) for s, item in zip(strings, objects, strict=True) if not is_missing(item)}
    if len(kinds) > 1:
        raise DataTypeError(
            f"{owner}: some rows are strings and others are lists of tokens; pass rows of one kind."
        )
    if kinds == {list}:
        letters = np.array([_number(t, owner) for tokens in strings for t in tokens], np.int32)
    else:
        text = "".join(strings).encode("utf-32-le", "surrogatepass")
        letters = np.frombuffer(text, dtype=np.int32)
    ends = np.cumsum([len(s) for s in strings], dtype=np.int64)
    ragged = Ragged(letters, ends - [len(s) for s in strings], ends)
    if alphabet != "any":
        ragged = _in_alphabet(ragged, owner, alphabet)
    return _both_strands(ragged, alphabet) if both_strands else ragged


def _string(item: Any, row: int, owner: str) -> str | list[Hashable]:
    """A string, the tokens of a list, or the letters of a record of Biopython."""
    if isinstance(item, str):
        return item
    if is_missing(item):
        return ""
    if isinstance(item, bytes | bytearray):
        return item.decode("latin-1")
    if isinstance(item, list):
        return item
    # Floats are measurements, and a tuple is a row of a data frame.
    if isinstance(item, np.ndarray) and item.ndim == 1 and item.dtype.kind not in "fc":
        return list(item.tolist())
    sequence = getattr(item, "seq", item)
    if hasattr(sequence, "reverse_complement"):  # Seq of Biopython
        return str(sequence)
    if isinstance(sequence, str):
        return sequence
    raise DataTypeError(
        f"{owner}: row {row_number(row)} is of type {type(item).__name__}, and not a string; pass "
        "a list (or a column) of strings."
    )


def _number(token: Hashable, owner: str) -> int:
    """The code point of a single character, and a number of its own for every other token."""
    if isinstance(token, str) and len(token) == 1:
        return ord(token)
    if is_missing(token):
        return -1
    try:
        with _lock:
            number = _numbers.setdefault(token, _FIRST_TOKEN + len(_tokens))
            if number == _FIRST_TOKEN + len(_tokens):
                _tokens.append(token)
    except TypeError:
        raise DataTypeError(
            f"{owner}: a token of type {type(token).__name__} has no hash; pass strings, numbers "
            "or tuples as tokens."
        ) from None
    return number


def _in_alphabet(ragged: Ragged, owner: str, alphabet: str) -> Ragged:
    """Capital letters of a named alphabet; letters that match nothing are -1."""
    known, unknown = ALPHABETS[alphabet]
    table = np.full(128, -2, np.int32)
    for letter in known:
        table[[ord(letter), ord(letter.lower())]] = ord(letter)
    for letter in unknown:
        table[[ord(letter), ord(letter.lower())]] = -1
    letters = ragged.values
    inside = (letters >= 0) & (letters < 128)
    mapped = np.where(inside, table[np.where(inside, letters, 0)], np.where(letters < 0, -1, -2))
    if (mapped == -2).any():
        place = int(np.flatnonzero(mapped == -2)[0])
        row = int(np.searchsorted(ragged.ends, place, side="right"))
        raise DataError(
            f"{owner}: row {row_number(row)} has {shown(letters[place : place + 1])!r} at position "
            f"{place - ragged.starts[row]}; the alphabet {alphabet!r} has the letters {known}, and "
            f"{unknown} match nothing. Correct the letter, or choose another alphabet."
        )
    return Ragged(mapped.astype(np.int32), ragged.starts, ragged.ends)


def _both_strands(ragged: Ragged, alphabet: str) -> Ragged:
    opposite = np.full(128, -1, np.int32)
    for pair in ("AT", "TA", "CG", "GC") if alphabet == "dna" else ("AU", "UA", "CG", "GC"):
        opposite[ord(pair[0])] = ord(pair[1])
    gap = np.array([-1], np.int32)
    strings = (ragged[i] for i in range(len(ragged)))
    # The last entry of the table is -1, that of a letter that matches nothing.
    return Ragged.joined([np.concatenate([s, gap, opposite[s[::-1]]]) for s in strings], np.int32)


def complements(words: list[str], alphabet: str) -> list[str]:
    """The reverse complement of each word."""
    table = str.maketrans("ACGT", "TGCA") if alphabet == "dna" else str.maketrans("ACGU", "UGCA")
    return [word.translate(table)[::-1] for word in words]


def shown(letters: Array) -> str:
    """Letters as a string; tokens as the repr of a tuple."""
    if (letters < _FIRST_TOKEN).all():
        return "".join(map(chr, letters))
    token = (chr(c) if c < _FIRST_TOKEN else _tokens[c - _FIRST_TOKEN] for c in letters.tolist())
    return repr(tuple(token))


def counted(ragged: Ragged, length: int) -> tuple[Array, Array, Array, Array]:
    """Counts of substrings: their numbers, strings and words, and the letters of each word."""
    counts, rows, words, places = _core.word_counts(arrays_of(ragged), length)
    return counts, rows, words, ragged.values[places[:, None] + np.arange(length)]


def names_of(words: Array) -> Array:
    """The rows of a matrix of letters as strings, which are keys of features."""
    if words.size and words.max() >= _FIRST_TOKEN:
        return np.array([shown(word) for word in words])
    width = max(words.shape[1], 1)
    return np.ascontiguousarray(words, np.uint32).view(f"<U{width}").reshape(-1)


def arrays_of(ragged: Ragged) -> tuple[Array, Array, Array]:
    """The arrays of a collection, as the engine reads them."""
    return (
        np.ascontiguousarray(ragged.values, np.int32),
        np.ascontiguousarray(ragged.starts),
        np.ascontiguousarray(ragged.ends),
    )


class StringKernel(EncodedKernel):
    """Base of string kernels that the engine computes pair by pair.

    ``encode`` returns strings with the function of the engine and its settings: see `called`.
    """

    def pairs(self, A: Ragged, B: Ragged) -> Array:
        return _run(A, None if B is A else arrays_of(B), diagonal=False)

    def diagonal(self, A: Ragged) -> Array:
        return _run(A, None, diagonal=True)


def called(strings: Ragged, function: Any, *settings: Any) -> Ragged:
    """Strings with the function of the engine that compares them, and its settings."""
    return Ragged(
        strings.values, strings.starts, strings.ends, strings.items, {"call": (function, *settings)}
    )


def _run(strings: Ragged, others: Any, diagonal: bool) -> Array:
    function, *settings = strings.shared["call"]
    values: Array = function(arrays_of(strings), others, *settings, diagonal, thread_count())
    return values


def check_strands(owner: str, alphabet: str, both_strands: bool) -> None:
    """Refuse the reverse complement of letters that have none."""
    if both_strands and alphabet not in ("dna", "rna"):
        raise ParameterError(
            f"{owner}: reverse_complement=True with alphabet={alphabet!r}, whose letters have no "
            "complement; pass alphabet='dna' or 'rna'."
        )
