"""A checkpoint with a file that is missing, spoilt or not of this model: `check`, `up` and `run`
say which file and where in it, and nothing starts."""
import json
import os
import shutil
import subprocess
import tempfile
import unittest

LOCKSTEP = os.path.join(os.environ.get("LOCKSTEP_BUILD", "build/release"), "lockstep")
EXIT_OK, EXIT_FAILED, EXIT_BAD_FILE, EXIT_NO_START = 0, 1, 3, 4
TOPOLOGY = """lockstep: 1
model: m
limits: {context_tokens: 1024}
prefill: [{pages: 32}]
decode: [{pages: 32}]
"""


def lockstep(*arguments, **environment):
    return subprocess.run([LOCKSTEP, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False, timeout=60, env={**os.environ, **environment})


class Checkpoint(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = temporary.name
        self.model = os.path.join(self.folder, "m")
        shutil.copytree("model/tiny", self.model)
        self.topology = os.path.join(self.folder, "t.yaml")
        with open(self.topology, "w", encoding="ascii") as file:
            file.write(TOPOLOGY)

    def path(self, name):
        return os.path.join(self.model, name)

    def read(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def write(self, name, content):
        with open(self.path(name), "wb") as file:
            file.write(content)

    def change(self, name, **fields):
        self.write(name, json.dumps({**json.loads(self.read(name)), **fields}).encode())

    def refused(self, *words):
        up = ("up", self.topology, "--name", "checkpoint-test", "--port", "0", "--detach")
        for arguments in (("check", self.topology), up):
            run = lockstep(*arguments, XDG_RUNTIME_DIR=self.folder)
            self.assertEqual(run.returncode, EXIT_BAD_FILE, run.stdout)
            for word in words:
                self.assertIn(word, run.stdout)
            self.assertEqual(len(run.stdout.splitlines()), 1, run.stdout)
        self.assertFalse(os.path.exists(os.path.join(self.folder, "lockstep")))

    def test_as_it_is_it_is_good(self):
        run = lockstep("check", self.topology)
        self.assertEqual(run.returncode, EXIT_OK, run.stdout)
        self.assertIn("good", run.stdout)

    def test_files_that_are_cut(self):
        for name, length, place in (("chat_blocks.json", 40, "at byte 25"),
                                    ("generation_config.json", 20, "generation_config.json:2:"),
                                    ("tokenizer.json", 3000, "line 161"),
                                    ("config.json", 200, "config.json:10:15"),
                                    ("model.safetensors", 20000, "20000 bytes")):
            with self.subTest(name=name):
                whole = self.read(name)
                self.write(name, whole[:length])
                self.refused(name, place)
                self.write(name, whole)

    def test_files_that_are_no_json(self):
        for name in ("chat_blocks.json", "generation_config.json", "tokenizer.json", "config.json"):
            whole = self.read(name)
            for content in (b"", b"\xef\xbb\xbf" + whole, whole.replace(b'"', b"'"), b"[]",
                            b"\0" * 9, whole.decode().encode("utf-16"), whole + whole):
                with self.subTest(name=name, content=content[:20]):
                    self.write(name, content)
                    self.refused(name)
            self.write(name, whole)

    def test_files_that_are_missing(self):
        for name in ("chat_blocks.json", "tokenizer.json", "config.json"):
            with self.subTest(name=name):
                whole = self.read(name)
                os.remove(self.path(name))
                self.refused(name)
                os.mkdir(self.path(name))  # a folder is no file
                self.refused(name)
                os.rmdir(self.path(name))
                self.write(name, whole)

    def test_a_chat_block_that_is_missing_or_no_text(self):
        whole = self.read("chat_blocks.json")
        for key in json.loads(whole):
            for value in (None, 1, ["x"]):
                with self.subTest(key=key, value=value):
                    self.change("chat_blocks.json", **{key: value})
                    self.refused("chat_blocks.json", key)
            self.write("chat_blocks.json", whole)

    def test_files_that_are_not_of_this_model(self):
        whole = self.read("tokenizer.json")
        for mark in ("<｜User｜>", "</think>", "｜DSML｜"):
            with self.subTest(mark=mark):
                self.write("tokenizer.json", whole.replace(mark.encode(), b"<|other|>"))
                self.refused("tokenizer.json", mark)
        self.write("tokenizer.json", whole)
        for name, fields, word in (("generation_config.json", {"eos_token_id": 1536}, "1536"),
                                   ("generation_config.json", {"eos_token_id": "x"}, "eos_token"),
                                   ("config.json", {"bos_token_id": 7}, "bos_token_id"),
                                   ("config.json", {"vocab_size": 1400}, "1400")):
            with self.subTest(fields=fields):
                whole = self.read(name)
                self.change(name, **fields)
                self.refused(name if word != "1400" else "embed.weight", word)
                self.write(name, whole)

    def test_without_weights_it_can_be_planned(self):
        os.remove(self.path("model.safetensors"))
        run = lockstep("check", self.topology)
        self.assertEqual(run.returncode, EXIT_OK, run.stdout)
        self.assertIn("has no weights: it can be planned, not started", run.stdout)
        self.assertEqual(lockstep("plan", self.topology).returncode, EXIT_OK)
        run = lockstep("up", self.topology, XDG_RUNTIME_DIR=self.folder)
        self.assertEqual(run.returncode, EXIT_BAD_FILE, run.stdout)
        self.assertIn("it can be planned, not started", run.stdout)

    def test_a_path_that_is_too_long_says_so(self):
        with open(self.topology, "w", encoding="ascii") as file:
            file.write(TOPOLOGY.replace("model: m", "model: /" + "m" * 1099))
        self.refused("of 1100 bytes, at most 1023 are possible")

    def test_run_answers_nothing_from_a_spoilt_file(self):
        self.write("chat_blocks.json", b"{")
        run = lockstep("run", self.model, "Hello")
        self.assertNotEqual(run.returncode, EXIT_OK)
        self.assertIn("chat_blocks.json: not JSON", run.stdout)

    def test_devices_that_there_are_not(self):
        for device in ("gpu", "symbolic:", "symbolic:x", "Symbolic", "cpu "):
            with self.subTest(device=device):
                run = lockstep("up", self.topology, LOCKSTEP_DEVICE=device,
                               XDG_RUNTIME_DIR=self.folder)
                self.assertEqual(run.returncode, EXIT_NO_START)
                self.assertIn(f"LOCKSTEP_DEVICE is '{device}'", run.stdout)

    def test_examples_that_cannot_start_here_say_so(self):
        for name, words in (("8-gpus", "device: cuda, which this"), ("64-devices", "8 hosts")):
            run = lockstep("up", f"topology/examples/{name}.yaml", XDG_RUNTIME_DIR=self.folder)
            self.assertEqual(run.returncode, EXIT_NO_START)
            self.assertIn(words, run.stdout)


if __name__ == "__main__":
    unittest.main()
