"""The suite's scripts for psql: their statements, and psql's variables in them."""

import re


TOKEN = re.compile(
    r"""
    (?P<comment>--[^\n]*|/\*)
    | (?P<dollar>\$(?:[A-Za-z_\x80-\xff][\w\x80-\xff]*)?\$)
    | (?P<escape>(?<![\w$])[eE]')
    | (?P<quote>['"])
    | (?P<word>[A-Za-z_\x80-\xff][\w$\x80-\xff]*)
    | (?P<other>.|\n)
    """,
    re.X,
)


# A line of a statement that ends with it, and which is none of data.
COMMAND = re.compile(
    r"^(?:alter|begin|comment|commit|copy|create|delete|drop|explain|grant|insert|reset|rollback|select|set|truncate"
    r"|update)\b[^\n]*;",
    re.M | re.I,
)


def skip_comment(text, at):
    """Returns where the nested comment that begins at `at` ends."""
    depth = 0
    for found in re.compile(r"/\*|\*/").finditer(text, at):
        depth += 1 if found[0] == "/*" else -1
        if depth == 0:
            return found.end()
    return len(text)


def split(text):
    """Splits a script of psql into pieces of whole lines, at each end of which no statement is open."""
    pieces, begin, at = [], 0, 0
    depth = blocks = 0
    words = []
    is_open = False
    copies = 0
    while at < len(text):
        found = TOKEN.match(text, at)
        kind, token = found.lastgroup, found[0]
        if kind == "other" and token == "\\":
            # A command of psql reaches to the end of its line; some send what was gathered, or forget it.
            end = text.find("\n", at)
            end = len(text) if end < 0 else end
            command = text[at:end]
            if command.startswith("\\;"):
                at += 2
                continue
            if re.match(r"\\(g|gx|gset|gexec|gdesc|crosstabview|watch|r)\b", command):
                is_open, depth, blocks, words = False, 0, 0, []
            at = end
            continue
        at = found.end()
        if kind == "comment":
            at = skip_comment(text, found.start()) if token == "/*" else at
        elif kind == "dollar":
            end = text.find(token, at)
            at = len(text) if end < 0 else end + len(token)
            is_open = True
        elif kind == "escape":
            end = re.compile(r"(?:[^'\\]|\\.|'')*'", re.S).match(text, at)
            at = end.end() if end else len(text)
            is_open = True
        elif kind == "quote":
            end = re.compile(f"(?:[^{token}]|{token}{token})*{token}").match(text, at)
            at = end.end() if end else len(text)
            is_open = True
        elif kind == "word":
            is_open = True
            word = token.lower()
            words.append(word)
            # psql counts the blocks of an SQL-standard body, and so keeps its semicolons.
            if words[0] == "create" and {"function", "procedure"} & set(words[1:4]):
                if word == "begin" or (blocks and word == "case"):
                    blocks += 1
                elif blocks and word == "end":
                    blocks -= 1
        elif token in "([":
            depth += 1
        elif token in ")]":
            depth = max(0, depth - 1)
        elif token == ";" and depth == 0 and blocks == 0:
            copies += bool(words[:1] == ["copy"] and re.search(r"\bfrom\s+std(in|out)\b", " ".join(words)))
            is_open, words = False, []
        elif token == "\n":
            if not is_open:
                while copies:
                    # A COPY that is to fail has no data: then a statement stands before the next end of data.
                    end = re.compile(r"^\\\.$", re.M).search(text, at)
                    if end and not COMMAND.search(text, at, end.start()):
                        at = min(len(text), end.end() + 1)
                    copies -= 1
                if text[begin:at].strip():
                    pieces.append(text[begin:at])
                begin = at
        elif not token.isspace():
            is_open = True
    if text[begin:].strip():
        pieces.append(text[begin:] + "\n")
    return pieces


def with_end_of_data(piece):
    """Ends the data of a COPY that has none, since it is to fail: where it begins all the same, it would take what
    follows."""
    takes_data = re.search(r"\bcopy\b[^;]*\bfrom\s+std(in|out)\b", piece, re.I)
    return piece + "\\.\n" if takes_data and not re.search(r"^\\\.$", piece, re.M) else piece


def with_files_of_the_client(text, suite):
    """Lets psql read the files of data that a script copies into tables. Gnomon's server reads no files of its host."""
    lines, files = [], {}
    for line in text.splitlines(keepends=True):
        if found := re.match(r"\\set (\w+) :abs_srcdir '([^']+)'$", line):
            files[found[1]] = f"{suite}{found[2]}"
        elif (found := re.match(r"(?i)copy (.+ from) :'(\w+)'(.*);$", line)) and found[2] in files:
            line = f"\\copy {found[1]} '{files[found[2]]}'{found[3]}\n"
        lines.append(line)
    return "".join(lines)


def with_full_errors(text):
    """Lets a script that has shortened errors return to errors with all that they say, and not to psql's default."""
    return text.replace("\\set VERBOSITY default", "\\set VERBOSITY verbose")


def without_comments(piece):
    """Returns a piece without comments and empty lines, to be shown."""
    lines = [line for line in piece.splitlines() if line.strip() and not line.lstrip().startswith("--")]
    return "\n".join(lines)


class Variables:
    """The variables of psql that a script sets itself, by which it repeats statements."""

    SET = re.compile(r"^\\set (\w+) (.*)$", re.M)
    # psql joins the arguments; in quotes, a backslash has its meaning.
    ARGUMENT = re.compile(r"'((?:[^'\\]|\\.|'')*)'|(\S+)")

    def __init__(self):
        self.values = {}

    def expand(self, text):
        """Returns a statement with the values of the variables in it, as far as they are known."""
        return re.sub(r"(?<!:):(\w+)", lambda found: self.values.get(found[1], found[0]), text)

    def set_by(self, piece):
        """Takes up the variables that a piece sets."""
        for name, arguments in self.SET.findall(piece):
            values = (word or quoted.replace("''", "'") for quoted, word in self.ARGUMENT.findall(arguments))
            self.values[name] = self.expand("".join(values))
