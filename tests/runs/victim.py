"""A process that runs the command ``adascale`` in forks of itself, where PyTorch is loaded, and lets faults happen.

It reads a line of JSON for each: ``arguments`` and ``folder``; ``signal``, which is sent before the change of the file
system that has the number ``at``, or ``after`` so many seconds; ``torn``, the number of bytes after which the system
kills the process while it writes a file, from the change ``at`` on; ``largest``, the size in bytes that no file may
exceed; ``frozen``, a folder that is read-only; ``beside``, how many of the same run at once.  It answers with the exit
code, what was printed, the changes that were made, and the processes that were left.
"""

import errno
import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time

import torch
from tqdm import tqdm

from adascale.cli import main, schedule, sweep, train
from adascale.runs import execution
from adascale.runs.specification import make_run
from adascale.runs.store import Store

LOADED = schedule, sweep, train
CHANGES = ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.chmod")


def changes(event, arguments):
    """The path that an audited event changes, or None."""
    if event == "open":
        path, _, flags = arguments
        return path if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) and isinstance(path, str | bytes) else None
    return arguments[0] if event in CHANGES else None


def child(task):
    """The command, with its fault."""
    os.setsid()
    os.chdir(task["folder"])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, name in ((1, "out"), (2, "err")):
        os.dup2(task[name], number)
    if "largest" in task:
        resource.setrlimit(resource.RLIMIT_FSIZE, (task["largest"], task["largest"]))
    made = 0

    def hook(event, arguments):
        nonlocal made
        path = changes(event, arguments)
        if path is None or os.fspath(path) in (os.devnull, b"/dev/null"):
            return
        made += 1
        if made == task.get("at") and "torn" in task:
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            resource.setrlimit(resource.RLIMIT_FSIZE, (task["torn"], task["torn"]))
        elif made == task.get("at"):
            os.kill(os.getpid(), task.get("signal", signal.SIGKILL))
        if "frozen" in task and os.path.abspath(os.fsdecode(path)).startswith(task["frozen"]):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), os.fsdecode(path))

    sys.addaudithook(hook)
    Store.run.__kwdefaults__["save_seconds"] = 0
    tqdm.set_lock(threading.RLock())  # its own is shared by all forks, and one that is killed may hold it for ever
    code = 99
    os.write(task["begun"], b"!")
    try:
        code = main(task["arguments"])
        sys.stdout.flush()
    except SystemExit as stop:
        code = stop.code
    finally:
        if "made" in task:
            os.write(task["made"], f"{made}".encode())
        os._exit(code)


def left(group):
    """The processes of a group."""
    found = subprocess.run(["ps", "-A", "-o", "pgid=,stat=,args="], capture_output=True, text=True, check=True)
    rows = [line.split(None, 2) for line in found.stdout.splitlines()]
    return [row[2] for row in rows if row[0] == str(group) and not row[1].startswith("Z")]


def attend(task):
    """Begin the command, let the fault happen, and see what is left; of many, the one that began last is told of."""
    others = [begin(task) for _ in range(task.get("beside", 1) - 1)]
    pid, pipes = begin(task)
    if "after" in task:
        os.read(pipes["begun"][0], 1)
        wait(pid, 0.01)  # for the command to listen; where others take the processor, seconds of a clock say nothing
        time.sleep(task["after"])
        os.kill(pid, task["signal"])  # it is a zombie at least: its id is no one else's
    found = end(pid, pipes)
    for each in others:
        assert end(*each)["code"] == found["code"]
    return found


def wait(pid, seconds):
    """Until the process has had so many more seconds of a processor, or has ended; seconds of a clock but on Linux."""
    if sys.platform == "linux":
        clock = ~pid << 3 | 2  # that of a process, see clock_getcpuclockid(3)
        end = time.clock_gettime(clock) + seconds
        while time.clock_gettime(clock) < end and not os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            time.sleep(0.001)
    else:
        time.sleep(seconds)


def begin(task):
    """The process, and where what it says is read."""
    pipes = {name: os.pipe() for name in ("made", "begun", "out", "err")}
    pid = os.fork()
    if pid == 0:
        child(task | {name: there for name, (_, there) in pipes.items()})
    for _, there in pipes.values():
        os.close(there)
    return pid, pipes


def end(pid, pipes):
    """What came of it, a while after which no process of its group should be there."""
    _, status = os.waitpid(pid, 0)
    deadline = time.monotonic() + 10
    orphans = left(pid)
    while orphans and time.monotonic() < deadline:
        time.sleep(0.05)
        orphans = left(pid)
    said = {name: os.read(here, 60_000).decode() for name, (here, _) in pipes.items()}  # a pipe holds 64 KiB
    for here, _ in pipes.values():
        os.close(here)
    return said | {"code": os.waitstatus_to_exitcode(status), "made": int(said["made"] or 0), "orphans": orphans}


def load_all():
    """What every command would load for itself: modules, compiled functions and data."""
    for name in ("equalalloc", "optimal"):
        execution.perform(make_run("digits", name, 0.5, 0, rounds=3))


if __name__ == "__main__":
    torch.set_num_threads(1)
    load_all()
    print("ready", flush=True)
    for line in sys.stdin:
        print(json.dumps(attend(json.loads(line))), flush=True)
