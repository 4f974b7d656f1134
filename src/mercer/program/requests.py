"""What a gradient asks of an executor: which adjoint expression to sum, and over what."""

from __future__ import annotations

from dataclasses import dataclass

from mercer.program.expression import Coordinate, Expr, Slot
from mercer.program.reverse import CoordinateAdjoint


@dataclass(frozen=True)
class Request:
    """One contraction: a pair expression R and how it is summed.

    ====================  =======================================================
    ``sum``               sum_ij R_ij
    ``row_sums``          sum_j R_ij
    ``column_sums``       sum_i R_ij
    ``dot_inputs``        sum_j R_ij z_j, for a slot
    ``distance_inputs``   sum_j R_ij 2 (x_i - z_j), for a slot
    ``distance_scales``   sum_ij R_ij 2 (x_ik - z_jk)^2, for a slot
    ====================  =======================================================
    """

    kind: str
    expression: Expr
    slot: Slot | None = None


@dataclass(frozen=True)
class CoordinateRequest(Request):
    """The adjoint of a coordinate function: inputs (n, d), scales (d,) and scalars (p,).

    ``wants_inputs`` spares the work for a gradient in the parameters alone.
    """

    coordinate: Coordinate = None  # type: ignore[assignment]
    adjoint: CoordinateAdjoint = None  # type: ignore[assignment]
    wants_inputs: bool = False
