"""What is taken for a similarity matrix, and its quadratic form."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from mercer import validity
from mercer.exceptions import DataError, DataTypeError


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
