#!/usr/bin/env python3
"""Measures the house: the language of its comments, its largest types, cycles of imports, and who knows what.

    tools/house.py             prints the figures, each with its limit
    tools/house.py --list X    prints what a figure counts: subjects, openings, types, cycles, recovery
    tools/house.py --language  exits with 1 if a figure of the language is over its limit

Product code is that of all crates but the lab, without tests.
"""

import argparse
import collections
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
CRATES = ROOT / "crates"
EXPERIMENTS = {"gnomon-lab"}
SUBJECTS = re.compile(r"\b(who|whoever|whom|somebody|someone|nobody)\b", re.IGNORECASE)
# Types of a store, names of methods, and questions for them.
RECOVERY = re.compile(
    r"\b(Recovery::(Shadow|CommitLog|PageLog)|Store::(Shadow|Logged)|ShadowStore|LoggedStore)\b"
    r"|\.(shadow|logged|shadow_for|as_shadow)\(\)"
)
LIMITS = {
    "comment lines with who, whoever, somebody, nobody": 20,
    "doc comments that begin with What, Whether or Has": 40,
    "words of README.md": 1000,
    "words of docs/architecture.md": 2500,
    "methods of the largest type": 60,
    "modules in the largest cycle of imports": 4,
    "files that know a recovery method by name": 0,
}
# The first of these are of the language.
OF_LANGUAGE = 4


def is_test(path):
    parts = path.relative_to(CRATES).parts
    name = path.stem
    return (
        "tests" in parts
        or "benches" in parts
        or "examples" in parts
        or name in {"tests", "testing", "conformance", "schedules", "stress", "swapped_files"}
        or "crash_sweep" in parts
        or name == "crash_sweep"
    )


def product_files():
    files = [path for path in sorted(CRATES.glob("*/src/**/*.rs")) if not is_test(path)]
    return [path for path in files if path.relative_to(CRATES).parts[0] not in EXPERIMENTS]


def without_test_module(text):
    """The text before its test module, which stands at the end."""
    return re.split(r"\n#\[cfg\((?:all\()?test\b[^\n]*\]\n(?:#\[[^\n]*\]\n)*mod \w+ \{", text)[0]


def comment_of(line):
    found = re.match(r"\s*//[/!]?(.*)", line)
    return found.group(1).strip() if found else None


def subjects(files):
    """Comment lines with a person for a subject."""
    return [
        f"{name(path)}:{number}: {line.strip()}"
        for path in files
        for number, line in enumerate(read(path).splitlines(), 1)
        if comment_of(line) and SUBJECTS.search(comment_of(line))
    ]


def openings(files):
    """Doc comments that begin with What, Whether or Has."""
    found = []
    for path in files:
        before = ""
        for number, line in enumerate(read(path).splitlines(), 1):
            is_doc = re.match(r"\s*//[/!]", line)
            if is_doc and not re.match(r"\s*//[/!]", before) and re.match(r"(What|Whether|Has)\b", comment_of(line) or ""):
                found.append(f"{name(path)}:{number}: {line.strip()}")
            before = line
    return found


def methods(files):
    """Methods of types: their number, and the files that they stand in, largest first."""
    counts, places = collections.Counter(), collections.defaultdict(set)
    for path in files:
        crate = path.relative_to(CRATES).parts[0]
        inside = None
        for line in read(path).splitlines():
            opened = re.match(r"impl(?:<[^>]*(?:<[^>]*>[^>]*)*>)?\s+(?:crate::)?([\w:]+)(?:<.*>)?\s*(?:where.*)?\{", line)
            if opened:
                inside = (crate, opened.group(1).split("::")[-1])
            elif line.startswith("}"):
                inside = None
            elif inside and re.match(r"    (?:pub(?:\([^)]*\))? )?(?:const |async |unsafe )*fn \w", line):
                counts[inside] += 1
                places[inside].add(path)
    return [(count, f"{crate}::{of}", len(places[crate, of])) for (crate, of), count in counts.most_common()]


def read(path):
    return without_test_module(path.read_text())


def name(path):
    return str(path.relative_to(ROOT))


def module_of(path):
    """The crate and the path of the module that a file is."""
    crate, _, *parts = path.relative_to(CRATES).parts
    parts = [part.removesuffix(".rs") for part in parts]
    if parts[-1] in {"mod", "lib", "main"}:
        parts.pop()
    return crate, tuple(parts)


def paths_of(tree, prefix=()):
    """The paths that a use tree names."""
    tree = tree.strip()
    head, brace, rest = tree.partition("{")
    steps = prefix + tuple(step.strip() for step in head.split("::") if step.strip())
    if not brace:
        steps = tuple(re.sub(r"\s+as\s+\w+$", "", step) for step in steps)
        return [steps]
    depth, start, out = 0, 0, []
    body = rest[: rest.rindex("}")]
    for at, character in enumerate(body + ","):
        if character == "{":
            depth += 1
        elif character == "}":
            depth -= 1
        elif character == "," and depth == 0:
            if body[start:at].strip():
                out += paths_of(body[start:at], steps)
            start = at + 1
    return out


