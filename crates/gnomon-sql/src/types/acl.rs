//! Items of access control lists: the type aclitem, `grantee=rights/grantor`.
//!
//! A value is its text, with the names of roles. It is always written in the same way, so that equal items have equal
//! texts.

use gnomon_parser::NAME_BYTES_MAX;

use super::{Environment, Type};
use crate::{Result, SqlError, SqlState};

/// The letters of rights and their names, in the order of both.
pub const RIGHTS: [(char, &str); 14] = [
    ('a', "INSERT"),
    ('r', "SELECT"),
    ('w', "UPDATE"),
    ('d', "DELETE"),
    ('D', "TRUNCATE"),
    ('x', "REFERENCES"),
    ('t', "TRIGGER"),
    ('X', "EXECUTE"),
    ('U', "USAGE"),
    ('C', "CREATE"),
    ('T', "TEMPORARY"),
    ('c', "CONNECT"),
    ('s', "SET"),
    ('A', "ALTER SYSTEM"),
];

/// The role that grants where an item names none.
const OWNER: u32 = 10;

/// An item of an access control list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AclItem {
    /// The role that has the rights; 0 stands for all roles.
    pub grantee: u32,
    /// The role that has granted them.
    pub grantor: u32,
    /// A bit for each right, in the order of [`RIGHTS`].
    pub rights: u16,
    /// The rights that the grantee may grant in its turn.
    pub options: u16,
}

fn malformed(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, message)
}

impl AclItem {
    /// Reads an item.
    ///
    /// # Errors
    /// 22P02 for a text that is none, 42704 for a role that does not exist, 42622 for too long a name.
    pub fn parse(environment: &dyn Environment, text: &str) -> Result<AclItem> {
        let (mut name, mut rest) = identifier(text)?;
        if !rest.starts_with('=') {
            if name != "group" && name != "user" {
                return Err(malformed(format!("unrecognized key word: \"{name}\""))
                    .hint("ACL key word must be \"group\" or \"user\"."));
            }
            (name, rest) = identifier(rest)?;
            if name.is_empty() {
                return Err(
                    malformed("missing name").hint("A name must follow the \"group\" or \"user\" key word.")
                );
            }
        }
        let Some(mut rest) = rest.strip_prefix('=') else { return Err(malformed("missing \"=\" sign")) };
        let (mut rights, mut options, mut last) = (0, 0, 0);
        while let Some(letter) = rest.chars().next().filter(|c| c.is_ascii_alphabetic() || *c == '*') {
            match RIGHTS.iter().position(|(known, _)| *known == letter) {
                Some(place) => last = 1 << place,
                None if letter == '*' => options |= last,
                None => {
                    let all: String = RIGHTS.iter().map(|(letter, _)| *letter).collect();
                    return Err(malformed(format!("invalid mode character: must be one of \"{all}\"")));
                }
            }
            rights |= last;
            rest = &rest[1..];
        }
        let role = |name: &str| environment.object_by_name(Type::Regrole, &quoted(name));
        let grantee = if name.is_empty() { 0 } else { role(&name)? };
        let grantor = match rest.strip_prefix('/') {
            Some(behind) => {
                let (name, behind) = identifier(behind)?;
                if name.is_empty() {
                    return Err(malformed("a name must follow the \"/\" sign"));
                }
                rest = behind;
                role(&name)?
            }
            None => OWNER,
        };
        match rest.trim_start_matches(|c: char| c.is_ascii_whitespace()).is_empty() {
            true => Ok(AclItem { grantee, grantor, rights, options }),
            false => Err(malformed("extra garbage at the end of the ACL specification")),
        }
    }

    /// Returns its text.
    pub fn shown(&self, environment: &dyn Environment) -> String {
        let role = |role: u32| match environment.object_name(Type::Regrole, role) {
            Some(name) => role_text(&name),
            None => role.to_string(),
        };
        let grantee = if self.grantee == 0 { String::new() } else { role(self.grantee) };
        let mut rights = String::new();
        for (place, (letter, _)) in RIGHTS.iter().enumerate() {
            if self.rights & 1 << place != 0 {
                rights.push(*letter);
            }
            if self.options & 1 << place != 0 {
                rights.push('*');
            }
        }
        format!("{grantee}={rights}/{}", role(self.grantor))
    }

    /// True if it gives all the rights of another item, to the same role by the same one.
    pub fn contains(&self, other: &AclItem) -> bool {
        (self.grantee, self.grantor) == (other.grantee, other.grantor)
            && self.rights & other.rights == other.rights
            && self.options & other.options == other.options
    }
}

/// The name of a role that a text begins with, perhaps quoted, and the text behind it.
fn identifier(text: &str) -> Result<(String, &str)> {
    let text = text.trim_start_matches(|c: char| c.is_ascii_whitespace());
    let (mut name, mut is_quoted) = (String::new(), false);
    let mut chars = text.char_indices().peekable();
    let mut end = text.len();
    while let Some((at, c)) = chars.next() {
        if !(c.is_ascii_alphanumeric() || c == '_' || c == '"' || is_quoted) {
            end = at;
            break;
        }
        if c == '"' && chars.next_if(|(_, next)| *next == '"').is_none() {
            is_quoted = !is_quoted;
            continue;
        }
        if name.len() + c.len_utf8() > NAME_BYTES_MAX {
            return Err(SqlError::new(SqlState::NAME_TOO_LONG, "identifier too long")
                .detail("Identifier must be less than 64 characters."));
        }
        name.push(c);
    }
    Ok((name, text[end..].trim_start_matches(|c: char| c.is_ascii_whitespace())))
}

/// The name of a role in an item, from that in SQL text: fewer names need quotes.
fn role_text(name: &str) -> String {
    let bare = name.strip_prefix('"').and_then(|name| name.strip_suffix('"')).unwrap_or(name);
    match bare.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
        true => bare.to_owned(),
        false => name.to_owned(),
    }
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
