"""What a parent hands down may be odd: closed or full streams, signals, umask, limits, another
user's folder, no shared memory. A deployment comes up all the same, or says why and leaves none."""
import json
import os
import resource
import signal
import subprocess
import tempfile
import unittest

from deployment import LOCKSTEP, Deployment, await_true

TOPOLOGY = "topology/examples/default.yaml"
EXIT_FAILED, EXIT_NO_START = 1, 4
ODD_SIGNALS = (signal.SIGCHLD, signal.SIGPIPE, signal.SIGTERM, signal.SIGUSR1)


def close(*descriptors):
    def hand_down():
        for descriptor in descriptors:
            os.close(descriptor)
    return hand_down


def block_and_ignore_signals():
    signal.pthread_sigmask(signal.SIG_SETMASK, range(1, signal.NSIG))
    for number in ODD_SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def limit(which, amount):
    return lambda: resource.setrlimit(which, (amount, amount))


class Inherited(unittest.TestCase):
    def setUp(self):
        self.deployment = Deployment(TOPOLOGY)
        self.addCleanup(self.deployment.remove)

    def up(self, hand_down=None, *options, stdout=None, command=()):
        """`up --detach` of a parent like that; returns its exit code and what it said."""
        with tempfile.TemporaryFile("w+") as output:
            run = subprocess.run(
                [*command, LOCKSTEP, "up", TOPOLOGY, "--name", self.deployment.name, "--port", "0",
                 "--detach", *options], env=self.deployment.environment(), check=False,
                preexec_fn=hand_down, stdin=subprocess.DEVNULL, restore_signals=False,
                stdout=stdout or output, stderr=output, timeout=120)
            output.seek(0)
            return run.returncode, output.read()

    def works(self, code, said):
        self.assertEqual(code, 0, said)
        self.assertTrue(all(row["pid"] for row in self.deployment.ps()))
        again, _ = self.up()
        self.assertEqual(again, EXIT_NO_START, "a second one has its name")
        self.assertIn("is down", self.deployment.down().stdout)
        self.assertEqual(self.deployment.leftovers(), [])

    def fails(self, code, said, words):
        self.assertEqual(code, EXIT_NO_START, said)
        self.assertIn(words, said)
        self.nothing_stays()

    def nothing_stays(self):
        await_true(lambda: not self.deployment.leftovers(),
                   lambda: "\n".join(self.deployment.leftovers()))

    def test_closed_standard_streams(self):
        for closed in ((0,), (1,), (2,), (0, 1, 2)):
            with self.subTest(closed=closed):
                self.works(*self.up(close(*closed)))

    def test_signals(self):
        self.works(*self.up(block_and_ignore_signals))

    def test_umask(self):
        self.works(*self.up(lambda: os.umask(0o777)))

    def test_a_small_stack(self):
        for kib in (512, 64):
            with self.subTest(kib=kib):
                self.works(*self.up(limit(resource.RLIMIT_STACK, kib << 10)))

    def test_limits_that_are_too_low_are_named(self):
        for which, amount, words in ((resource.RLIMIT_FSIZE, 4096, "File too large"),
                                     (resource.RLIMIT_FSIZE, 100_000, "File too large"),
                                     (resource.RLIMIT_NOFILE, 20, "Too many open files")):
            with self.subTest(which=which, amount=amount):
                self.fails(*self.up(limit(which, amount)), words)

    def test_whom_nobody_hears_it_does_not_stay(self):
        reader, writer = os.pipe()
        os.close(reader)
        with open(writer, "w", encoding="ascii") as broken, open("/dev/full", "w") as full:
            for output in (broken, full):
                with self.subTest(output=output.name):
                    code, said = self.up(stdout=output)
                    self.assertEqual(code, EXIT_FAILED, said)
                    self.assertIn("cannot write to standard output", said)
                    self.nothing_stays()

    def test_a_full_disk_is_a_failure(self):
        with open("/dev/full", "w", encoding="ascii") as full:
            for arguments in (("plan", TOPOLOGY), ("check", TOPOLOGY), ("help",)):
                run = subprocess.run([LOCKSTEP, *arguments], stdout=full, stderr=subprocess.PIPE,
                                     text=True, check=False, timeout=60)
                self.assertEqual(run.returncode, EXIT_FAILED, arguments)
                self.assertIn("standard output", run.stderr)

    def test_nohup(self):
        def ignore():
            signal.signal(signal.SIGHUP, signal.SIG_IGN)

        with tempfile.TemporaryFile("w+") as output:
            up = subprocess.Popen(
                [LOCKSTEP, "up", TOPOLOGY, "--name", self.deployment.name, "--port", "0"],
                env=self.deployment.environment(), preexec_fn=ignore, stdin=subprocess.DEVNULL,
                stdout=output, stderr=output)

            def said():
                output.seek(0)
                return output.read()

            await_true(lambda: "is ready" in said(), said)
            up.send_signal(signal.SIGHUP)
            self.assertTrue(all(row["pid"] for row in self.deployment.ps()))
            up.send_signal(signal.SIGTERM)
            self.assertEqual(up.wait(timeout=60), 0, said())
        self.nothing_stays()

    def test_a_folder_of_another_user_is_left_alone(self):
        if os.getuid() != 0:
            self.skipTest("only root can give a folder away")
        os.chown(self.deployment.folder, 12345, 12345)
        code, said = self.up()
        self.addCleanup(self.deployment.command, "down", self.deployment.name, check=False)
        self.assertEqual(code, 0, said)
        self.assertEqual(os.listdir(self.deployment.folder), [])
        self.assertIn("is down", self.deployment.down().stdout)

    def test_no_shared_memory(self):
        def mounts(script):
            return ["unshare", "-rm", "sh", "-c", f"{script} && exec \"$@\"", "-"]

        size = "mount -t tmpfs -o size=8m none /dev/shm"
        if subprocess.run([*mounts(size), "true"], check=False, capture_output=True).returncode:
            self.skipTest("no mount namespaces")
        code, said = self.up(command=mounts(size))
        self.fails(code, said, "8.39 MB free")
        self.assertEqual(len(said.splitlines()), 1, said)
        self.fails(*self.up(command=mounts("mount --bind /proc/self/attr /dev/shm")), "/dev/shm")

    def test_what_plan_says_of_shared_memory_is_what_is_taken(self):
        for topology in (TOPOLOGY, "topology/examples/8-devices.yaml"):
            with self.subTest(topology=topology), Deployment(topology) as deployment:
                plan = json.loads(deployment.command("plan", topology, "--json").stdout)
                needed = plan["shared_memory"]["local"]
                taken = sum(os.stat(os.path.join("/dev/shm", name)).st_size
                            for name in deployment.new_shared_memory())
                self.assertLessEqual(taken, needed)
                self.assertGreater(taken, 0.9 * needed)


if __name__ == "__main__":
    unittest.main()
