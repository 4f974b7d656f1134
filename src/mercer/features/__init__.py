"""Explicit feature maps: Phi with Phi(x).Phi(z) equal, or close, to k(x, z)."""

from __future__ import annotations

from mercer.features.taylor import TaylorRBF
from mercer.maps.composition import (
    concatenate,
    concatenate_names,
    tensor_product,
    tensor_product_names,
)
from mercer.maps.monomials import (
    cover_count,
    dimension,
    monomial_features,
    monomial_names,
    polynomial_features,
    polynomial_names,
)

__all__ = [
    "TaylorRBF",
    "concatenate",
    "concatenate_names",
    "cover_count",
    "dimension",
    "monomial_features",
    "monomial_names",
    "polynomial_features",
    "polynomial_names",
    "tensor_product",
    "tensor_product_names",
]
