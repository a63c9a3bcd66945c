"""The command `dalston transcribe`: its options, what it prints, and its exit code."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dalston_client.cli import options, text
from dalston_client.cli.commands.transcribe.files import Phase, Recording, make_folder, planned
from dalston_client.cli.commands.transcribe.runner import Runner, Wanted, exit_of_all
from dalston_client.cli.commands.transcribe.screen import Screen
from dalston_client.cli.exits import Exit, described, exit_of
from dalston_client.cli.output import Out
from dalston_client.client import Client
from dalston_client.errors import DalstonError

FORMATS = ("txt", "srt", "vtt", "json")
EXAMPLES = """\
One recording is printed; -o writes a file for each. A second run skips what is written and goes on with the rest:
the server knows a recording by its content, so nothing is transcribed twice within a day.

examples:
  dalston transcribe talk.mp3
  dalston transcribe *.mp3 --format srt -o subtitles/
  ffmpeg -i film.mkv -f wav - | dalston transcribe - --format vtt > film.vtt
"""


def add(commands: options.Commands) -> None:
    parser = options.command(commands, "transcribe", run, "transcribe recordings", EXAMPLES)
    parser.add_argument("recordings", nargs="+", metavar="FILE", help="audio or video; - is standard input")
    parser.add_argument("--format", choices=FORMATS, default="txt", help="of the transcripts (txt)")
    parser.add_argument("-o", "--output", type=Path, metavar="DIR", help="the folder for the transcripts")
    parser.add_argument("--model", metavar="NAME", help="auto, unless you name one")
    parser.add_argument("--language", metavar="CODE", help="of the speech, such as en; otherwise the model decides")
    parser.add_argument(
        "--channels", choices=("mixed", "separate"), help="separate: each channel for itself, as of a telephone call"
    )
    parser.add_argument("--words", action="store_true", help="with the time of each word (json)")
    parser.add_argument("--priority", choices=options.PRIORITIES, help="medium, unless you say otherwise")
    parser.add_argument("--parallel", type=options.positive, default=4, metavar="N", help="uploads at once (4)")
    parser.add_argument("--again", action="store_true", help="transcribe anew what was transcribed before, too")
    parser.add_argument(
        "--give-up-after", type=options.duration, metavar="SECONDS", help="stop waiting; the jobs go on (exit code 9)"
    )


def run(args: argparse.Namespace, client: Client, out: Out) -> Exit:
    recordings = planned(args.recordings, args.output, args.format, again=args.again)
    if args.output is not None:
        make_folder(args.output)
    report = Report(out)
    for each in recordings:
        if each.phase is Phase.SKIPPED:
            report.finished(each, None)
    asked = {name: getattr(args, name) for name in ("model", "language", "channels", "words", "priority")}
    runner = Runner(client, Wanted(args.format, asked, args.again), recordings, report.finished)
    try:
        with Screen(out.errors, recordings, is_live=report.is_live):
            in_time = runner.run(args.parallel, args.give_up_after)
    except KeyboardInterrupt:
        return _ended(out, recordings, Exit.INTERRUPTED, {"code": "interrupted", "detail": "interrupted"})
    except DalstonError as error:
        return _ended(out, recordings, exit_of(error), described(error))
    report.print_transcript()
    if not in_time:
        detail = f"not over after {args.give_up_after:g} s"
        return _ended(out, recordings, Exit.NOT_YET, {"code": "not_yet", "detail": detail})
    return exit_of_all(recordings)


class Report:
    """Standard output has the transcript or the names of its files, standard error what failed."""

    def __init__(self, out: Out) -> None:
        self._out = out
        self.is_live = out.errors.is_terminal and not out.errors.is_dumb_terminal and not out.as_json
        self._transcript: str | None = None

    def finished(self, recording: Recording, transcript: str | None) -> None:
        if self._out.as_json:
            self._out.json(_document(recording, transcript), line=True)
        elif recording.phase is Phase.FAILED:
            self._out.note(f"{recording.name}: {recording.problem}")
        elif recording.phase is Phase.SKIPPED:
            self._out.note(f"{recording.output} is there already; --again writes it anew")
        elif transcript is not None:
            self._transcript = transcript
        elif self.is_live and self._out.console.is_terminal:
            # Above the bars: they are on this same terminal.
            self._out.errors.print(text.clean(recording.output), soft_wrap=True)
        else:
            self._out.say(str(recording.output))

    def print_transcript(self) -> None:
        """After the bars have gone. A character that the encoding of standard output lacks is replaced."""
        if self._transcript is None:
            return
        if self._out.console.is_terminal:
            self._out.say(self._transcript)
            return
        encoding = sys.stdout.encoding or "utf-8"
        sys.stdout.write(self._transcript.encode(encoding, "replace").decode(encoding))
        sys.stdout.flush()


def _document(recording: Recording, found: str | None) -> dict[str, Any]:
    return {
        "file": recording.name,
        "status": recording.phase.value,
        "id": recording.id or None,
        "output": str(recording.output) if recording.output else None,
        "transcript": found,
        "error": recording.problem or None,
    }


def _ended(out: Out, recordings: Sequence[Recording], code: Exit, error: dict[str, Any]) -> Exit:
    """Before all of them were over. What was submitted goes on without this command."""
    over = sum(each.phase in {Phase.DONE, Phase.SKIPPED} for each in recordings)
    under_way = [each.id for each in recordings if each.phase is Phase.SUBMITTED]
    detail = str(error["detail"]).rstrip(".")
    done = f"{over} of {text.counted(len(recordings), 'recording')} done"
    goes_on = f"; {text.counted(len(under_way), 'job')} still on the server" if under_way else ""
    detail = f"{detail}: {done}{goes_on}. The same command again goes on from here."
    out.failed(code, {**error, "detail": detail, "ids": under_way})
    return code
