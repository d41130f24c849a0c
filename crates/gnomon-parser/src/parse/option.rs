//! Options: of WITH, EXPLAIN, VACUUM, COPY.

use super::{Parser, name, types};
use crate::{
    ast::{DefinitionItem, Ident, OptionValue},
    error::Result,
    keyword::Keyword as K,
    lexer::Kind,
};

/// Returns an option without a value.
pub(super) fn bare(name: Ident) -> DefinitionItem {
    DefinitionItem { namespace: None, name, value: None }
}

/// Options of a relation, in parentheses (reloptions).
pub(super) fn relation_options(p: &mut Parser<'_, '_>) -> Result<Vec<DefinitionItem>> {
    p.parens(|p| {
        let mut name = p.label()?;
        let mut namespace = None;
        if p.take_char('.') {
            namespace = Some(std::mem::replace(&mut name, p.label()?));
        }
        let value = if p.take_char('=') { Some(definition_value(p)?) } else { None };
        Ok(DefinitionItem { namespace, name, value })
    })
}

/// The value of an option (def_arg).
fn definition_value(p: &mut Parser<'_, '_>) -> Result<OptionValue> {
    if p.is_string_at(0) {
        return Ok(OptionValue::String(p.string()?));
    }
    let sign = usize::from(p.is_char('+') || p.is_char('-'));
    if matches!(p.peek_at(sign).kind, Kind::Integer | Kind::Number) {
        return Ok(OptionValue::Number(p.number()?));
    }
    if name::is_symbol_at(p, 0) {
        return Ok(OptionValue::Operator(name::symbol(p)?));
    }
    match p.keyword() {
        Some(K::Operator) if p.is_char_at(1, '(') => Ok(OptionValue::Operator(name::operator_call(p)?)),
        Some(K::None) => Ok(OptionValue::Word(p.any_word()?)),
        Some(keyword) if keyword.is_reserved() => Ok(OptionValue::Word(p.any_word()?)),
        _ => {
            let is_word = !p.is_char_at(1, '.') && !p.is_char_at(1, '(') && !p.is_char_at(1, '[');
            let names_type = match p.keyword() {
                Some(keyword) => keyword.may_name_function(),
                None => true,
            };
            if is_word && names_type && !p.is_at(1, K::Array) && !p.is(K::Double) {
                return Ok(OptionValue::Word(p.function_name_word()?));
            }
            Ok(OptionValue::Type(types::parameter_type(p)?))
        }
    }
}

/// Options of a statement, in parentheses (utility_option_list).
pub(super) fn utility_options(p: &mut Parser<'_, '_>) -> Result<Vec<DefinitionItem>> {
    p.parens(|p| {
        let name = match p.keyword() {
            Some(K::Analyze | K::Analyse) => p.any_word()?,
            _ => p.non_reserved_word()?,
        };
        let value = if p.is_char(',') || p.is_char(')') {
            None
        } else if p.is_number() {
            Some(OptionValue::Number(p.number()?))
        } else {
            Some(word_or_string(p)?)
        };
        Ok(DefinitionItem { namespace: None, name, value })
    })
}

/// TRUE, FALSE, ON, another word or a string (opt_boolean_or_string).
pub(super) fn word_or_string(p: &mut Parser<'_, '_>) -> Result<OptionValue> {
    if p.is_string_at(0) {
        return Ok(OptionValue::String(p.string()?));
    }
    match p.keyword() {
        Some(K::True | K::False | K::On) => Ok(OptionValue::Word(p.any_word()?)),
        _ => Ok(OptionValue::Word(p.non_reserved_word()?)),
    }
}

/// Options of COPY in parentheses (copy_generic_opt_list).
pub(super) fn copy_options(p: &mut Parser<'_, '_>) -> Result<Vec<DefinitionItem>> {
    p.parens(|p| {
        let name = p.label()?;
        let value = if p.is_char(',') || p.is_char(')') {
            None
        } else if p.take_char('*') {
            Some(OptionValue::Star)
        } else if p.is_number() {
            Some(OptionValue::Number(p.number()?))
        } else if p.is_char('(') {
            Some(OptionValue::List(p.parens(|p| {
                Ok(match word_or_string(p)? {
                    OptionValue::String(text) => text,
                    OptionValue::Word(word) => word.name,
                    _ => "".into(),
                })
            })?))
        } else {
            Some(word_or_string(p)?)
        };
        Ok(DefinitionItem { namespace: None, name, value })
    })
}

/// CASCADE or RESTRICT; true for the first.
pub(super) fn cascade(p: &mut Parser<'_, '_>) -> bool {
    let is_cascade = p.take(K::Cascade);
    if !is_cascade {
        p.take(K::Restrict);
    }
    is_cascade
}

/// IF EXISTS, if it is there.
pub(super) fn if_exists(p: &mut Parser<'_, '_>) -> bool {
    let found = p.is(K::If) && p.is_at(1, K::Exists);
    if found {
        p.bump();
        p.bump();
    }
    found
}

/// IF NOT EXISTS, if it is there.
pub(super) fn if_not_exists(p: &mut Parser<'_, '_>) -> Result<bool> {
    if p.is(K::If) && p.is_at(1, K::Not) {
        p.expect_all(&[K::If, K::Not, K::Exists])?;
        return Ok(true);
    }
    Ok(false)
}
