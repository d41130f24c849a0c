#!/usr/bin/env python3
"""Checks that the relative links of the documents lead to files and headings that exist. Exits with 1 if one does not."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def documents():
    return [path for path in sorted(ROOT.rglob("*.md")) if not {"target", "node_modules"} & set(path.parts)]


def prose(path):
    """The text of a document without its code."""
    return re.sub(r"^```.*?^```", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)


def anchors(path):
    """The anchors of a document's headings, as GitHub makes them."""
    titles = re.findall(r"^#+ (.+)$", prose(path), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def main():
    broken, count = [], 0
    for path in documents():
        for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`]*`", "", prose(path))):
            if re.match(r"[a-z]+:", target):
                continue
            count += 1
            file, _, anchor = target.partition("#")
            to = (path.parent / file).resolve() if file else path
            if not to.exists():
                broken.append(f"{path.relative_to(ROOT)}: {target}: there is no such file")
            elif anchor and anchor not in anchors(to):
                broken.append(f"{path.relative_to(ROOT)}: {target}: there is no such heading")
    print("\n".join(broken) if broken else f"{count} links lead somewhere")
    return int(bool(broken))


if __name__ == "__main__":
    sys.exit(main())
