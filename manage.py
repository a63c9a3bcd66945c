#!/usr/bin/env python
"""Django's command line. `./dev manage …` runs it in the project's environment."""

import os
import sys


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dalston_site.settings")
    try:
        from django.core.management import execute_from_command_line
    except ModuleNotFoundError as error:
        sys.exit(f"{error}. Use `./dev manage …`, which installs what is missing, or install dalston[server].")
    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
