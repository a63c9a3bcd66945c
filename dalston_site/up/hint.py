"""The file dev.env and the printed hint, once all processes answer."""

import json
import shlex
from pathlib import Path

from dalston_site.embedded.secret import write_private
from dalston_site.up.options import ROOT, Options
from dalston_site.up.services import Addresses, lan_addresses


class DevEnv:
    """The file `dev.env`; it exists while all processes answer."""

    def __init__(self, data: Path) -> None:
        self.path = data / "dev.env"

    def write(self, url: str, token: str, addresses: Addresses) -> None:
        values = {
            "DALSTON_URL": url,
            "DALSTON_TOKEN": token,
            "DATABASE_URL": addresses.database_url,
            "REDIS_URL": addresses.redis_url,
        }
        write_private(self.path, "".join(f"{name}={shlex.quote(value)}\n" for name, value in values.items()))

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)


def hint(options: Options, token: str, password: str, env_file: Path) -> str:
    body = json.dumps({"task_type": "echo", "parameters": {"hello": "world"}})
    sample = shlex.quote(f"file=@{ROOT / 'samples' / 'hello.wav'}")
    lan = "".join(f"\n               http://{address}:{options.port}/" for address in lan_addresses() if options.lan)
    return f"""
Dalston is running. Ctrl-C stops it.

  Dashboard    {options.url}/{lan}
  Login        admin   {password}
  Environment  {env_file}

  Speech to text:
    curl -s {options.url}/v1/audio/transcriptions -H 'Authorization: Bearer {token}' \\
      -H 'Prefer: wait' -F response_format=text -F {sample}

  Any other task:
    curl -s {options.url}/api/v1/tasks -H 'Authorization: Bearer {token}' \\
      -H 'Content-Type: application/json' -d '{body}'

"""
