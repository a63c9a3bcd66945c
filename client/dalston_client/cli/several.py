"""The same done to several things. One that can't be done holds up no other, and what was done is told all the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from dalston_client.cli.exits import Exit, described, exit_of
from dalston_client.cli.output import Out
from dalston_client.errors import Conflict, DalstonError, Invalid, NotFound

T = TypeVar("T")


class Failure(NamedTuple):
    id: str
    error: DalstonError


def one_by_one(ids: Sequence[str], act: Callable[[str], T]) -> tuple[list[T], list[Failure]]:
    done: list[T] = []
    failures: list[Failure] = []
    for each in ids:
        try:
            done.append(act(each))
        except (Invalid, NotFound, Conflict) as error:
            failures.append(Failure(each, error))
        except DalstonError as error:  # not about this one: those behind it would fare no better
            failures.append(Failure(each, error))
            break
    return done, failures


def told(out: Out, ids: Sequence[str], failures: Sequence[Failure]) -> Exit:
    """Say what failed, behind what was done. The first failure gives the exit code."""
    if not failures:
        return Exit.OK
    first = failures[0].error
    known = [(it.id, described(it.error)) for it in failures]
    failed = [{"id": some_id, "code": error["code"], "detail": error["detail"]} for some_id, error in known]
    lines = [f"{some_id}: {error['detail']}" for some_id, error in known] if len(ids) > 1 else []
    out.failed(exit_of(first), {**described(first), "failed": failed}, lines)
    return exit_of(first)
