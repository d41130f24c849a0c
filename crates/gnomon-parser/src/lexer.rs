//! From text to tokens, by the rules of PostgreSQL's `scan.l`.
//!
//! Tokens are cut one at a time, as the parser asks for them: a text that is wrong in two places is refused for the
//! first one, be it a token or the grammar. A token is a kind and a range of bytes; names and strings are decoded when
//! they are taken.

use crate::{
    error::{Error, ErrorKind, Result},
    keyword::Keyword,
    position::Position,
    string_rules::StringRules,
};

/// The longest name, in bytes.
pub const NAME_BYTES_MAX: usize = 63;

/// The kind of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The end of the text.
    End,
    /// A name without quotes that is no keyword.
    Name,
    /// A name in quotes.
    QuotedName,
    /// `U&"..."`.
    UnicodeName,
    /// A word that is a keyword.
    Keyword(Keyword),
    /// A number without a point that fits into 32 bits.
    Integer,
    /// Any other number.
    Number,
    /// `'...'`.
    String,
    /// `E'...'`, or `'...'` where backslashes escape in it.
    EscapeString,
    /// `U&'...'`.
    UnicodeString,
    /// `$$...$$`.
    DollarString,
    /// `B'...'`.
    BitString,
    /// `X'...'`.
    HexString,
    /// `$1`.
    Parameter,
    /// An operator without a token of its own.
    Operator,
    /// `::`
    Typecast,
    /// `..`
    DotDot,
    /// `:=`
    ColonEquals,
    /// `=>`
    EqualsGreater,
    /// `<=`
    LessEquals,
    /// `>=`
    GreaterEquals,
    /// `<>` or `!=`
    NotEquals,
    /// Any other character.
    Char(char),
    /// Text that is no token; the lexer has the error.
    Wrong,
}

/// A token of the text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Token {
    pub kind: Kind,
    pub start: u32,
    pub end: u32,
    /// The place that nodes of the tree have of it.
    pub position: Position,
}

impl Token {
    pub(crate) fn position(self) -> Position {
        self.position
    }

    pub(crate) fn keyword(self) -> Option<Keyword> {
        match self.kind {
            Kind::Keyword(keyword) => Some(keyword),
            _ => None,
        }
    }
}

/// The tokens of a text, from `at` on.
#[derive(Clone)]
pub(crate) struct Lexer<'a> {
    text: &'a str,
    at: usize,
    /// True if tokens have no position.
    pub is_apart: bool,
    /// The meaning of backslashes in strings.
    pub rules: StringRules,
    /// The warnings about strings that were read.
    pub warnings: Vec<Error>,
    /// The error, once a token was [`Kind::Wrong`].
    pub error: Option<Box<Error>>,
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0c)
}

fn begins_name(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_' || byte >= 0x80
}

fn continues_name(byte: u8) -> bool {
    begins_name(byte) || byte.is_ascii_digit() || byte == b'$'
}

fn is_operator(byte: u8) -> bool {
    b"~!@#^&|`?+-*/%<>=".contains(&byte)
}

/// True if a character stands for itself as a token.
fn is_self(byte: u8) -> bool {
    b",()[].;:+-*/%^<>=".contains(&byte)
}

impl<'a> Lexer<'a> {
    /// Returns the tokens of `text` from the byte `at` on.
    pub(crate) fn new(text: &'a str, at: usize) -> Lexer<'a> {
        let rules = StringRules::default();
        Lexer { text, at, is_apart: false, rules, warnings: Vec::new(), error: None }
    }

    /// Reads strings by other rules.
    pub(crate) fn by(self, rules: StringRules) -> Lexer<'a> {
        Lexer { rules, ..self }
    }

