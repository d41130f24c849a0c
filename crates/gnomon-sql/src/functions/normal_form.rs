//! Unicode's normal forms.

use unicode_normalization::{UnicodeNormalization, is_nfc, is_nfd, is_nfkc, is_nfkd};

use super::{
    arguments::{invalid, text},
    declaration::Declarations,
};
use crate::{
    Result,
    types::{Datum, Type},
};

/// The form of a text.
enum Form {
    Nfc,
    Nfd,
    Nfkc,
    Nfkd,
}

impl Form {
    /// The form of a name, in any case.
    fn of(name: &str) -> Result<Form> {
        Ok(match &*name.to_ascii_uppercase() {
            "NFC" => Form::Nfc,
            "NFD" => Form::Nfd,
            "NFKC" => Form::Nfkc,
            "NFKD" => Form::Nfkd,
            _ => return Err(invalid(format!("invalid normalization form: {name}"))),
        })
    }

    fn normalize(&self, text: &str) -> String {
        match self {
            Form::Nfc => text.nfc().collect(),
            Form::Nfd => text.nfd().collect(),
            Form::Nfkc => text.nfkc().collect(),
            Form::Nfkd => text.nfkd().collect(),
        }
    }

    fn is_normal(&self, text: &str) -> bool {
        match self {
            Form::Nfc => is_nfc(text),
            Form::Nfd => is_nfd(text),
            Form::Nfkc => is_nfkc(text),
            Form::Nfkd => is_nfkd(text),
        }
    }
}

pub(super) fn declare(all: &mut Declarations) {
    let arguments = [Type::Text, Type::Text];
    all.add("normalize", &arguments, Type::Text, |_, a| {
        Ok(Datum::text(Form::of(text(a, 1)?)?.normalize(text(a, 0)?)))
    })
    .defaults(vec![Datum::text("NFC".to_owned())]);
    all.add("is_normalized", &arguments, Type::Bool, |_, a| {
        Ok(Datum::Bool(Form::of(text(a, 1)?)?.is_normal(text(a, 0)?)))
    })
    .defaults(vec![Datum::text("NFC".to_owned())]);
}
