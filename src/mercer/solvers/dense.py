"""Dense solvers of the whole problem: settings alone, the work is in `problem`."""

from __future__ import annotations

from dataclasses import dataclass

from mercer.solvers.protocol import Settings


@dataclass(frozen=True, eq=False)
class Cholesky(Settings):
    """The Gram matrix in memory and one Cholesky factor of it: exact, n^3 / 3 operations.

    Choosing alpha by leaving rows out takes a tridiagonal reduction, alpha = 0 an
    eigendecomposition.

    Examples
    --------
    >>> import mercer as mc
    >>> mc.KernelRidge(solver=mc.solvers.Cholesky()).fit([[0.0], [1.0]], [0.0, 1.0]).solver_
    Cholesky()
    """


@dataclass(frozen=True, eq=False)
class Spectral(Settings):
    """The Gram matrix in memory and its eigendecomposition: exact, about 9 n^3 operations.

    Examples
    --------
    >>> import mercer as mc
    >>> mc.KernelRidge(solver=mc.solvers.Spectral()).fit([[0.0], [1.0]], [0.0, 1.0]).solver_
    Spectral()
    """
