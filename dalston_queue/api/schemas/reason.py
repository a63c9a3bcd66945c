"""Why somebody acts: a sentence of theirs, kept in the audit trail."""

from __future__ import annotations

from typing import Annotated

from ninja import Query
from pydantic import Field

MOST = 500

Reason = Annotated[str, Query(max_length=MOST, description="Why; kept in the audit trail.")]
ReasonInBody = Annotated[str, Field(max_length=MOST, description="Why; kept in the audit trail.")]