    /// Returns the tokens of a text that is no part of a statement's: they have no position.
    pub(crate) fn apart(text: &'a str) -> Lexer<'a> {
        Lexer { is_apart: true, ..Lexer::new(text, 0) }
    }

    fn byte(&self, ahead: usize) -> u8 {
        self.text.as_bytes().get(self.at + ahead).copied().unwrap_or(0)
    }

    /// Returns the next token.
    pub(crate) fn token(&mut self) -> Token {
        let start = match self.skip_space() {
            Ok(()) => self.at,
            Err(error) => return self.wrong(self.at, error),
        };
        match self.kind(start) {
            Ok(kind) => self.cut(kind, start),
            Err(error) => self.wrong(start, error),
        }
    }

    fn cut(&self, kind: Kind, start: usize) -> Token {
        let position = if self.is_apart { Position::NONE } else { Position::new(start) };
        Token { kind, start: start as u32, end: self.at as u32, position }
    }

    fn wrong(&mut self, start: usize, error: Box<Error>) -> Token {
        self.error.get_or_insert(error);
        self.at = self.text.len();
        self.cut(Kind::Wrong, start)
    }

    /// The error of a token that begins at `start` and goes to where the lexer is.
    fn near(&self, message: &str, start: usize) -> Box<Error> {
        near(message, self.text, start, self.at)
    }

    /// Passes over white space and comments.
    fn skip_space(&mut self) -> Result<()> {
        loop {
            let byte = self.byte(0);
            if is_space(byte) {
                self.at += 1;
            } else if byte == b'-' && self.byte(1) == b'-' {
                self.skip_line();
            } else if byte == b'/' && self.byte(1) == b'*' {
                self.skip_comment()?;
            } else {
                return Ok(());
            }
        }
    }

    /// Passes over the rest of a line, but not its end.
    fn skip_line(&mut self) {
        let rest = &self.text.as_bytes()[self.at..];
        self.at += rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')).unwrap_or(rest.len());
    }

    fn skip_comment(&mut self) -> Result<()> {
        let start = self.at;
        self.at += 2;
        let mut open = 1;
        while open > 0 {
            match (self.byte(0), self.byte(1)) {
                (b'/', b'*') => {
                    open += 1;
                    self.at += 2;
                }
                (b'*', b'/') => {
                    open -= 1;
                    self.at += 2;
                }
                _ if self.at >= self.text.len() => {
                    let error = self.near("unterminated /* comment", start);
                    self.at = start;
                    return Err(error);
                }
                _ => self.at += 1,
            }
        }
        Ok(())
    }

    fn kind(&mut self, start: usize) -> Result<Kind> {
        let byte = self.byte(0);
        match byte {
            0 if self.at >= self.text.len() => Ok(Kind::End),
            b'\'' if self.rules.is_standard => self.quoted(start, 1, Kind::String),
            b'\'' => self.quoted(start, 1, Kind::EscapeString),
            b'e' | b'E' if self.byte(1) == b'\'' => self.quoted(start, 2, Kind::EscapeString),
            b'b' | b'B' if self.byte(1) == b'\'' => self.quoted(start, 2, Kind::BitString),
            b'x' | b'X' if self.byte(1) == b'\'' => self.quoted(start, 2, Kind::HexString),
            b'n' | b'N' if self.byte(1) == b'\'' => {
                self.at += 1;
                Ok(Kind::Keyword(Keyword::Nchar))
            }
            b'u' | b'U' if self.byte(1) == b'&' && self.byte(2) == b'\'' => {
                self.rules.check_unicode_string(start)?;
                self.quoted(start, 3, Kind::UnicodeString)
            }
            b'u' | b'U' if self.byte(1) == b'&' && self.byte(2) == b'"' => {
                self.quoted_name(start, 3, Kind::UnicodeName)
            }
            b'"' => self.quoted_name(start, 1, Kind::QuotedName),
            b'$' => self.dollar(start),
            _ if begins_name(byte) => Ok(self.word(start)),
            _ if byte.is_ascii_digit() || byte == b'.' && self.byte(1).is_ascii_digit() => self.number(start),
            b':' if self.byte(1) == b':' => self.of_length(2, Kind::Typecast),
            b':' if self.byte(1) == b'=' => self.of_length(2, Kind::ColonEquals),
            b'.' if self.byte(1) == b'.' => self.of_length(2, Kind::DotDot),
            _ if is_operator(byte) => self.operator(start),
            _ => {
                let character = self.text[self.at..].chars().next().unwrap_or('\0');
                self.of_length(character.len_utf8(), Kind::Char(character))
            }
        }
    }

    fn of_length(&mut self, bytes: usize, kind: Kind) -> Result<Kind> {
        self.at += bytes;
        Ok(kind)
    }

    fn word(&mut self, start: usize) -> Kind {
        let rest = &self.text.as_bytes()[start..];
        let length = rest.iter().position(|byte| !continues_name(*byte)).unwrap_or(rest.len());
        self.at = start + length;
        let mut lower = [0; 24];
        let Some(lower) = lower.get_mut(..length) else { return Kind::Name };
        for (to, from) in lower.iter_mut().zip(rest) {
            *to = from.to_ascii_lowercase();
        }
        match std::str::from_utf8(lower).ok().and_then(Keyword::of) {
            Some(keyword) => Kind::Keyword(keyword),
            None => Kind::Name,
        }
    }

    fn digits(&mut self) {
        while self.byte(0).is_ascii_digit() {
            self.at += 1;
        }
    }

    fn number(&mut self, start: usize) -> Result<Kind> {
        self.digits();
        let mut is_integer = true;
        if self.byte(0) == b'.' && self.byte(1) != b'.' {
            is_integer = false;
            self.at += 1;
            self.digits();
        }
        if matches!(self.byte(0), b'e' | b'E') {
            let sign = usize::from(matches!(self.byte(1), b'+' | b'-'));
            if self.byte(1 + sign).is_ascii_digit() {
                is_integer = false;
                self.at += 1 + sign;
                self.digits();
            } else if sign == 1 {
                self.at += 2;
                return Err(self.near("trailing junk after numeric literal", start));
            }
        }
        self.refuse_junk("trailing junk after numeric literal", start)?;
        let fits = self.text[start..self.at].parse::<i32>().is_ok();
        Ok(if is_integer && fits { Kind::Integer } else { Kind::Number })
    }

    fn refuse_junk(&mut self, message: &str, start: usize) -> Result<()> {
        if !begins_name(self.byte(0)) {
            return Ok(());
        }
        while continues_name(self.byte(0)) {
            self.at += 1;
        }
        Err(self.near(message, start))
    }

    /// `$1`, `$$...$$`, or a lone `$`.
    fn dollar(&mut self, start: usize) -> Result<Kind> {
        if self.byte(1).is_ascii_digit() {
            self.at += 1;
            self.digits();
            self.refuse_junk("trailing junk after parameter", start)?;
            return Ok(Kind::Parameter);
        }
        let rest = &self.text.as_bytes()[start + 1..];
        let tag = rest.iter().position(|byte| !begins_name(*byte) && !byte.is_ascii_digit());
        let Some(tag) = tag.filter(|length| rest[*length] == b'$') else {
            return self.of_length(1, Kind::Char('$'));
        };
        let delimiter = &self.text[start..start + tag + 2];
        let body = start + delimiter.len();
        match self.text[body..].find(delimiter) {
            Some(length) => {
                self.at = body + length + delimiter.len();
                Ok(Kind::DollarString)
            }
            None => {
                self.at = self.text.len();
                Err(self.near("unterminated dollar-quoted string", start))
            }
        }
    }

    fn operator(&mut self, start: usize) -> Result<Kind> {
        let rest = &self.text.as_bytes()[start..];
        let mut length = rest.iter().position(|byte| !is_operator(*byte)).unwrap_or(rest.len());
        let run = &rest[..length];
        if let Some(comment) = run.windows(2).position(|two| two == b"/*" || two == b"--") {
            length = comment;
        }
        // A long operator ends in a sign only if it has a character that no standard operator has.
        if length > 1
            && matches!(rest[length - 1], b'+' | b'-')
            && !rest[..length - 1].iter().any(|byte| b"~!@#^&|`?%".contains(byte))
        {
            while length > 1 && matches!(rest[length - 1], b'+' | b'-') {
                length -= 1;
            }
        }
        self.at = start + length;
        let kind = match &rest[..length] {
            [byte] if is_self(*byte) => Kind::Char(char::from(*byte)),
            b"=>" => Kind::EqualsGreater,
            b">=" => Kind::GreaterEquals,
            b"<=" => Kind::LessEquals,
            b"<>" | b"!=" => Kind::NotEquals,
            _ => Kind::Operator,
        };
        match length > NAME_BYTES_MAX {
            true => Err(self.near("operator too long", start)),
            false => Ok(kind),
        }
    }

    /// A string in quotes whose prefix, with the quote, has so many bytes.
    fn quoted(&mut self, start: usize, prefix: usize, kind: Kind) -> Result<Kind> {
        self.at = start + prefix;
        let mut first_escaped = None;
        loop {
            match self.byte(0) {
                b'\'' if self.byte(1) == b'\'' => self.at += 2,
                b'\'' => {
                    self.at += 1;
                    if !self.continues() {
                        break;
                    }
                }
                b'\\' if kind == Kind::EscapeString && self.at + 1 < self.text.len() => {
                    let escaped = self.byte(1);
                    first_escaped.get_or_insert(escaped);
                    if escaped == b'\'' && !self.rules.has_escaped_quotes {
                        // What is wrong before comes first.
                        escapes(self.text, start + prefix, self.at)?;
                        return Err(StringRules::escaped_quote(start));
                    }
                    self.at += 2;
                }
                _ if self.at >= self.text.len() => {
                    if kind == Kind::EscapeString {
                        // What is wrong inside comes first.
                        escapes(self.text, start + prefix, self.text.len())?;
                    }
                    let what = match kind {
                        Kind::BitString => "unterminated bit string literal",
                        Kind::HexString => "unterminated hexadecimal string literal",
                        _ => "unterminated quoted string",
                    };
                    return Err(self.near(what, start));
                }
                _ => self.at += 1,
            }
        }
        if kind == Kind::EscapeString {
            escapes(self.text, start + prefix, self.at)?;
        }
        if let Some(escaped) = first_escaped
            && prefix == 1
        {
            self.warnings.extend(self.rules.warning(escaped, start));
        }
        Ok(kind)
    }

    /// True if another part of a string follows on another line; goes to its contents then.
    fn continues(&mut self) -> bool {
        let end = self.at;
        let mut has_newline = false;
        loop {
            match self.byte(0) {
                b'\n' | b'\r' => {
                    has_newline = true;
                    self.at += 1;
                }
                byte if is_space(byte) => self.at += 1,
                b'-' if self.byte(1) == b'-' => self.skip_line(),
                b'\'' if has_newline => {
                    self.at += 1;
                    return true;
                }
                _ => {
                    self.at = end;
                    return false;
                }
            }
        }
    }

    fn quoted_name(&mut self, start: usize, prefix: usize, kind: Kind) -> Result<Kind> {
        self.at = start + prefix;
        loop {
            let Some(length) = self.text[self.at..].find('"') else {
                self.at = self.text.len();
                return Err(self.near("unterminated quoted identifier", start));
            };
            self.at += length + 1;
            if self.byte(0) != b'"' {
                break;
            }
            self.at += 1;
        }
        match self.at - start == prefix + 1 {
            true => Err(self.near("zero-length delimited identifier", start)),
            false => Ok(kind),
        }
    }
}

/// The error of what stands in the text from `start` to `end`.
pub(crate) fn near(message: &str, text: &str, start: usize, end: usize) -> Box<Error> {
    let message = match text.get(start..end) {
        Some(found) if start < text.len() => format!("{message} at or near \"{found}\""),
        _ => format!("{message} at end of input"),
    };
    Error::syntax(message, Position::new(start))
}

/// Returns a name without quotes in lower case.
pub(crate) fn fold(word: &str) -> Box<str> {
    let mut folded: Box<str> = word.into();
    folded.make_ascii_lowercase();
    folded
}

/// Cuts a name to its length.
pub fn truncate(name: &str) -> &str {
    let mut end = name.len().min(NAME_BYTES_MAX);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    &name[..end]
}

/// Calls `take` with the parts of a string that is continued on other lines, and with the offset of each. `body` begins
/// behind the first quote.
fn parts(body: &str, has_escapes: bool, mut take: impl FnMut(usize, &str) -> Result<()>) -> Result<()> {
    let bytes = body.as_bytes();
    let (mut start, mut at) = (0, 0);
    while at < bytes.len() {
        match bytes[at] {
            b'\\' if has_escapes => at += 2,
            b'\'' if bytes.get(at + 1) == Some(&b'\'') => at += 2,
            b'\'' => {
                take(start, &body[start..at])?;
                let mut ahead = Lexer::new(body, at + 1);
                if !ahead.continues() {
                    return Ok(());
                }
                (start, at) = (ahead.at, ahead.at);
            }
            _ => at += 1,
        }
    }
    take(start, &body[start..])
}

/// Returns the contents of `'...'`, `B'...'` or `X'...'`, of which `body` begins behind the first quote.
pub(crate) fn plain(body: &str) -> String {
    let mut value = String::new();
    let done = parts(body, false, |_, part| {
        if part.contains('\'') {
            value.push_str(&part.replace("''", "'"));
        } else {
            value.push_str(part);
        }
        Ok(())
    });
    debug_assert!(done.is_ok(), "nothing fails in the closure");
    value
}

/// Returns the contents of the escape string that goes from `start` to `end` of the text, with or without an `E`.
pub(crate) fn escape_string(text: &str, start: usize, end: usize) -> Result<String> {
    let prefix = if text[start..].starts_with('\'') { 1 } else { 2 };
    escapes(text, start + prefix, end)
}

/// Returns the contents of `E'...'` whose body goes from `start` to `end` of the text.
fn escapes(text: &str, start: usize, end: usize) -> Result<String> {
    let mut bytes = Vec::with_capacity(end - start);
    let mut has_bytes = false;
    let mut high: Option<u32> = None;
    parts(&text[start..end], true, |offset, part| {
        let mut at = 0;
        while at < part.len() {
            let here = start + offset + at;
            let rest = &part[at..];
            let code = rest.strip_prefix('\\').and_then(|escape| match escape.as_bytes().first() {
                Some(b'u') => Some(4),
                Some(b'U') => Some(8),
                _ => None,
            });
            if let Some(digits) = code {
                let given = rest[2..].bytes().take_while(u8::is_ascii_hexdigit).count().min(digits);
                if given < digits {
                    return Err(Error::new(
                        ErrorKind::InvalidEscape,
                        "invalid Unicode escape",
                        Position::new(here),
                    )
                    .hint("Unicode escapes must be \\uXXXX or \\UXXXXXXXX."));
                }
                let length = 2 + digits;
                let value = u32::from_str_radix(&rest[2..length], 16).unwrap_or(u32::MAX);
                let wrong = |what: &str| near(what, text, here, here + length);
                let value = match (high.take(), value) {
                    (Some(first), 0xdc00..=0xdfff) => 0x10000 + ((first & 0x3ff) << 10) + (value & 0x3ff),
                    (Some(_), _) | (None, 0xdc00..=0xdfff) => {
                        return Err(wrong("invalid Unicode surrogate pair"));
                    }
                    (None, 0xd800..=0xdbff) => {
                        high = Some(value);
                        at += length;
                        continue;
                    }
                    (None, value) => value,
                };
                let character = char::from_u32(value).filter(|character| *character != '\0');
                let character = character.ok_or_else(|| wrong("invalid Unicode escape value"))?;
                bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                at += length;
                continue;
            }
            let mut characters = rest.chars();
            let first = characters.next().unwrap_or_default();
            if high.is_some() {
                let end = here + first.len_utf8();
                return Err(near("invalid Unicode surrogate pair", text, here, end));
            }
            match (first, characters.next()) {
                ('\'', Some('\'')) => {
                    bytes.push(b'\'');
                    at += 2;
                }
                ('\\', Some(escaped)) => {
                    at += 1 + escape(&rest[1..], escaped, &mut bytes, &mut has_bytes);
                }
                _ => {
                    bytes.extend_from_slice(&rest.as_bytes()[..first.len_utf8()]);
                    at += first.len_utf8();
                }
            }
        }
        if high.is_some() {
            let at = start + offset + part.len();
            return Err(near("invalid Unicode surrogate pair", text, at, (at + 1).min(end)));
        }
        Ok(())
    })?;
    if has_bytes && bytes.contains(&0) {
        return Err(invalid_bytes(&[0]));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let bytes = error.as_bytes();
        let length = match bytes[at] {
            0xc0..=0xdf => 2,
            0xe0..=0xef => 3,
            0xf0..=0xf7 => 4,
            _ => 1,
        };
        invalid_bytes(&bytes[at..(at + length).min(bytes.len())])
    })
}