def imports(files):
    """The modules of each crate, and which of the others each imports from."""
    modules = {module_of(path): path for path in files}
    graph = collections.defaultdict(set)
    for module, path in modules.items():
        crate, own = module
        for found in re.finditer(r"^(?:pub(?:\([^)]*\))? )?use ([^;]+);", read(path), re.MULTILINE):
            for steps in paths_of(found.group(1)):
                steps = list(steps)
                if steps[0] == "crate":
                    base, steps = (), steps[1:]
                elif steps[0] == "self":
                    base, steps = own, steps[1:]
                elif steps[0] == "super":
                    base = own
                    while steps and steps[0] == "super":
                        base, steps = base[:-1], steps[1:]
                else:
                    base = own if (crate, own + (steps[0],)) in modules else None
                if base is None:
                    continue
                at = base
                while steps and (crate, at + (steps[0],)) in modules:
                    at, steps = at + (steps[0],), steps[1:]
                # A module and those within it are one room with a door.
                if at != own and at != own[: len(at)] and own != at[: len(own)]:
                    graph[module].add((crate, at))
    return modules, graph


def cycles(files):
    """Sets of modules that import from each other, largest first."""
    modules, graph = imports(files)
    index, low, stack, on_stack, out = {}, {}, [], set(), []

    def visit(start):
        work = [(start, iter(sorted(graph[start])))]
        index[start] = low[start] = len(index)
        stack.append(start)
        on_stack.add(start)
        while work:
            node, following = work[-1]
            for other in following:
                if other not in index:
                    index[other] = low[other] = len(index)
                    stack.append(other)
                    on_stack.add(other)
                    work.append((other, iter(sorted(graph[other]))))
                    break
                if other in on_stack:
                    low[node] = min(low[node], index[other])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    group = []
                    while True:
                        other = stack.pop()
                        on_stack.discard(other)
                        group.append(other)
                        if other == node:
                            break
                    if len(group) > 1:
                        out.append(sorted(group))

    for module in modules:
        if module not in index:
            visit(module)
    return sorted(out, key=len, reverse=True)


def recovery(files):
    """Files that know a recovery method, or its store, by name, outside of the folders of the methods and the stores, and
    of the crates that are about one of them, or compare them."""
    may_know = (
        "crates/gnomon-engine/src/recovery/",
        "crates/gnomon-engine/src/store/shadow/",
        "crates/gnomon-engine/src/store/page_wal/",
        # The list of the stores, as recovery/kind.rs is the list of the methods: a new store has a line there.
        "crates/gnomon-engine/src/store/any.rs",
        # By design a client of the page WAL store alone, and of no recovery method; level0.rs gives that store to it.
        "crates/gnomon-objects/",
        "crates/gnomon-engine/src/level0.rs",
        # It compares the methods.
        "crates/gnomon-bench/",
    )
    found = []
    for path in files:
        lines = [line for line in read(path).splitlines() if comment_of(line) is None and RECOVERY.search(line)]
        if lines and not name(path).startswith(may_know):
            found.append(f"{name(path)}: {len(lines)} lines")
    return found


def words(path):
    return len((ROOT / path).read_text().split())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--list", choices=["subjects", "openings", "types", "cycles", "recovery"])
    parser.add_argument("--language", action="store_true")
    arguments = parser.parse_args()
    what = arguments.list
    files = product_files()
    types, groups = methods(files), cycles(files)
    if what:
        print(
            "\n".join(
                {
                    "subjects": lambda: subjects(files),
                    "openings": lambda: openings(files),
                    "types": lambda: [f"{of}: {count} methods in {places} files" for count, of, places in types[:20]],
                    "cycles": lambda: [
                        f"{len(group)} of {group[0][0]}: " + " ".join("::".join(path) or "lib" for _, path in group)
                        for group in groups
                    ],
                    "recovery": lambda: recovery(files),
                }[what]()
            )
        )
        return 0
    figures = [
        len(subjects(files)),
        len(openings(files)),
        words("README.md"),
        words("docs/architecture.md"),
        types[0][0],
        len(groups[0]) if groups else 0,
        len(recovery(files)),
    ]
    over = []
    for (figure, limit), value in zip(LIMITS.items(), figures, strict=True):
        over += [figure] if value > limit else []
        print(f"{figure}: {value} (at most {limit})")
    if arguments.language:
        return int(any(figure in over for figure in list(LIMITS)[:OF_LANGUAGE]))
    print("largest types: " + ", ".join(f"{of} {count} in {places}" for count, of, places in types[:5]))
    print("cycles of imports: " + (", ".join(str(len(group)) for group in groups) or "none"))
    return int(bool(over))


if __name__ == "__main__":
    sys.exit(main())
