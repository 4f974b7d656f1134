# What nanobind cannot know when it writes _core.pyi.
_core.OPCODES:
    OPCODES: dict[str, int]

_core.LANES:
    LANES: dict[str, int]

_core.Program.__init__:
    \from numpy.typing import NDArray
    def __init__(self, code: NDArray[numpy.int32], registers: int, coordinates: Sequence[tuple[NDArray[numpy.int32], int, int]], tables: Sequence[NDArray[numpy.float64]]) -> None: ...

_core.Side.__init__:
    \from numpy.typing import NDArray
    \from typing import Any
    def __init__(self, n: int, slots: Sequence[Any], vectors: Sequence[NDArray[Any]], ids: NDArray[numpy.int64] | None) -> None: ...

_core.plain_graphs:
    \from numpy.typing import NDArray
    def plain_graphs(objects: list) -> tuple[NDArray[numpy.int64], NDArray[numpy.int64], NDArray[numpy.int64], NDArray[numpy.int64] | None] | None:
        \doc
