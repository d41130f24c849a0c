//! Pictures of numbers, such as `FM9,990.00`, taken apart.

use crate::{Result, SqlError, SqlState};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Item {
    /// `9`, or with true `0`.
    Digit(bool),
    /// `.` or `D`
    Point,
    /// `,`
    Comma,
    /// `G`
    Group,
    /// `L`
    Currency,
    /// `RN`, or with false `rn`.
    Roman(bool),
    /// `TH`, or with false `th`.
    Ordinal(bool),
    Minus,
    Plus,
    Either,
    Literal(char),
}

/// Where the sign of `S` stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Anchor {
    #[default]
    None,
    Before,
    After,
}

/// A picture, taken apart.
#[derive(Debug, Default)]
pub(super) struct Picture {
    pub items: Vec<Item>,
    /// FM
    pub fill: bool,
    /// PR
    pub brackets: bool,
    /// True if there is `RN`.
    pub roman: bool,
    /// EEEE
    pub scientific: bool,
    /// True if there is a point.
    pub decimal: bool,
    /// True if there is `MI` or `SG`.
    pub minus: bool,
    /// True if there is `PL` or `SG`.
    pub plus: bool,
    /// `S`
    pub anchor: Anchor,
    /// The number of digits before an `S` that stands before the point.
    pub anchor_digits: usize,
    pub blank: bool,
    pub multiplied: bool,
    /// Digits before the point, after it, and after V.
    pub whole: usize,
    pub fraction: usize,
    pub shifted: usize,
    /// True if there is a `0` before the point.
    pub zero: bool,
    /// The number of the first `0` before the point, from 0.
    pub zero_from: usize,
    /// The number of the last `0`, from 1.
    pub zero_to: usize,
}

fn syntax(message: &str) -> SqlError {
    SqlError::new(SqlState::SYNTAX_ERROR, message)
}

/// The keywords, longer ones before those that they begin with.
const KEYWORDS: [&str; 20] = [
    "EEEE", "FM", "MI", "PL", "PR", "RN", "SG", "SP", "TH", ",", ".", "0", "9", "B", "C", "D", "G", "L", "S",
    "V",
];

/// The keyword at the front of a template, in upper case, and whether it is written so.
fn keyword(rest: &str) -> Option<(&'static str, bool)> {
    KEYWORDS.iter().find_map(|keyword| {
        let head = rest.get(..keyword.len())?;
        if head == *keyword {
            return Some((*keyword, true));
        }
        (head == keyword.to_ascii_lowercase()).then_some((*keyword, false))
    })
}

impl Picture {
    pub(super) fn parse(template: &str) -> Result<Picture> {
        let mut picture = Picture::default();
        let mut rest = template;
        while let Some(c) = rest.chars().next() {
            if let Some((keyword, upper)) = keyword(rest) {
                picture.add(keyword, upper)?;
                rest = &rest[keyword.len()..];
                continue;
            }
            rest = &rest[c.len_utf8()..];
            match c {
                '"' => {
                    while let Some(c) = rest.chars().next() {
                        rest = &rest[c.len_utf8()..];
                        match (c, rest.chars().next()) {
                            ('"', _) => break,
                            ('\\', Some(escaped)) => {
                                picture.items.push(Item::Literal(escaped));
                                rest = &rest[escaped.len_utf8()..];
                            }
                            (c, _) => picture.items.push(Item::Literal(c)),
                        }
                    }
                }
                '\\' if rest.starts_with('"') => {
                    picture.items.push(Item::Literal('"'));
                    rest = &rest[1..];
                }
                c => picture.items.push(Item::Literal(c)),
            }
        }
        if picture.anchor == Anchor::Before && picture.whole == picture.anchor_digits {
            picture.anchor = Anchor::After;
        }
        Ok(picture)
    }

    fn add(&mut self, keyword: &str, upper: bool) -> Result<()> {
        let signed = self.plus || self.minus;
        if self.scientific && keyword != "EEEE" {
            return Err(syntax("\"EEEE\" must be the last pattern used"));
        }
        match keyword {
            "9" | "0" => {
                if self.brackets {
                    return Err(syntax(&format!("\"{keyword}\" must be ahead of \"PR\"")));
                }
                self.add_digit(keyword == "0");
            }
            "B" => self.blank |= self.whole == 0 && self.fraction == 0 && !self.zero,
            "." | "D" => {
                if self.decimal {
                    return Err(syntax("multiple decimal points"));
                }
                if self.multiplied {
                    return Err(syntax("cannot use \"V\" and decimal point together"));
                }
                self.decimal = true;
                self.items.push(Item::Point);
            }
            "FM" => self.fill = true,
            "S" => {
                if self.anchor != Anchor::None {
                    return Err(syntax("cannot use \"S\" twice"));
                }
                if signed || self.brackets {
                    return Err(syntax("cannot use \"S\" and \"PL\"/\"MI\"/\"SG\"/\"PR\" together"));
                }
                self.anchor = if self.decimal { Anchor::After } else { Anchor::Before };
                self.anchor_digits = self.whole;
            }
            "MI" | "PL" | "SG" => {
                if self.anchor != Anchor::None {
                    return Err(syntax(&format!("cannot use \"S\" and \"{keyword}\" together")));
                }
                self.minus |= keyword != "PL";
                self.plus |= keyword != "MI";
                self.items.push(match keyword {
                    "MI" => Item::Minus,
                    "PL" => Item::Plus,
                    _ => Item::Either,
                });
            }
            "PR" => {
                if self.anchor != Anchor::None || signed {
                    return Err(syntax("cannot use \"PR\" and \"S\"/\"PL\"/\"MI\"/\"SG\" together"));
                }
                self.brackets = true;
            }
            "RN" => {
                self.roman = true;
                self.items.push(Item::Roman(upper));
            }
            "V" => {
                if self.decimal {
                    return Err(syntax("cannot use \"V\" and decimal point together"));
                }
                self.multiplied = true;
            }
            "EEEE" => {
                if self.scientific {
                    return Err(syntax("cannot use \"EEEE\" twice"));
                }
                let other = self.blank || self.fill || self.anchor != Anchor::None || self.brackets;
                if other || signed || self.roman || self.multiplied {
                    return Err(syntax("\"EEEE\" is incompatible with other formats").detail(
                        "\"EEEE\" may only be used together with digit and decimal point patterns.",
                    ));
                }
                self.scientific = true;
            }
            "TH" => self.items.push(Item::Ordinal(upper)),
            "," => self.items.push(Item::Comma),
            "G" => self.items.push(Item::Group),
            "L" => self.items.push(Item::Currency),
            _ => {}
        }
        Ok(())
    }

    fn add_digit(&mut self, zero: bool) {
        self.items.push(Item::Digit(zero));
        if zero {
            if !self.zero && !self.decimal {
                self.zero = true;
                self.zero_from = self.whole;
            }
        } else if self.multiplied {
            self.shifted += 1;
            return;
        }
        match self.decimal {
            true => self.fraction += 1,
            false => self.whole += 1,
        }
        if zero {
            self.zero_to = self.whole + self.fraction;
        }
    }
}
