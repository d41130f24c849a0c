//! The digits of a number beside the items of a picture: writing and reading them.

use super::{
    ordinal_ending,
    picture::{Anchor, Item, Picture},
};
use crate::{Result, SqlError, SqlState};

/// A number to write.
pub(super) struct Digits {
    /// Its digits without a sign, and its point.
    pub number: String,
    /// How many digits of the picture come before it.
    pub blanks: usize,
    /// `+` or `-`, or NUL for none.
    pub sign: char,
}

struct Writer<'p> {
    picture: &'p Picture,
    number: Vec<u8>,
    blanks: usize,
    sign: char,
    brackets: bool,
    sign_written: bool,
    /// The position in the number of the last digit, or the point, that FM keeps.
    last_relevant: Option<usize>,
    /// How many digits of the picture there are, but for one.
    count: isize,
    out: String,
    /// The next character of the number.
    next: usize,
    /// How many digits and points of the picture were written.
    position: usize,
    /// True if the item before was a digit that shows.
    in_number: bool,
}

/// Writes a number by a picture.
pub(super) fn write(picture: &Picture, digits: Digits) -> Result<String> {
    let Digits { number, blanks, sign } = digits;
    let signed = picture.plus || picture.minus;
    let sign_written = match signed {
        true => picture.minus,
        false => sign == '+' && picture.fill && picture.anchor == Anchor::None,
    };
    let number = number.into_bytes();
    let last_relevant = (picture.fill && picture.decimal).then(|| last_relevant(picture, &number, blanks));
    let count = (picture.whole + picture.fraction) as isize - 1;
    let mut writer = Writer {
        picture,
        blanks,
        sign,
        brackets: picture.brackets && (signed || sign == '-' || !picture.fill),
        sign_written,
        last_relevant: last_relevant.flatten(),
        count: count + isize::from(!sign_written && blanks == 0),
        number,
        out: String::new(),
        next: 0,
        position: 0,
        in_number: false,
    };
    for item in &picture.items {
        writer.item(*item)?;
    }
    // Text that would follow the end of the number is cut.
    let end = writer.out.find('\0').unwrap_or(writer.out.len());
    writer.out.truncate(end);
    Ok(writer.out)
}

fn last_relevant(picture: &Picture, number: &[u8], blanks: usize) -> Option<usize> {
    let point = number.iter().position(|b| *b == b'.')?;
    let digit = number.iter().rposition(|b| *b != b'0').filter(|last| *last > point).unwrap_or(point);
    // Digits that the picture has as `0` stay.
    let zero = picture.zero_to.checked_sub(blanks).filter(|zero| *zero > 0);
    let zero = zero.map_or(0, |zero| zero.min(number.len() - 1));
    Some(digit.max(zero))
}

impl Writer<'_> {
    fn item(&mut self, item: Item) -> Result<()> {
        let fill = self.picture.fill;
        match item {
            Item::Digit(_) | Item::Point => self.digit(item == Item::Digit(true)),
            Item::Comma | Item::Group => match (self.in_number, fill) {
                (true, _) => self.out.push(','),
                (false, true) => {}
                (false, false) => self.out.push(' '),
            },
            Item::Currency => self.out.push(' '),
            Item::Roman(upper) => {
                let shown = String::from_utf8_lossy(&self.number);
                let shown = if upper { shown.into_owned() } else { shown.to_lowercase() };
                match fill {
                    true => self.out.push_str(&shown),
                    false => self.out.push_str(&format!("{shown:>15}")),
                }
            }
            Item::Ordinal(upper) => {
                let is_overflow = self.number.first() == Some(&b'#');
                if self.picture.roman || is_overflow || self.sign == '-' || self.picture.decimal {
                    return Ok(());
                }
                if !self.number.last().is_some_and(u8::is_ascii_digit) {
                    let shown = String::from_utf8_lossy(&self.number);
                    return Err(SqlError::new(
                        SqlState::INVALID_TEXT_REPRESENTATION,
                        format!("\"{shown}\" is not a number"),
                    ));
                }
                self.out.push_str(ordinal_ending(&self.number, upper));
            }
            Item::Minus if self.sign == '-' => self.out.push('-'),
            Item::Plus if self.sign == '+' => self.out.push('+'),
            Item::Minus | Item::Plus if fill => {}
            Item::Minus | Item::Plus => self.out.push(' '),
            Item::Either => self.out.push(self.sign),
            Item::Literal(c) => self.out.push(c),
        }
        Ok(())
    }

    /// The character of the number to come; NUL behind its end.
    fn peek(&self) -> u8 {
        self.number.get(self.next).copied().unwrap_or(0)
    }

    /// True for the 0 before the point of a number below one, which does not show.
    fn is_hidden_zero(&self) -> bool {
        !self.picture.zero && self.next == 0 && self.peek() == b'0' && self.picture.fraction != 0
    }

    fn ends_with_point(&self) -> bool {
        self.last_relevant.is_some_and(|last| self.number[last] == b'.')
    }

    fn write_sign_before(&mut self) {
        let picture = self.picture;
        if picture.anchor == Anchor::Before {
            self.out.push(if self.sign == '-' { '-' } else { '+' });
        } else if picture.anchor == Anchor::After {
            return;
        } else if self.brackets {
            self.out.push(if self.sign == '+' { ' ' } else { '<' });
        } else if self.sign == '+' {
            if !picture.fill {
                self.out.push(' ');
            }
        } else if self.sign == '-' {
            self.out.push('-');
        } else {
            return;
        }
        self.sign_written = true;
    }

    fn digit(&mut self, zero: bool) {
        let picture = self.picture;
        if picture.roman {
            return;
        }
        self.in_number = false;
        let at_zero = picture.zero && picture.zero_from == self.position;
        if !self.sign_written
            && (self.position >= self.blanks || at_zero)
            && (!self.is_hidden_zero() || self.ends_with_point())
        {
            self.write_sign_before();
        }
        if self.position < self.blanks && (picture.zero_from > self.position || !picture.zero) {
            if !picture.fill {
                self.out.push(' ');
            }
        } else if self.position < self.blanks {
            self.out.push('0');
            self.in_number = true;
        } else {
            if self.peek() == b'.' {
                self.out.push('.');
            } else if self.last_relevant.is_some_and(|last| self.next > last) && !zero {
                // FM drops it.
            } else if self.is_hidden_zero() {
                if !picture.fill {
                    self.out.push(' ');
                } else if self.ends_with_point() {
                    self.out.push('0');
                }
            } else {
                self.out.push(char::from(self.peek()));
                self.in_number = true;
            }
            if self.next < self.number.len() {
                self.next += 1;
            }
        }
        let mut end = self.count + isize::from(self.blanks > 0) + isize::from(picture.decimal);
        if self.last_relevant == Some(self.next) {
            end = self.position as isize;
        }
        if self.position as isize + 1 == end {
            if self.sign_written && self.brackets {
                self.out.push(if self.sign == '+' { ' ' } else { '>' });
            } else if picture.anchor == Anchor::After {
                self.out.push(if self.sign == '-' { '-' } else { '+' });
            }
        }
        self.position += 1;
    }
}

