"""Toy classes with declared parameters, which know nothing of kernels, and trees of them."""

from __future__ import annotations

import numpy as np

from mercer.exceptions import ParameterError
from mercer.kernels.parameters import (
    Bounded,
    Child,
    Children,
    Choice,
    Fixed,
    Integer,
    NonNegative,
    Part,
    Positive,
    Real,
)
from mercer.kernels.tree import Parameterised


class RBF(Parameterised):
    length_scale = Positive(1.0, per_column=True, heuristics=("median", "scale"))


class Cauchy(RBF):
    alpha = Positive(1.0)


class RationalQuadratic(RBF):
    alpha = Positive(1.0)


class ArcCosine(Parameterised):
    order = Integer(0, low=0, high=2)


class Chi2(Parameterised):
    gamma = Positive()


class Matern(RBF):
    nu = Positive(1.5, learned=False, allow_infinity=True)


class Mixture(Parameterised):
    weights = NonNegative([0.5, 0.5], ndim=1)
    means = Real([[0.0], [1.0]], ndim=2)
    reduction = Choice("sum", ("sum", "product"))
    centred = Choice(True, (True, False))

    def _check(self):
        if np.shape(self.weights)[0] != np.shape(self.means)[0]:
            raise ParameterError("Mixture: weights and means differ in length; pass equal ones.")


class Scaled(Parameterised):
    kernel = Child()
    scale = NonNegative(1.0)


class On(Parameterised):
    kernel = Child()
    columns = Part(())


class PolynomialOf(Parameterised):
    _kind = "polynomial"
    kernel = Child()
    coefficients = NonNegative([1.0, 1.0], ndim=1)


class Sum(Parameterised):
    kernels = Children()

    def __init__(self, *kernels):
        super().__init__(kernels=kernels)

    def __repr__(self):
        return f"Sum({', '.join(map(repr, self.kernels))})"


class Product(Sum):
    def __repr__(self):
        return f"Product({', '.join(map(repr, self.kernels))})"


def nested():
    first = Scaled(On(RBF([1.0, 2.0]), ("a", "b")), 2.0)
    second = Product(Cauchy(Fixed(3.0), 0.5), ArcCosine(1))
    return Scaled(Sum(first, second, RBF(Bounded(0.5, 0.1, 1.0))), Fixed(4.0))


EVERY = [
    RBF(),
    RBF("median"),
    RBF([1, 2, 3]),
    RBF(Fixed([1, 2])),
    RBF(Fixed("scale")),
    Cauchy(0.1, Bounded(1, 0, float("inf"))),
    Matern(nu=float("inf")),
    Mixture([0.0, 2.0], [[1.0, 2.0], [3.0, 4.0]], "product", False),
    Chi2(2),
    Scaled(Scaled(RBF(), 2.0), 3.0),
    PolynomialOf(RBF(), [0.0, 1.0, 0.5]),
    nested(),
]
