"""check_layers.py [ROOT [BUILD]] - who may know whom. Prints each breach; exit 1 then.

By includes; and where BUILD has the tree's objects, by symbols too, since a declaration can be
written without an include.

A room is a top folder, with refinements: runtime/base is its own, and so is each folder of
actors/ and of device/. Actors know messages, never neighbours; what several of them share lies in
actors/ itself.
Only tests include the simulator, which is a program of its own.
"""
import collections
import os
import re
import subprocess
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


def objects(build, root):
    """Yields the source of each object, as a path from the root, and the object's own path. What is
    made by the build has no room."""
    for folder, _, files in os.walk(build):
        place = re.fullmatch(r"(.*?)/?CMakeFiles/[^/]+\.dir(.*)", os.path.relpath(folder, build))
        for name in sorted(files) if place and "/__/" not in place[2] + "/" else ():
            source = os.path.normpath(f"./{place[1]}{place[2]}/{name[:-2]}")
            if name.endswith(".c.o") and os.path.exists(os.path.join(root, source)):
                yield source, os.path.join(folder, name)


def check_symbols(build, root):
    """Yields each reference to a symbol that only rooms define which the source may not know."""
    homes, uses = collections.defaultdict(set), []
    paths = {path: source for source, path in objects(build, root)}
    lines = subprocess.run(["nm", "-A", "-g", *paths], check=True, capture_output=True,
                           text=True).stdout.splitlines() if paths else []
    for line in lines:
        path, rest = line.split(":", 1)
        kind, name = rest.split()[-2:]
        if kind == "U":
            uses.append((paths[path], name))
        elif room(paths[path]) not in ("tests", "bench"):
            homes[name].add(room(paths[path]))
    for source, name in sorted(uses):
        if (homes[name] and source != KNOWS_ALL_ACTORS
                and not any(allowed(room(source), home) for home in homes[name])):
            yield f"{source}: {room(source)} may not use {name} of {', '.join(homes[name])}"


def sources(root):
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(name for name in folders if name not in (".git", "build", ".venv"))
        for name in sorted(files):
            if name.endswith((".c", ".h", ".cu", ".cuh")):
                yield os.path.relpath(os.path.join(folder, name), root)


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else "."
    problems = [problem for path in sources(root) for problem in check_file(root, path)]
    problems += check_symbols(sys.argv[2], root) if len(sys.argv) > 2 else []
    print("\n".join(problems or ["layers: every include and symbol is allowed"]))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
