//! Cuts lines into statements and backslash commands, as psql does; and tells what of a statement is quoted.
//!
//! Promises: a semicolon ends a statement unless it stands in quotes, dollar quotes, a comment or parentheses; what a
//! line leaves open goes on in the next. Nothing is checked: what is no SQL is the session's to say.

use std::ops::Range;

/// A statement or command that a line completes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// A complete statement.
    Statement {
        /// Its text, without comments before it and without its semicolon's line end.
        text: String,
        /// The line on which it begins, from 1.
        line: usize,
    },
    /// A backslash command, without the backslash. A statement that has begun before it goes on behind it, unless
    /// [`Splitter::finish`] or [`Splitter::reset`] end that.
    Command {
        /// The command and its arguments.
        text: String,
        /// Its line, from 1.
        line: usize,
    },
}

/// The construct that a place in a statement stands in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Within {
    #[default]
    Plain,
    /// A string; `escapes` if a backslash takes the next character.
    Single { escapes: bool },
    /// A quoted name.
    Double,
    /// A dollar-quoted string with its tag, dollars included.
    Dollar(String),
    /// Comments within each other.
    Comment(usize),
}

/// Cuts lines.
#[derive(Debug, Default)]
pub struct Splitter {
    /// The statement so far.
    text: String,
    /// Where it begins.
    begins: usize,
    within: Within,
    parentheses: usize,
    lines: usize,
    /// The line that was read last, and how much of it is taken.
    line: String,
    taken: usize,
    /// True if a backslash takes the next character in strings without an `E` too.
    has_escapes: bool,
}

impl Splitter {
    /// Returns what is open in a statement that has begun: `-` for nothing, else the character that opened it.
    pub fn open(&self) -> Option<char> {
        match self.within {
            Within::Plain if self.parentheses > 0 => Some('('),
            Within::Plain => (!self.text.is_empty()).then_some('-'),
            Within::Single { .. } => Some('\''),
            Within::Double => Some('"'),
            Within::Dollar(_) => Some('$'),
            Within::Comment(_) => Some('*'),
        }
    }

    /// Forgets the statement so far.
    pub fn reset(&mut self) {
        self.text.clear();
        self.within = Within::Plain;
        self.parentheses = 0;
    }

    /// Reads strings that begin from now on as `standard_conforming_strings` says.
    pub fn set_standard_strings(&mut self, is_on: bool) {
        self.has_escapes = !is_on;
    }

    /// A line was read that is none of the script's statements.
    pub fn skip_line(&mut self) {
        self.lines += 1;
    }

    /// Ends the statement so far, if it is more than blanks: at the end of the input, or where a command does so.
    pub fn finish(&mut self) -> Option<Item> {
        let text = std::mem::take(&mut self.text);
        let line = self.begins;
        self.reset();
        let text = text.trim_end();
        (!text.is_empty()).then(|| Item::Statement { text: text.to_owned(), line })
    }

    /// Reads the next line, without its end. Returns what it completes.
    pub fn line(&mut self, line: &str) -> Vec<Item> {
        self.begin_line(line);
        std::iter::from_fn(|| self.next_item()).collect()
    }

    /// As [`Splitter::line`], for [`Splitter::next_item`], so that what an item does has effect on what follows in
    /// its line.
    pub fn begin_line(&mut self, line: &str) {
        self.lines += 1;
        line.clone_into(&mut self.line);
        self.line.push('\n');
        self.taken = 0;
    }

    /// Returns what the line completes next.
    pub fn next_item(&mut self) -> Option<Item> {
        let line = std::mem::take(&mut self.line);
        let item = self.item_of(&line);
        self.line = line;
        item
    }

    fn item_of(&mut self, line: &str) -> Option<Item> {
        while let Some(rest) = line.get(self.taken..).filter(|rest| !rest.is_empty()) {
            if self.within == Within::Plain {
                match rest.as_bytes() {
                    [b'-', b'-', ..] if self.text.is_empty() => {
                        self.taken = line.len();
                        return None;
                    }
                    [b'(', ..] => self.parentheses += 1,
                    [b')', ..] => self.parentheses = self.parentheses.saturating_sub(1),
                    [b'\\', ..] => {
                        // What is behind the command belongs to it; the end of the line does not.
                        self.taken = line.len() - 1;
                        return Some(Item::Command { text: rest[1..].trim().to_owned(), line: self.lines });
                    }
                    _ => {}
                }
            }
            let taken = self.within.advance(&self.text, rest, self.has_escapes);
            let piece = &rest[..taken];
            if !self.text.is_empty() || !piece.trim().is_empty() {
                if self.text.is_empty() {
                    self.begins = self.lines;
                }
                self.text.push_str(piece);
            }
            self.taken += taken;
            if piece == ";" && self.within == Within::Plain && self.parentheses == 0 {
                return self.finish();
            }
        }
        None
    }
}

