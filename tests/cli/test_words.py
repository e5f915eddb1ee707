"""What `lockstep` says to whoever does not know it yet: help, the name that was probably meant,
what is wrong with a command line in a line, and the commands of README.md as they stand there."""
import os
import re
import shlex
import subprocess
import tempfile
import unittest

LOCKSTEP = os.path.join(os.environ.get("LOCKSTEP_BUILD", "build/release"), "lockstep")
COMMANDS = ("check plan up down drain undrain ps tap probe chat abort bench run verify replay "
            "sim").split()
EXIT_OK, EXIT_FAILED, EXIT_USAGE = 0, 1, 2
HINT = "says how it is called"


def lockstep(*arguments):
    return subprocess.run([LOCKSTEP, *arguments], stdin=subprocess.DEVNULL, text=True, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300)


class Help(unittest.TestCase):
    def test_of_all(self):
        for arguments, code in (((), EXIT_USAGE), (("help",), EXIT_OK), (("--help",), EXIT_OK)):
            run = lockstep(*arguments)
            self.assertEqual(run.returncode, code)
            self.assertIn("usage: lockstep COMMAND", run.stdout)
            for command in COMMANDS:
                self.assertIn(f"\n  {command} ", run.stdout)

    def test_of_each(self):
        for command in COMMANDS:
            for arguments in (("help", command), (command, "--help"), (command, "x", "-h")):
                with self.subTest(arguments=arguments):
                    run = lockstep(*arguments)
                    self.assertEqual(run.returncode, EXIT_OK)
                    self.assertTrue(run.stdout.startswith(f"usage: lockstep {command} "))

    def test_every_option_of_the_sources_has_a_meaning_and_a_default(self):
        """Those that getopt or a comparison in the command's own file knows, and none besides."""
        for command in COMMANDS:
            path = "sim/main.c" if command == "sim" else f"cli/{command}.c"
            if command == "undrain":
                continue
            with open(path, encoding="utf-8") as file:
                source = file.read()
            if "local_option(" in source:
                with open("cli/local.c", encoding="utf-8") as file:
                    source += file.read()
            known = set(re.findall(r'\{"([a-z-]+)", (?:no|required)_argument', source))
            known |= set(re.findall(r'"--([a-z-]+)"', source))
            said = lockstep("help", command).stdout
            shown = dict(re.findall(r"^  --([a-z-]+)((?: [^ \n]+)?\n      .+)", said, re.M))
            with self.subTest(command=command):
                self.assertEqual(known, set(shown))
                for text in shown.values():
                    value, meaning = text.split("\n")
                    self.assertGreater(len(meaning.split()), 2)
                    if value:
                        self.assertIn("(default: ", meaning)

    def test_version(self):
        with open("CMakeLists.txt", encoding="ascii") as file:
            version = re.search(r"VERSION (\d+\.\d+\.\d+) LANG", file.read())[1]
        self.assertEqual(lockstep("--version").stdout, f"lockstep {version}\n")


class WrongUse(unittest.TestCase):
    def refused(self, words, *arguments):
        run = lockstep(*arguments)
        self.assertEqual(run.returncode, EXIT_USAGE, f"{arguments}\n{run.stdout}")
        self.assertIn(words, run.stdout)
        self.assertLessEqual(len(run.stdout.splitlines()), 2, run.stdout)

    def test_commands(self):
        self.refused("no command 'chekc'; did you mean 'check'?", "chekc")
        self.refused("no command 'zzzzzz'; 'lockstep help' lists all", "help", "zzzzzz")

    def test_an_option_that_there_is_not(self):
        for command in COMMANDS:
            self.refused("no option", command, "--zzz")
        self.refused("no option '--prot'; did you mean '--port'?", "up", "x", "--prot", "1")
        self.refused("no option '--jsno'", "ps", "--jsno=1")

    def test_values(self):
        self.refused("--port takes N", "up", "x", "--port")
        self.refused("--json takes no value", "ps", "--json=yes")
        self.refused("a port is 0 to 65535, not '70000'", "up", "x", "--port=70000")
        self.refused("--sessions takes a number", "bench", "--sessions", "x")
        self.refused("--cache takes float32", "run", "m", "p", "--cache", "fp7")
        self.refused("--to takes", "replay", "x", "--to", "y")

    def test_arguments(self):
        self.refused("expected FILE", "up")
        self.refused("'b' is one argument too many, expected FILE", "up", "a", "b")
        self.refused("expected MODEL PROMPT", "run", "model/tiny")
        self.refused("expected MODEL FILE", "verify", "model/tiny")
        self.refused("expected FILE... or --schema", "check")
        self.refused("expected [NAME] ID", "abort")
        self.refused("expected [NAME] GROUP", "drain")
        self.refused("--dot or --json, not both", "plan", "x", "--dot", "--json")
        self.refused("--detach or --in-process", "up", "x", "--detach", "--in-process")
        self.refused("a NAME or --url", "chat", "x", "--url", "http://127.0.0.1:1")
        self.refused("expected --seed", "sim")

    def test_an_argument_may_begin_with_a_minus(self):
        run = lockstep("run", "model/tiny", "--tokens=20", "--", "-5 + 3")
        self.assertEqual(run.returncode, EXIT_OK, run.stdout)

    def test_nothing_compared_is_no_success(self):
        with tempfile.NamedTemporaryFile() as empty:
            run = lockstep("verify", "model/tiny", empty.name)
        self.assertEqual(run.returncode, EXIT_FAILED)
        self.assertIn("no answers are recorded there", run.stdout)

    def test_tools_that_there_are_not(self):
        run = lockstep("chat", "--tools", "no/such/file", "--url", "http://127.0.0.1:1")
        self.assertEqual(run.returncode, 3)
        self.assertIn("no/such/file", run.stdout)


class Readme(unittest.TestCase):
    """Commands that README.md tells people to type, those that end by themselves."""

    def setUp(self):
        with open("README.md", encoding="utf-8") as file:
            self.text = file.read()

    def test_every_command_in_it_is_one(self):
        said = lockstep("help").stdout
        rows = re.search(r"\| `lockstep \.\.\.`.*?\n\n", self.text, re.S)[0]
        for name in re.findall(r"`([a-z]+)[ `]", rows.replace("`lockstep ...`", "")):
            if name not in ("chatcmpl",):
                self.assertIn(f"\n  {name} ", said, name)
        for command, option in re.findall(r"`([a-z]+) [^`|]*?(--[a-z-]+)", rows):
            self.assertIn(f"  {option}", lockstep("help", command).stdout, (command, option))

    def test_what_it_tells_to_run(self):
        with tempfile.NamedTemporaryFile("w", suffix=".yaml", dir="topology/examples") as file:
            file.write(re.search(r"```yaml\n(.*?)```", self.text, re.S)[1])
            file.flush()
            commands = [("check", file.name), ("plan", file.name)]
            commands += [tuple(shlex.split(words)) for words in
                         re.findall(r"^    build/release/lockstep (run .*|verify .*|sim .*)$",
                                    self.text, re.M)]
            self.assertGreater(len(commands), 4)
            for command in commands:
                with self.subTest(command=command):
                    run = lockstep(*command)
                    self.assertEqual(run.returncode, EXIT_OK, run.stdout)


if __name__ == "__main__":
    unittest.main()
