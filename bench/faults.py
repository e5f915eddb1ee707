"""faults.py [--rounds N] [--stops N] [--sessions N] [--only NAME,...] [--device D] [--json FILE]

Sessions stream answers from topology/examples/8-devices.yaml without a pause, and every process but
the supervisor has faults while they do. Each answer is held to what was said before, when nothing
failed. Of each fault: sessions lost, wrong answers, and the longest silence of those that were in
the middle of an answer, until all went on.

    kill      kill -9
    blink     SIGSTOP, and SIGCONT after two seconds
    stop      SIGSTOP for good: its supervisor has to find out
    cut       all its connections to other actors are shut down, by pidfd_getfd and shutdown, which
              want leave to trace
    pair      two at once, each killed or stopped
    pause     SIGSTOP of all processes, the supervisor's too, and SIGCONT after twelve seconds:
              nothing may end

At the end everything must be as before: processes, shared memory, files, and no attempt left.
"""
import argparse
import ctypes
import json
import os
import random
import re
import selectors
import signal
import socket
import statistics
import sys
import time

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path.insert(0, os.path.join(ROOT, "tests", "e2e"))
from deployment import Deployment, post_bytes, shared_memory  # noqa: E402

PROMPTS, PROMPT_TOKENS = 16, 40
ANSWER_TOKENS = 150  # so that faults come in the middle of one
DEVICES = {"cpu": "cpu", "symbolic": "symbolic:20"}  # 20 ms a step, as on real hardware
PATIENCE_S = 90  # for one answer, and for everybody's next token
BLINK_S, PAUSE_S, RETRY_S = 2, 12, 0.2
SETTLE_S = 0.5  # between two faults, so that answers are under way
SYS_PIDFD_GETFD = 438
TEXT = re.compile(rb'"text": ?"((?:[^"\\]|\\.)*)"')
ERROR = re.compile(rb'"error": ?\{.*')
FINISH = re.compile(rb'"finish_reason": ?"(\w+)"')


def request_of(number):
    chance = random.Random(number)
    prompt = [chance.randrange(5, 400) for _ in range(PROMPT_TOKENS)]
    return post_bytes("/v1/completions", {
        "model": "tiny", "prompt": prompt, "max_tokens": ANSWER_TOKENS, "ignore_eos": True,
        "temperature": 0, "stream": True})


class Session:
    """Asks one thing after the other, each on a connection of its own."""

    def __init__(self, crowd, number):
        self.crowd, self.number = crowd, number
        self.socket = None

    def start(self):
        self.number = (self.number + 1) % PROMPTS
        self.buffer, self.text, self.finish = b"", b"", None
        self.heard = 0  # when its last token came
        self.tokens = 0
        self.silence = None  # the longest since a fault came; None: none did
        self.socket = socket.socket()
        self.socket.settimeout(PATIENCE_S)
        try:
            self.socket.connect(self.crowd.address)
            self.socket.sendall(request_of(self.number))
        except OSError as error:
            self.end(f"cannot ask: {error}")
            return
        self.socket.setblocking(False)
        self.crowd.selector.register(self.socket, selectors.EVENT_READ, self)

    def read(self):
        try:
            part = self.socket.recv(1 << 16)
        except BlockingIOError:
            return
        except OSError as error:
            self.end(f"broken: {error}")
            return
        if not part:
            self.end(None)
            return
        self.buffer += part
        whole, _, self.buffer = self.buffer.rpartition(b"\n")
        texts = TEXT.findall(whole)
        if texts:
            now = time.monotonic()
            if self.silence is not None:
                self.silence = max(self.silence, now - self.heard)
            self.heard = now
            self.tokens += len(texts)
            self.text += b"".join(texts)
        found = FINISH.search(whole)
        self.finish = found[1] if found else self.finish
        refused = ERROR.search(whole)
        if refused:
            self.end(refused[0].decode(errors="replace"))

    def harvest(self):
        if self.silence is not None:
            self.crowd.silences.append(self.silence)
        self.silence = None

    def end(self, error):
        self.harvest()
        if self.socket.fileno() in self.crowd.selector.get_map():
            self.crowd.selector.unregister(self.socket)
        self.socket.close()
        self.socket = None
        if error is None and self.finish is None:
            error = "the stream broke off"
        self.crowd.ended(self, error)


