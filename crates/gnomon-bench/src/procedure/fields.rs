//! Fields of rows, parameters and answers: numbers of fixed width, little-endian, at fixed places, and texts of up to
//! 255 bytes, each with its length before it.
//!
//! Promises: to read a field allocates nothing and looks at no other field; to set one changes its bytes in place. What
//! is cut short is an error, never a panic.

use std::marker::PhantomData;

use gnomon_engine::{Error, Result};

/// A type of fields of fixed width.
pub trait Fixed: Copy {
    /// Its width.
    const BYTES: usize;
    /// Reads it from the beginning of some bytes; none if they are fewer.
    fn read(bytes: &[u8]) -> Option<Self>;
    /// Writes it to the beginning of some bytes; none if they are fewer.
    fn write(self, bytes: &mut [u8]) -> Option<()>;
}

macro_rules! fixed_numbers {
    ($($number:ty)*) => {$(
        impl Fixed for $number {
            const BYTES: usize = size_of::<$number>();

            fn read(bytes: &[u8]) -> Option<Self> {
                bytes.first_chunk().map(|bytes| <$number>::from_le_bytes(*bytes))
            }

            fn write(self, bytes: &mut [u8]) -> Option<()> {
                *bytes.first_chunk_mut()? = self.to_le_bytes();
                Some(())
            }
        }
    )*};
}

fixed_numbers!(u8 u16 u32 u64 i32 i64);

impl<const N: usize> Fixed for [u8; N] {
    const BYTES: usize = N;

    fn read(bytes: &[u8]) -> Option<Self> {
        bytes.first_chunk().copied()
    }

    fn write(self, bytes: &mut [u8]) -> Option<()> {
        *bytes.first_chunk_mut()? = self;
        Some(())
    }
}

/// A field at a fixed place.
pub struct At<T>(usize, PhantomData<fn() -> T>);

impl<T: Fixed> At<T> {
    /// The field at the beginning.
    pub const fn first() -> At<T> {
        At(0, PhantomData)
    }

    /// The field behind this one.
    pub const fn then<U: Fixed>(&self) -> At<U> {
        At(self.end(), PhantomData)
    }

    /// So many fields of its kind further.
    pub const fn skip(&self, fields: usize) -> At<T> {
        At(self.0 + fields * T::BYTES, PhantomData)
    }

    /// Where it ends.
    pub const fn end(&self) -> usize {
        self.0 + T::BYTES
    }

    /// Reads it.
    ///
    /// # Errors
    /// The row is cut short.
    pub fn get(&self, row: &[u8]) -> Result<T> {
        row.get(self.0..).and_then(T::read).ok_or_else(cut_short)
    }

    /// Changes it.
    ///
    /// # Errors
    /// The row is cut short.
    pub fn set(&self, row: &mut [u8], value: T) -> Result<()> {
        row.get_mut(self.0..).and_then(|bytes| value.write(bytes)).ok_or_else(cut_short)
    }

    /// Changes it to what `with` makes of it, and returns that.
    ///
    /// # Errors
    /// The row is cut short.
    pub fn change(&self, row: &mut [u8], with: impl FnOnce(T) -> T) -> Result<T> {
        let value = with(self.get(row)?);
        self.set(row, value).map(|()| value)
    }
}

fn cut_short() -> Error {
    Error::procedure("a row, parameters or an answer are cut short")
}

