#!/usr/bin/env python3
"""Checks that links of documents, and places of changes, lead to files and headings that exist. Exits with 1 if one does not.

Places of changes are paths in the tables of docs/architecture.md, and in sections "Adding ..." of doc comments.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
CRATES = ROOT / "crates"
# A path of a place: it has a folder, or the ending of a file. Capitals stand for a name to be chosen.
PLACE = re.compile(r"`([\w\-]+(?:/[\w\-.]+)*\.(?:rs|md|txt|tsv|sh|slt)|[\w\-]+(?:/[\w\-]+)+)`")
CHOSEN = re.compile(r"\b[A-Z]{3,}\b")


def documents():
    return [path for path in sorted(ROOT.rglob("*.md")) if not {"target", "node_modules"} & set(path.parts)]


def prose(path):
    """The text of a document without its code."""
    return re.sub(r"^```.*?^```", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)


def anchors(path):
    """The anchors of a document's headings, as GitHub makes them."""
    titles = re.findall(r"^#+ (.+)$", prose(path), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def resolve(base, place):
    """The path of `place` in the folder `base` or in one above it, if there is one."""
    for folder in [base, *base.parents]:
        if (folder / place).exists():
            return folder / place
        if folder == ROOT:
            return None


def places_of_rows():
    """The places in the tables of docs/architecture.md, each with where it leads, or None."""
    text = (ROOT / "docs/architecture.md").read_text()
    for row in re.findall(r"^[^|\n]+ \| (.+)$", text, re.MULTILINE):
        before = CRATES / "gnomon-engine/src"
        for place in PLACE.findall(row):
            known = CHOSEN.split(place)[0].rstrip("/")
            found = resolve(before, known) or resolve(CRATES / "gnomon-engine/src", known)
            yield place, found
            if found:
                before = found if found.is_dir() else found.parent


def places_of_comments(path):
    """The places in sections "Adding ..." of a source file's doc comments, each with where it leads, or None."""
    crate = CRATES / path.relative_to(CRATES).parts[0]
    for section in re.findall(r"^//[/!] # Adding .*\n((?://[/!](?! #).*\n)*)", path.read_text(), re.MULTILINE):
        for place in PLACE.findall(section):
            known = CHOSEN.split(place)[0].rstrip("/")
            bases = (path.parent, crate / "src", crate, CRATES, ROOT)
            yield place, next((base / known for base in bases if (base / known).exists()), None)


def lost_places():
    """The number of all places of changes, and a line for each that leads nowhere."""
    places = [("docs/architecture.md", place) for place in places_of_rows()]
    for path in sorted(CRATES.glob("*/src/**/*.rs")):
        places += [(path.relative_to(ROOT), place) for place in places_of_comments(path)]
    return len(places), [f"{file}: {place}: there is no such place" for file, (place, found) in places if not found]


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
    places, lost = lost_places()
    broken += lost
    print("\n".join(broken) if broken else f"{count} links and {places} places of changes lead somewhere")
    return int(bool(broken))


if __name__ == "__main__":
    sys.exit(main())
