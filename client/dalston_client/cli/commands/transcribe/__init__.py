"""`dalston transcribe`: recordings to transcripts, several at once; a second run goes on where the first one ended.

command    its options, its output and its exit code
files      what is transcribed, where the transcript goes, and writing it whole or not at all
runner     uploads in threads, polls, downloads
screen     a bar per recording on a terminal
"""

from dalston_client.cli.commands.transcribe.command import add

__all__ = ["add"]
