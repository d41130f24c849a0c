#!/usr/bin/env python3
"""Audits the dependencies in Cargo.lock, offline: where they come from, their licences, crates known to be bad.

Reads `cargo metadata --locked`. Exits with 1 and says why if a package
- comes from anywhere but this repository or the one package registry (no git dependencies, no second registry),
- has no checksum in Cargo.lock,
- has a licence that is not on the list below (each alternative of an OR is enough, each part of an AND is needed),
- is banned (in the product; what a peer that we measure against is made of is its own affair).

With cargo-audit installed, `cargo audit` adds known vulnerabilities; its database needs the network.
"""

import json
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LOCKS = [ROOT, ROOT / "crates/gnomon-bench/peers"]

LICENCES = {
    "0BSD", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "BSD-2-Clause", "BSD-3-Clause", "BSL-1.0", "CC0-1.0",
    "ISC", "MIT", "MIT-0", "Unicode-3.0", "Unlicense", "Zlib", "CDLA-Permissive-2.0", "OpenSSL",
}

BANNED = {
    "bincode": "abandoned",
    "bitcode": "its layout on disk is not stable",
    "rkyv": "its layout on disk is not stable",
    "dashmap": "deadlocks when a reference is held over another call",
    "openssl-sys": "TLS is rustls, without a system library",
}


def allowed(expression: str) -> bool:
    """Whether an SPDX expression can be met with licences of the list."""
    tokens = re.findall(r"\(|\)|[^\s()/]+|/", expression.replace(" WITH ", "_WITH_"))
    position = 0

    def either() -> bool:
        nonlocal position
        result = both()
        while position < len(tokens) and tokens[position] in ("OR", "/"):
            position += 1
            other = both()
            result = result or other
        return result

    def both() -> bool:
        nonlocal position
        result = atom()
        while position < len(tokens) and tokens[position] == "AND":
            position += 1
            other = atom()
            result = result and other
        return result

    def atom() -> bool:
        nonlocal position
        token = tokens[position]
        position += 1
        if token == "(":
            result = either()
            position += 1
            return result
        return token.replace("_WITH_", " WITH ") in LICENCES

    return either()


def audit(directory: pathlib.Path) -> list[str]:
    metadata = json.loads(
        subprocess.run(
            ["cargo", "metadata", "--locked", "--format-version", "1"],
            cwd=directory, check=True, stdout=subprocess.PIPE,
        ).stdout
    )
    lock = (pathlib.Path(metadata["workspace_root"]) / "Cargo.lock").read_text()
    checksums = set(re.findall(r'name = "(.+)"\nversion = "(.+)"\nsource = ".+"\nchecksum = "[0-9a-f]{64}"', lock))
    registry = next(s for s in (package["source"] for package in metadata["packages"]) if s and s.startswith("registry+"))
    wrong = []
    for package in metadata["packages"]:
        name = f"{package['name']} {package['version']}"
        source = package["source"]
        if source is None:
            if not pathlib.Path(package["manifest_path"]).is_relative_to(ROOT):
                wrong.append(f"{name}: outside this repository")
        elif source != registry:
            wrong.append(f"{name}: comes from {source}")
        elif (package["name"], package["version"]) not in checksums:
            wrong.append(f"{name}: no checksum in Cargo.lock")
        licence = package["license"]
        if not licence or not allowed(licence):
            wrong.append(f"{name}: licence {licence!r}")
        if package["name"] in BANNED and directory == ROOT:
            wrong.append(f"{name}: {BANNED[package['name']]}")
    print(f"{directory.relative_to(ROOT) or '.'}: {len(metadata['packages'])} packages")
    return wrong


def main() -> int:
    wrong = [line for directory in LOCKS if (directory / "Cargo.toml").exists() for line in audit(directory)]
    for line in wrong:
        print(f"audit: {line}", file=sys.stderr)
    if shutil.which("cargo-audit"):
        result = subprocess.run(["cargo", "audit", "--quiet"], cwd=ROOT)
        if result.returncode:
            wrong.append("cargo audit")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
