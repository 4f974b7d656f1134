"""Kernels of strings and sets against strkernel, scikit-learn and products of floats."""

from __future__ import annotations

import contextlib
import gzip
import importlib.util
import io
import os
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import mercer as mc
from benchmarks.harness import (
    Contestant,
    Outcome,
    Settings,
    at_least,
    limited,
    race,
    speedup,
)

Array = NDArray[Any]

#: Accuracy of splice sites, in percent.
SPLICE = 95.0
#: Test errors that others print for Bayesian networks on the same fingerprints.
MOLECULES = {"esol": 1.076, "lipophilicity": 0.807}


def has_strkernel() -> bool:
    """Whether the peer is installed."""
    return importlib.util.find_spec("strkernel") is not None


def races(settings: Settings) -> Iterator[Outcome]:
    """All races of this group."""
    with limited(1):
        strings = _dna(30 if settings.quick else 300, 300)
        what = f"{len(strings)} DNA sequences of length 300"
        yield _spectrum(strings, what, settings)
        if has_strkernel():
            yield _mismatch(strings, what, settings)
        yield _gapped(strings, what, settings)
        few = strings[:100]
        for kernel in (mc.Subsequence(3, 0.5), mc.LocalAlignment("dna"), mc.EditDistance(10.0)):
            yield _pairs(few, kernel, settings)
        for dtype in (np.float64, np.float32):
            yield _tanimoto(500 if settings.quick else 5000, dtype, settings)
        if "MERCER_DATA" in os.environ:
            folder = Path(os.environ["MERCER_DATA"])
            yield _splice(folder, 3 if settings.quick else 10)
            yield _fitness(folder, "two_vs_rest" if settings.quick else "three_vs_rest")
            for name in MOLECULES:
                yield _molecules(folder, name, 1 if settings.quick else 5)


def _dna(n: int, length: int) -> list[str]:
    rng = np.random.default_rng(0)
    return ["".join(rng.choice(list("ACGT"), size=length)) for _ in range(n)]


def _product(counts: Any) -> Array:
    product: Array = (counts @ counts.T).toarray().astype(float)
    return product


def _spectrum(strings: list[str], what: str, settings: Settings) -> Outcome:
    vectorizer = CountVectorizer(analyzer="char", ngram_range=(5, 5), lowercase=False)
    times = race(
        [
            Contestant("mercer", lambda: mc.Spectrum(5)(strings)),
            Contestant("CountVectorizer", lambda: _product(vectorizer.fit_transform(strings))),
        ],
        settings,
    )
    return speedup("spectrum kernel, k=5", what, times, "CountVectorizer", at_least(2.0))


def _mismatch(strings: list[str], what: str, settings: Settings) -> Outcome:
    from strkernel.mismatch_kernel import MismatchKernel, preprocess

    def peer() -> Array:
        with contextlib.redirect_stdout(io.StringIO()):
            return np.asarray(MismatchKernel(l=4, k=5, m=1).get_kernel(preprocess(strings)).kernel)

    kernel = mc.Mismatch(5, 1).normalized()
    times = race(
        [Contestant("mercer", lambda: kernel(strings)), Contestant("strkernel", peer)], settings
    )
    return speedup("mismatch kernel, k=5 m=1", what, times, "strkernel", at_least(200.0))


def _gapped_words(text: str) -> list[str]:
    places = list(combinations(range(9), 6))
    windows = (text[i : i + 9] for i in range(len(text) - 8))
    return [f"{p}{''.join([w[i] for i in kept])}" for w in windows for p, kept in enumerate(places)]


def _gapped(strings: list[str], what: str, settings: Settings) -> Outcome:
    """The gapped kernels of strkernel do not import with NumPy 2, or are other kernels."""
    vectorizer = CountVectorizer(analyzer=_gapped_words)
    times = race(
        [
            Contestant("mercer", lambda: mc.GappedKmer(9, 6)(strings)),
            Contestant("CountVectorizer", lambda: _product(vectorizer.fit_transform(strings))),
        ],
        settings,
    )
    return speedup("gapped k-mer kernel, 6 of 9", what, times, "CountVectorizer", at_least(20.0))


