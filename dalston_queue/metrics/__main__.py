"""`python -m dalston_queue.metrics` writes docs/operate/metrics.md and deploy/grafana/dalston.json."""

from pathlib import Path

from dalston_queue.metrics.page import board_text, docs_page

ROOT = Path(__file__).resolve().parents[2]

if __name__ == "__main__":
    (ROOT / "docs" / "operate" / "metrics.md").write_text(docs_page())
    (ROOT / "deploy" / "grafana").mkdir(exist_ok=True)
    (ROOT / "deploy" / "grafana" / "dalston.json").write_text(board_text())
