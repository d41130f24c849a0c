//! The arguments of `\\copy`: those of COPY, with a file of this machine.

/// A COPY between the database and the shell.
#[derive(Debug, PartialEq, Eq)]
pub struct Copy {
    /// The statement, from STDIN or to STDOUT.
    pub sql: String,
    /// True if rows go out (TO), false if they come in (FROM).
    pub to: bool,
    /// The file; without one, the shell's input or output.
    pub path: Option<String>,
}

/// Reads `table [(columns)] | (query)`, `from | to`, a file in quotes or without blanks, options.
pub fn parse(text: &str) -> Result<Copy, String> {
    let wrong = || "\\copy takes: table or (query), FROM or TO, 'file', options of COPY".to_owned();
    let text = text.trim().trim_end_matches(';').trim_end();
    let (target, direction, rest) = split(text).ok_or_else(wrong)?;
    let to = direction.eq_ignore_ascii_case("to");
    let (path, options) = match rest.strip_prefix('\'') {
        Some(quoted) => unquote(quoted).ok_or_else(wrong)?,
        None => {
            let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
            (rest[..end].to_owned(), &rest[end..])
        }
    };
    if target.is_empty() || path.is_empty() {
        return Err(wrong());
    }
    let is_standard = |names: [&str; 4]| names.iter().any(|name| path.eq_ignore_ascii_case(name));
    let standard = !rest.starts_with('\'') && is_standard(["stdin", "stdout", "pstdin", "pstdout"]);
    if !rest.starts_with('\'') && path.eq_ignore_ascii_case("program") {
        return Err("\\copy with a program is not supported: write the file first".to_owned());
    }
    let end = if to { "TO STDOUT" } else { "FROM STDIN" };
    Ok(Copy { sql: format!("COPY {target} {end}{options}"), to, path: (!standard).then_some(path) })
}

/// Splits at the first word FROM or TO outside of parentheses and quotes.
fn split(text: &str) -> Option<(&str, &str, &str)> {
    let (mut depth, mut quote) = (0usize, None);
    let mut word = 0;
    for (at, character) in text.char_indices() {
        match (character, quote) {
            (_, Some(open)) if character == open => quote = None,
            (_, Some(_)) => {}
            ('\'' | '"', None) => quote = Some(character),
            ('(', None) => depth += 1,
            (')', None) => depth = depth.saturating_sub(1),
            _ => {}
        }
        if character.is_whitespace() || character == ')' {
            let candidate = &text[word..at];
            let is_direction = ["from", "to"].iter().any(|known| candidate.eq_ignore_ascii_case(known));
            if depth == 0 && quote.is_none() && is_direction {
                return Some((text[..word].trim(), candidate, text[at..].trim_start()));
            }
            word = at + character.len_utf8();
        }
    }
    None
}

/// The text up to the closing quote, where a doubled one is one, and what follows.
fn unquote(quoted: &str) -> Option<(String, &str)> {
    let mut text = String::new();
    let mut rest = quoted;
    loop {
        let end = rest.find('\'')?;
        text.push_str(&rest[..end]);
        rest = &rest[end + 1..];
        match rest.strip_prefix('\'') {
            Some(after) => {
                text.push('\'');
                rest = after;
            }
            None => return Some((text, rest)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_queries_files_and_options_are_told_apart() {
        for (text, sql, to, path) in [
            (
                "t from 'a file.csv' with (format csv)",
                "COPY t FROM STDIN with (format csv)",
                false,
                Some("a file.csv"),
            ),
            ("s.t(a, b) TO t.txt", "COPY s.t(a, b) TO STDOUT", true, Some("t.txt")),
            (
                "(select a from t where b = ' to ') to 'it''s' csv;",
                "COPY (select a from t where b = ' to ') TO STDOUT csv",
                true,
                Some("it's"),
            ),
            ("\"from\" from stdin", "COPY \"from\" FROM STDIN", false, None),
            ("t to 'stdout'", "COPY t TO STDOUT", true, Some("stdout")),
        ] {
            let path = path.map(str::to_owned);
            assert_eq!(parse(text), Ok(Copy { sql: sql.into(), to, path }), "{text}");
        }
        for text in ["", "t", "t from", "from 'x'", "t from 'x", "t from ''", "t to program 'cat'"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
