"""Batches that shrink when the GPU's memory is full."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


class GpuOutOfMemoryError(Exception):
    """Also a batch of one doesn't fit. The SDK settles it with the cause gpu_oom, by its text."""

    def __init__(self, error: Exception) -> None:
        super().__init__(f"CUDA out of memory, with a batch of one: {error}")


def is_out_of_memory(error: Exception) -> bool:
    """CTranslate2 and cuBLAS raise a RuntimeError; only its text tells."""
    text = str(error).lower()
    return "out of memory" in text or "cublas_status_alloc_failed" in text


def in_batches(items: Sequence[T], size: int, run: Callable[[Sequence[T]], list[R]]) -> Iterator[tuple[list[R], int]]:
    """The results of each batch, and the size that fitted. After a batch that doesn't fit, half as many at once for the
    rest of the task. Raises GpuOutOfMemoryError."""
    done = 0
    while done < len(items):
        batch = items[done : done + size]
        try:
            results = run(batch)
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            if len(batch) == 1:
                raise GpuOutOfMemoryError(error) from error
            size = len(batch) // 2
            continue
        done += len(batch)
        yield results, size
