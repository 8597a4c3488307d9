"""A process that runs the command ``adascale`` in forks of itself, where all is imported and compiled.

It is given a socket.  A message with the three standard streams starts a run: ``arguments``, ``folder``, ``slow`` where
it writes slowly, and ``dies``, the moment at which it kills itself and the round.  The answer is its process id; a
message ``wait`` with it is answered by its exit status.
"""

import json
import os
import resource
import signal
import socket
import sys
import tempfile
import time

from adascale import Scenario, accounting, comparison, policies, streaming
from adascale.cli import causal, common, main, schedule, stream

LOADED = accounting, causal, common, comparison, policies, schedule, stream, streaming


def dying(moment, number):
    """Kill this process at that moment of the round with that number, from 1, or of the making of the state."""
    write, sync, replace, count = os.pwrite, os.fsync, os.replace, 0
    what = ""

    def die(now, part=None):
        if count == number and moment == now:
            if part:
                write(*part)
            os.kill(os.getpid(), signal.SIGKILL)

    def writing(file, data, place):
        nonlocal count, what
        what = "answered" if data == b"\n" else "mark" if place == 0 else "line"
        count += what == "line"
        half = file, data[: len(data) // 2], place
        if what == "line":
            die("before the line")
        else:
            die("answered" if what == "answered" else "before the mark")
        die(f"in the {what}", half)
        done = write(file, data, place)
        die(f"behind the {what}")
        return done

    def syncing(file):
        if not count:
            die("before the heading's place")
        sync(file)
        if what == "line":
            die("on the disk")

    def replacing(*paths):
        replace(*paths)
        die("in its place")

    os.pwrite, os.fsync, os.replace = writing, syncing, replacing


def paused(function):
    def call(*given):
        time.sleep(0.002)
        function(*given)
        time.sleep(0.002)

    return call


def slowly():
    """Write a few bytes at a time, with pauses, so that a kill at any moment is likely to interrupt a write."""
    write = os.pwrite
    os.pwrite = lambda file, data, place: time.sleep(0.0005) or write(file, data[:5], place)
    os.fsync, os.replace = paused(os.fsync), paused(os.replace)


def child(task, streams):
    os.chdir(task["folder"])
    for number, file in enumerate(streams):
        os.dup2(file, number)
    os.closerange(3, 256)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if "largest" in task:
        resource.setrlimit(resource.RLIMIT_FSIZE, (task["largest"], task["largest"]))
    if "slow" in task:
        slowly()
    if "dies" in task:
        dying(*task["dies"])
    try:
        code = main(task["arguments"])
    except SystemExit as stop:
        code = stop.code
    os._exit(code)


def warm():
    """What is compiled is loaded before the first fork."""
    scenario = Scenario("warm", 2, 3, 1000, 20, 400, 1.0, 0.2, 1e-12)
    with (
        tempfile.TemporaryDirectory() as folder,
        streaming.Stream(policies.Learn(), scenario, 0.002, f"{folder}/state") as one,
    ):
        one.answer(1e-12)


def serve(here):
    warm()
    here.send(b"ready")
    while True:
        data, streams, _, _ = socket.recv_fds(here, 1 << 20, 3)
        if not data:
            return
        task = json.loads(data)
        if "wait" in task:
            here.send(str(os.waitstatus_to_exitcode(os.waitpid(task["wait"], 0)[1])).encode())
            continue
        if not (pid := os.fork()):
            child(task, streams)
        for file in streams:
            os.close(file)
        here.send(str(pid).encode())


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
