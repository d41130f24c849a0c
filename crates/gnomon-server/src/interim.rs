//! PROVISIONAL: values and types on the wire until the encodings of `gnomon_sql::types` are there.

use gnomon_sql::{
    Result,
    types::{Datum, Type},
};
pub trait TypeOid: Sized {
    fn oid(self) -> u32;
    fn size(self) -> i16;
    fn from_oid(oid: u32) -> Option<Self>;
}
impl TypeOid for Type {
    fn oid(self) -> u32 {
        25
    }
    fn size(self) -> i16 {
        -1
    }
    fn from_oid(oid: u32) -> Option<Self> {
        (oid == 25).then_some(Type::Text)
    }
}
pub fn write(out: &mut Vec<u8>, datum: &Datum, _ty: Type) -> Result<()> {
    use std::io::Write;
    match datum {
        Datum::Text(t) => out.extend_from_slice(t.as_bytes()),
        other => write!(out, "{other:?}").unwrap(),
    }
    Ok(())
}
