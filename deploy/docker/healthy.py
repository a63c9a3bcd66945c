"""The health check of a container: exits with 0 if /healthz on this port of loopback answers 200."""

import sys
import urllib.error
import urllib.request

try:
    urllib.request.urlopen(f"http://127.0.0.1:{int(sys.argv[1])}/healthz", timeout=8)
except (OSError, urllib.error.URLError) as error:
    sys.exit(str(error))
