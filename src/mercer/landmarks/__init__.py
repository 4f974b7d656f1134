"""Landmarks: a few points that stand for many."""

from __future__ import annotations

from mercer.landmarks.selection import KernelColumns, Landmarks, select

__all__ = ["KernelColumns", "Landmarks", "select"]