class Crowd:
    """All sessions, in one thread."""

    def __init__(self, address):
        self.address = address
        self.selector = selectors.DefaultSelector()
        self.right, self.lost, self.wrong, self.silences, self.again = {}, [], [], [], []
        self.answered, self.stopping = 0, True
        self.sessions = []
        for number in range(PROMPTS):  # what is right
            session = Session(self, number - 1)
            session.start()
            self.run(lambda one=session: one.socket is None)
        if self.lost or len(self.right) < PROMPTS:
            sys.exit(f"faults: no answer even alone: {self.lost}")

    def start(self, count):
        self.stopping = False
        self.sessions = [Session(self, number) for number in range(count)]
        for session in self.sessions:
            session.start()

    def stop(self):
        """Until all have their last answers."""
        self.stopping, self.again = True, []
        return self.run(lambda: all(session.socket is None for session in self.sessions))

    def ended(self, session, error):
        if error:
            self.lost.append(error)
        else:
            self.answered += 1
            said = (session.text, session.finish, session.tokens)
            if self.right.setdefault(session.number, said)[:2] != said[:2]:
                self.wrong.append((session.number, session.tokens, session.finish,
                                   len(session.text), len(os.path.commonprefix(
                                       [session.text, self.right[session.number][0]]))))
        if self.stopping:
            return
        if error:
            self.again.append((time.monotonic() + RETRY_S, session))
        else:
            session.start()

    def run(self, done, patience=PATIENCE_S):
        """Reads on until `done()`; False if it never is."""
        end = time.monotonic() + patience
        while not done():
            now = time.monotonic()
            if now > end:
                return False
            for key, _ in self.selector.select(0.05):
                if key.data.socket:
                    key.data.read()
            due = [session for when, session in self.again if when <= now]
            self.again = [entry for entry in self.again if entry[0] > now]
            for session in due:
                session.start()
        return True

    def run_for(self, seconds):
        end = time.monotonic() + seconds
        self.run(lambda: time.monotonic() >= end)


def connections_of(pid, folder):
    """Its connected sockets towards other actors, as descriptors of ours."""
    libc = ctypes.CDLL(None, use_errno=True)
    pidfd = os.pidfd_open(pid)
    try:
        for number in os.listdir(f"/proc/{pid}/fd"):
            try:
                if not os.readlink(f"/proc/{pid}/fd/{number}").startswith("socket:"):
                    continue
            except OSError:
                continue
            taken = libc.syscall(SYS_PIDFD_GETFD, pidfd, int(number), 0)
            if taken < 0:
                raise PermissionError(ctypes.get_errno(), "no leave to take a descriptor")
            with socket.socket(fileno=taken) as one:
                if one.family == socket.AF_UNIX and not one.getsockopt(socket.SOL_SOCKET,
                                                                       socket.SO_ACCEPTCONN):
                    names = (one.getsockname(), one.getpeername())
                    if any(str(name).startswith(folder) for name in names):
                        yield one
    finally:
        os.close(pidfd)


class Faults:
    def __init__(self, deployment, crowd, names):
        self.deployment, self.crowd, self.names = deployment, crowd, names
        self.folder = deployment.folder
        self.rows = {}

    def send(self, pids, number):
        for pid in pids:
            os.kill(pid, number)

    def strike(self, kind, victims, act, dies):
        """One fault; returns when who died lives again, and every session has a token since."""
        crowd = self.crowd
        crowd.run_for(SETTLE_S)
        pids = {name: row["pid"] for row in self.deployment.ps()
                for name in [row["name"]] if name in victims}
        lost, wrong, silences = len(crowd.lost), len(crowd.wrong), len(crowd.silences)
        hit = [session for session in crowd.sessions if session.socket and session.tokens]
        at = time.monotonic()
        for session in hit:
            session.silence, session.heard = 0, at
        act(pids)
        fine = not dies or crowd.run(lambda: self.live_again(pids))
        whole = time.monotonic()
        fine = crowd.run(lambda: all(session.heard > whole for session in crowd.sessions)) and fine
        for session in hit:
            session.harvest()
        lost, wrong = crowd.lost[lost:], crowd.wrong[wrong:]
        own = dies and "gateway/0" in victims
        row = self.rows.setdefault(kind, {"faults": 0, "hit": 0, "lost": 0, "own": 0, "wrong": 0,
                                          "stuck": 0, "silences": []})
        row["faults"] += 1
        row["hit"] += 0 if own else len(hit)
        row["own" if own else "lost"] += len(lost)
        row["wrong"] += len(wrong)
        row["stuck"] += not fine
        row["silences"] += [] if own else crowd.silences[silences:]
        if (lost and not own) or wrong or not fine:
            print(f"{kind} {', '.join(victims)}: lost {lost[:2]}, wrong {wrong}, goes on {fine}",
                  flush=True)

    def live_again(self, pids):
        rows = {row["name"]: row["pid"] for row in self.deployment.ps()}
        return all(rows[name] not in (0, pid) for name, pid in pids.items())

    def kill(self, victim):
        self.strike("kill", [victim], lambda pids: self.send(pids.values(), signal.SIGKILL), True)

    def stop(self, victim):
        self.strike("stop", [victim], lambda pids: self.send(pids.values(), signal.SIGSTOP), True)

    def blink(self, victim):
        def act(pids):
            self.send(pids.values(), signal.SIGSTOP)
            self.crowd.run_for(BLINK_S)
            self.send(pids.values(), signal.SIGCONT)

        self.strike("blink", [victim], act, False)

    def cut(self, victim):
        def act(pids):
            for pid in pids.values():
                for one in connections_of(pid, self.folder):
                    one.shutdown(socket.SHUT_RDWR)

        self.strike("cut", [victim], act, False)

    def pair(self, chance):
        victims = chance.sample(self.names, 2)
        signals = dict(zip(victims, chance.choices((signal.SIGKILL, signal.SIGSTOP), k=2)))

        def act(pids):
            for name, pid in pids.items():
                os.kill(pid, signals[name])

        self.strike("pair", victims, act, True)

    def pause(self):
        """The deadline for everybody's next token is after it."""
        def act(_):
            pids = list(self.deployment.processes())
            self.send(pids, signal.SIGSTOP)
            self.crowd.run_for(PAUSE_S)
            self.send(pids, signal.SIGCONT)

        before = {row["name"]: row["pid"] for row in self.deployment.ps()}
        self.strike("pause", [], act, False)
        if before != {row["name"]: row["pid"] for row in self.deployment.ps()}:
            self.rows["pause"]["stuck"] += 1
            print("pause: it ended a process", flush=True)


