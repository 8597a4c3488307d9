"""Runs of the command ``adascale`` in forks of one process, where all is imported and compiled, with faults.

A fault of any run is ``signal``, sent before the change of the file system that has the number ``at``; ``torn``, the
number of bytes after which the system kills the process while it writes a file, from the change ``at`` on; ``largest``,
the size in bytes that no file may exceed; and ``frozen``, a folder that is read-only.
"""

import errno
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time

CHANGES = ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.chmod")


class Forks:
    """The process; ``loaded`` says whether it is to run a "stream", or a "training" and the commands around it."""

    def __init__(self, loaded):
        self.process = subprocess.Popen(
            [sys.executable, "-B", "-P", __file__, loaded],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout.readline() == "ready\n"

    def run(self, arguments, folder, sent="", **fault):
        """The exit code of a run, what it said, and its changes of files; no process of it is left."""
        from .command import alive

        task = {"folder": str(folder), "arguments": [*map(str, arguments)]}
        print(json.dumps(task | {"sent": sent} | fault), file=self.process.stdin)
        self.process.stdin.flush()
        result = json.loads(self.process.stdout.readline())
        deadline = time.monotonic() + 10
        while alive(result["process"]):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        return result

    def close(self):
        self.process.communicate()


# In the process -------------------------------------------------------------------------------------------------------


def changed(event, arguments):
    """The path that an audited event changes, or None."""
    if event in CHANGES:
        return os.fsdecode(arguments[0])
    if event != "open" or not isinstance(arguments[0], str | bytes):
        return None
    writes = arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
    path = os.fsdecode(arguments[0])
    return path if writes and path != os.devnull else None


def hook_of(task, made):
    """An audit hook that counts the changes of files, and does what the task says to one of them."""

    def hook(event, arguments):
        path = changed(event, arguments)
        if path is None:
            return
        made.append(path)
        if len(made) == task.get("at") and "torn" in task:
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            resource.setrlimit(resource.RLIMIT_FSIZE, (task["torn"], task["torn"]))
        elif len(made) == task.get("at"):
            os.kill(os.getpid(), task.get("signal", signal.SIGKILL))
        if "frozen" in task and os.path.abspath(path).startswith(task["frozen"]):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)

    return hook


def child(task, *streams):
    """The command, with its fault."""
    from adascale.cli import main

    os.setsid()
    os.chdir(task["folder"])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, file in enumerate(streams[:3]):
        os.dup2(file, number)
    if "largest" in task:
        resource.setrlimit(resource.RLIMIT_FSIZE, (task["largest"], task["largest"]))
    code, made = 99, []
    sys.addaudithook(hook_of(task, made))
    try:
        # as a process of its own, which handles signals
        sys.argv[1:] = task["arguments"]
        code = main()
        sys.stdout.flush()
    except SystemExit as stop:
        code = stop.code
    finally:
        os.write(streams[3], f"{len(made)}".encode())
        os._exit(code)


def finished(task):
    """What a run came to."""
    pipes = [os.pipe() for _ in range(4)]  # each holds 64 KiB
    os.write(pipes[0][1], task["sent"].encode())
    os.close(pipes[0][1])
    process = os.fork()
    if not process:
        child(task, pipes[0][0], *(write for _, write in pipes[1:]))
    os.close(pipes[0][0])
    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    result = {"code": code, "process": process}
    for name, (read, write) in zip(("out", "err", "made"), pipes[1:], strict=True):
        os.write(write, b"\n")  # so that reading never waits
        result[name] = os.read(read, 1 << 16).decode()[:-1]
        os.close(read)
        os.close(write)
    return result | {"made": int(result["made"] or 0)}


def load(what):
    """Modules, compiled functions and data, as every command would load them for itself."""
    if what == "stream":
        from adascale import Scenario, policies, streaming
        from adascale.cli import stream  # noqa: F401

        scenario = Scenario("warm", 2, 3, 1000, 20, 400, 1.0, 0.2, 1e-12)
        with tempfile.TemporaryDirectory() as folder:
            state = f"{folder}/state"
            with streaming.Stream(policies.Learn(), scenario, 0.002, state) as one:
                one.answer(1e-12)
        return
    import torch
    from tqdm import tqdm

    from adascale.cli import schedule, sweep, train  # noqa: F401
    from adascale.runs import execution, specification, store

    torch.set_num_threads(1)
    store.SAVE_SECONDS = 0
    # its own is shared by all forks, and one that is killed may hold it for ever
    tqdm.set_lock(threading.RLock())
    for name in ("equalalloc", "optimal"):
        execution.perform(specification.make_run("digits", name, 0.5, 0, rounds=3))


if __name__ == "__main__":
    load(sys.argv[1])
    print("ready", flush=True)
    for line in sys.stdin:
        print(json.dumps(finished(json.loads(line))), flush=True)
