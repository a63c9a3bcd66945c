"""Argv of a process that ends with its parent, even when the parent is killed with SIGKILL.

`setpriv` sets the parent-death signal between fork and exec; Python's preexec_fn would, too, but is not safe in a
program with threads. The kernel sends the signal when the *thread* that forked ends, so start such a process from the
main thread. Without setpriv (not Linux) a killed parent leaves its children behind until the next start cleans them up.
"""

import os
import shutil
import signal

UNPRIVILEGED_UID = 65534  # on most systems without files of its own


def guarded(argv: list[str], *, dies_with: signal.Signals, user: int | None = None) -> list[str]:
    """`argv` under setpriv; with `user`, not as root but as that user, still able to reach files below /root."""
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        return argv
    command = [setpriv, "--pdeathsig", dies_with.name.removeprefix("SIG")]
    if user is not None:
        capability = "-all,+dac_override"
        command += [f"--reuid={user}", f"--regid={user}", "--clear-groups", "--securebits", "+no_setuid_fixup"]
        command += [f"--inh-caps={capability}", f"--ambient-caps={capability}"]
    return [*command, *argv]


def can_guard() -> bool:
    return shutil.which("setpriv") is not None


def can_change_user() -> bool:
    return os.geteuid() == 0 and can_guard()
