"""An engine that does nothing, so that only the way there and back is measured."""

from typing import Any

from engines.sdk import Engine, Task


class Noop(Engine):
    def run(self, task: Task) -> Any:
        return dict(task.parameters)


if __name__ == "__main__":
    Noop().serve()
