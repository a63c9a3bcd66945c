"""The WebSockets of the pages of dead letters: a hub per filter, and another for those who may act."""

from __future__ import annotations

from functools import partial

from dalston_queue.dashboard.dead_letters.one_render import letter_fragments
from dalston_queue.dashboard.dead_letters.read import FIELDS, PAGE_FIELDS
from dalston_queue.dashboard.dead_letters.render import letters_fragments
from dalston_queue.dashboard.live.consumer import LiveConsumer
from dalston_queue.dashboard.live.hub import Hub, hub_of
from dalston_queue.dashboard.parts.query import address, asked


class LettersConsumer(LiveConsumer):
    def hub(self) -> Hub:
        query = asked(self.scope["query_string"], (*FIELDS, *PAGE_FIELDS))
        return hub_of(f"letters {self.operates} {address(query)}", partial(letters_fragments, query, self.operates))


class LetterConsumer(LiveConsumer):
    def hub(self) -> Hub:
        letter_id = self.scope["url_route"]["kwargs"]["letter_id"]
        return hub_of(f"letter {self.operates} {letter_id}", partial(letter_fragments, letter_id, self.operates))
