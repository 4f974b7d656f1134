from __future__ import annotations

import numpy as np

import mercer as mc


def result(pvalue: float, n_kernels: int = 2) -> mc.inference.TestResult:
    return mc.inference.TestResult(
        owner="some_test",
        statistic=1.0,
        pvalue=pvalue,
        null_distribution=np.zeros(9),
        alpha=0.05,
        hypothesis="x is y",
        kernels=(mc.RBF(1.0), mc.RBF(2.0))[:n_kernels],
        estimates=np.zeros(n_kernels),
        kernel_pvalues=np.array([0.3, 0.01])[:n_kernels],
    )


def test_reject_compares_with_the_level() -> None:
    assert result(0.05).reject
    assert not result(0.051).reject


def test_the_kernel_is_the_one_with_the_smallest_pvalue() -> None:
    assert result(0.01).kernel == mc.RBF(2.0)


def test_sentences() -> None:
    assert str(result(0.01)) == (
        "some_test: p = 0.01 (9 resamples, 2 kernels): the hypothesis that x is y is rejected. "
        "RBF(length_scale=2.0) shows it most clearly."
    )
    assert str(result(0.2, 1)) == (
        "some_test: p = 0.2 (9 resamples): at the level 0.05 there is no evidence against the "
        "hypothesis that x is y."
    )
    assert repr(result(0.2)) == "TestResult(some_test: statistic=1, pvalue=0.2, reject=False)"
