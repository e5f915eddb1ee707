"""up, ps and down as a deployer meets them: what is refused, what dies, and that nothing stays."""
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import unittest
import urllib.error
import urllib.request

from deployment import LOCKSTEP, Deployment, await_true

TOPOLOGY = "topology/examples/default.yaml"
EXIT_USAGE, EXIT_BAD_FILE, EXIT_NO_START, EXIT_NOT_RUNNING = 2, 3, 4, 5


def ask(url, question="What is 4 times 2?"):
    """Asks again as long as the deployment says that it cannot take a request now."""
    body = {"model": "tiny", "messages": [{"role": "user", "content": question}]}
    request = urllib.request.Request(url + "/v1/chat/completions", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})

    def answer():
        try:
            with urllib.request.urlopen(request, timeout=120) as reply:
                return json.load(reply)["choices"][0]["message"]["content"]
        except urllib.error.HTTPError as error:
            if error.code not in (429, 503) or not error.headers["Retry-After"]:
                raise
        except ConnectionError:
            pass
        except urllib.error.URLError as error:
            if not isinstance(error.reason, ConnectionError):  # its gateway is not back yet
                raise
        return None

    return await_true(answer, "no answer")


def lockstep(*arguments):
    return subprocess.run([LOCKSTEP, *arguments], capture_output=True, text=True, check=False,
                          timeout=60)