def remains(deployment):
    """What must be the same before and after; descriptors of ZeroMQ come back a little later."""
    rows = deployment.ps()
    life = re.compile(r"\d+$")  # shared memory has it in its name, a process the one before as well
    lives = re.compile(r"( actor \S+ \d+) .*")
    return {"processes": sorted(lives.sub(r"\1", words)
                                for words in deployment.processes().values()),
            "shared memory": sorted(life.sub("", name) for name in shared_memory()
                                    if deployment.name in name),
            "files": sorted(os.path.join(folder, name)  # but for captures, which are kept
                            for folder, _, names in os.walk(deployment.folder) for name in names
                            if "/incidents/" not in folder),
            "attempts": sum(row["attempts"] for row in rows),
            "waiting": [row["name"] for row in rows if row["depth"] > 5]}


def report(rows, sessions):
    print(f"{sessions} sessions at once; the longest silence in the middle of an answer, seconds")
    print(f"{'fault':>6} {'faults':>7} {'answers hit':>11} {'lost':>5} {'of a dead gateway':>18} "
          f"{'wrong':>6} {'stuck':>6} {'p50':>7} {'p99':>7} {'worst':>7}")
    for kind, row in rows.items():
        silences = sorted(row["silences"]) or [0]
        row.update(p50=statistics.median(silences), worst=silences[-1],
                   p99=silences[len(silences) * 99 // 100])
        print(f"{kind:>6} {row['faults']:7} {row['hit']:11} {row['lost']:5} {row['own']:18} "
              f"{row['wrong']:6} {row['stuck']:6} {row['p50']:7.2f} {row['p99']:7.2f} "
              f"{row['worst']:7.2f}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--json")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--stops", type=int, help="rounds of stop, which take long; as --rounds")
    parser.add_argument("--sessions", type=int, default=64)
    parser.add_argument("--only", help="these kinds of fault, with commas")
    parser.add_argument("--device", choices=DEVICES, default="cpu")
    a = parser.parse_args()
    os.environ["LOCKSTEP_DEVICE"] = DEVICES[a.device]
    chance = random.Random(1)
    with Deployment(os.path.join(ROOT, "topology/examples/8-devices.yaml")) as deployment:
        names = [row["name"] for row in deployment.ps() if row["name"] != "supervisor/0"]
        crowd = Crowd(deployment.address)
        before = remains(deployment)
        faults = Faults(deployment, crowd, names)
        crowd.start(a.sessions)
        crowd.run(lambda: crowd.answered > a.sessions)
        wanted = a.only.split(",") if a.only else ["kill", "blink", "stop", "cut", "pair", "pause"]
        stops = a.rounds if a.stops is None else a.stops
        for kind in wanted:
            for _ in range(stops if kind == "stop" else a.rounds):
                if kind == "pause":
                    faults.pause()
                    continue
                for victim in names:
                    faults.pair(chance) if kind == "pair" else getattr(faults, kind)(victim)
        whole = crowd.stop()
        left = crowd.run(lambda: remains(deployment) == before)
        report(faults.rows, a.sessions)
        print(f"{crowd.answered} answers; nothing left behind: {left}")
        if not left:
            after = remains(deployment)
            print({key: (before[key], after[key]) for key in before if before[key] != after[key]})
    if a.json:
        for row in faults.rows.values():
            del row["silences"]
        with open(a.json, "w", encoding="utf-8") as file:
            json.dump({"title": "faults", "sessions": a.sessions, "device": a.device,
                       "rows": faults.rows, "answers": crowd.answered}, file, indent=1)
    bad = sum(row["lost"] + row["wrong"] + row["stuck"] for row in faults.rows.values())
    sys.exit(bool(bad or not whole or not left))


if __name__ == "__main__":
    main()
