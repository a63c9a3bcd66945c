"""Black boxes and unreadable messages, which may have any shape."""

from __future__ import annotations

from dalston_queue.dashboard.parts.black_box import black_box, hex_dump, raw_fields


def test_any_shape_of_evidence_is_shown() -> None:
    for odd in ("text", ["a"], 5, {"log": {"x": 1}, "gpu": "none", "stack": 3, "text": None}):
        assert black_box(odd) is not None
    assert black_box(None) is None
    assert raw_fields({"x": {"base64": "%%%"}})[0].text == '{\n  "base64": "%%%"\n}'
    assert hex_dump(b"a" * 5000).endswith("… 5000 bytes in all")