class Lifecycle(unittest.TestCase):
    def test_two_run_beside_each_other_and_leave_nothing(self):
        with Deployment(TOPOLOGY) as one, Deployment(TOPOLOGY) as two:
            self.assertNotEqual(one.url, two.url)
            self.assertEqual(ask(one.url), "4 * 2 = 8.")
            self.assertEqual(ask(two.url), "4 * 2 = 8.")
            one_pids = {row["pid"] for row in one.ps()}
            self.assertFalse(one_pids & {row["pid"] for row in two.ps()})

    def test_a_name_that_begins_with_another_is_left_alone(self):
        with Deployment(TOPOLOGY) as one, Deployment(TOPOLOGY, name=one.name + "-2") as two:
            one.down()
            self.assertEqual(ask(two.url), "4 * 2 = 8.")
            os.kill(two.pid("decode/0"), signal.SIGKILL)  # what comes back maps everything anew
            self.assertEqual(ask(two.url), "4 * 2 = 8.")
            one.up()

    def test_what_cannot_come_up_says_why(self):
        deployment = Deployment("topology/examples/8-devices.yaml")
        self.addCleanup(deployment.remove)
        run = subprocess.run(
            ["bash", "-c", 'ulimit -n 40; exec "$@"', "-", LOCKSTEP, "up", deployment.topology,
             "--name", deployment.name, "--port", "0"], env=deployment.environment(), text=True,
            check=False, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            timeout=120)
        self.assertEqual(run.returncode, EXIT_NO_START, run.stdout)
        self.assertRegex(run.stdout, r"(?s)did not come up:\n.*Too many open files")
        await_true(lambda: not deployment.processes(), "a child outlives its parent")

    def test_every_actor_is_shown_and_lives(self):
        with Deployment(TOPOLOGY) as deployment:
            rows = deployment.ps()
            names = {row["name"] for row in rows}
            for name in ("supervisor/0", "scheduler/0", "monitor/0", "gateway/0", "prefill/0",
                         "decode/0", "transfer/0", "prefill/0/rank/0", "decode/0/rank/0"):
                self.assertIn(name, names)
            living = deployment.processes()
            self.assertTrue(all(row["pid"] in living for row in rows))

    def kill_supervisor(self, deployment):
        killed = deployment.pid("supervisor/0")
        ends = [os.pidfd_open(pid) for pid in deployment.processes() if pid != killed]
        os.kill(killed, signal.SIGKILL)
        for end in ends:  # each must end by itself
            self.assertTrue(select.select([end], [], [], 60)[0], "a child outlives its parent")
            os.close(end)

    def test_the_supervisors_death_ends_the_run_and_down_or_a_next_up_cleans(self):
        with Deployment(TOPOLOGY) as deployment:
            self.kill_supervisor(deployment)
            deployment.up()
            self.assertEqual(ask(deployment.url), "4 * 2 = 8.")
            self.kill_supervisor(deployment)
            self.assertIn("cleared", deployment.down().stdout)
            self.assertEqual(deployment.leftovers(), [])
            deployment.up()

    def test_a_stopped_supervisor_is_taken_down_too(self):
        with Deployment(TOPOLOGY) as deployment:
            os.kill(deployment.pid("supervisor/0"), signal.SIGSTOP)
            self.assertIn("is down", deployment.down().stdout)
            self.assertEqual(deployment.leftovers(), [])
            deployment.up()

    def test_who_loses_its_directory_ends_and_nobody_shares_its_memory(self):
        with Deployment(TOPOLOGY) as deployment:
            processes = set(deployment.processes())
            shutil.rmtree(os.path.join(deployment.folder, "lockstep", deployment.name))

            def up():
                try:
                    return deployment.up()
                except AssertionError as error:  # as long as it ends
                    self.assertIn("runs already", str(error))
                    return None

            await_true(up, "its name stays taken")
            self.assertFalse(processes & set(deployment.processes()))
            self.assertEqual(ask(deployment.url), "4 * 2 = 8.")

    def test_who_looks_keeps_nobody_from_starting(self):
        with Deployment(TOPOLOGY) as deployment:
            looks = subprocess.Popen(
                ["bash", "-c", 'while :; do "$@" >/dev/null 2>&1; done', "-", LOCKSTEP, "ps",
                 deployment.name], start_new_session=True,
                env={**deployment.environment(), "LOCKSTEP_E2E": "who looks"})
            try:
                for _ in range(3):
                    self.kill_supervisor(deployment)
                    deployment.up()
            finally:
                os.killpg(looks.pid, signal.SIGKILL)
                looks.wait()

    def test_what_cannot_start_says_why(self):
        for keys, words in (("model: nowhere\nprefil: [{tp: 1}]", (".yaml:3:1", "prefill")),
                            ("model: no/such/model\nprefill: [{tp: 1}]", ("no/such/model",))):
            with self.subTest(keys=keys), tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
                file.write(f"lockstep: 1\n{keys}\ndecode: [{{tp: 1}}]\n")
                file.flush()
                run = lockstep("up", file.name)
                self.assertEqual(run.returncode, EXIT_BAD_FILE)
                for word in words:
                    self.assertIn(word, run.stdout + run.stderr)

    def test_another_address_is_where_commands_look(self):
        with Deployment(f"lockstep: 1\nmodel: {os.path.abspath('model/tiny')}\n"
                        "gateway: [{listen: 127.0.0.2, admin_listen: 127.0.0.3}]\n"
                        "prefill: [{pages: 16}]\ndecode: [{pages: 16, slots: 4}]\n"
                        "limits: {context_tokens: 2048}\n") as deployment:
            self.assertIn("http://127.0.0.2:", deployment.url)
            self.assertEqual(ask(deployment.url), "4 * 2 = 8.")
            run = deployment.command("abort", "chatcmpl-none", check=False)
            self.assertIn("none is open", run.stdout)
            chat = subprocess.run([LOCKSTEP, "chat"], env=deployment.environment(), text=True,
                                  input="Hi\n", capture_output=True, check=True, timeout=60)
            self.assertIn("Hello", chat.stdout)

    def test_a_name_in_use_says_so(self):
        with Deployment(TOPOLOGY) as deployment:
            run = deployment.command("up", TOPOLOGY, "--name", deployment.name, "--port", "0",
                                     "--detach", check=False)
            self.assertEqual(run.returncode, EXIT_NO_START)
            self.assertIn(f"{deployment.name} runs already", run.stdout)
            self.assertEqual(ask(deployment.url), "4 * 2 = 8.")

    def test_localhost_is_an_address(self):
        with Deployment(f"lockstep: 1\nmodel: {os.path.abspath('model/tiny')}\n"
                        "gateway: [{listen: localhost, admin_listen: localhost}]\n"
                        "prefill: [{pages: 16}]\ndecode: [{pages: 16, slots: 4}]\n"
                        "limits: {context_tokens: 2048}\n") as deployment:
            self.assertIn("http://127.0.0.1:", deployment.url)

    def test_taken_ports_of_the_file_say_so_in_one_line(self):
        for key in ("port", "admin_port"):
            with self.subTest(key=key), socket.socket() as taken:
                taken.bind(("127.0.0.1", 0))
                taken.listen()
                port = taken.getsockname()[1]
                other = "port" if key == "admin_port" else "admin_port"
                with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
                    file.write(f"lockstep: 1\nmodel: {os.path.abspath('model/tiny')}\n"
                               f"gateway: [{{{key}: {port}, {other}: {port ^ 1}}}]\n"
                               "prefill: [{pages: 16}]\ndecode: [{pages: 16, slots: 4}]\n"
                               "limits: {context_tokens: 2048}\n")
                    file.flush()
                    run = lockstep("up", file.name, "--name", "taken-port")
                self.assertEqual(run.returncode, EXIT_NO_START)
                self.assertEqual(len(run.stderr.splitlines()), 1, run.stderr)
                self.assertIn(f"127.0.0.1:{port}: Address already in use (--port", run.stderr)

    def test_a_taken_port_says_so(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            self.refuses_port(taken.getsockname()[1])
        with Deployment(TOPOLOGY) as other:
            self.refuses_port(int(other.url.rsplit(":", 1)[1]))

    def refuses_port(self, port):
        deployment = Deployment(TOPOLOGY)
        run = deployment.command("up", TOPOLOGY, "--name", deployment.name, "--port", str(port),
                                 "--detach", check=False)
        self.assertEqual(run.returncode, EXIT_NO_START)
        self.assertIn(str(port), run.stdout)
        left = deployment.leftovers()
        deployment.remove()
        self.assertEqual(left, [])

    def test_up_ends_well_when_it_is_taken_down(self):
        deployment = Deployment(TOPOLOGY)
        self.addCleanup(deployment.remove)
        up = subprocess.Popen([LOCKSTEP, "up", TOPOLOGY, "--name", deployment.name, "--port", "0"],
                              env=deployment.environment(), stdin=subprocess.DEVNULL, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        ready = up.stdout.readline()
        self.assertRegex(ready, r"is ready: http://127.0.0.1:\d+/v1 .*administration on 127.0.0.1:")
        self.assertIn(deployment.run_path(), up.stdout.readline())
        deployment.down()
        said, _ = up.communicate(timeout=60)
        self.assertEqual(up.returncode, 0, said)
        self.assertEqual(said.splitlines()[-1], f"{deployment.name} was taken down")

    def test_ps_says_where_it_listens_and_where_its_files_are(self):
        with Deployment(TOPOLOGY, "--journal") as deployment:
            listens, files = deployment.command("ps", deployment.name).stdout.splitlines()[:2]
            self.assertIn(f"clients 127.0.0.1:{deployment.address[1]}", listens)
            self.assertIn(deployment.admin_url().removeprefix("http://"), listens)
            self.assertIn(deployment.run_path() + ": log, journal/, incidents", files)

    def test_what_is_to_be_kept_stays_until_it_is_cleared(self):
        deployment = Deployment(TOPOLOGY, "--journal")
        self.addCleanup(deployment.remove)
        deployment.up()
        self.assertIn(deployment.run_path(), deployment.command("down", "--keep").stdout)
        self.assertEqual(deployment.processes(), {})
        self.assertEqual(deployment.new_shared_memory(), [])
        self.assertIn("GATEWAY-READY", deployment.log())
        journal = os.listdir(deployment.run_path("journal"))
        self.assertTrue(any("decode" in name for name in journal), journal)
        deployment.command("replay", "--print", deployment.run_path("journal"))
        for arguments in (("ps",), ("ps", deployment.name)):
            run = deployment.command(*arguments, check=False)
            self.assertEqual(run.returncode, EXIT_NOT_RUNNING)
            self.assertIn("lockstep down", run.stdout)
            self.assertIn(deployment.name, run.stdout)
        self.assertIn("cleared", deployment.command("down").stdout)
        self.assertEqual(deployment.leftovers(), [])

    def test_after_a_killed_supervisor_ps_says_what_is_left_and_down_clears_it(self):
        deployment = Deployment(TOPOLOGY)
        self.addCleanup(deployment.remove)
        deployment.up()
        self.kill_supervisor(deployment)
        run = deployment.command("ps", check=False)
        self.assertEqual(run.returncode, EXIT_NOT_RUNNING)
        self.assertIn(f"clears: {deployment.name}", run.stdout)
        self.assertIn("cleared", deployment.command("down").stdout)
        self.assertEqual(deployment.leftovers(), [])

    def test_where_nothing_runs_commands_say_so(self):
        with tempfile.TemporaryDirectory() as folder:
            os.makedirs(os.path.join(folder, "lockstep"), mode=0o700)
            for command in ("down", "ps", "tap", "drain prefill/0", "chat"):
                run = subprocess.run(
                    [LOCKSTEP, *command.split()], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                    stdin=subprocess.DEVNULL, text=True, check=False, timeout=60,
                    env={**os.environ, "XDG_RUNTIME_DIR": folder})
                self.assertEqual(run.returncode, EXIT_NOT_RUNNING, run.stdout)
                self.assertIn("no deployment runs", run.stdout)

    def test_a_long_name_of_a_file_is_cut(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "b" * 50 + ".yaml")
            shutil.copy(TOPOLOGY, path)
            with open(path, encoding="ascii") as file:
                text = file.read().replace("../../model/tiny", os.path.abspath("model/tiny"))
            with open(path, "w", encoding="ascii") as file:
                file.write(text)
            run = lockstep("plan", path)
            self.assertIn("deployment " + "b" * 31 + ",", run.stdout)

    def test_exit_codes_of_mistakes(self):
        for arguments, code in ((["down", "nobody-of-this-name"], EXIT_NOT_RUNNING),
                                (["ps", "nobody-of-this-name"], EXIT_NOT_RUNNING),
                                (["up"], EXIT_USAGE), (["up", TOPOLOGY, "--prot", "1"], EXIT_USAGE),
                                (["up", "no/such/file.yaml"], EXIT_BAD_FILE)):
            run = lockstep(*arguments)
            self.assertEqual(run.returncode, code, f"{arguments}\n{run.stdout}{run.stderr}")
            self.assertTrue(run.stderr + run.stdout)


if __name__ == "__main__":
    unittest.main()
