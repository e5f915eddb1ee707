"""`lockstep chat` as a person types: answers, tools, what it refuses, and Ctrl-C in a terminal."""
import contextlib
import json
import os
import pty
import select
import signal
import socket
import subprocess
import tempfile
import threading
import unittest

from deployment import LOCKSTEP, Deployment, await_true

TOPOLOGY = "topology/examples/default.yaml"
TOOLS = "topology/examples/tools.json"
EXIT_FAILED, EXIT_USAGE, EXIT_BAD_FILE, EXIT_NOT_RUNNING = 1, 2, 3, 5


def setUpModule():
    global deployment
    deployment = unittest.enterModuleContext(Deployment(TOPOLOGY))


def chat(lines, *options, url=None):
    return subprocess.run([LOCKSTEP, "chat", "--url", url or deployment.url, *options], input=lines,
                          capture_output=True, text=True, check=False, timeout=60)


class Piped(unittest.TestCase):
    def test_lines_are_questions_of_one_conversation(self):
        run = chat("What is 4 times 2?\n\nWhat is Lockstep?\n")
        self.assertEqual(run.stdout, "4 * 2 = 8.\nLockstep is a serving engine in C for "
                                     "DeepSeek-V4-class language models.\n")
        self.assertEqual((run.returncode, run.stderr), (0, ""))

    def test_by_name(self):
        run = deployment.command("chat", deployment.name)
        self.assertEqual(run.stdout, "")

    def test_reasoning_comes_before_the_answer(self):
        run = chat("What is Lockstep?", "--thinking")
        self.assertRegex(run.stdout, r"^thinking: .+\n\nLockstep is a serving engine")

    def test_the_next_line_is_the_result_of_a_call(self):
        run = chat('What is the weather in Paris?\n{"temperature": 21, "sky": "clear"}\n'
                   "What is 4 times 2?\n", "--tools", TOOLS)
        lines = run.stdout.splitlines()
        self.assertEqual(lines[0], '-> get_weather {"city": "Paris"}')
        self.assertIn("21", lines[1])
        self.assertEqual(len(lines), 3)

    def test_each_call_of_one_answer_gets_a_line(self):
        run = chat("What is the weather in Paris and Rome?\n" '{"temperature": 21}\n'
                   '{"temperature": 25}\n' "What is 17 plus 25?\n", "--tools", TOOLS)
        lines = run.stdout.splitlines()
        self.assertEqual(lines[0], '-> get_weather {"city": "Paris"}')
        self.assertEqual(lines[1], '-> get_weather {"city": "Rome"}')
        self.assertRegex(lines[2], "21.*25")
        self.assertEqual(lines[3:], ["17 + 25 = 42."])

    def test_without_tools_it_says_so(self):
        run = chat("What is the weather in Paris?\n")
        self.assertEqual(run.stdout, "I have no tool for that.\n")

    def test_what_the_server_refuses_fails_and_the_rest_goes_on(self):
        run = chat("word " * 20000 + "\nWhat is 4 times 2?\n")
        self.assertEqual(run.returncode, EXIT_FAILED)
        self.assertIn("8192 tokens", run.stderr)
        self.assertEqual(run.stdout, "4 * 2 = 8.\n")

    def test_refusals_before_the_first_question(self):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            file.write('{"no": "tools"}')
            file.flush()
            self.assertEqual(chat("", "--tools", file.name).returncode, EXIT_BAD_FILE)
        for url, code in (("https://127.0.0.1:1", EXIT_USAGE), ("http://127.0.0.1:x", EXIT_USAGE),
                          ("http://", EXIT_USAGE), ("http://127.0.0.1:1", EXIT_NOT_RUNNING)):
            with self.subTest(url=url):
                run = chat("", url=url)
                self.assertEqual(run.returncode, code)
                self.assertNotEqual(run.stderr, "")
        self.assertEqual(chat("", "--colour").returncode, EXIT_USAGE)