/// The parts of a statement, in bytes, that stand in no quotes and no comments.
pub fn unquoted(statement: &str) -> Vec<Range<usize>> {
    let mut parts: Vec<Range<usize>> = Vec::new();
    let (mut within, mut at) = (Within::Plain, 0);
    while at < statement.len() {
        let (before, rest) = statement.split_at(at);
        let was_plain = within == Within::Plain;
        let taken = within.advance(before, rest, false);
        if was_plain && within == Within::Plain && !rest.starts_with("--") {
            match parts.last_mut() {
                Some(last) if last.end == at => last.end += taken,
                _ => parts.push(at..at + taken),
            }
        }
        at += taken;
    }
    parts
}

impl Within {
    /// Goes over the next piece of a statement, which is not at its end: returns its length in bytes. `has_escapes` is
    /// that of [`Splitter`].
    fn advance(&mut self, before: &str, rest: &str, has_escapes: bool) -> usize {
        let Some(next) = rest.chars().next() else { return 0 };
        match self {
            Within::Plain => match next {
                '\'' => {
                    let mut last = before.chars().rev();
                    let escapes = matches!(last.next(), Some('e' | 'E')) && !last.next().is_some_and(is_name);
                    *self = Within::Single { escapes: escapes || has_escapes };
                }
                '"' => *self = Within::Double,
                '$' if !before.chars().next_back().is_some_and(is_name) => {
                    if let Some(tag) = dollar_tag(rest) {
                        *self = Within::Dollar(tag.to_owned());
                        return tag.len();
                    }
                }
                '-' if rest.starts_with("--") => return rest.find('\n').unwrap_or(rest.len()),
                '/' if rest.starts_with("/*") => {
                    *self = Within::Comment(1);
                    return 2;
                }
                _ => {}
            },
            Within::Single { escapes } => match next {
                '\\' if *escapes => return 1 + rest[1..].chars().next().map_or(0, char::len_utf8),
                // A doubled quote is one of the string.
                '\'' if rest.starts_with("''") => return 2,
                '\'' => *self = Within::Plain,
                _ => {}
            },
            Within::Double => {
                if next == '"' {
                    *self = Within::Plain;
                }
            }
            Within::Dollar(tag) => {
                if rest.starts_with(tag.as_str()) {
                    let taken = tag.len();
                    *self = Within::Plain;
                    return taken;
                }
            }
            Within::Comment(depth) => {
                if rest.starts_with("*/") {
                    *depth -= 1;
                    if *depth == 0 {
                        *self = Within::Plain;
                    }
                    return 2;
                }
                if rest.starts_with("/*") {
                    *depth += 1;
                    return 2;
                }
            }
        }
        next.len_utf8()
    }
}

fn is_name(character: char) -> bool {
    character.is_alphanumeric() || character == '_' || character == '$'
}