fn invalid_bytes(bytes: &[u8]) -> Box<Error> {
    let bytes: Vec<String> = bytes.iter().map(|byte| format!("0x{byte:02x}")).collect();
    let message = format!("invalid byte sequence for encoding \"UTF8\": {}", bytes.join(" "));
    Error::new(ErrorKind::InvalidBytes, message, Position::NONE)
}

/// Adds what a backslash and `rest` mean, and returns how many bytes of it that takes.
fn escape(rest: &str, first: char, bytes: &mut Vec<u8>, has_bytes: &mut bool) -> usize {
    let number = |digits: &str, radix: u32| u32::from_str_radix(digits, radix).unwrap_or(0) as u8;
    let octal = rest.bytes().take_while(|byte| (b'0'..=b'7').contains(byte)).count().min(3);
    if octal > 0 {
        bytes.push(number(&rest[..octal], 8));
        *has_bytes = true;
        return octal;
    }
    if let Some(digits) = rest.strip_prefix('x') {
        let hex = digits.bytes().take_while(u8::is_ascii_hexdigit).count().min(2);
        if hex > 0 {
            bytes.push(number(&digits[..hex], 16));
            *has_bytes = true;
            return 1 + hex;
        }
    }
    match first {
        'b' => bytes.push(8),
        'f' => bytes.push(12),
        'n' => bytes.push(b'\n'),
        'r' => bytes.push(b'\r'),
        't' => bytes.push(b'\t'),
        other => bytes.extend_from_slice(other.encode_utf8(&mut [0; 4]).as_bytes()),
    }
    first.len_utf8()
}