class Hostile(unittest.TestCase):
    """A server that says anything it likes."""

    def answers(self, stream):
        """What chat says when the server streams these bytes as its answer."""
        models = b'HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n{"data": [{"id": "m"}]}'
        listener = socket.create_server(("127.0.0.1", 0))

        def serve():
            for answer in (models, stream):
                connection, _ = listener.accept()
                with connection, contextlib.suppress(ConnectionError):  # it may not read it all
                    read = b""
                    while b"\r\n\r\n" not in read:
                        read += connection.recv(65536)
                    connection.sendall(answer)
                    connection.shutdown(socket.SHUT_WR)
                    while connection.recv(65536):
                        pass

        thread = threading.Thread(target=serve)
        thread.start()
        run = chat("hi\n", url=f"http://127.0.0.1:{listener.getsockname()[1]}/v1/")
        thread.join()
        listener.close()
        return run

    @staticmethod
    def event(text):
        chunk = {"choices": [{"delta": {"content": text}}]}
        return b"data: " + json.dumps(chunk).encode() + b"\n\n"

    def test_chunks_may_be_cut_anywhere(self):
        body = self.event("one ") + b": a comment\r\n" + self.event("two") + b"data: [DONE]\n\n"
        chunks = b"".join(b"1;x=y\r\n" + body[i:i + 1] + b"\r\n" for i in range(len(body)))
        run = self.answers(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ntransfer-encoding: "
                           b"Chunked\r\ncontent-type: text/event-stream; charset=utf-8\r\n\r\n" +
                           chunks + b"0\r\nTrailer: x\r\n\r\n")
        self.assertEqual((run.stdout, run.returncode), ("one two\n", 0), run.stderr)

    def test_control_characters_do_not_reach_the_terminal(self):
        run = self.answers(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" +
                           self.event("a\x1b[2Jb\x9bc\td"))
        self.assertEqual(run.stdout, "a\ufffd[2Jb\ufffdc\td\n")

    def test_what_is_no_answer_fails(self):
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
        for stream in (b"", b"SSH-2.0-x\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
                       b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort", b"x" * 100000,
                       head + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
                       head + b"Transfer-Encoding: gzip\r\n\r\nzz\r\n",
                       head + b"\r\ndata: {no json\n\n", head + b"\r\ndata: " + b"x" * (9 << 20),
                       head + b'\r\ndata: {"error": {"message": "gone"}}\n\n',
                       b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{}",
                       b"HTTP/1.1 503 No\r\n\r\n<html>"):
            with self.subTest(stream=stream[:60]):
                run = self.answers(stream)
                self.assertEqual(run.returncode, EXIT_FAILED)
                self.assertIn("lockstep chat: ", run.stderr)


class Terminal(unittest.TestCase):
    def setUp(self):
        self.master, slave = pty.openpty()
        # A session with this terminal, so that a typed Ctrl-C becomes a signal.
        self.process = subprocess.Popen(
            ["setsid", "-c", LOCKSTEP, "chat", "--url", deployment.url], stdin=slave, stdout=slave,
            stderr=slave)
        os.close(slave)
        self.seen = b""

    def tearDown(self):
        self.process.kill()
        self.process.wait()
        os.close(self.master)

    def expect(self, text):
        """Reads until `text` was seen; what stands after it is kept."""
        while text not in self.seen:
            self.assertTrue(select.select([self.master], [], [], 60)[0], self.seen)
            self.seen += os.read(self.master, 65536)
        before, _, self.seen = self.seen.partition(text)
        return before

    def expect_open(self, count):
        """Looks until so many requests are open at the server."""
        await_true(lambda: deployment.metrics()["lockstep_requests_open"] == count,
                   f"not {count} requests open")

    def write(self, text):
        os.write(self.master, text)

    def test_a_conversation(self):
        self.expect(b"Ctrl-D ends.")
        self.expect(b"> ")
        self.write(b"What is 4 times 2?\n")
        self.expect(b"4 * 2 = 8.")
        self.expect(b"tokens, the first after")
        self.expect(b"> ")
        self.write(b"half a quest\x03")  # Ctrl-C drops the line only
        self.expect(b"> ")
        self.write(b"\x04")
        self.assertEqual(self.process.wait(timeout=60), 0)

    def test_ctrl_c_ends_the_answer_only(self):
        os.kill(deployment.pid("decode/0/rank/0"), signal.SIGSTOP)
        try:
            self.expect(b"> ")
            self.write(b"What is Lockstep?\n")
            self.expect_open(1)
            self.write(b"\x03")
            self.expect(b"(stopped)")
            self.expect_open(0)
        finally:
            os.kill(deployment.pid("decode/0/rank/0"), signal.SIGCONT)
        self.expect(b"> ")
        self.write(b"What is 4 times 2?\n")
        self.expect(b"4 * 2 = 8.")


if __name__ == "__main__":
    unittest.main()
