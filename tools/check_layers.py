"""check_layers.py [ROOT] - who may include whom. Prints each include that breaks it; exit 1 then.

A room is a top folder, with refinements: runtime/base is its own, and so is each folder of
actors/ and of device/. Actors know messages, never neighbours; what several of them share lies in
actors/ itself.
Only tests include the simulator, which is a program of its own.
"""
import os
import re
import sys

BASE = {"runtime/base"}
BACKENDS = {"device/cpu", "device/symbolic"}
BELOW_ACTORS = BASE | {"runtime", "topology", "messages", "kernels", "cache", "device", "model"}
MAY_INCLUDE = {
    "runtime/base": set(),
    "runtime": BASE,
    "topology": BASE,
    "kernels": BASE,
    "messages": BASE | {"runtime"},
    "cache": BASE | {"kernels"},
    "device": BASE | {"kernels", "cache"},
    "model": BASE | {"kernels", "cache", "device"},
    "actors": BELOW_ACTORS,
}
INCLUDES_ALL = {"sim", "cli", "tests", "bench"}
# The table of all actors. Whoever runs them includes it.
KNOWS_ALL_ACTORS = "actors/types.c"
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"')


def room(path):
    parts = path.split("/")
    if parts[:2] == ["runtime", "base"] or (parts[0] in ("actors", "device") and len(parts) > 2):
        return "/".join(parts[:2])
    return parts[0]


def allowed(source, target):
    """May a file of room `source` include one of room `target`?"""
    if target == "sim":
        return source in {"sim", "tests"}
    if source == target or source in INCLUDES_ALL:
        return True
    if source in BACKENDS:
        return target in BASE | {"kernels", "cache", "device", "model"}
    if source.startswith("actors/"):
        return target in BELOW_ACTORS | {"actors"}
    return target in MAY_INCLUDE.get(source, set())


def check_file(root, path):
    """Yields what is wrong with the includes of one file."""
    with open(os.path.join(root, path), encoding="utf-8") as file:
        lines = file.read().splitlines()
    for number, line in enumerate(lines, 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        target = match[1]
        if not os.path.exists(os.path.join(root, target)):
            yield f"{path}:{number}: \"{target}\" is no path from the root"
        elif path == KNOWS_ALL_ACTORS and room(target).startswith("actors"):
            continue
        elif not allowed(room(path), room(target)):
            yield f"{path}:{number}: {room(path)} may not include {room(target)} (\"{target}\")"


def sources(root):
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(name for name in folders if name not in (".git", "build", ".venv"))
        for name in sorted(files):
            if name.endswith((".c", ".h", ".cu", ".cuh")):
                yield os.path.relpath(os.path.join(folder, name), root)


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else "."
    problems = [problem for path in sources(root) for problem in check_file(root, path)]
    print("\n".join(problems or ["layers: every include is allowed"]))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