def _pairs(strings: list[str], kernel: mc.Kernel, settings: Settings) -> Outcome:
    times = race([Contestant("mercer", lambda: kernel(strings))], settings)
    count = len(strings) * (len(strings) + 1) / 2
    return Outcome(
        f"{kernel!r}",
        f"{len(strings)} DNA sequences of length 300",
        times["mercer"],
        "",
        None,
        count / times["mercer"],
        figure_unit=" pairs/s",
    )


def _tanimoto(n: int, dtype: type, settings: Settings) -> Outcome:
    """The whole kernel, against the inner products alone; results of both cannot be compared."""
    X = (np.random.default_rng(0).random((n, 2048)) < 0.03).astype(dtype)

    def product() -> None:
        X @ X.T

    contestants = [
        Contestant("mercer", lambda: mc.Tanimoto()(X)),
        Contestant("float product", product),
    ]
    times = race(contestants, settings)
    what = f"n={n} d=2048 {np.dtype(dtype)}"
    return speedup("Tanimoto, bits", what, times, "float product", at_least(10.0))


def splice(folder: Path) -> tuple[Array, Array]:
    """The sequences around splice sites, and their classes."""
    with gzip.open(folder / "strings/splice.txt.gz", "rt") as file:
        lines = [line.split() for line in file][1:]
    labels, sequences = zip(*lines, strict=True)
    return np.array(sequences), np.array(labels)


def _splice(folder: Path, folds: int) -> Outcome:
    """Accuracy over ten folds; inner folds choose C and the degree."""
    X, y = splice(folder)
    kernel = mc.WeightedDegree(10, alphabet="dna").normalized()
    grid = {"C": [1.0, 10.0], "kernel__degree": [6, 20]}
    right = 0
    outer = StratifiedKFold(folds, shuffle=True, random_state=0)
    for train, test in outer.split(X, y):
        search = GridSearchCV(mc.SVC(kernel), grid, cv=3).fit(X[train], y[train])
        right += int((search.predict(X[test]) == y[test]).sum())
    share = 100 * right / len(y)
    return Outcome(
        "splice sites, accuracy",
        f"n={len(y)}, {folds} folds, weighted degree",
        share,
        "",
        None,
        share,
        at_least(SPLICE),
        unit="%",
        figure_unit="%",
    )


def _fitness(folder: Path, split: str) -> Outcome:
    """Rank correlation at protein variants with more changes than those of the training rows."""
    with np.load(folder / "strings/gb1.npz", allow_pickle=False) as data:
        X, y, is_test = data["variants"], data["y"], data[f"set_{split}"]
    kernel = (1.0 + mc.WeightedDegree(1, alphabet="protein").normalized()) ** 3
    ours = mc.KernelRidge(kernel, alpha="loo").fit(X[~is_test], y[~is_test]).predict(X[is_test])
    letters = np.array([list(variant) for variant in X])
    peer = make_pipeline(OneHotEncoder(handle_unknown="ignore"), RidgeCV(np.logspace(-4, 4, 25)))
    theirs = peer.fit(letters[~is_test], y[~is_test]).predict(letters[is_test])
    correlation, additive = (float(spearmanr(p, y[is_test])[0]) for p in (ours, theirs))
    return Outcome(
        "protein fitness, rank correlation",
        f"gb1, {split}: n={(~is_test).sum()}, test {is_test.sum()}",
        correlation,
        "ridge on single letters",
        additive,
        correlation,
        unit="",
        figure_unit="",
    )


def _molecules(folder: Path, name: str, splits: int) -> Outcome:
    """Test error of a Gaussian process on fingerprints, over random splits of 80 to 20."""
    with np.load(folder / f"molecules/{name}.npz", allow_pickle=False) as data:
        X, y = np.unpackbits(data["ecfp4_2048_packed"], axis=1).astype(float), data["y"]
    errors = []
    for seed in range(splits):
        order = np.random.default_rng(seed).permutation(len(y))
        test, train = np.split(order, [len(y) // 5])
        model = mc.GaussianProcessRegressor(1.0 * mc.Tanimoto()).fit(X[train], y[train])
        errors.append(np.sqrt(np.mean((model.predict(X[test]) - y[test]) ** 2)))
    mean = float(np.mean(errors))
    return Outcome(
        "Tanimoto process, test RMSE",
        f"{name}: n={len(y)}, {splits} splits",
        mean,
        "Bayesian network, as printed",
        MOLECULES[name],
        mean,
        unit="",
        figure_unit="",
    )
