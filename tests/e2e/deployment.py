"""deployment.py - a whole deployment for a test: starts it, and proves that nothing stays behind.

Each has a temporary folder of its own for sockets, and a mark in its environment that every process
of it inherits. So what is left of it is found without asking it: processes by the mark, files by
the folder, shared memory by what is new. It is ready when `lockstep up --detach` ends and says so;
nothing here waits for time.
"""
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
import urllib.request
import uuid
from urllib.parse import urlsplit

BUILD = os.environ.get("LOCKSTEP_BUILD", "build/release")
LOCKSTEP = os.path.join(BUILD, "lockstep")
WAIT_SECONDS = 60  # for what must come; nothing waits that long unless it is broken
ENDPOINT = re.compile(r"https?://[\w.\[\]:-]+:\d+")


def await_true(condition, what):
    """Looks until `condition()` is true and returns that; counted looks end early when fast."""
    end = time.monotonic() + WAIT_SECONDS
    while True:
        result = condition()
        if result:
            return result
        assert time.monotonic() < end, what() if callable(what) else what


def post_bytes(path, body):
    """A whole request in HTTP/1.0, so that heads of chunks do not stand in its answer: for clients
    that read their sockets themselves."""
    data = json.dumps(body).encode()
    return (b"POST %b HTTP/1.0\r\nHost: x\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n%b" % (path.encode(), len(data), data))


def stream_events(answer):
    """What a stream says, as it comes: the JSON of each event, and None for its [DONE]."""
    for line in answer:
        if line.startswith(b"data: "):
            yield None if line.startswith(b"data: [DONE]") else json.loads(line[6:])


def memory_kib(pid, name="VmRSS"):
    """A figure of /proc/PID/status."""
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(name + ":"))


class Deployment:
    """Use in a `with`: entering starts it, leaving stops it and checks that nothing is left.
    `topology` is the path of a file, or what would stand in one."""

    def __init__(self, topology, *options, name=None):
        self.written = None
        if "\n" in topology:
            self.written = tempfile.NamedTemporaryFile("w", suffix=".yaml")
            self.written.write(topology)
            self.written.flush()
            topology = self.written.name
        self.topology = topology
        self.options = options
        self.name = name or f"e2e-{uuid.uuid4().hex[:8]}"
        self.mark = f"LOCKSTEP_E2E={self.name}"
        self.folder = tempfile.mkdtemp(prefix="e2e-")
        self.url = None
        self.said = ""
        self.shared_memory_before = shared_memory()

    def environment(self):
        return {**os.environ, "LOCKSTEP_E2E": self.name, "XDG_RUNTIME_DIR": self.folder,
                "TMPDIR": self.folder}

    def command(self, *arguments, check=True):
        """Runs `lockstep ARGUMENT...` in this deployment's environment."""
        run = subprocess.run([LOCKSTEP, *arguments], env=self.environment(), text=True, check=False,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120)
        if check and run.returncode != 0:
            raise AssertionError(f"lockstep {' '.join(arguments)}: {run.returncode}\n{run.stdout}")
        return run

    def up(self):
        """`up --detach` ends when the deployment is ready and has said where."""
        # A file, not a pipe: the daemon may keep its descriptors, and a pipe would then never end.
        with tempfile.TemporaryFile("w+") as output:
            status = subprocess.run(
                [LOCKSTEP, "up", self.topology, "--name", self.name, "--port", "0", "--detach",
                 *self.options], env=self.environment(), check=False, stdin=subprocess.DEVNULL,
                stdout=output, stderr=output, timeout=120).returncode
            output.seek(0)
            self.said = output.read()
        endpoint = ENDPOINT.search(self.said)
        if status != 0 or not endpoint:
            raise AssertionError(f"lockstep up {self.topology}: {status}\n{self.said}")
        self.url = endpoint[0]
        return self

    def down(self):
        return self.command("down", self.name)

    @property
    def address(self):
        """Host and port of its gateway, for sockets and connections."""
        url = urlsplit(self.url)
        return url.hostname, url.port

    def run_path(self, *names):
        """A file or folder in its directory of the run."""
        return os.path.join(self.folder, "lockstep", self.name, *names)

    def admin_url(self):
        """Where its gateway listens for operators."""
        with open(self.run_path("gateway-0"), encoding="ascii") as file:
            return "http://127.0.0.1:" + file.read().split()[1]

    def metrics(self):
        """What the gateway counts, by name with labels."""
        with urllib.request.urlopen(self.url + "/metrics", timeout=WAIT_SECONDS) as answer:
            lines = answer.read().decode().splitlines()
        return {name: float(value) for name, value in
                (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))}

    def ps(self):
        """The rows of `ps --json`: name, pid, state and more of each actor."""
        rows = json.loads(self.command("ps", self.name, "--json").stdout)
        return rows if isinstance(rows, list) else rows["actors"]

    def pid(self, actor, may_be_dead=False):
        """Its process; 0 if it has none now."""
        pid = next(row["pid"] for row in self.ps() if row["name"] == actor)
        assert pid > 0 or may_be_dead, f"{actor} does not run"
        return pid

    def log(self):
        """The lines of all its processes."""
        with open(self.run_path("log"), encoding="utf-8") as file:
            return file.read()

    def await_new_life(self, actor, pid):
        """Until another process than `pid` is this actor, by looking at `ps` again and again."""
        await_true(lambda: self.pid(actor, may_be_dead=True) not in (pid, 0),
                   lambda: f"{actor} did not come back\n{self.log()[-4000:]}")

    def await_ready(self):
        """Until the gateway listens and says so; each look is a process, so it is no busy loop."""
        def ready():
            self.ps()
            try:
                with urllib.request.urlopen(self.url + "/ready", timeout=WAIT_SECONDS):
                    return True
            except OSError:
                return False

        await_true(ready, lambda: f"not ready again\n{self.log()[-4000:]}")

    def processes(self):
        """Every living process that carries the mark, as {pid: command line}."""
        found = {}
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/environ", "rb") as file:
                    if self.mark.encode() not in file.read().split(b"\0"):
                        continue
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    words = file.read().replace(b"\0", b" ").decode().strip()
            except OSError:
                continue
            if words:  # a zombie has none
                found[int(pid)] = words
        return found

    def new_shared_memory(self):
        new = shared_memory() - self.shared_memory_before
        return sorted(name for name in new if f":{self.name}:" in name)

    def leftovers(self):
        """What this deployment left behind; empty after a good `down`."""
        left = [f"process {pid}: {words}" for pid, words in self.processes().items()]
        left += [f"shared memory {name}" for name in self.new_shared_memory()]
        left += [f"file {os.path.join(folder, name)}"
                 for folder, _, names in os.walk(self.folder) for name in names]
        return left

    def __enter__(self):
        try:
            return self.up()
        except BaseException:
            self.remove()
            raise

    def __exit__(self, kind, value, trace):
        try:
            self.down()
            left = self.leftovers()
            assert not left or kind, "left behind:\n" + "\n".join(left)
        finally:
            self.remove()

    def remove(self):
        """Ends what is still there, so that one failed test does not disturb the next."""
        for pid in self.processes():
            try:
                os.kill(pid, 9)
            except ProcessLookupError:
                pass
        for name in self.new_shared_memory():
            os.unlink(os.path.join("/dev/shm", name))
        shutil.rmtree(self.folder, ignore_errors=True)
        if self.written:
            self.written.close()


def shared_memory():
    return set(os.listdir("/dev/shm"))
