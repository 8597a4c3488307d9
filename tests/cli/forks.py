"""A process that runs the command ``adascale`` in forks of itself, where all is imported and compiled.

It is given a socket.  A message with the three standard streams starts a run: ``arguments``, ``folder``, and ``dies``,
the moment at which it kills itself, as one of ``DEATHS`` and the number of the write to the state.  The answer is its
process id; a message ``wait`` with it is answered by its exit status.
"""

import json
import os
import resource
import signal
import socket
import sys
import tempfile

from adascale import Scenario, accounting, comparison, policies, streaming
from adascale.cli import causal, common, main, schedule, stream

LOADED = accounting, causal, common, comparison, policies, schedule, stream, streaming
DEATHS = ("before the line", "in the line", "behind the line", "on the disk", "answered")


def dying(moment, number):
    """Kill this process at that moment of the write with that number."""
    write, sync, count = os.write, os.fsync, 0

    def die():
        os.kill(os.getpid(), signal.SIGKILL)

    def writing(file, data):
        nonlocal count
        if data == b"\n" and count == number and moment == "answered":
            die()
        if file < 3 or data == b"\n":
            return write(file, data)
        count += 1
        if count == number and moment in DEATHS[:2]:
            write(file, data[: len(data) // 2 if moment == "in the line" else 0])
            die()
        return write(file, data)

    def syncing(file):
        if count == number and moment == "behind the line":
            die()
        sync(file)
        if count == number and moment == "on the disk":
            die()

    os.write, os.fsync = writing, syncing


def child(task, streams):
    os.chdir(task["folder"])
    for number, file in enumerate(streams):
        os.dup2(file, number)
    os.closerange(3, 256)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if "largest" in task:
        resource.setrlimit(resource.RLIMIT_FSIZE, (task["largest"], task["largest"]))
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
