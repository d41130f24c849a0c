"""The catalog queries of a program, from catalogs/PROGRAM.sql, each with the answer that PostgreSQL gave.

A query begins with the line `-- name: NAME`. They are written after the queries in the program's public sources.
"""

import sys

import golden


def main():
    program = sys.argv[1]
    folder = golden.HERE / "catalogs"
    golden.psql(f"\\i {golden.HERE}/schema.sql\n")
    scenarios = {
        name: lambda query=query: golden.normal(golden.psql(query, "-A", "-P", "null=NULL"))
        for name, query in golden.queries(folder / f"{program}.sql").items()
    }
    golden.run("", scenarios, golden.Answers(folder / f"{program}.txt"))


main()