/// Reads one field after another.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// Begins at the beginning.
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader(bytes)
    }

    /// Begins at a place.
    ///
    /// # Errors
    /// There is no such place.
    pub fn at(bytes: &'a [u8], place: usize) -> Result<Reader<'a>> {
        bytes.get(place..).map(Reader).ok_or_else(cut_short)
    }

    /// The next field, which has a fixed width.
    ///
    /// # Errors
    /// It is cut short.
    pub fn fixed<T: Fixed>(&mut self) -> Result<T> {
        let value = T::read(self.0).ok_or_else(cut_short)?;
        self.0 = &self.0[T::BYTES..];
        Ok(value)
    }

    /// The next field, which is a text.
    ///
    /// # Errors
    /// It is cut short.
    pub fn text(&mut self) -> Result<&'a [u8]> {
        let length = self.fixed::<u8>()?;
        let (text, rest) = self.0.split_at_checked(length.into()).ok_or_else(cut_short)?;
        self.0 = rest;
        Ok(text)
    }

    /// The next field, which is a text, as a string.
    ///
    /// # Errors
    /// It is cut short, or no UTF-8.
    pub fn string(&mut self) -> Result<String> {
        let text = self.text()?;
        String::from_utf8(text.into()).map_err(|_| Error::procedure("a text is not UTF-8"))
    }

    /// The bytes that were not read yet.
    pub fn rest(&self) -> &'a [u8] {
        self.0
    }

    /// Ends.
    ///
    /// # Errors
    /// Something was not read.
    pub fn end(self) -> Result<()> {
        if self.0.is_empty() { Ok(()) } else { Err(Error::procedure("parameters or an answer are too long")) }
    }
}

/// Writes one field after another.
#[derive(Debug, Default)]
pub struct Writer(Vec<u8>);

impl Writer {
    /// With room for so many bytes, which may be more.
    pub fn with_capacity(bytes: usize) -> Writer {
        Writer(Vec::with_capacity(bytes))
    }

    /// Writes a field of fixed width.
    pub fn fixed<T: Fixed>(&mut self, value: T) -> &mut Writer {
        let start = self.0.len();
        self.0.resize(start + T::BYTES, 0);
        value.write(&mut self.0[start..]).expect("there is room for it");
        self
    }

    /// Writes a text; of one that is longer than 255 bytes, so many.
    pub fn text(&mut self, text: &[u8]) -> &mut Writer {
        let text = &text[..text.len().min(u8::MAX.into())];
        self.0.push(text.len() as u8);
        self.raw(text)
    }

    /// Writes fields that were encoded already.
    pub fn raw(&mut self, fields: &[u8]) -> &mut Writer {
        self.0.extend_from_slice(fields);
        self
    }

    /// The bytes that were written.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Forgets what was written; its room stays.
    pub fn clear(&mut self) -> &mut Writer {
        self.0.clear();
        self
    }

    /// Takes what was written.
    pub fn finish(self) -> Vec<u8> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: At<u16> = At::first();
    const B: At<i64> = A.then();
    const C: At<[u8; 3]> = B.then();

    #[test]
    fn fields_come_back_and_what_is_cut_short_is_refused() {
        let mut row = Writer::default();
        row.fixed(7_u16).fixed(-1_i64).fixed(*b"abc").fixed(*b"def").text(b"text").text(b"");
        let mut row = row.finish();
        assert_eq!((A.get(&row).unwrap(), B.get(&row).unwrap(), C.end()), (7, -1, 13));
        assert_eq!((C.get(&row).unwrap(), C.skip(1).get(&row).unwrap()), (*b"abc", *b"def"));
        B.set(&mut row, i64::MAX - 1).unwrap();
        assert_eq!(B.change(&mut row, |number| number + 1).unwrap(), i64::MAX);
        assert_eq!(
            (A.get(&row).unwrap(), B.get(&row).unwrap(), C.get(&row).unwrap()),
            (7, i64::MAX, *b"abc")
        );
        assert!(C.get(&row[..12]).is_err() && C.set(&mut row[..12], *b"xyz").is_err() && B.get(&[]).is_err());
        let mut texts = Reader::at(&row, C.skip(1).end()).unwrap();
        assert_eq!((texts.text().unwrap(), texts.string().unwrap()), (&b"text"[..], String::new()));
        assert!(texts.end().is_ok() && texts.text().is_err());
        assert!(Reader::at(&row, row.len() + 1).is_err() && Reader::new(&[2, b'x']).text().is_err());
        assert!(Reader::new(&[1, 0xff]).string().is_err() && Reader::new(&[1]).end().is_err());
    }

    #[test]
    fn a_long_text_is_cut() {
        let mut row = Writer::default();
        row.text(&[b'x'; 300]);
        assert_eq!(Reader::new(row.as_bytes()).text().unwrap().len(), 255);
    }
}
