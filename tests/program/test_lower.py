"""Instructions: scalars that are folded into them, and registers that are used again."""

from __future__ import annotations

import numpy as np

import mercer as mc
from mercer import _core
from mercer.program.expression import X, Z, parameter
from mercer.program.lower import Tables, _assemble, lower

NAMES = {code: name for name, code in _core.OPCODES.items()}


def test_a_scalar_factor_takes_no_instruction_of_its_own() -> None:
    p = parameter("p")
    plain, _, _ = _assemble((np.exp(X),), Tables())
    scaled, _, _ = _assemble((np.exp(X * p),), Tables())
    assert len(scaled) == len(plain)


def test_registers_are_used_again() -> None:
    total = X
    for _ in range(50):
        total = np.sin(total) + Z
    code, registers, (result,) = _assemble((total,), Tables())
    assert len(code) > 50
    assert registers <= 4
    assert 0 <= result < registers


def test_what_a_program_refers_to() -> None:
    lowered = lower(((mc.RBF() + mc.Linear() + 0.5 * mc.White()).expression,))
    assert len(lowered.results) == 1
    assert len(lowered.slots) == 2  # scaled for distances, and plain for inner products
    assert lowered.compares_rows
    assert not lower((mc.RBF().expression,)).compares_rows
