//! Declarations of functions and operators: name, parameters, result, properties and body.
//!
//! Each file of functions adds its own by a function `declare`; [`super::registry`] collects them.

use std::collections::HashMap;

use super::{Comparison, Eval, Volatility};
use crate::types::{Datum, Type};

/// A parameter or result of a declared function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Param {
    Is(Type),
    /// Any type, the same wherever it stands, and the element of `AnyArray`.
    AnyElement,
    /// Any array type.
    AnyArray,
    /// Any type but an array, given to the function as text.
    AnyAsText,
    /// Any type, given as it is.
    Any,
}

impl From<Type> for Param {
    fn from(ty: Type) -> Param {
        Param::Is(ty)
    }
}

/// A function as it is declared.
#[derive(Clone)]
pub(super) struct Declaration {
    pub name: &'static str,
    pub params: Vec<Param>,
    /// The last parameter may be repeated.
    pub variadic: bool,
    /// A NULL array behind VARIADIC is an empty one; else it makes the result NULL.
    pub null_list_is_empty: bool,
    /// The names of its parameters, if calls may use them.
    pub names: &'static [&'static str],
    /// The values of its last parameters where a call leaves them out.
    pub defaults: Vec<Datum>,
    pub result: Param,
    pub strict: bool,
    pub volatility: Volatility,
    pub comparison: Option<Comparison>,
    pub body: DeclaredBody,
}

#[derive(Clone, Copy)]
pub(super) enum DeclaredBody {
    Native(Eval),
    Environment,
    /// The type of its only argument.
    TypeOf,
}

/// Collects declarations by name.
#[derive(Default)]
pub(super) struct Declarations(HashMap<&'static str, Vec<Declaration>>);

impl Declarations {
    /// A strict, immutable function.
    pub(super) fn add<P: Into<Param> + Copy>(
        &mut self,
        name: &'static str,
        params: &[P],
        result: impl Into<Param>,
        eval: Eval,
    ) -> &mut Declaration {
        self.declare(name, params, result, DeclaredBody::Native(eval))
    }

    /// Those of a name.
    pub(super) fn of(&self, name: &str) -> &[Declaration] {
        self.0.get(name).map_or(&[], Vec::as_slice)
    }

    /// True if there is one of this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// All of them.
    #[cfg(test)]
    pub(super) fn iter(&self) -> impl Iterator<Item = &Declaration> {
        self.0.values().flatten()
    }

    /// All that were declared under a name, to change them.
    pub(super) fn named(&mut self, name: &str) -> impl Iterator<Item = &mut Declaration> {
        self.0.get_mut(name).into_iter().flatten()
    }

    /// A strict, immutable function with any body; the caller may change it.
    pub(super) fn declare<P: Into<Param> + Copy>(
        &mut self,
        name: &'static str,
        params: &[P],
        result: impl Into<Param>,
        body: DeclaredBody,
    ) -> &mut Declaration {
        self.push(Declaration {
            name,
            params: params.iter().map(|param| (*param).into()).collect(),
            variadic: false,
            null_list_is_empty: false,
            names: &[],
            defaults: Vec::new(),
            result: result.into(),
            strict: true,
            volatility: Volatility::Immutable,
            comparison: None,
            body,
        })
    }

    /// Adds a declaration; the caller may change it.
    pub(super) fn push(&mut self, declaration: Declaration) -> &mut Declaration {
        let list = self.0.entry(declaration.name).or_default();
        list.push(declaration);
        list.last_mut().expect("one was pushed")
    }
}

impl Declaration {
    pub(super) fn stable(&mut self) -> &mut Declaration {
        self.volatility = Volatility::Stable;
        self
    }

    pub(super) fn volatile(&mut self) -> &mut Declaration {
        self.volatility = Volatility::Volatile;
        self
    }

    /// Called with NULLs too.
    pub(super) fn not_strict(&mut self) -> &mut Declaration {
        self.strict = false;
        self
    }

    pub(super) fn variadic(&mut self) -> &mut Declaration {
        self.variadic = true;
        self
    }

    /// Called with a NULL array behind VARIADIC as with an empty one.
    pub(super) fn null_list_is_empty(&mut self) -> &mut Declaration {
        self.null_list_is_empty = true;
        self
    }

    /// Gives its parameters names.
    pub(super) fn names(&mut self, names: &'static [&'static str]) -> &mut Declaration {
        self.names = names;
        self
    }

    /// Gives its last parameters values that calls may leave out.
    pub(super) fn defaults(&mut self, defaults: Vec<Datum>) -> &mut Declaration {
        self.defaults = defaults;
        self
    }

    /// The parameter at a position, the variadic one repeated.
    pub(super) fn param_at(&self, position: usize) -> Option<Param> {
        self.params.get(position).or_else(|| self.params.last().filter(|_| self.variadic)).copied()
    }

    /// True if it takes so many arguments.
    pub(super) fn takes(&self, count: usize) -> bool {
        let least = self.params.len() - self.defaults.len();
        count >= least && (self.variadic || count <= self.params.len())
    }
}
