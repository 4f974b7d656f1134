"""What is taken for a similarity matrix, and its quadratic form."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from mercer import validity
from mercer.exceptions import DataError, DataTypeError
from mercer.validity.matrix import quadratic_form, real, signed, standardise, unit_witness
from similarities import with_eigenvalues


def test_sparse_matrices_lists_and_integers_are_matrices() -> None:
    assert validity.check(sparse.csr_array(np.eye(3)))
    assert validity.check([[2, 1], [1, 2]])
    assert validity.check(np.eye(3, dtype=bool))


@pytest.mark.parametrize(
    ("bad", "error", "text"),
    [
        (np.ones((2, 3)), DataError, r"shape \(2, 3\)"),
        (np.ones(3), DataError, r"shape \(3,\)"),
        (np.empty((0, 0)), DataError, "at least one row"),
        ([[1.0, np.nan], [0.0, 1.0]], DataError, r"nan at \(0, 1\)"),
        ([[1.0, 0.0], [np.inf, 1.0]], DataError, r"inf at \(1, 0\)"),
        (np.eye(2, dtype=complex), DataTypeError, "complex"),
        ([["a", "b"], ["c", "d"]], DataTypeError, "must be real"),
        ([[1.0], [1.0, 2.0]], DataTypeError, "cannot be read"),
    ],
)
def test_what_is_not_a_matrix_is_refused(bad: object, error: type[Exception], text: str) -> None:
    for function in (validity.check, validity.embed, validity.repair):
        with pytest.raises(error, match=text) as caught:
            function(bad)  # type: ignore[operator]
        assert str(caught.value).startswith(function.__name__)


def test_the_symmetric_part_and_the_asymmetry() -> None:
    K = np.array([[1.0, 2.0], [0.5, 3.0]], dtype=np.float32)
    standard = standardise(real(K, "Test"), "Test")
    assert_array_equal(standard.symmetric, [[1.0, 1.25], [1.25, 3.0]])
    assert (standard.n, standard.asymmetry, standard.dtype) == (2, 1.5, np.float32)
    assert standard.eps == np.finfo(np.float32).eps


def test_witnesses_are_unit_vectors_of_one_sign() -> None:
    K, direction = with_eigenvalues(np.array([-1.0, 0.5, 2.0])), np.array([1.0, -3.0, 0.5])
    witness, value = unit_witness(K, direction, conditional=False)
    assert_allclose(witness, -direction / np.linalg.norm(direction))
    assert_allclose(value, direction @ K @ direction / (direction @ direction))
    witness, value = unit_witness(K, direction, conditional=True)
    assert_allclose([witness.sum(), np.linalg.norm(witness)], [0.0, 1.0], atol=1e-15)
    assert_allclose(value, quadratic_form(K, -witness))
    assert_array_equal(signed(np.array([[1.0, -2.0], [-3.0, 1.0]])), [[-1.0, 2.0], [3.0, -1.0]])
