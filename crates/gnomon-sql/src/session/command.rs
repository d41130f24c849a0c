//! The statement that a session is told to run.

use crate::{
    context::Company,
    syntax::Parsed,
    types::{Datum, Type},
};

/// A statement with its text and with the values of its parameters.
#[derive(Clone, Copy)]
pub(super) struct Command<'a> {
    /// The statement.
    pub parsed: &'a Parsed,
    /// The text that it stands in.
    pub text: &'a str,
    /// The statements beside it.
    pub company: Company,
    /// The types of its parameters.
    pub types: &'a [Type],
    /// The values of its parameters.
    pub values: &'a [Datum],
}
