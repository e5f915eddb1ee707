"""Each checker passes a clean tree, and finds one violation planted in it."""
import os
import subprocess
import sys
import tempfile
import unittest

CLEAN = {
    "runtime/README.md": "actor.h\n",
    "runtime/base/README.md": "check.h, check.c\n",
    "runtime/base/check.h": "#include <stdio.h>\n",
    "runtime/base/check.c": '#include "runtime/base/check.h"\n\nint f(void)\n{\n    return 1;\n}\n',
    "runtime/actor.h": '#include "runtime/base/check.h"\n',
    "actors/README.md": "attempt.h gateway.c decode.c decode.h\n",
    "actors/attempt.h": '#include "runtime/actor.h"\n',
    "actors/gateway/gateway.c": '#include "actors/attempt.h"\n#include "runtime/actor.h"\n',
    "actors/decode/decode.h": '#include "actors/attempt.h"\n',
    "actors/decode/decode.c": '#include "actors/decode/decode.h"\n',
    "tests/README.md": "base has what its name says\n",
    "tests/base/test_check.c": '#include "runtime/base/check.h"\n',
}


def function(lines):
    return "int f(void)\n{\n" + "    g();\n" * (lines - 3) + "}\n"


class Checker(unittest.TestCase):
    def run_checker(self, name, planted):
        """Runs tools/NAME.py on the clean tree with `planted` on top: exit status and output."""
        with tempfile.TemporaryDirectory() as root:
            for path, text in {**CLEAN, **planted}.items():
                os.makedirs(os.path.dirname(os.path.join(root, path)) or root, exist_ok=True)
                with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                    file.write(text)
            command = [sys.executable, f"tools/{name}.py", root]
            run = subprocess.run(command, capture_output=True, text=True, check=False)
            return run.returncode, run.stdout + run.stderr

    def finds(self, name, planted, complaint):
        status, output = self.run_checker(name, planted)
        self.assertEqual(status, 1, output)
        self.assertIn(complaint, output)
        self.assertEqual(len(output.splitlines()), 1, output)

    def test_a_clean_tree_passes_all_three(self):
        for name in ("check_layers", "tidy", "check_readme"):
            status, output = self.run_checker(name, {})
            self.assertEqual(status, 0, output)

    def test_base_may_include_nothing_above_it(self):
        self.finds("check_layers", {"runtime/base/check.h": '#include "runtime/actor.h"\n'},
                   "check.h:1: runtime/base may not include runtime")

    def test_runtime_may_not_know_messages(self):
        self.finds("check_layers", {"messages/schema.h": "",
                   "runtime/actor.h": '#include "messages/schema.h"\n'},
                   "runtime may not include messages")

    def test_a_name_may_not_go_where_its_header_may_not(self):
        """A shared file of actors/ that declares what an actor of its own defines."""
        with tempfile.TemporaryDirectory() as root:
            texts = {"actors/leader.c": "extern int prefill_ops;\n"
                                        "int f(void);\nint f(void) { return prefill_ops; }\n",
                     "actors/prefill/prefill.c": "int prefill_ops = 1;\n"}
            for path, text in texts.items():
                item = f"{root}/actors/CMakeFiles/some.dir/{path[len('actors/'):]}.o"
                for name in (os.path.join(root, path), item):
                    os.makedirs(os.path.dirname(name), exist_ok=True)
                with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                    file.write(text)
                subprocess.run(["cc", "-c", "-o", item, os.path.join(root, path)], check=True)
            run = subprocess.run([sys.executable, "tools/check_layers.py", root, root], text=True,
                                 capture_output=True, check=False)
        self.assertEqual(run.returncode, 1, run.stdout)
        self.assertEqual(run.stdout,
                         "actors/leader.c: actors may not use prefill_ops of actors/prefill\n")

    def test_actors_may_not_include_each_other(self):
        self.finds("check_layers",
                   {"actors/gateway/gateway.c": '\n#include "actors/decode/decode.h"\n'},
                   "gateway.c:2: actors/gateway may not include actors/decode")

    def test_includes_are_paths_from_the_root(self):
        self.finds("check_layers", {"runtime/base/check.c": '#include "check.h"\n'},
                   "no path from the root")

    def test_a_new_top_folder_may_include_nothing_yet(self):
        self.finds("check_layers", {"extra/x.c": '#include "runtime/actor.h"\n'},
                   "extra may not include runtime")

    def test_a_function_of_71_lines_is_too_long(self):
        self.assertEqual(self.run_checker("tidy", {"cli/x.c": function(70)})[0], 0)
        self.finds("tidy", {"cli/x.c": function(71)},
                   "cli/x.c:1: cli/x.c:f has 71 lines, at most 70")

    def test_the_ratchet_only_goes_down(self):
        allowed = {"tools/allow.txt": "cli/x.c:f 80 why\n"}
        self.assertEqual(self.run_checker("tidy", {"cli/x.c": function(80), **allowed})[0], 0)
        self.finds("tidy", {"cli/x.c": function(81), **allowed}, "has 81 lines, at most 80")
        self.finds("tidy", {"cli/x.c": function(63), **allowed}, "lower its entry")
        self.finds("tidy", allowed, "cli/x.c:f is gone")

    def test_long_files_and_lines(self):
        self.finds("tidy", {"cli/x.c": "int x;\n" * 901}, "has 901 lines, at most 900")
        self.finds("tidy", {"cli/x.h": "int x;\n" * 301}, "has 301 lines, at most 300")
        self.finds("tidy", {"cli/x.c": f"int {'x' * 96};\n"}, "101 columns, at most 100")
        self.finds("tidy", {"cli/x.c": f"/* {'x' * 115} */\n"}, "121 columns, at most 120")

    def test_banned_calls(self):
        for call in ("strcpy(a, b)", "sprintf(a, b)", "gets(a)", "atoi(a)", "rand()", "assert(a)",
                     "msgpack_unpack_next(a)", 'ASSERT(!"never")'):
            self.finds("tidy", {"cli/x.c": f"int x = {call};\n"},
                       f"cli/x.c:1: {call.split('(')[0]}")
        fine = '/* strcpy(a) */ int x = fgets(a) + my_rand(1); const char *y = "atoi(a)";\n'
        self.assertEqual(self.run_checker("tidy", {"cli/x.c": fine})[0], 0)

    def test_tests_do_not_sleep(self):
        for name, call in (("x.c", "us" + "leep(1);"), ("x.py", "time.sl" + "eep(1)")):
            self.finds("tidy", {f"tests/base/{name}": call + "\n"}, "waits for facts")

    def test_leftovers(self):
        self.finds("tidy", {"cli/x.c": "int x; \n"}, "blanks at the end")
        self.finds("tidy", {"cli/x.c": "\tint x;\n"}, "a tab")
        self.finds("tidy", {"cli/x.c": "int x;"}, "no newline at the end")
        self.finds("tidy", {"cli/x.c": "/* FIX" + "ME */\n"}, "a note for later")
        self.finds("tidy", {"cli/README.md": "see /ho" + "me/me\n"}, "a path of one machine")

    def test_a_source_file_missing_in_its_readme(self):
        self.finds("check_readme", {"runtime/base/arena.c": ""},
                   "does not name runtime/base/arena.c")

    def test_a_folder_without_readme(self):
        self.finds("check_readme", {"cli/main.c": ""}, "cli: no README.md")

    def test_a_test_folder_missing_in_the_list(self):
        self.finds("check_readme", {"tests/fuzz/test_x.c": ""},
                   "does not name the folder tests/fuzz")

    def test_a_readme_of_two_pages(self):
        self.finds("check_readme", {"runtime/base/README.md": "check.h\n" * 101},
                   "a page is enough")


if __name__ == "__main__":
    unittest.main()