struct Reader<'p> {
    picture: &'p Picture,
    input: &'p [u8],
    /// The next byte of the input.
    next: usize,
    /// A blank until a sign was read.
    sign: u8,
    digits: String,
    /// Digits read before the point and behind it.
    whole: usize,
    fraction: usize,
    point: bool,
}

/// Reads a number that a picture has written, and how many digits it has behind the point.
pub(super) fn read(picture: &Picture, input: &str) -> (String, usize) {
    let mut reader = Reader {
        picture,
        input: input.as_bytes(),
        next: 0,
        sign: b' ',
        digits: String::new(),
        whole: 0,
        fraction: 0,
        point: false,
    };
    for item in &picture.items {
        if reader.at_end() {
            break;
        }
        reader.item(*item);
    }
    let digits = reader.digits.strip_suffix('.').unwrap_or(&reader.digits);
    (format!("{}{digits}", char::from(reader.sign)), reader.fraction)
}

impl Reader<'_> {
    fn at_end(&self) -> bool {
        self.next >= self.input.len()
    }

    fn peek(&self) -> u8 {
        self.input.get(self.next).copied().unwrap_or(0)
    }

    /// Passes over a whole character.
    fn skip(&mut self) {
        self.next += 1;
        while self.peek() & 0xc0 == 0x80 {
            self.next += 1;
        }
    }

    /// Passes over at most so many characters, none of which can be part of a number.
    fn skip_other(&mut self, most: usize) {
        for _ in 0..most {
            if self.at_end() || b"0123456789.,+-".contains(&self.peek()) {
                break;
            }
            self.skip();
        }
    }

    fn item(&mut self, item: Item) {
        match item {
            Item::Digit(_) | Item::Point => {
                self.digit(item == Item::Point);
                self.next += 1;
            }
            Item::Comma | Item::Group => {
                // Before the first digit there may be none under FM.
                if self.peek() == b',' && !self.picture.fill {
                    self.next += 1;
                }
            }
            Item::Currency => self.skip_other(1),
            Item::Ordinal(_) => {
                if self.sign != b'-' && !self.picture.decimal {
                    self.skip_other(2);
                }
            }
            Item::Minus | Item::Plus | Item::Either => match (item, self.peek()) {
                (Item::Minus | Item::Either, b'-') => {
                    self.sign = b'-';
                    self.next += 1;
                }
                (_, b'+') => {
                    self.sign = if item == Item::Minus { b' ' } else { b'+' };
                    self.next += 1;
                }
                _ => self.skip_other(1),
            },
            Item::Literal(_) => self.skip(),
            Item::Roman(_) => {}
        }
    }

    fn digit(&mut self, point: bool) {
        let picture = self.picture;
        if self.peek() == b' ' {
            self.next += 1;
        }
        if self.at_end() {
            return;
        }
        if self.sign == b' ' && !point && self.whole + self.fraction == 0 {
            let negative = self.peek() == b'-' || picture.brackets && self.peek() == b'<';
            if negative || self.peek() == b'+' {
                self.sign = if negative { b'-' } else { b'+' };
                self.next += 1;
            }
        }
        if self.at_end() {
            return;
        }
        let mut was_read = false;
        if self.peek().is_ascii_digit() {
            if self.point && self.fraction == picture.fraction {
                return;
            }
            self.digits.push(char::from(self.peek()));
            if self.point {
                self.fraction += 1;
            } else {
                self.whole += 1;
            }
            was_read = true;
        } else if picture.decimal && !self.point && self.peek() == b'.' {
            self.digits.push('.');
            self.point = true;
            was_read = true;
        }
        // The sign behind the number, of which the picture does not tell the place.
        if self.sign != b' ' || self.whole + self.fraction == 0 {
            return;
        }
        let following = self.input.get(self.next + 1).copied();
        if picture.anchor != Anchor::None {
            if let (true, Some(sign @ (b'-' | b'+'))) = (was_read, following) {
                self.sign = sign;
                self.next += 1;
            }
        } else if !was_read && (picture.plus || picture.minus) && matches!(self.peek(), b'-' | b'+') {
            self.sign = self.peek();
        }
    }
}
