"""Runs of the command ``adascale`` in forks of one process, where all is imported and compiled, with faults.

A fault of any run is ``signal``, sent before the change of the file system that has the number ``at``, or ``after`` so
many seconds; ``torn``, the number of bytes after which the system kills the process while it writes a file, from the
change ``at`` on; ``largest``, the size in bytes that no file may exceed; ``frozen``, a folder that is read-only; and
``slow``, where it writes slowly.
"""

import errno
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

CHANGES = ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.chmod")


class Forks:
    """The process; ``loaded`` says whether it is to run a "stream", or a "training" and the commands around it."""

    def __init__(self, loaded):
        self.here, there = socket.socketpair()
        command = [sys.executable, "-P", __file__, str(there.fileno()), loaded]
        self.process = subprocess.Popen(command, pass_fds=[there.fileno()])
        there.close()
        assert self.here.recv(10) == b"ready"

    def ask(self, task, *streams):
        socket.send_fds(self.here, [json.dumps(task).encode()], streams)
        return json.loads(self.here.recv(1000))

    def begin(self, folder, arguments, streams, **fault):
        """A run with these standard streams: its process id."""
        return self.ask(
            {"folder": str(folder), "arguments": [str(each) for each in arguments]}
            | fault,
            *streams,
        )

    def start(self, folder, arguments, sent="", **fault):
        """A run that reads this text, and writes ``out`` and ``err`` in the folder."""
        (folder / "in").write_text(sent)
        with (
            open(folder / "in") as read,
            open(folder / "out", "w") as out,
            open(folder / "err", "w") as err,
        ):
            return self.begin(
                folder, arguments, [each.fileno() for each in (read, out, err)], **fault
            )

    def wait(self, pid):
        return self.ask({"wait": pid})["code"]

    def run(self, arguments, folder, **fault):
        """The exit code of a run, what it said, and its changes of files; no process of it is left."""
        from .command import alive

        later = {
            name: fault.pop(name) for name in ("signal", "after") if "after" in fault
        }
        (read, nothing), (out, says), (err, complains) = [
            os.pipe() for _ in range(3)
        ]  # each holds 64 KiB
        pid = self.begin(folder, arguments, (nothing, says, complains), **fault)
        found = self.ask({"wait": pid} | later)
        deadline = time.monotonic() + 10
        while alive("pgid", pid):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        for each in (nothing, says, complains):
            os.close(each)
        found |= {
            "out": os.read(out, 60_000).decode(),
            "err": os.read(err, 60_000).decode(),
        }
        for each in (read, out, err):
            os.close(each)
        return found

    def close(self):
        self.here.close()
        self.process.wait()


# In the process -------------------------------------------------------------------------------------------------------


def slowly():
    """Write a few bytes at a time, with pauses, so that a kill at any moment is likely to interrupt a write."""
    write, sync = os.write, os.fsync

    def writing(file, data):
        time.sleep(0.0005)
        return write(file, data[:5])

    def syncing(file):
        time.sleep(0.01)
        sync(file)
        time.sleep(0.01)

    os.write, os.fsync = writing, syncing


def changed(event, arguments):
    """The path that an audited event changes, or None."""
    if event == "open":
        path, _, flags = arguments
        return (
            path
            if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
            and isinstance(path, str | bytes)
            else None
        )
    return arguments[0] if event in CHANGES else None


def child(task, streams, says):
    """The command, with its fault."""
    from adascale.cli import main

    os.setsid()
    os.chdir(task["folder"])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, file in enumerate(streams):
        os.dup2(file, number)
        os.close(file)
    if "largest" in task:
        resource.setrlimit(resource.RLIMIT_FSIZE, (task["largest"], task["largest"]))
    if "slow" in task:
        slowly()
    made = 0

    def hook(event, arguments):
        nonlocal made
        path = changed(event, arguments)
        if path is None or os.fspath(path) in (os.devnull, b"/dev/null"):
            return
        made += 1
        if made == task.get("at") and "torn" in task:
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            resource.setrlimit(resource.RLIMIT_FSIZE, (task["torn"], task["torn"]))
        elif made == task.get("at"):
            os.kill(os.getpid(), task.get("signal", signal.SIGKILL))
        if "frozen" in task and os.path.abspath(os.fsdecode(path)).startswith(
            task["frozen"]
        ):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), os.fsdecode(path))

    sys.addaudithook(hook)
    code = 99
    os.write(says, b"!")
    try:
        sys.argv[1:] = task[
            "arguments"
        ]  # as a process of its own, which handles signals
        code = main()
        sys.stdout.flush()
    except SystemExit as stop:
        code = stop.code
    finally:
        os.write(says, f"{made}".encode())
        os._exit(code)


def use(pid, seconds):
    """Until the process has had so many more seconds of a processor, or has ended; seconds of a clock but on Linux."""
    if sys.platform == "linux":
        clock = ~pid << 3 | 2  # that of a process, see clock_getcpuclockid(3)
        end = time.clock_gettime(clock) + seconds
        while time.clock_gettime(clock) < end and not os.waitid(
            os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT
        ):
            time.sleep(0.001)
    else:
        time.sleep(seconds)


def end(task, pid, said):
    """Send the signal, where it comes after some seconds, and tell what came of the run."""
    if "after" in task:
        os.read(said, 1)
        use(
            pid, 0.01
        )  # for the command to listen; where others take the processor, seconds of a clock say nothing
        time.sleep(task["after"])
        os.kill(pid, task["signal"])  # it is a zombie at least: its id is no one else's
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    made = os.read(said, 100).decode().strip("!")
    os.close(said)
    return {"code": code, "made": int(made or 0)}


def load(what):
    """Modules, compiled functions and data, as every command would load them for itself."""
    if what == "stream":
        from adascale import Scenario, policies, streaming
        from adascale.cli import stream  # noqa: F401

        scenario = Scenario("warm", 2, 3, 1000, 20, 400, 1.0, 0.2, 1e-12)
        with (
            tempfile.TemporaryDirectory() as folder,
            streaming.Stream(
                policies.Learn(), scenario, 0.002, f"{folder}/state"
            ) as one,
        ):
            one.answer(1e-12)
        return
    import torch
    from tqdm import tqdm

    from adascale.cli import schedule, sweep, train  # noqa: F401
    from adascale.runs import execution, specification, store

    torch.set_num_threads(1)
    store.SAVE_SECONDS = 0
    tqdm.set_lock(
        threading.RLock()
    )  # its own is shared by all forks, and one that is killed may hold it for ever
    for name in ("equalalloc", "optimal"):
        execution.perform(specification.make_run("digits", name, 0.5, 0, rounds=3))


def serve(here):
    here.send(b"ready")
    pipes = {}
    while True:
        data, streams, _, _ = socket.recv_fds(here, 1 << 20, 3)
        if not data:
            return
        task = json.loads(data)
        if "wait" in task:
            answer = end(task, task["wait"], pipes.pop(task["wait"]))
        else:
            said, says = os.pipe()
            if not (answer := os.fork()):
                here.close()
                child(task, streams, says)
            pipes[answer] = said
            for file in (*streams, says):
                os.close(file)
        here.send(json.dumps(answer).encode())


if __name__ == "__main__":
    load(sys.argv[2])
    serve(socket.socket(fileno=int(sys.argv[1])))
