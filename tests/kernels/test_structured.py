"""Kernels of objects: features, pairs, and encoded pairs."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import mercer as mc
from mercer.exceptions import DataError, DataTypeError
from mercer.testing import check_kernel


class Lengths(mc.FeatureKernel):
    def features(self, objects: list[Any]) -> Any:
        return np.array([[len(o), 1.0] for o in objects])


class CommonLetters(mc.PairKernel):
    def pairs(self, A: list[Any], B: list[Any]) -> Any:
        return [[len(set(a) & set(b)) for b in B] for a in A]


WORDS = ["a", "abc", "bcd", "dddd"]


def test_feature_and_pair_kernels_on_objects() -> None:
    wanted = np.array([[len(a) * len(b) + 1.0 for b in WORDS] for a in WORDS])
    assert_allclose(Lengths()(WORDS), wanted)
    common = np.array([[len(set(a) & set(b)) for b in WORDS] for a in WORDS])
    assert_allclose(CommonLetters()(WORDS), common)
    assert_allclose((Lengths() * CommonLetters())(WORDS), wanted * common)
    check_kernel(Lengths())
    check_kernel(CommonLetters() + mc.Spectrum(2))


def test_features_need_a_row_for_each_object() -> None:
    class Broken(mc.FeatureKernel):
        def features(self, objects: list[Any]) -> Any:
            return np.ones((1, 2))

    with pytest.raises(DataError, match=r"Broken\.features returned shape \(1, 2\) for 4 objects"):
        Broken()(WORDS)


def test_features_that_are_not_finite_are_refused() -> None:
    class Broken(mc.FeatureKernel):
        """NaN features."""

        def features(self, objects: list[Any]) -> Any:
            return np.full((len(objects), 1), np.nan)

    with pytest.raises(DataError, match="NaN"):
        Broken()(["a", "b"])


class Shared(mc.EncodedKernel):
    """Number of letters that two strings share, with repetitions."""

    psd = True
    encoded: ClassVar[list[int]] = []

    def encode(self, objects: list[Any]) -> mc.Ragged:
        for item in objects:
            if not isinstance(item, str):
                raise DataTypeError(f"Shared: {item!r} is not a string; pass strings.")
        self.encoded.append(len(objects))
        parts = [np.frombuffer(item.encode(), np.uint8) for item in objects]
        return mc.Ragged.joined(parts, np.uint8)

    def pairs(self, A: mc.Ragged, B: mc.Ragged) -> Any:
        one, other = ([np.bincount(C[i], minlength=256) for i in range(len(C))] for C in (A, B))
        return [[np.minimum(a, b).sum() for b in other] for a in one]


WORDS = ["abba", "baob", "", "cab"]
MATRIX = np.array([[4, 3, 0, 2], [3, 4, 0, 2], [0, 0, 0, 0], [2, 2, 0, 3]], dtype=float)


def test_ragged_items_are_taken_without_a_copy() -> None:
    parts = [[1.0, 2.0], [], [3.0]]
    ragged = mc.Ragged.joined(parts)
    assert [ragged[i].tolist() for i in range(3)] == parts
    taken = ragged.take([2, 0])
    assert taken.values is ragged.values
    assert [taken[i].tolist() for i in range(2)] == [[3.0], [1.0, 2.0]]
    assert mc.Ragged.joined([]).lengths.tolist() == []
    assert mc.Ragged.joined([np.ones((2, 3)), np.ones((0, 3))], width=3).values.shape == (2, 3)


def test_encoded_kernels_are_ordinary_kernels() -> None:
    k = Shared()
    assert_array_equal(k(WORDS), MATRIX)
    assert_array_equal(k(WORDS[:2], WORDS), MATRIX[:2])
    assert_array_equal(k.diag(WORDS), MATRIX.diagonal())
    assert_allclose(k.gram(WORDS) @ np.arange(4.0), MATRIX @ np.arange(4.0))
    frame = pd.DataFrame({"word": WORDS, "size": [1.0, 2.0, 3.0, 4.0]})
    both = k.on("word") * mc.RBF(1.0).on("size")
    assert_allclose(both(frame), MATRIX * mc.RBF(1.0)(frame[["size"]].to_numpy()))
    check_kernel(k, WORDS)


def test_objects_are_encoded_once_for_many_blocks() -> None:
    words = [WORDS[i % 4] for i in range(1500)]
    gram = Shared().gram(words)
    Shared.encoded.clear()
    ones = gram @ np.ones(1500)
    assert_allclose(ones, np.tile(375 * MATRIX.sum(axis=1), 375))
    assert len(Shared.encoded) <= 1


def test_what_an_encoding_refuses_is_refused_by_an_estimator() -> None:
    with pytest.raises(DataTypeError, match=r"KernelRidge: 3 is not a string"):
        mc.KernelRidge(Shared()).fit(["ab", 3], [0.0, 1.0])