/// Returns what `value`, the contents of `U&'...'` or `U&"..."` at `start`, means.
pub(crate) fn unicode_escapes(value: &str, mark: char, start: usize) -> Result<String> {
    let mut meaning = String::with_capacity(value.len());
    let mut high: Option<u32> = None;
    let mut at = 0;
    let position = |at: usize| Position::new(start + 3 + at);
    let pair = |at: usize| Error::syntax("invalid Unicode surrogate pair", position(at));
    while let Some(character) = value[at..].chars().next() {
        if character != mark {
            if high.is_some() {
                return Err(pair(at));
            }
            meaning.push(character);
            at += character.len_utf8();
            continue;
        }
        let rest = &value[at + mark.len_utf8()..];
        if rest.starts_with(mark) {
            if high.is_some() {
                return Err(pair(at));
            }
            meaning.push(mark);
            at += 2;
            continue;
        }
        let (plus, digits) = if rest.starts_with('+') { (1, 6) } else { (0, 4) };
        let hex =
            rest.get(plus..plus + digits).filter(|hex| hex.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let Some(hex) = hex else {
            return Err(Error::syntax("invalid Unicode escape", position(at))
                .hint("Unicode escapes must be \\XXXX or \\+XXXXXX."));
        };
        let value = u32::from_str_radix(hex, 16).unwrap_or(u32::MAX);
        if value == 0 || value > 0x10_ffff {
            return Err(Error::syntax("invalid Unicode escape value", position(at)));
        }
        let value = match (high.take(), value) {
            (Some(first), 0xdc00..=0xdfff) => 0x10000 + ((first & 0x3ff) << 10) + (value & 0x3ff),
            (Some(_), _) | (None, 0xdc00..=0xdfff) => return Err(pair(at)),
            (None, value) => value,
        };
        if (0xd800..=0xdbff).contains(&value) {
            high = Some(value);
        } else {
            meaning.push(char::from_u32(value).unwrap_or(char::REPLACEMENT_CHARACTER));
        }
        at += 1 + plus + digits;
    }
    match high {
        Some(_) => Err(pair(at)),
        None => Ok(meaning),
    }
}