/// The dollar quote that `text` begins with: `$$`, `$tag$`.
fn dollar_tag(text: &str) -> Option<&str> {
    let end = text[1..].find('$')? + 1;
    let tag = &text[1..end];
    let fits = tag.chars().all(|c| c.is_alphanumeric() || c == '_')
        && !tag.chars().next().is_some_and(|c| c.is_ascii_digit());
    fits.then_some(&text[..=end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str) -> Vec<String> {
        let mut splitter = Splitter::default();
        let mut items: Vec<Item> = text.lines().flat_map(|line| splitter.line(line)).collect();
        items.extend(splitter.finish());
        items
            .into_iter()
            .map(|item| match item {
                Item::Statement { text, line } => format!("{line}: {text}"),
                Item::Command { text, line } => format!("{line}: \\{text}"),
            })
            .collect()
    }

    #[test]
    fn semicolons_end_statements_where_they_are_not_quoted() {
        assert_eq!(split("a; b;c"), ["1: a;", "1: b;", "1: c"]);
        assert_eq!(split("select ';' , \";\", 'it''s;';x"), ["1: select ';' , \";\", 'it''s;';", "1: x"]);
        assert_eq!(split("select E'\\';' || 'a\\';x"), ["1: select E'\\';' || 'a\\';", "1: x"]);
        assert_eq!(split("select E'a''\\';';x"), ["1: select E'a''\\';';", "1: x"]);
        assert_eq!(split("select $$;$$, $a$ $b$;$a$;x"), ["1: select $$;$$, $a$ $b$;$a$;", "1: x"]);
        assert_eq!(split("select a$1;$2;"), ["1: select a$1;", "1: $2;"]);
        assert_eq!(split("f(a;b);c"), ["1: f(a;b);", "1: c"]);
    }

    #[test]
    fn statements_go_over_lines_and_know_where_they_begin() {
        assert_eq!(split("-- note\n\nselect\n 1; -- one\nselect 2"), ["3: select\n 1;", "5: select 2"]);
        assert_eq!(split("/* a; /* b; */\n c; */ select 1;"), ["1: /* a; /* b; */\n c; */ select 1;"]);
        assert_eq!(split("select 'a\nb;';"), ["1: select 'a\nb;';"]);
        assert_eq!(split("select 1 -- ;\n;"), ["1: select 1 -- ;\n;"]);
    }

    #[test]
    fn backslash_commands_take_the_line() {
        assert_eq!(
            split("\\d t\nselect \\timing\n2; \\gx\nselect '\\d';"),
            ["1: \\d t", "2: \\timing", "2: select \n2;", "3: \\gx", "4: select '\\d';"]
        );
        let mut splitter = Splitter::default();
        assert_eq!(splitter.line("select 1 \\g"), [Item::Command { text: "g".into(), line: 1 }]);
        assert_eq!(splitter.finish(), Some(Item::Statement { text: "select 1".into(), line: 1 }));
        assert_eq!((splitter.open(), splitter.finish()), (None, None));
    }

    #[test]
    fn backslashes_in_strings_follow_the_setting() {
        let mut splitter = Splitter::default();
        splitter.begin_line("set off; select 'a\\'; b'; set on; select 'a\\'; c");
        let mut texts = Vec::new();
        while let Some(Item::Statement { text, .. }) = splitter.next_item() {
            match &*text {
                "set off;" => splitter.set_standard_strings(false),
                "set on;" => splitter.set_standard_strings(true),
                _ => {}
            }
            texts.push(text);
        }
        assert_eq!(texts, ["set off;", "select 'a\\'; b';", "set on;", "select 'a\\';"]);
        assert_eq!(splitter.finish(), Some(Item::Statement { text: "c".into(), line: 1 }));
    }

    #[test]
    fn what_is_open_is_told() {
        for (line, open) in [
            ("", None),
            ("a", Some('-')),
            ("f(", Some('(')),
            ("'", Some('\'')),
            ("\"", Some('"')),
            ("$x$", Some('$')),
        ] {
            let mut splitter = Splitter::default();
            splitter.line(line);
            assert_eq!(splitter.open(), open, "{line}");
        }
    }

    #[test]
    fn what_is_unquoted_is_told() {
        let plain = |text: &'static str| {
            unquoted(text).into_iter().map(|part| &text[part]).collect::<Vec<_>>().join("|")
        };
        assert_eq!(plain("a = 'b'' c' AND d"), "a = | AND d");
        assert_eq!(plain("E'\\'' + e'x'y \"b\" $$c$$ $1"), "E| + e|y | | $1");
        assert_eq!(plain("a -- b\n+ c /* d /* e */ */ - f"), "a |\n+ c | - f");
        assert_eq!(plain("a$b$ 'open"), "a$b$ ");
        assert_eq!(plain("--"), "");
    }

    proptest::proptest! {
        /// No input makes it fail, and no character gets lost between quotes.
        #[test]
        fn anything_can_be_split(lines in proptest::collection::vec("[a-e;'\"$\\\\()/*\\- \u{e9}]{0,12}", 0..8)) {
            let mut splitter = Splitter::default();
            for line in &lines {
                splitter.line(line);
            }
            splitter.finish();
            proptest::prop_assert_eq!(splitter.lines, lines.len());
            unquoted(&lines.join("\n"));
        }
    }
}
