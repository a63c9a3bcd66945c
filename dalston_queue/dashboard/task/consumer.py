"""A task page's WebSocket: a hub for viewers, and another for those who may act."""

from __future__ import annotations

from functools import partial

from dalston_queue.dashboard.live.consumer import LiveConsumer
from dalston_queue.dashboard.live.hub import Hub, hub_of
from dalston_queue.dashboard.task.render import task_fragments


class TaskConsumer(LiveConsumer):
    def hub(self) -> Hub:
        task_id = self.scope["url_route"]["kwargs"]["task_id"]
        return hub_of(f"task {self.operates} {task_id}", partial(task_fragments, task_id, self.operates))
