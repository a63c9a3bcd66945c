"""Declarations of DALSTON_* settings: name, check id, default, meaning and range, in one statement of settings.py.

`whole`, `number` and `name` read the environment variable of that name, remember the declaration, and return the value.
checks.py checks every declaration, and a test compares docs/settings.md with them: a new setting needs its declaration
and its row on that page, which the failing test prints.
"""

from dataclasses import dataclass

from dalston_site import env


@dataclass(frozen=True)
class Declaration:
    name: str
    check_id: str
    default: int | float | str
    means: str
    low: float | None = None
    high: float | None = None
    pattern: str | None = None

    @property
    def expected(self) -> str:
        """The allowed values in words, for the check's hint and for the docs."""
        if self.pattern is not None:
            return f"text that matches `{self.pattern}`"
        kind = "a whole number" if isinstance(self.default, int) else "a number"
        if self.high is None:
            return f"{kind}, at least {_plain(self.low)}"
        return f"{kind} from {_plain(self.low)} to {_plain(self.high)}"

    @property
    def row(self) -> str:
        """Its line in docs/settings.md."""
        default = f"{self.default:_}" if isinstance(self.default, int) else f"{self.default}".removesuffix(".0")
        shown = f"`{default}`" if default else "none"
        expected = self.expected.replace("|", r"\|")  # which would end the cell
        return f"| `{self.name}` | {shown} | {self.means} | {expected} | dalston.{self.check_id} |"


def _plain(bound: float | None) -> str:
    """As a reader writes it: 16_777_216, not 1.67772e+07."""
    return f"{int(bound):_}" if bound is not None and bound == int(bound) else f"{bound:g}"


DECLARED: dict[str, Declaration] = {}


def whole(name: str, check_id: str, default: int, means: str, *, low: float = 1, high: float | None = None) -> int:
    _declare(Declaration(name, check_id, default, means, low, high))
    return env.integer(name, default)


def number(name: str, check_id: str, default: float, means: str, *, low: float, high: float | None = None) -> float:
    _declare(Declaration(name, check_id, default, means, low, high))
    return env.decimal(name, default)


def name(name: str, check_id: str, default: str, means: str, *, pattern: str) -> str:
    _declare(Declaration(name, check_id, default, means, pattern=pattern))
    return env.text(name, default)


def _declare(declaration: Declaration) -> None:
    taken = [other.name for other in DECLARED.values() if other.check_id == declaration.check_id]
    if taken and taken != [declaration.name]:
        raise ValueError(f"{declaration.name} and {taken[0]} both use the check id {declaration.check_id}")
    DECLARED[declaration.name] = declaration
