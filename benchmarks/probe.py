"""Run a command; print its wall time and peak memory as JSON.  Its own memory is the least that it can measure."""

import os
import sys
import time

silence = os.open(os.devnull, os.O_WRONLY)
begin = time.perf_counter()
child = os.posix_spawnp(sys.argv[1], sys.argv[1:], os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, silence, 1)])
_, status, usage = os.wait4(child, 0)
seconds = time.perf_counter() - begin
if status:
    sys.exit(f"{' '.join(sys.argv[1:])}: failed with exit code {os.waitstatus_to_exitcode(status)}")
peak_bytes = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
sys.stdout.write(f'{{"seconds": {seconds}, "peak_mb": {peak_bytes / 1e6}}}\n')
