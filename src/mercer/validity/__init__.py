"""Mercer's condition for a matrix: certificate, witness, embedding and repair.

A symmetric function k is a kernel when every matrix K with entries k(x_i, x_j) is positive
semi-definite: a'Ka >= 0 for all vectors a (Mercer 1909; Aronszajn 1950). One matrix with a
negative direction refutes k; a matrix without one shows that k is a kernel on those points.
"""

from __future__ import annotations

from mercer.validity.check import Report, check
from mercer.validity.repair import Repair, embed, repair

__all__ = ["Repair", "Report", "check", "embed", "repair"]
