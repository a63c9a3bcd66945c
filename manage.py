#!/usr/bin/env python
"""Django's command line. `./dev manage …` runs it in the project's environment."""

from dalston_site.manage import main

if __name__ == "__main__":
    main()
