"""How deep a value may be nested. JSON readers have limits of their own, some of them low; ours is below them all."""

from collections.abc import Iterable, Mapping

MAX_DEPTH = 64


def too_deep(value: object, limit: int = MAX_DEPTH) -> bool:
    """True if lists and mappings are nested in more than `limit` levels.

    Walks level by level, each container of a level once, so neither depth nor a value that contains itself hurts.
    """
    level = _containers([value])
    for _ in range(limit):
        level = _containers(inner for outer in level for inner in _inside(outer))
    return bool(level)


def _containers(values: Iterable[object]) -> list[object]:
    return list({id(value): value for value in values if isinstance(value, Mapping | list | tuple)}.values())


def _inside(container: object) -> Iterable[object]:
    if isinstance(container, Mapping):
        return container.values()
    return container if isinstance(container, list | tuple) else ()
