"""The command `dalston-manage`: Django's command line with our settings. In a clone it is manage.py.

`--env-file FILE`, before the command, sets the variables that the file sets, as systemd does by EnvironmentFile=.
"""

import os
import shlex
import sys
from pathlib import Path


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dalston_site.settings")
    if sys.argv[1:2] == ["--env-file"]:
        if len(sys.argv) < 3:
            sys.exit("--env-file needs a file, such as /etc/dalston/server.env")
        os.environ.update(read_env_file(Path(sys.argv[2])))
        del sys.argv[1:3]
    # Also after a command: Django's own answer is its version.
    if "--version" in sys.argv[1:3] or sys.argv[1:] == ["version"]:
        from dalston_site.version import installed_version

        sys.stdout.write(f"dalston {installed_version()}\n")
        return
    if sys.argv[1:2] in (["status"], ["support_bundle"]):
        # A pool brings the circuit breaker (dalston_site/postgres): these answer also while Postgres hangs.
        os.environ.setdefault("DALSTON_DB_POOL_SIZE", "2")
    try:
        from django.core.management import execute_from_command_line
    except ModuleNotFoundError as error:
        sys.exit(
            f"{error}. Use `./dev manage …`, which installs what is missing, "
            "or install dalston[server] or dalston[node]."
        )
    execute_from_command_line(sys.argv)


def read_env_file(file: Path) -> dict[str, str]:
    """The variables of NAME=value lines. An error names the line and never shows the value, which may be a secret."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        sys.exit(f"--env-file {file} can't be read: {getattr(error, 'strerror', None) or 'it is not UTF-8'}")
    found: dict[str, str] = {}
    for number, line in enumerate(map(str.strip, lines), start=1):
        if not line or line[0] in "#;":
            continue
        name, is_set, value = line.partition("=")
        try:
            words = shlex.split(value)
        except ValueError:
            sys.exit(f"--env-file {file}, line {number}: a quote is not closed")
        if not is_set or not name.isidentifier():
            sys.exit(f"--env-file {file}, line {number}: expected NAME=value")
        found[name] = " ".join(words)
    return found


if __name__ == "__main__":
    main()
