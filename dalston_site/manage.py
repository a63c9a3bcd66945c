"""The command `dalston-manage`: Django's command line with our settings. In a clone it is manage.py."""

import os
import sys


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dalston_site.settings")
    if sys.argv[1:] in (["--version"], ["version"]):
        from dalston_site.version import installed_version

        sys.stdout.write(f"dalston {installed_version()}\n")
        return
    try:
        from django.core.management import execute_from_command_line
    except ModuleNotFoundError as error:
        sys.exit(
            f"{error}. Use `./dev manage …`, which installs what is missing, "
            "or install dalston[server] or dalston[node]."
        )
    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
